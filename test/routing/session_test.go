package routing_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const twoServers = "  default: {}\n  other: {}"

// southOf is the session at the upstream that a client's call goes through.
func southOf(t reporter, c *client, p *peer, tool string) string {
	t.Helper()
	if a := c.named(t, "tools/call", tool); a.Result == nil {
		t.Fatalf("%s: HTTP %d %s", tool, a.status, a.raw)
	}
	return p.last(t, "tools/call").header.Get("Mcp-Session-Id")
}

// wantGone says that a session is unknown, so that its client opens another.
func wantGone(t *testing.T, what string, a *answer) {
	t.Helper()
	if a.status != http.StatusNotFound || a.code() != -32001 {
		t.Errorf("%s: HTTP %d %s; want 404 and -32001", what, a.status, a.raw)
	}
}

// ended are the sessions that the upstream was told to end.
func ended(p *peer) []string {
	var out []string
	for _, r := range p.got(http.MethodDelete) {
		out = append(out, r.header.Get("Mcp-Session-Id"))
	}
	return out
}

// S15, under DESIGN section 7: a session at an upstream is keyed by virtual
// server, upstream, caller, what was declared to the upstream, and the client's
// own session where it has one.
func TestS15SessionsAtAnUpstreamAreKeyedByServerCallerAndClient(t *testing.T) {
	t.Parallel()
	up := peers{"a": {legacy: true, tools: items("tools", "x")}, "b": {legacy: true, tools: items("tools", "x")}}
	gw := serve(t, up, twoServers)
	asking := gw.modern("")
	asking.caps = `{"elicitation":{},"sampling":{}}`
	first, second := gw.legacy(t, "", legacyRevision), gw.legacy(t, "", "2025-06-18")
	clients := []struct {
		name  string
		c     *client
		group string // clients of one group share a session
	}{
		{"a legacy client", first, "first"},
		{"another of the same caller", second, "second"},
		{"one of another virtual server", gw.legacy(t, "other", legacyRevision), "third"},
		{"a modern client", gw.modern(""), "modern"},
		{"another of the same caller", gw.modern(""), "modern"},
		{"a modern client that can be asked", asking, "asking"},
		{"a modern client of another virtual server", gw.modern("other"), "modern, other"},
	}
	for _, key := range []string{"a", "b"} {
		p := up[key]
		session, group := map[string]string{}, map[string]string{}
		for range 2 { // and it stays the same one
			for _, c := range clients {
				s := southOf(t, c.c, p, key+"__x")
				if was, met := session[c.group]; met && was != s {
					t.Errorf("%s, %s: session %q, before it was %q", key, c.name, s, was)
				}
				if g, taken := group[s]; taken && g != c.group {
					t.Errorf("%s, %s: session %q is that of %s", key, c.name, s, g)
				}
				session[c.group], group[s] = s, c.group
			}
		}
		declared := map[string]int{}
		for _, r := range p.got("initialize") {
			declared[string(find(r.body, "params", "capabilities"))]++
		}
		if can := declared[`{"elicitation":{"form":{}},"sampling":{}}`]; can != 1 || declared["{}"] != len(p.got("initialize"))-1 {
			t.Errorf("%s: sessions declare %v", key, declared)
		}
		if key == "a" {
			continue
		}
		// DELETE ends what belongs to that client, and nothing else.
		if a := first.send(t, http.MethodDelete, nil, nil); a.status != http.StatusNoContent {
			t.Fatalf("DELETE: HTTP %d %s", a.status, a.raw)
		}
		waitFor(t, "the end of the session at the upstream", func() bool { return len(ended(p)) > 0 })
		if diff := cmp.Diff([]string{session["first"]}, ended(p)); diff != "" {
			t.Error(diff)
		}
		if s := southOf(t, second, p, "b__x"); s != session["second"] {
			t.Errorf("the other client's session became %q, and was %q", s, session["second"])
		}
		wantGone(t, "after DELETE", first.named(t, "tools/call", "b__x"))
	}
}

// S17: sessions are bounded in number, for a caller and in all, and in idle time;
// what a lost one had at upstreams ends with it.
func TestS17SessionsAreBoundedAndEndWhenIdle(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"memory:", "sqlite:"} {
		t.Run(strings.TrimSuffix(engine, ":"), func(t *testing.T) {
			t.Parallel()
			up := peers{"u": {legacy: true, tools: items("tools", "x")}}
			serveBounded := func(limits string) *endpoint {
				doc := document(t, up, "", "limits: {"+limits+"}", "state: '"+stateAt(t, engine)+"'")
				e, end := start(t, doc, openStore(t, doc))
				t.Cleanup(end)
				return e
			}

			gw := serveBounded("sessions_per_principal: 3")
			var clients []*client
			var south []string
			for range 3 {
				c := gw.legacy(t, "", legacyRevision)
				clients, south = append(clients, c), append(south, southOf(t, c, up["u"], "u__x"))
			}
			// None is idle: none makes room.
			busy := &client{url: gw.path(""), revision: legacyRevision}
			if a := busy.post(t, []byte(initialize), nil); a.status != http.StatusServiceUnavailable || a.code() != -31009 {
				t.Errorf("beyond the caller's bound: HTTP %d %s", a.status, a.raw)
			}
			time.Sleep(1100 * time.Millisecond)
			southOf(t, clients[0], up["u"], "u__x")
			southOf(t, clients[2], up["u"], "u__x")
			gw.legacy(t, "", legacyRevision) // in the place of the one that was used least recently
			wantGone(t, "the least recently used", clients[1].named(t, "tools/call", "u__x"))
			waitFor(t, "the end of its session at the upstream", func() bool { return slices.Contains(ended(up["u"]), south[1]) })
			if s := southOf(t, clients[0], up["u"], "u__x"); s != south[0] {
				t.Errorf("a session that was in use became %q, and was %q", s, south[0])
			}

			gw = serveBounded("sessions: 2, idle_session: 1s")
			first, second := gw.legacy(t, "", legacyRevision), gw.legacy(t, "", legacyRevision)
			if a := busy.at(gw).post(t, []byte(initialize), nil); a.status != http.StatusServiceUnavailable || a.code() != -31009 {
				t.Errorf("beyond the bound of all: HTTP %d %s", a.status, a.raw)
			}
			idle := southOf(t, first, up["u"], "u__x")
			for range 6 {
				time.Sleep(250 * time.Millisecond)
				southOf(t, second, up["u"], "u__x")
			}
			wantGone(t, "after the idle time", first.named(t, "tools/call", "u__x"))
			southOf(t, second, up["u"], "u__x")
			waitFor(t, "the end of the idle session at the upstream", func() bool { return slices.Contains(ended(up["u"]), idle) })
		})
	}
}

// S18, under DESIGN section 7: connections and sessions are per client and not
// per call, and an upstream of either era can be called.
func TestS18CallsShareOneSessionAndCostOneRoundTrip(t *testing.T) {
	t.Parallel()
	const calls = 20
	for _, legacy := range []bool{false, true} {
		up := peers{"u": {legacy: legacy, tools: items("tools", "x")}}
		gw := serve(t, up, "")
		for era, c := range gw.clients(t, "") {
			what := fmt.Sprintf("%s client, legacy upstream %t", era, legacy)
			session := southOf(t, c, up["u"], "u__x")
			if (session != "") != legacy {
				t.Errorf("%s: session %q", what, session)
			}
			up["u"].forget()
			for range calls {
				southOf(t, c, up["u"], "u__x")
			}
			got := up["u"].got("tools/call")
			if len(got) != calls {
				t.Errorf("%s: %d of %d calls arrived", what, len(got), calls)
			}
			for _, r := range got {
				if s := r.header.Get("Mcp-Session-Id"); s != session || r.from != got[0].from {
					t.Errorf("%s: session %q from %s; want %q from %s", what, s, r.from, session, got[0].from)
				}
			}
			for _, method := range []string{"initialize", "notifications/initialized", "server/discover", http.MethodDelete} {
				if n := len(up["u"].got(method)); n > 0 {
					t.Errorf("%s: %d %s beside the calls", what, n, method)
				}
			}
		}
	}

	// Also when a client's first calls come all at once.
	up := peers{"u": {legacy: true, tools: items("tools", "x")}}
	gw := serve(t, up, "")
	gw.modern("").ids(t, "tools/list")
	const clients = 5
	var all sync.WaitGroup
	for range clients {
		c := gw.legacy(t, "", legacyRevision)
		for range calls {
			one := *c
			all.Go(func() {
				if a := one.named(quiet{t}, "tools/call", "u__x"); a.Result == nil {
					t.Errorf("HTTP %d %s", a.status, a.raw)
				}
			})
		}
	}
	all.Wait()
	used := map[string]bool{}
	for _, r := range up["u"].got("tools/call") {
		used[r.header.Get("Mcp-Session-Id")] = true
	}
	// The list before them had a session of its own.
	if opened := len(up["u"].got("initialize")); len(used) != clients || opened > clients+1 {
		t.Errorf("%d clients used %d sessions, and %d were opened", clients, len(used), opened)
	}
}

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`

// at is the same client of another instance.
func (c *client) at(e *endpoint) *client {
	other := *c
	other.url = e.path("")
	return &other
}

// quiet reports from a goroutine that is not the test's own.
type quiet struct{ t *testing.T }

func (q quiet) Helper()                      { q.t.Helper() }
func (q quiet) Fatal(args ...any)            { q.t.Error(args...) }
func (q quiet) Fatalf(f string, args ...any) { q.t.Errorf(f, args...) }
