//go:build linux

package chaos_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// twins is a document with one upstream at two addresses.
func twins(t *testing.T, legacy bool) (a, b *upstream, g *gateway) {
	t.Helper()
	a, b = newUpstream(t, "a", legacy), newUpstream(t, "b", legacy)
	g = newGateway(t, fmt.Sprintf("state: \"sqlite:%s/penstock.db\"\n%s\nupstreams:\n  twin: {urls: [%q, %q]}\n", t.TempDir(), roomy, a.url(), b.url())).run()
	eventually(t, "both replicas are up", 10*time.Second, func() bool { return healthy(g) == 2 })
	return a, b, g
}

// healthy is how many replicas are in turn.
func healthy(g *gateway) (n int) {
	for _, r := range g.status()["twin"].Replicas {
		if r.State == "up" && r.Breaker == "closed" {
			n++
		}
	}
	return n
}

func TestAKilledReplicaCostsAtMostTheCallsInFlight(t *testing.T) {
	t.Parallel()
	a, b, g := twins(t, false)
	l := newLoad(t)
	const clients = 6
	for range clients {
		l.add(newClient(t, g.address), time.Millisecond, "twin__count", "twin__count", "twin__count", list)
	}
	kills := times(2, 20)
	for n := range kills {
		victim, other := a, b
		if n%2 == 1 {
			victim, other = b, a
		}
		l.goesOn(t, 200)
		victim.kill()
		before := other.stats().Calls
		l.goesOn(t, 200)
		if after := other.stats().Calls; after < before+100 {
			t.Errorf("%d calls reached the other replica", after-before)
		}
		victim.start()
		back := eventually(t, "the replica is in turn again", 10*time.Second, func() bool { return victim.stats().Calls > 20 })
		t.Logf("in turn again %s after its start", back)
	}
	lost := 0
	for _, r := range l.stop() {
		switch {
		case r.err != nil:
			t.Fatalf("%s: %v", r.target, r.err)
		case r.target == list && (r.failed() || len(r.a.Result.Tools) != 4 || len(r.a.Result.Meta.Partial) > 0):
			t.Fatalf("a list: %v", r.a)
		case r.a.code() == -31003:
			lost++
		case r.failed():
			t.Fatalf("%s: %v", r.target, r.a)
		}
	}
	if lost > kills*clients {
		t.Errorf("%d calls were lost by %d clients with one in flight, in %d kills", lost, clients, kills)
	}
	t.Logf("%d calls were cut in flight by %d kills", lost, kills)
}

func TestSessionsOfAKilledReplicaMoveAndOthersStay(t *testing.T) {
	t.Parallel()
	a, _, g := twins(t, true)
	l := newLoad(t)
	const clients = 16
	homes := map[int]string{}
	for range clients {
		l.add(open(t, g.address), time.Millisecond, "twin__count")
	}
	l.goesOn(t, 200)
	for _, r := range l.records() {
		if r.failed() {
			t.Fatalf("%v %v", r.a, r.err)
		}
		homes[r.client] = r.a.Result.Structured.Name
	}
	killed := time.Now()
	a.kill()
	l.goesOn(t, 400)
	lost := map[int]int{}
	last := map[int]string{}
	all := l.stop()
	for _, r := range all {
		switch {
		case r.err != nil:
			t.Fatal(r.err)
		case !r.failed():
			h := r.a.Result.Structured
			if was := last[r.client]; was != "" && was != h.Session && (homes[r.client] != "a" || h.Name != "b" || r.sent.Before(killed.Add(-time.Second))) {
				t.Fatalf("client %d of %s had %s and has %s", r.client, homes[r.client], was, h.Session)
			}
			last[r.client] = h.Session
		case homes[r.client] == "a" && r.a.code() == -31003:
			lost[r.client]++
		default:
			t.Fatalf("a client of %s, %s after the kill: %v", homes[r.client], r.sent.Sub(killed), r.a)
		}
	}
	for client, n := range lost {
		if n > 1 {
			t.Errorf("client %d lost %d calls", client, n)
		}
	}
	moved := 0
	for client, home := range homes {
		if home == "a" {
			moved++
		}
		if h := last[client]; h[:1] != "b" {
			t.Errorf("client %d of %s ends with %s", client, home, h)
		}
	}
	if moved == 0 || moved == clients {
		t.Errorf("%d of %d sessions were at the first replica", moved, clients)
	}
	a.start()
	back := eventually(t, "new sessions are opened at the replica that is back", 15*time.Second, func() bool {
		r, err := open(t, g.address).call("twin__count", 0)
		return err == nil && r.Error == nil && r.Result.Structured.Name == "a"
	})
	t.Logf("%d of %d sessions moved, %d calls cut in flight; new sessions at the replica %s after its start", moved, clients, len(lost), back)
}

func TestSessionsStayAtTheirReplicaWhenTheGatewayIsKilled(t *testing.T) {
	t.Parallel()
	a, b, g := twins(t, true)
	var all []*client
	souths := map[*client]string{}
	for range 8 {
		c := open(t, g.address)
		r, err := c.call("twin__count", 0)
		souths[c] = must(t, r, err).Result.Structured.Session
		all = append(all, c)
	}
	for n := range 3 {
		g.kill()
		g.run()
		for _, c := range all {
			r, err := c.call("twin__count", 0)
			if h := must(t, r, err).Result.Structured; h.Session != souths[c] || h.N != n+2 {
				t.Fatalf("start %d: the session at the replica was %s and is %s with %d calls", n, souths[c], h.Session, h.N)
			}
		}
	}
	g.kill()
	g.run()
	for _, c := range all { // unused since the start
		if status, err := c.end(); err != nil || status != http.StatusNoContent {
			t.Fatalf("DELETE: %d %v", status, err)
		}
	}
	eventually(t, "the sessions at both replicas are ended", 10*time.Second, func() bool {
		for _, south := range souths {
			for _, u := range []*upstream{a, b} {
				if _, lives := u.stats().Sessions[south]; lives {
					return false
				}
			}
		}
		return true
	})
}
