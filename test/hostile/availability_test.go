package hostile_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestOneRefusesAndOneHangsAndTheOthersAreListedInTime_agentgateway962(t *testing.T) {
	bothEras(t, func(t *testing.T, fine *upstream) {
		fine.tool("t")
		mute := newUpstream(t, fine.legacy, fine.session).tool("m")
		for _, m := range []string{"server/discover", "initialize", "tools/list"} {
			mute.handle(m, (*exchange).hang)
		}
		late := newUpstream(t, fine.legacy, fine.session).tool("l").handle("tools/list", (*exchange).hang)
		g := serve(t, document(members{"fine": fine, "late": late, "mute": mute}, nil, quick)+`  dead: {url: "http://`+deadAddress(t)+`/mcp"}`+"\n")
		for i := range 3 {
			for era, c := range g.clients() {
				start := time.Now()
				result := wantResult(t, c.request("tools/list", ""))
				took := time.Since(start)
				if limit := 2500 * time.Millisecond; took > limit || i > 0 && took > time.Second {
					t.Errorf("%s: list %d took %s", era, i, took)
				}
				if got := texts(at(result, "tools"), "name"); !slices.Equal(got, []string{"fine__t"}) {
					t.Errorf("%s: %v", era, got)
				}
				if got := texts(at(result, "_meta", "penstock/partial"), "upstream"); !slices.Equal(got, []string{"dead", "late", "mute"}) {
					t.Errorf("%s: partial names %v: %s", era, got, at(result, "_meta"))
				}
				for _, why := range texts(at(result, "_meta", "penstock/partial"), "reason") {
					if why == "" || strings.Contains(why, "127.0.0.1") {
						t.Errorf("%s: reason %q", era, why)
					}
				}
				healthy(t, c, "fine__t")
			}
		}
		r := g.modern("tools/call", `"name":"dead__x"`)
		wantError(t, r, http.StatusOK, -31001)
		if strings.Contains(r.Body, "127.0.0.1") {
			t.Errorf("the error shows an address: %v", r)
		}
	})
}

func TestSlowHandlersSlowNeitherInitializeNorLists_toolhive5861(t *testing.T) {
	bothEras(t, func(t *testing.T, slow *upstream) {
		slow.tool("t").handle("tools/call", (*exchange).hang)
		g := serve(t, document(members{"slow": slow, "b": newModern(t).tool("fine")}, map[string]string{"slow": "max_concurrent: 4, timeout: 3s"}, quick))
		healthy(t, g, "b__fine")
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		for range 12 { // more than the upstream's limit
			go func() {
				_, _ = g.do(ctx, http.MethodPost, modernBody("1", "tools/call", `"name":"slow__t"`), modernHeaders("tools/call", "slow__t")...)
				ended <- struct{}{}
			}()
		}
		eventually(t, "the upstream is full", 5*time.Second, func() bool { return len(slow.requests("tools/call")) == 4 })
		start := time.Now()
		s := g.legacy("2025-11-25")
		if got := names(t, g, "tools/list"); !slices.Contains(got, "slow__t") || !slices.Contains(got, "b__fine") {
			t.Errorf("listed: %v", got)
		}
		healthy(t, s, "b__fine")
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("others waited %s for the slow upstream", took)
		}
		cancel()
		for range 12 {
			<-ended
		}
	})
}

func TestTheBreakerGatesCallsAndConnectsAndRecovers_toolhive5861(t *testing.T) {
	t.Parallel()
	u := newModern(t).tool("t")
	broken := true
	u.handle("tools/call", func(x *exchange) {
		u.mu.Lock()
		fail := broken
		u.mu.Unlock()
		if fail {
			x.reset()
			return
		}
		x.result(`{"content":[{"type":"text","text":"ok"}]}`)
	})
	for _, m := range []string{"server/discover"} {
		u.handle(m, func(x *exchange) {
			u.mu.Lock()
			fail := broken && len(u.seen) > 3
			u.mu.Unlock()
			if fail {
				x.reset()
				return
			}
			x.result(u.discover())
		})
	}
	g := serve(t, document(members{"a": u}, map[string]string{"a": "breaker: {failures: 3, open: 1s}"}, quick))
	_ = names(t, g, "tools/list")
	for range 12 {
		r := g.modern("tools/call", `"name":"a__t"`)
		if code := at(r.message(), "error", "code"); code != "-31003" && code != "-31001" {
			t.Fatalf("%v", r)
		}
	}
	if n := len(u.requests("tools/call")); n > 6 {
		t.Errorf("%d calls reached a failing upstream", n)
	}
	u.mu.Lock()
	broken = false
	u.mu.Unlock()
	eventually(t, "calls go through again", 8*time.Second, func() bool {
		return text(g.modern("tools/call", `"name":"a__t"`).message(), "result", "content", 0, "text") == "ok"
	})
}

func TestAnUpstreamThatComesLateAppearsByItself_kuadrant209(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		u.tool("t")
		u.start()
		u.server.Config.SetKeepAlivesEnabled(false)
		down := true
		for _, m := range []string{"server/discover", "initialize"} {
			honest := func(x *exchange) { u.honest(x) }
			u.handle(m, func(x *exchange) {
				u.mu.Lock()
				now := down
				u.mu.Unlock()
				if now {
					x.reset()
					return
				}
				honest(x)
			})
		}
		g := open(t, members{"a": u, "b": newModern(t).tool("fine")})
		s := g.legacy("2025-11-25")
		if got := names(t, g, "tools/list"); !slices.Equal(got, []string{"b__fine"}) {
			t.Errorf("at start: %v", got)
		}
		u.mu.Lock()
		down = false
		u.mu.Unlock()
		for _, c := range []caller{g, s} {
			eventually(t, "its tools are listed", 10*time.Second, func() bool { return slices.Contains(names(t, c, "tools/list"), "a__t") })
			healthy(t, c, "a__t")
		}
	})
}

func TestAnUpstreamThatStartsLaterIsFoundWithoutAClient_kuadrant209(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		u.tool("t")
		addr := deadAddress(t)
		g := serve(t, document(members{"b": newModern(t).tool("fine")}, nil, quick)+`  a: {url: "http://`+addr+`/mcp"}`+"\n")
		s := g.legacy("2025-11-25")
		for _, c := range []caller{g, s} {
			if got := names(t, c, "tools/list"); !slices.Equal(got, []string{"b__fine"}) {
				t.Errorf("at start: %v", got)
			}
			wantError(t, c.request("tools/call", `"name":"a__t"`), http.StatusOK, -31001)
		}
		time.Sleep(time.Duration(times(2, 120)) * time.Second)
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			t.Skipf("the address was taken meanwhile: %v", err)
		}
		server := httptest.NewUnstartedServer(u)
		_ = server.Listener.Close()
		server.Listener = ln
		server.Start()
		u.begin(server)
		eventually(t, "it is found", 10*time.Second, func() bool { return len(u.requests("server/discover")) > 0 })
		for _, c := range []caller{g, s} {
			eventually(t, "its tools are listed", 5*time.Second, func() bool { return slices.Contains(names(t, c, "tools/list"), "a__t") })
			healthy(t, c, "a__t")
		}
	})
}

func TestAModernHangUpCancelsUpstream_fastmcp4124(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		u.tool("t").prompt("p")
		cut := make(chan string, 2)
		id := make(chan string, 2)
		hang := func(x *exchange) {
			id <- x.ID
			<-x.r.Context().Done()
			cut <- x.Method
		}
		u.handle("tools/call", hang).handle("prompts/get", hang)
		g := open(t, members{"a": u})
		_ = names(t, g, "tools/list")
		for method, name := range map[string]string{"tools/call": "a__t", "prompts/get": "a__p"} {
			ctx, cancel := context.WithCancel(context.Background())
			go func() {
				_, _ = g.do(ctx, http.MethodPost, modernBody(`"mine"`, method, `"name":`+quote(name)), modernHeaders(method, name)...)
			}()
			ours := <-id
			cancel()
			select {
			case got := <-cut:
				if got != method {
					t.Errorf("%s was cut", got)
				}
			case <-time.After(5 * time.Second):
				t.Fatalf("%s: the upstream never saw the hang-up", method)
			}
			if u.legacy == "" {
				continue
			}
			eventually(t, "a legacy upstream is told with its own id", 5*time.Second, func() bool {
				for _, r := range u.requests("notifications/cancelled") {
					if at(r.Params, "requestId") == ours {
						return true
					}
				}
				return false
			})
		}
	})
}

func TestConnectAndAbandonLeavesNothing_gosdk1073(t *testing.T) {
	u := newLegacy(t).tool("t").handle("tools/call", (*exchange).hang)
	m := newModern(t).tool("t").handle("tools/call", (*exchange).hang)
	g := serve(t, document(members{"l": u, "m": m}, nil, `limits: {list_timeout: 1s, idle_session: 1s}`))
	_ = names(t, g, "tools/list")
	cycle := func(n int) {
		for i := range n {
			ctx, cancel := context.WithCancel(context.Background())
			s := g.legacy("2025-11-25")
			_ = g.post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}`) // a failed one
			tool := []string{"l__t", "m__t"}[i%2]
			go func() { time.Sleep(time.Millisecond); cancel() }()
			_, _ = g.do(ctx, http.MethodPost, modernBody("1", "tools/call", `"name":"`+tool+`"`), modernHeaders("tools/call", tool)...)
			if i%2 == 0 {
				_, _ = g.do(context.Background(), http.MethodDelete, "", "Mcp-Session-Id", s.id)
			}
		}
	}
	cycle(20)
	runtime.GC()
	before := runtime.NumGoroutine()
	cycle(times(200, 10000))
	eventually(t, "goroutines return to where they were", 10*time.Second, func() bool { return runtime.NumGoroutine() <= before+10 })
	eventually(t, "sessions of the clients that left are ended", 10*time.Second, func() bool {
		u.mu.Lock()
		defer u.mu.Unlock()
		return len(u.sessions) <= 3
	})
}

func TestADenyHoldsOnEveryPath_zentinel463(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		u.tool("rm", "ls")
		for _, deny := range []string{"rm", "a__rm", "clean", "*rm"} {
			g := serve(t, document(members{"a": u}, nil, quick+`
servers: {default: {aliases: {clean: {upstream: a, tool: rm}}, expose: {tools: {deny: ["`+deny+`"]}}}}`))
			for era, c := range g.clients() {
				if got := names(t, c, "tools/list"); !slices.Equal(got, []string{"a__ls"}) {
					t.Errorf("deny %q: %s lists %v", deny, era, got)
				}
				for _, name := range []string{"a__rm", "clean", "rm"} {
					wantError(t, c.request("tools/call", `"name":"`+name+`"`), http.StatusOK, -32602)
				}
				healthy(t, c, "a__ls")
			}
			s := g.legacy("2025-03-26")
			r := s.send(`[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__rm"}},{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"clean"}}]`)
			for i := range 2 {
				if at(r.message(), i, "error", "code") != "-32602" {
					t.Errorf("deny %q in a batch: %v", deny, r)
				}
			}
		}
		for _, r := range u.requests("tools/call") {
			if text(r.Params, "name") == "rm" {
				t.Error("a denied call reached the upstream")
			}
		}
	})
}
