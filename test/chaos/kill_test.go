//go:build linux

package chaos_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	mrand "math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func TestAKilledGatewayLosesAtMostTheRequestInFlight(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"sqlite", "postgres"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			state := "sqlite:" + filepath.Join(t.TempDir(), "penstock.db")
			if engine == "postgres" {
				state = database(t)
			}
			killAgainAndAgain(t, state, times(10, 200))
		})
	}
}

// crowd is a load of clients that goes on while gateways die.
type crowd struct {
	t       testing.TB
	g       *gateway
	real    []string // upstreams that are the SDK's everything-server
	ends    chan struct{}
	clients sync.WaitGroup

	answered, unanswered atomic.Int64

	mu       sync.Mutex // guards what follows
	sessions []string   // that a client was given
	ended    []string   // that a client was told are ended
}

func killAgainAndAgain(t *testing.T, state string, kills int) {
	counter, plain := newUpstream(t, "counter", true), newUpstream(t, "plain", false)
	token := rand.Text()
	members := member("counter", counter) + member("plain", plain) + childMember(t, "kid", token, false) + childMember(t, "mule", token, true)
	l := &crowd{t: t, ends: make(chan struct{})}
	if path := peer(t); path != "" {
		members += fmt.Sprintf("  real: {url: \"http://%s/mcp\"}\n  realkid: {command: [%q], restart: {backoff: 10ms, max: 50ms}, env: {%s: %q}}\n", servePeer(t, path), path, markEnv, token)
		l.real = []string{"real", "realkid"}
	}
	g := newGateway(t, "state: \""+state+"\"\n"+roomy+"\nservers: {default: {page_size: 5}}\nupstreams:\n"+members)
	l.g = g
	g.start() // the first kill may meet the migration
	for range 4 {
		l.clients.Go(l.counting)
	}
	for range 2 {
		l.clients.Go(l.stateless)
	}
	l.clients.Go(l.opening)
	var slowest time.Duration
	for n := range kills {
		pause := mrand.IntN(400)
		if n%4 == 0 {
			pause = mrand.IntN(80) // in the midst of the start
		} else if !g.listens() {
			break
		}
		time.Sleep(time.Duration(pause) * time.Millisecond)
		if !g.runs() {
			t.Errorf("kill %d: the gateway had ended:\n%s", n, g.log.tail(5))
			break
		}
		left := processes(token, g.bin)
		killed := time.Now()
		g.kill()
		left = append(left, processes(token, g.bin)...)
		g.start()
		left, _ = gone(left, 2*time.Second-time.Since(killed))
		took := time.Since(killed)
		slowest = max(slowest, took)
		if len(left) > 0 {
			t.Errorf("kill %d: 2 s later there are still %v", n, left)
		}
		if t.Failed() {
			break
		}
	}
	g.listens()
	before := l.answered.Load()
	eventually(t, "the load is served after the last kill", 20*time.Second, func() bool { return l.answered.Load() > before+40 || t.Failed() })
	close(l.ends)
	l.clients.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	c := newClient(t, g.address)
	for _, c.session = range l.sessions {
		if a, err := c.ask("ping", "", ""); err != nil || a.Error != nil {
			t.Errorf("a session that a client was given: %v %v", a, err)
			break
		}
	}
	for _, c.session = range l.ended {
		if a, err := c.ask("ping", "", ""); err != nil || a.status != http.StatusNotFound {
			t.Errorf("a session that a client has ended: %v %v", a, err)
			break
		}
	}
	g.kill()
	if left, _ := gone(processes(token, g.bin), 2*time.Second); len(left) > 0 {
		t.Errorf("at the end there are still %v", left)
	}
	t.Logf("%d kills, %d requests answered, %d got no answer, %d sessions opened and %d ended; nothing of a killed gateway was left after %s",
		kills, l.answered.Load(), l.unanswered.Load(), len(l.sessions)+len(l.ended), len(l.ended), slowest)
}

// persist sends a request until it is answered; only one that got no answer is
// sent again. It is nil when the load ends or the answer is wrong.
func (l *crowd) persist(what string, send func() (*answer, error)) *answer {
	for since := time.Now(); ; {
		select {
		case <-l.ends:
			return nil
		default:
		}
		a, err := send()
		var wrong *misdelivered
		switch {
		case errors.As(err, &wrong):
			l.t.Errorf("%s: %v", what, err)
			return nil
		case err != nil:
			l.unanswered.Add(1)
			if time.Since(since) > 30*time.Second {
				l.t.Errorf("%s: no answer for 30 s: %v", what, err)
				return nil
			}
			time.Sleep(10 * time.Millisecond)
		case a.Error != nil:
			l.t.Errorf("%s: %v", what, a)
			return nil
		default:
			l.answered.Add(1)
			return a
		}
	}
}

// counting is a legacy client with one session for its life, which is one
// session at the upstream.
func (l *crowd) counting() {
	c := newClient(l.t, l.g.address)
	if l.persist("initialize", c.initialize) == nil {
		return
	}
	l.given(c.session)
	south, last := "", 0
	for n := 0; ; n++ {
		switch n % 10 {
		case 3:
			if !l.lists(c) {
				return
			}
			continue
		case 5, 6:
			if l.persist("a call of a child", func() (*answer, error) { return c.call([]string{"kid__count", "mule__count"}[n%2], 0) }) == nil {
				return
			}
			continue
		}
		if len(l.real) > 0 && n%10 == 8 {
			tool := l.real[n/10%2] + "__test_simple_text"
			if l.persist(tool, func() (*answer, error) { return c.ask("tools/call", tool, fmt.Sprintf(`"name":%q`, tool)) }) == nil {
				return
			}
			continue
		}
		a := l.persist("a call in a session", func() (*answer, error) { return c.call("counter__count", mrand.IntN(20)) })
		if a == nil {
			return
		}
		h := a.Result.Structured
		if south != "" && (h.Session != south || h.N <= last) {
			l.t.Errorf("the session at the upstream was %s with %d calls and is %s with %d", south, last, h.Session, h.N)
			return
		}
		south, last = h.Session, h.N
	}
}

// lists walks the tools page by page: all of them, whatever dies meanwhile.
func (l *crowd) lists(c *client) bool {
	found, params := 0, ""
	for {
		a := l.persist("tools/list", func() (*answer, error) { return c.ask("tools/list", "", params) })
		if a == nil {
			return false
		}
		for _, tool := range a.Result.Tools {
			if !strings.HasPrefix(tool.Name, "real") {
				found++
			}
		}
		if len(a.Result.Meta.Partial) > 0 {
			l.t.Errorf("a list lacks %v", a.Result.Meta.Partial)
			return false
		}
		if a.Result.NextCursor == "" {
			break
		}
		params = fmt.Sprintf(`"cursor":%q`, a.Result.NextCursor)
	}
	if found != 16 {
		l.t.Errorf("a walk found %d of 16 tools", found)
		return false
	}
	return true
}

// stateless is a modern client.
func (l *crowd) stateless() {
	c := newClient(l.t, l.g.address)
	for n := 0; ; n++ {
		if n%10 == 9 {
			if !l.lists(c) {
				return
			}
			continue
		}
		tool := []string{"plain__count", "counter__count", "kid__count"}[n%3]
		if l.persist("a modern call", func() (*answer, error) { return c.call(tool, mrand.IntN(10)) }) == nil {
			return
		}
	}
}

// opening opens one session after the other, and ends each third; none of those
// that stay may be lost, and none that was ended may come back.
func (l *crowd) opening() {
	for n := 0; ; n++ {
		c := newClient(l.t, l.g.address)
		if l.persist("initialize", c.initialize) == nil {
			return
		}
		if n%3 > 0 {
			l.given(c.session)
			continue
		}
		switch status, err := c.end(); {
		case err != nil: // it may be ended or not
		case status == http.StatusNoContent:
			l.mu.Lock()
			l.ended = append(l.ended, c.session)
			l.mu.Unlock()
		default:
			l.t.Errorf("DELETE: %d", status)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (l *crowd) given(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sessions = append(l.sessions, id)
}

// A stop that is asked for loses nothing: what is in flight ends, and what comes
// during it is told to come again.
func TestAStoppedGatewayEndsItsRequestsAndKeepsItsSessions(t *testing.T) {
	t.Parallel()
	counter, plain := newUpstream(t, "counter", true), newUpstream(t, "plain", false)
	mark := rand.Text()
	g := newGateway(t, "state: \"sqlite:"+filepath.Join(t.TempDir(), "penstock.db")+"\"\n"+roomy+"\nshutdown: 5s\nupstreams:\n"+
		member("counter", counter)+member("plain", plain)+childMember(t, "kid", mark, false)).run()
	l := &crowd{t: t, g: g, ends: make(chan struct{})}
	for range 4 {
		l.clients.Go(func() { l.calling(open(t, g.address)) })
		l.clients.Go(func() { l.calling(newClient(t, g.address)) })
	}
	for range times(3, 30) {
		time.Sleep(time.Duration(300+mrand.IntN(300)) * time.Millisecond)
		start := time.Now()
		_ = g.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-g.done:
		case <-time.After(10 * time.Second):
			t.Fatal("it does not end")
		}
		if code := g.cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("it ended with %d", code)
		}
		t.Logf("ended %s after SIGTERM", time.Since(start))
		if left, _ := gone(processes(mark, g.bin), 2*time.Second); len(left) > 0 {
			t.Errorf("it left %v", left)
		}
		g.run()
		before := l.answered.Load()
		eventually(t, "the load is served again", 10*time.Second, func() bool { return l.answered.Load() > before+40 || t.Failed() })
	}
	close(l.ends)
	l.clients.Wait()
}

// calling calls with one session, if any, for as long as the load goes on.
func (l *crowd) calling(c *client) {
	south, last := "", 0
	for {
		tool := []string{"counter__count", "counter__count", "plain__count", "kid__count"}[mrand.IntN(4)]
		a := l.persist("a call", func() (*answer, error) {
			a, err := c.call(tool, mrand.IntN(200))
			if err == nil && a.code() == -31014 {
				return nil, errStopping
			}
			return a, err
		})
		if a == nil {
			return
		}
		h := a.Result.Structured
		if c.session == "" || h.Session == "" {
			continue
		}
		// What met a connection that was just closed has not run.
		if south != "" && (h.Session != south || h.N != last+1) {
			l.t.Errorf("the session at the upstream was %s with %d calls and is %s with %d", south, last, h.Session, h.N)
			return
		}
		south, last = h.Session, h.N
	}
}

var errStopping = errors.New("it is stopping")
