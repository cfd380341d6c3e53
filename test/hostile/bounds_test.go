package hostile_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestSessionsBeyondTheBoundAreRefusedAndOthersStay_badInput(t *testing.T) {
	t.Parallel()
	g := serve(t, document(members{"a": newLegacy(t).tool("t")}, nil, `limits: {list_timeout: 1s, sessions_per_principal: 3}`))
	var kept []*session
	for range 3 {
		kept = append(kept, g.legacy("2025-11-25"))
	}
	for range 3 {
		r := g.post(initialize("2025-11-25"))
		if at(r.message(), "error", "code") != "-31009" || r.Header.Get("Mcp-Session-Id") != "" {
			t.Errorf("a session too many: %v", r)
		}
	}
	for _, s := range kept {
		healthy(t, s, "a__t")
	}
	healthy(t, g, "a__t") // a modern client needs none
	if r, err := g.do(context.Background(), http.MethodDelete, "", "Mcp-Session-Id", kept[0].id); err != nil || r.Status/100 != 2 {
		t.Errorf("DELETE: %v %v", r, err)
	}
	healthy(t, g.legacy("2025-11-25"), "a__t")
}

func TestRequestsInFlightBeyondTheBoundAreRefused_badInput(t *testing.T) {
	t.Parallel()
	u := newModern(t).tool("slow", "t")
	release := make(chan struct{})
	u.handle("tools/call", func(x *exchange) {
		if text(x.Params, "name") == "slow" {
			select {
			case <-release:
			case <-x.u.closed:
			}
		}
		x.result(`{"content":[{"type":"text","text":"ok"}]}`)
	})
	g := serve(t, document(members{"a": u}, nil, `limits: {list_timeout: 1s, in_flight_per_principal: 4}`))
	healthy(t, g, "a__t")
	var calls sync.WaitGroup
	for range 4 {
		calls.Go(func() {
			r := g.try(modernBody("1", "tools/call", `"name":"a__slow"`), modernHeaders("tools/call", "a__slow")...)
			if text(r.message(), "result", "content", 0, "text") != "ok" {
				t.Errorf("one within the bound: %v", r)
			}
		})
	}
	eventually(t, "four are under way", 10*time.Second, func() bool { return len(u.requests("tools/call")) == 5 })
	for range 5 {
		if r := g.modern("tools/call", `"name":"a__t"`); at(r.message(), "error", "code") != "-31009" {
			t.Errorf("one beyond the bound: %v", r)
		}
	}
	close(release)
	calls.Wait()
	healthy(t, g, "a__t")
}

func TestAHugeDeclarationIsNotKept_badInput(t *testing.T) {
	t.Parallel()
	g := open(t, members{"a": newModern(t).tool("t")})
	big := strings.Repeat("c", 100<<10)
	r := g.post(strings.Replace(initialize("2025-11-25"), `"name":"c"`, `"name":"`+big+`"`, 1))
	wantError(t, r, http.StatusOK, -32602)
	body := strings.Replace(modernBody("1", "tools/call", `"name":"a__t"`), `"name":"c"`, `"name":"`+big+`"`, 1)
	wantResult(t, g.post(body, modernHeaders("tools/call", "a__t")...))
}
