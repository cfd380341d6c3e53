//go:build linux

package chaos_test

import (
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
)

// list is the target of a request for the tools; every other target is a tool.
const list = "tools/list"

// record is one request of a load.
type record struct {
	client int
	legacy bool
	target string
	sent   time.Time
	a      *answer
	err    error
}

// upstream is the key of the upstream that a call was for.
func (r *record) upstream() string {
	key, _, _ := strings.Cut(r.target, "__")
	return key
}

// failed reports whether the request was not answered with a result.
func (r *record) failed() bool { return r.err != nil || r.a.Error != nil }

// load is a number of clients that send one request after the other until stop.
type load struct {
	ends    chan struct{}
	clients sync.WaitGroup
	next    int

	mu   sync.Mutex // guards sent
	sent []record
}

// newLoad is a load that ends with the test.
func newLoad(t testing.TB) *load {
	l := &load{ends: make(chan struct{})}
	t.Cleanup(func() { l.stop() })
	return l
}

// add starts a client that asks for the targets at random, with a pause after
// each answer.
func (l *load) add(c *client, pause time.Duration, targets ...string) {
	number := l.next
	l.next++
	l.clients.Go(func() {
		for {
			select {
			case <-l.ends:
				return
			case <-time.After(pause):
			}
			r := record{client: number, legacy: c.session != "", target: targets[rand.IntN(len(targets))], sent: time.Now()}
			if r.target == list {
				r.a, r.err = c.ask(list, "", "")
			} else {
				r.a, r.err = c.call(r.target, rand.IntN(5))
			}
			l.mu.Lock()
			l.sent = append(l.sent, r)
			l.mu.Unlock()
		}
	})
}

// records are those of requests that were answered so far.
func (l *load) records() []record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]record(nil), l.sent...)
}

// reaches waits until so many requests were answered.
func (l *load) reaches(t testing.TB, n int) {
	t.Helper()
	eventually(t, "the load goes on", 2*time.Minute, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.sent) >= n
	})
}

// goesOn waits for so many more.
func (l *load) goesOn(t testing.TB, n int) {
	t.Helper()
	l.reaches(t, len(l.records())+n)
}

// stop ends the clients and returns all records. Twice is once.
func (l *load) stop() []record {
	select {
	case <-l.ends:
	default:
		close(l.ends)
	}
	l.clients.Wait()
	return l.records()
}

// steadySessions holds that each legacy client had one session at an upstream.
func steadySessions(t testing.TB, all []record, key string) {
	t.Helper()
	south, last := map[int]string{}, map[int]int{}
	for _, r := range all {
		if r.failed() || !r.legacy || r.upstream() != key {
			continue
		}
		h := r.a.Result.Structured
		if was := south[r.client]; was != "" && (h.Session != was || h.N <= last[r.client]) {
			t.Errorf("the session of client %d at %s was %s with %d calls and is %s with %d", r.client, key, was, last[r.client], h.Session, h.N)
			return
		}
		south[r.client], last[r.client] = h.Session, h.N
	}
	if len(south) == 0 {
		t.Errorf("no call of a legacy client of %s was answered", key)
	}
}
