//go:build linux

package chaos_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/store/pgtest"
)

// taskRecord is one request about tasks while the database goes and comes.
type taskRecord struct {
	c    *taskClient
	what string // work, toil, own or foreign
	id   string // that was polled, or made
	sent time.Time
	a    *answer
	err  error
}

// While the database is away nobody is told that a task does not exist, no task is
// given to anybody else, and none is made that nobody could find again. It is all
// there afterwards, without a restart.
func TestTasksOutliveAnOutageOfPostgreSQL(t *testing.T) {
	t.Parallel()
	for name, outage := range map[string]func(t *testing.T, s *pgtest.Server, d time.Duration){"stopped": stopped, "frozen": frozen} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := pgtest.Own(t)
			state, err := server.Create(t.Context(), "chaos")
			if err != nil {
				t.Fatal(err)
			}
			modern, legacy := newMaker(t, false), newMaker(t, true)
			document := taskDocument(state, modern, legacy)
			all := [2]*gateway{newGateway(t, document).run(), newGateway(t, document).run()}
			l := &taskLoad{all: all, ends: make(chan struct{})}
			for _, who := range callers {
				for range 2 {
					l.add(asTasker(t, all[0].address, who))
					l.add(asLegacyTasker(t, all[1].address, who))
				}
			}
			check := newHolders(t, all[0].address)
			l.reaches(t, 500)
			begun := time.Now()
			outage(t, server, lasting(4*time.Second, 20*time.Second))
			back := time.Now()
			recovered := eventually(t, "tasks are made and found again", 15*time.Second, func() bool {
				for _, c := range []*taskClient{check[[2]string{"ann", "modern"}], check[[2]string{"ann", "legacy"}]} {
					for _, g := range all {
						here := c.at(g.address)
						id, _, err := here.mint("toil")
						if err != nil || id == "" {
							return false
						}
						l.ever.add(c, id)
						if a, err := here.poll(id); err != nil || a.Result == nil {
							return false
						}
					}
				}
				return true
			})
			served := time.Now()
			l.reaches(t, l.count()+300)
			records := l.stop()

			refused := map[string]int{}
			for _, r := range records {
				failed := r.judge(t, modern, legacy)
				if !failed {
					continue
				}
				refused[r.what]++
				if r.sent.Before(begun.Add(-time.Second)) || r.sent.After(served) {
					t.Errorf("%s of %s, %s, %s after the outage began and %s after its end: %v", r.what, r.c.who, r.c.kind(), r.sent.Sub(begun), r.sent.Sub(back), r.a)
				}
				if t.Failed() {
					return
				}
			}
			// A database that is silent for less than the store waits costs time alone.
			if name == "stopped" || back.Sub(begun) > 10*time.Second {
				for _, what := range []string{"toil", "own", "foreign"} {
					if refused[what] == 0 {
						t.Errorf("no %s was refused: %v", what, refused)
					}
				}
			}
			// Nothing is lost, and what no client was told of is cancelled.
			known := map[string]bool{}
			for _, s := range l.ever.list() {
				known[s.id] = true
				check.resolve(t, all[rand.IntN(2)].address, s)
				check[[2]string{"eve", s.kind}].at(all[rand.IntN(2)].address).lacks(t, s.id)
			}
			unheard := 0
			for _, m := range []*maker{modern, legacy} {
				for id := range m.made() {
					if known[id] {
						continue
					}
					unheard++
					for _, who := range []string{"bob", "eve"} {
						kind := map[bool]string{false: "modern", true: "legacy"}[m.legacy]
						if a, err := check[[2]string{who, kind}].poll(id); err != nil || !a.unknown() && who == "eve" {
							t.Errorf("%s is told of a task that nobody was told of: %v %v", who, a, err)
						}
					}
					eventually(t, "a task that nobody was told of is cancelled", 15*time.Second, func() bool { return m.made()[id] == "cancelled" })
				}
			}
			t.Logf("%d requests, refused %v; %d tasks, and %d more that were cancelled unheard of; tasks were made again %s after the database was back",
				len(records), refused, len(known), unheard, recovered)
		})
	}
}

// judge holds what is true of every answer at any time, and reports whether it
// refuses for the database's sake.
func (r *taskRecord) judge(t *testing.T, makers ...*maker) (refused bool) {
	t.Helper()
	said := fmt.Sprintf("%s of %s, %s", r.what, r.c.who, r.c.kind())
	if r.err != nil {
		t.Errorf("%s: %v", said, r.err)
		return false
	}
	if r.a.code() == -31015 {
		if r.a.status != http.StatusServiceUnavailable || !strings.Contains(r.a.Error.Message, "try again") {
			t.Errorf("%s: an error that does not say what to do: %v", said, r.a)
		}
		for _, m := range makers {
			for id := range m.made() {
				if strings.Contains(r.a.raw, id) {
					t.Errorf("%s: a refusal tells an id: %s", said, r.a.raw)
				}
			}
		}
		return true
	}
	switch {
	case r.what == "foreign" && r.a.unknown():
	case r.what == "foreign":
		t.Errorf("%s is answered: %v", said, r.a)
	case r.a.Error != nil: // also one of a task that does not exist
		t.Errorf("%s: %s", said, r.a.raw)
	case r.what == "own" && r.a.Result.TaskID != r.id:
		t.Errorf("%s of %s: %s", said, r.id, r.a.raw)
	}
	return false
}

// taskLoad is a number of clients that make tasks and poll them at either instance.
type taskLoad struct {
	all     [2]*gateway
	ends    chan struct{}
	clients sync.WaitGroup
	ever    seen

	mu   sync.Mutex // guards sent
	sent []taskRecord
}

func (l *taskLoad) add(c *taskClient) {
	l.clients.Go(func() {
		for {
			select {
			case <-l.ends:
				return
			case <-time.After(10*time.Millisecond + rand.N(10*time.Millisecond)):
			}
			here := c.at(l.all[rand.IntN(2)].address)
			r := taskRecord{c: c, sent: time.Now()}
			switch n := rand.IntN(6); {
			case c.who == "eve":
				r.what, r.id = "foreign", l.ever.any(&taskClient{c.client, "ann"})
			case n < 2:
				r.what = []string{"work", "toil"}[n]
			default:
				r.what, r.id = "own", l.ever.any(c)
			}
			switch {
			case r.what == "work" || r.what == "toil":
				if r.id, r.a, r.err = here.mint(r.what); r.id != "" {
					l.ever.add(c, r.id)
				}
			case r.id == "":
				continue
			default:
				r.a, r.err = here.poll(r.id)
			}
			l.mu.Lock()
			l.sent = append(l.sent, r)
			l.mu.Unlock()
		}
	})
}

func (l *taskLoad) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.sent)
}

func (l *taskLoad) reaches(t *testing.T, n int) {
	t.Helper()
	eventually(t, "the load goes on", time.Minute, func() bool { return l.count() >= n })
}

func (l *taskLoad) stop() []taskRecord {
	close(l.ends)
	l.clients.Wait()
	return l.sent
}
