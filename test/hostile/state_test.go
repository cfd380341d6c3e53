package hostile_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// counter is a stateful tool: each session counts for itself.
func counter(u *upstream) *upstream {
	counts := map[string]int{}
	return u.tool("inc").handle("tools/call", func(x *exchange) {
		u.mu.Lock()
		counts[x.Session]++
		n := counts[x.Session]
		u.mu.Unlock()
		x.result(fmt.Sprintf(`{"content":[{"type":"text","text":"%d"}]}`, n))
	})
}

func count(t testing.TB, c caller) string {
	t.Helper()
	return text(wantResult(t, c.request("tools/call", `"name":"a__inc"`)), "content", 0, "text")
}

func TestEachClientHasItsOwnStateUpstream_contextforge4205(t *testing.T) {
	t.Parallel()
	g := open(t, members{"a": counter(newLegacy(t))})
	a, b := g.legacy("2025-11-25"), g.legacy("2025-06-18")
	for i := range 5 {
		for _, c := range []caller{a, b} {
			if got := count(t, c); got != fmt.Sprint(i+1) {
				t.Errorf("step %d: a client counts %s", i+1, got)
			}
		}
	}
	// DELETE ends exactly one of them.
	if r, err := g.do(context.Background(), http.MethodDelete, "", "Mcp-Session-Id", a.id); err != nil || r.Status/100 != 2 {
		t.Errorf("DELETE: %v %v", r, err)
	}
	wantError(t, a.call("ping", ""), http.StatusNotFound, -32001)
	if got := count(t, b); got != "6" {
		t.Errorf("after the other's DELETE a client counts %s", got)
	}
}

func TestASharedCredentialSharesNoState_contextforge2055(t *testing.T) {
	t.Parallel()
	u := counter(newLegacy(t))
	g := serve(t, document(members{"a": u, "again": u}, map[string]string{
		"a": "credentials: {bearer: shared}", "again": "credentials: {bearer: shared}",
	}, quick))
	a, b := g.legacy("2025-11-25"), g.legacy("2025-11-25")
	for i := range 3 {
		for _, c := range []caller{a, b} {
			if got := count(t, c); got != fmt.Sprint(i+1) {
				t.Errorf("step %d: %s", i+1, got)
			}
		}
	}
	other := text(wantResult(t, a.call("tools/call", `"name":"again__inc"`)), "content", 0, "text")
	if other != "1" {
		t.Errorf("a second upstream of the same URL shares the session: %s", other)
	}
}

func TestTenCallsAreOneSession_contextforge950(t *testing.T) {
	t.Parallel()
	u := counter(newLegacy(t))
	g := open(t, members{"a": u})
	s := g.legacy("2025-11-25")
	_ = count(t, s)
	before := len(u.requests("initialize"))
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			_ = s.send(`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"a__inc"}}`)
		})
	}
	wg.Wait()
	if n := len(u.requests("initialize")) - before; n != 0 {
		t.Errorf("10 calls made %d sessions", n)
	}
	if before > 3 { // the probe's, the client's and that of the lists at most
		t.Errorf("one client caused %d handshakes", before)
	}
	for range 10 {
		healthyCount(t, g)
	}
	if n := len(u.requests("initialize")); n > 3 {
		t.Errorf("10 modern calls made it %d", n)
	}
}

func healthyCount(t testing.TB, c caller) {
	t.Helper()
	if count(t, c) == "" {
		t.Error("no count")
	}
}

func TestAnUpstreamThatRecoversIsCallableAgain_contextforge4915(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		u.tool("t")
		down := false
		u.start()
		inner := u.server.Config.Handler
		u.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			u.mu.Lock()
			now := down
			u.mu.Unlock()
			if now {
				panic(http.ErrAbortHandler)
			}
			inner.ServeHTTP(w, r)
		})
		g := open(t, members{"a": u})
		s := g.legacy("2025-11-25")
		healthy(t, s, "a__t")
		set := func(to bool) { u.mu.Lock(); defer u.mu.Unlock(); down = to; clear(u.sessions) }
		set(true)
		for range 8 { // enough to open the breaker
			if r := s.call("tools/call", `"name":"a__t"`); at(r.message(), "error", "code") == "" {
				t.Fatalf("%v", r)
			}
			_ = s.call("tools/list", "")
		}
		set(false)
		for _, c := range []caller{s, g} {
			eventually(t, "a call succeeds", 10*time.Second, func() bool {
				return text(c.request("tools/call", `"name":"a__t"`).message(), "result", "content", 0, "text") == "ok"
			})
			eventually(t, "its tool is listed without a mark", 10*time.Second, func() bool {
				r := wantResult(t, c.request("tools/list", ""))
				return slices.Equal(texts(at(r, "tools"), "name"), []string{"a__t"}) && at(r, "_meta", "penstock/partial") == ""
			})
		}
	})
}

func TestAThousandSlowCallsDelayNoOtherUpstream_contextforge1900(t *testing.T) {
	t.Parallel()
	const calls = 1000
	slow := newModern(t).tool("t").handle("tools/call", (*exchange).hang)
	g := serve(t, document(members{"slow": slow, "b": newLegacy(t).tool("fine")}, map[string]string{"slow": "max_concurrent: 2000"},
		`limits: {list_timeout: 2s, in_flight_per_principal: 2000}`))
	healthy(t, g, "b__fine")
	_ = names(t, g, "tools/list")
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for range calls {
		wg.Go(func() {
			_, _ = g.do(ctx, http.MethodPost, modernBody("1", "tools/call", `"name":"slow__t"`), modernHeaders("tools/call", "slow__t")...)
		})
	}
	eventually(t, "all of them are under way", 20*time.Second, func() bool { return len(slow.requests("tools/call")) == calls })
	start := time.Now()
	healthy(t, g, "b__fine")
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("a call to another upstream took %s", took)
	}
	cancel()
	wg.Wait()
}

func TestTheTimeoutOfACallIsConfigured_contextforge855(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		u.tool("t", "slow").handle("tools/call", func(x *exchange) {
			if text(x.Params, "name") == "slow" {
				select {
				case <-x.r.Context().Done():
				case <-time.After(900 * time.Millisecond):
				}
			}
			x.result(`{"content":[{"type":"text","text":"ok"}]}`)
		})
		short := serve(t, document(members{"a": u}, map[string]string{"a": "timeout: 300ms"}, quick))
		long := open(t, members{"a": u})
		for _, c := range short.clients() {
			healthy(t, c, "a__t")
			start := time.Now()
			r := c.request("tools/call", `"name":"a__slow"`)
			wantError(t, r, http.StatusOK, -31002)
			if took := time.Since(start); took > 3*time.Second || !strings.Contains(r.Body, "may have run") {
				t.Errorf("after %s: %v", took, r)
			}
		}
		for _, c := range long.clients() {
			healthy(t, c, "a__slow")
		}
	})
}

func TestOneIdInTwoRequestsAtOnceIsTwoRequests_checklistT9(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		u.tool("echo")
		var both sync.WaitGroup
		both.Add(2)
		u.handle("tools/call", func(x *exchange) {
			both.Done()
			both.Wait() // both are under way
			x.result(`{"content":[{"type":"text","text":` + at(x.Params, "arguments", "who") + `}]}`)
		})
		g := open(t, members{"a": u})
		_ = names(t, g, "tools/list")
		var calls sync.WaitGroup
		for _, who := range []string{"first", "second"} {
			calls.Go(func() {
				r := g.try(modernBody("1", "tools/call", `"name":"a__echo","arguments":{"who":"`+who+`"}`), modernHeaders("tools/call", "a__echo")...)
				if got := text(r.message(), "result", "content", 0, "text"); got != who || at(r.message(), "id") != "1" {
					t.Errorf("the caller of %s got %v", who, r)
				}
			})
		}
		calls.Wait()
	})
}

func TestManyCallsHealOneForgottenSessionOnce_badInput(t *testing.T) {
	t.Parallel()
	u := newLegacy(t).tool("t")
	g := open(t, members{"a": u})
	s := g.legacy("2025-11-25")
	healthy(t, s, "a__t")
	before := len(u.requests("initialize"))
	u.mu.Lock()
	clear(u.sessions)
	u.mu.Unlock()
	var calls sync.WaitGroup
	for range 20 {
		calls.Go(func() {
			r := s.try(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"a__t"}}`, s.headers()...)
			if text(r.message(), "result", "content", 0, "text") != "ok" {
				t.Errorf("%v", r)
			}
		})
	}
	calls.Wait()
	if n := len(u.requests("initialize")) - before; n != 1 {
		t.Errorf("20 calls made %d sessions", n)
	}
}
