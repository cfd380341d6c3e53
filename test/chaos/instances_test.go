//go:build linux

package chaos_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// two starts two instances of one document on one PostgreSQL.
func two(t *testing.T, more, upstreams string) [2]*gateway {
	t.Helper()
	document := "state: \"" + database(t) + "\"\n" + more + "\nupstreams:\n" + upstreams
	return [2]*gateway{newGateway(t, document).run(), newGateway(t, document).run()}
}

const roomy = `limits: {list_timeout: 10s, sessions_per_principal: 100000}`

func TestRequestsSpreadOverTwoInstancesAllSucceed(t *testing.T) {
	t.Parallel()
	counter, plain := newUpstream(t, "counter", true), newUpstream(t, "plain", false)
	g := two(t, roomy+"\nservers: {default: {page_size: 3}}", member("counter", counter)+member("plain", plain)+childMember(t, "kid", "", false))
	const clients = 10
	each := times(500, 20000) / clients
	var wg sync.WaitGroup
	var moves atomic.Int64
	for range clients {
		wg.Go(func() {
			c, south, last, at := newClient(t, g[0].address), "", 0, 0
			if a, err := c.initialize(); err != nil || a.Error != nil {
				t.Errorf("initialize: %v %v", a, err)
				return
			}
			for n := range each {
				if next := rand.IntN(2); next != at {
					at = next
					moves.Add(1)
				}
				here := c.at(g[at].address)
				var a *answer
				var err error
				switch n % 8 {
				case 1:
					a, err = walk(here, c.at(g[1-at].address))
				case 3:
					a, err = here.call("kid__count", 0)
				case 5:
					a, err = here.call("plain__count", 0)
				default:
					if a, err = here.call("counter__count", 0); err != nil || a.Error != nil {
						break
					}
					h := a.Result.Structured
					if south != "" && (h.Session != south || h.N != last+1) {
						t.Errorf("the session at the upstream was %s with %d calls and is %s with %d", south, last, h.Session, h.N)
						return
					}
					south, last = h.Session, h.N
				}
				if err != nil || a.Error != nil {
					t.Errorf("request %d on instance %d: %v %v", n, at, a, err)
					return
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d requests of %d clients, which changed the instance %d times", each*clients, clients, moves.Load())
}

// walk lists the tools, each page at the other of two instances.
func walk(here, there *client) (*answer, error) {
	found, params := 0, ""
	for {
		a, err := here.ask("tools/list", "", params)
		if err != nil || a.Error != nil {
			return a, err
		}
		if len(a.Result.Meta.Partial) > 0 {
			return a, fmt.Errorf("a list lacks %v", a.Result.Meta.Partial)
		}
		found += len(a.Result.Tools)
		if a.Result.NextCursor == "" {
			if found != 12 {
				return a, fmt.Errorf("a walk found %d of 12 tools", found)
			}
			return a, nil
		}
		params = fmt.Sprintf(`"cursor":%q`, a.Result.NextCursor)
		here, there = there, here
	}
}

func TestTwoInstancesThatReviveOneSessionAtOnceMakeOneOfTheUpstream(t *testing.T) {
	t.Parallel()
	counter := newUpstream(t, "counter", true)
	g := two(t, roomy, member("counter", counter))
	const clients = 20
	for i := range clients {
		c := open(t, g[i%2].address)
		var both [2]*answer
		var errs [2]error
		var wg sync.WaitGroup
		for n := range both {
			wg.Go(func() { both[n], errs[n] = c.at(g[n].address).call("counter__count", 0) })
		}
		wg.Wait()
		for n := range both {
			must(t, both[n], errs[n])
		}
		south := both[0].Result.Structured.Session
		if other := both[1].Result.Structured.Session; other != south {
			t.Errorf("two instances use %s and %s for one session", south, other)
		}
		for n := range both {
			a, err := c.at(g[n].address).call("counter__count", 0)
			if h := must(t, a, err).Result.Structured; h.Session != south || h.N != n+3 {
				t.Errorf("the session is %s with %d calls, after %s", h.Session, h.N, south)
			}
		}
	}
	// Each instance may hold one of its own, from its look at the upstream.
	eventually(t, "the sessions that were made and not used are ended", 10*time.Second, func() bool {
		return len(counter.stats().Sessions) <= clients+2
	})
	if s := counter.stats(); s.Initialized > 2*clients+2 {
		t.Errorf("%d handshakes for %d clients of two instances", s.Initialized, clients)
	}
}

func TestDELETEOnOneInstanceEndsTheSessionOnTheOther(t *testing.T) {
	t.Parallel()
	counter := newUpstream(t, "counter", true)
	g := two(t, roomy, member("counter", counter))
	for i := range times(2, 40) {
		c, other := open(t, g[0].address), open(t, g[0].address)
		one, two := c.at(g[i%2].address), c.at(g[1-i%2].address)
		a, err := one.call("counter__count", 0)
		south := must(t, a, err).Result.Structured.Session
		a, err = two.call("counter__count", 0)
		must(t, a, err)
		a, err = other.call("counter__count", 0)
		must(t, a, err)
		if status, err := one.end(); err != nil || status != http.StatusNoContent {
			t.Fatalf("DELETE: %d %v", status, err)
		}
		if a, err := one.ask("ping", "", ""); err != nil || a.status != http.StatusNotFound {
			t.Errorf("where it was ended: %v %v", a, err)
		}
		eventually(t, "the other instance answers 404", 2500*time.Millisecond, func() bool {
			a, err := two.ask("ping", "", "")
			return err == nil && a.status == http.StatusNotFound
		})
		eventually(t, "the session at the upstream is ended", 3*time.Second, func() bool {
			_, lives := counter.stats().Sessions[south]
			return !lives
		})
		a, err = other.at(g[1].address).call("counter__count", 0)
		if h := must(t, a, err).Result.Structured; h.N != 2 {
			t.Errorf("another client's session has %d calls", h.N)
		}
	}
}

// A session that idles at one instance and is used at another is not idle.
func TestASessionThatMovedAwayIsNotEndedForIdleness(t *testing.T) {
	t.Parallel()
	counter := newUpstream(t, "counter", true)
	g := two(t, `limits: {idle_session: 2s}`, member("counter", counter))
	c := open(t, g[0].address)
	a, err := c.call("counter__count", 0)
	south := must(t, a, err).Result.Structured.Session
	there := c.at(g[1].address)
	for n := range 20 {
		a, err := there.call("counter__count", 0)
		if h := must(t, a, err).Result.Structured; h.Session != south || h.N != n+2 {
			t.Fatalf("after %d calls elsewhere the session at the upstream was replaced: %+v", n, h)
		}
		time.Sleep(300 * time.Millisecond)
	}
}

// An upstream that starts anew has forgotten its sessions; both instances notice.
func TestTwoInstancesThatHealOneSessionAtOnceAgreeOnOne(t *testing.T) {
	t.Parallel()
	counter := newUpstream(t, "counter", true)
	g := two(t, roomy, member("counter", counter))
	var all []*client
	for i := range 10 {
		c := open(t, g[i%2].address)
		for _, at := range g {
			a, err := c.at(at.address).call("counter__count", 0)
			must(t, a, err)
		}
		all = append(all, c)
	}
	for round := range times(2, 20) {
		counter.kill()
		counter.start()
		var wg sync.WaitGroup
		for _, c := range all {
			for _, at := range g {
				here := c.at(at.address)
				wg.Go(func() {
					// A connection that died with the process may fail a call that was on its way.
					for n := 0; ; n++ {
						a, err := here.call("counter__count", 0)
						if err == nil && (a.code() == -31003 || a.code() == -31001) && n < 50 {
							time.Sleep(100 * time.Millisecond)
							continue
						}
						if err != nil || a.Error != nil {
							t.Errorf("round %d: %v %v", round, a, err)
						}
						return
					}
				})
			}
		}
		wg.Wait()
		for _, c := range all {
			one, err := c.at(g[0].address).call("counter__count", 0)
			must(t, one, err)
			two, err := c.at(g[1].address).call("counter__count", 0)
			must(t, two, err)
			if a, b := one.Result.Structured, two.Result.Structured; a.Session != b.Session || b.N != a.N+1 {
				t.Errorf("round %d: one instance uses %s, the other %s", round, a.Session, b.Session)
			}
		}
	}
	eventually(t, "the sessions that were made and not used are ended", 10*time.Second, func() bool {
		return len(counter.stats().Sessions) <= len(all)+2
	})
}

func TestClientsOfAKilledInstanceGoOnAtTheOther(t *testing.T) {
	t.Parallel()
	counter := newUpstream(t, "counter", true)
	g := two(t, roomy, member("counter", counter))
	for round := range times(3, 30) {
		dying, other := g[round%2], g[1-round%2]
		var clients sync.WaitGroup
		var moved atomic.Int64
		for range 6 {
			c := open(t, dying.address)
			clients.Go(func() {
				south, last, at := "", 0, dying
				for n := 0; n < 20; {
					a, err := c.at(at.address).call("counter__count", 5)
					if err != nil && at == dying {
						moved.Add(1)
						at = other
						continue
					}
					if err != nil || a.Error != nil {
						t.Errorf("round %d: %v %v", round, a, err)
						return
					}
					h := a.Result.Structured
					if south != "" && (h.Session != south || h.N <= last) {
						t.Errorf("the session at the upstream was %s with %d calls and is %s with %d", south, last, h.Session, h.N)
						return
					}
					if south, last = h.Session, h.N; at == other {
						n++
					}
				}
			})
		}
		time.Sleep(time.Duration(50+rand.IntN(200)) * time.Millisecond)
		dying.kill()
		clients.Wait()
		if moved.Load() != 6 {
			t.Errorf("%d of 6 clients moved", moved.Load())
		}
		dying.run()
	}
}
