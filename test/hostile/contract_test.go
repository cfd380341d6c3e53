package hostile_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// S6 for subscribe: the URI alone tells where it goes, under every naming rule,
// and an alias of a tool is none of a resource.
func TestS6SubscribeRoutesByTheURIAndIgnoresAliases(t *testing.T) {
	for naming, exposed := range map[string]string{"namespaced": "x:/a", "prefixed": "a-x:/a"} {
		t.Run(naming, func(t *testing.T) {
			bothTelling(t, func(t *testing.T, w *telling) {
				w.resource("x:/a").tool("hello")
				other := newUpstream(t, w.legacy, w.session).telling()
				other.resource("x:/b").tool("x")
				g := serve(t, document(members{"a": w.upstream, "b": other.upstream}, nil,
					calm+"\nservers: {default: {naming: "+naming+", aliases: {'"+exposed+"': {upstream: b, tool: x}}}}"))
				s := g.legacy("2025-11-25")
				h := s.stand()
				if r := s.call("resources/subscribe", `"uri":`+quote(exposed)); at(r.message(), "result") != "{}" {
					t.Fatal(r)
				}
				w.listens(t, "x:/a")
				w.tell(updated, `"uri":"x:/a"`)
				if m := h.want("an update", updated); text(m[0], "params", "uri") != exposed {
					t.Error(m)
				}
				other.tell(updated, `"uri":"x:/a"`)
				h.quiet("another upstream's resource of that URI", 300*time.Millisecond)
				wantError(t, s.call("resources/subscribe", `"uri":"hello"`), http.StatusOK, -32602)
			})
		})
	}
}

// S31. A cancel reaches the upstream in its own era: as notifications/cancelled
// with the id that the upstream knows, or by the end of its stream.
func TestS31ACancelReachesEveryKindOfUpstreamFromEveryKindOfClient(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		u.tool("t")
		begun, ended := make(chan string, 8), make(chan string, 8)
		u.handle("tools/call", func(x *exchange) {
			x.stream(x.progress(1))
			begun <- x.ID
			select {
			case <-x.r.Context().Done():
				ended <- "the stream"
			case <-u.closed:
			}
		})
		u.handle("notifications/cancelled", func(x *exchange) {
			ended <- at(x.Params, "requestId")
			x.w.WriteHeader(http.StatusAccepted)
		})
		g := open(t, members{"a": u})
		s := g.legacy("2025-11-25")
		cancels := map[string]func() *hearing{
			"a modern client hangs up": func() *hearing {
				body := `{"jsonrpc":"2.0","id":"mine","method":"tools/call","params":{"name":"a__t","_meta":{"progressToken":"p",` + meta + `}}}`
				return g.hear(http.MethodPost, body, modernHeaders("tools/call", "a__t")...)
			},
			"a legacy client says so": func() *hearing {
				body := `{"jsonrpc":"2.0","id":"mine","method":"tools/call","params":{"name":"a__t","_meta":{"progressToken":"p"}}}`
				return s.hear(http.MethodPost, body, s.headers()...)
			},
		}
		for what, call := range cancels {
			h := call()
			h.name = what
			id := <-begun
			h.want("before the cancel", "notifications/progress")
			if strings.Contains(what, "legacy") {
				if r := s.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"mine","reason":"enough"}}`); r.Status != http.StatusAccepted {
					t.Errorf("cancel: %v", r)
				}
				h.ended(5 * time.Second)
			} else {
				h.close()
			}
			want := map[bool]string{true: id, false: "the stream"}[u.legacy != ""]
			for got, late := "", time.After(5*time.Second); got != want; {
				select {
				case got = <-ended:
					// A legacy stream ends too, sooner or later; that alone is no cancel.
					if got != want && (u.legacy == "" || got != "the stream") {
						t.Errorf("%s: the upstream was told of %s, want %s", what, got, want)
					}
				case <-late:
					t.Fatalf("%s: the upstream was not told", what)
				}
			}
		}
		if r := s.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"mine"}}`); r.Status != http.StatusAccepted {
			t.Errorf("a late cancel: %v", r)
		}
		before := len(u.requests("notifications/cancelled"))
		time.Sleep(200 * time.Millisecond)
		if after := len(u.requests("notifications/cancelled")); after != before || u.legacy == "" && after != 0 {
			t.Errorf("a late cancel was passed on: %d, before %d", after, before)
		}
	})
}

// S32. The token south is ours, the one north the client's own with its type, and
// progress that overtakes nothing is never lost.
func TestS32ProgressTokensAreMappedAndNoneOvertakesItsMapping(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		u.tool("t")
		u.handle("tools/call", func(x *exchange) {
			token := at(x.Params, "_meta", "progressToken")
			if token == "" {
				x.stream(event(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"never given","progress":1}}`) + event(x.message(done)))
				return
			}
			x.stream(x.progress(1) + event(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"foreign","progress":9}}`) + x.progress(2) + event(x.message(done)))
		})
		g := open(t, members{"a": u})
		for era, c := range g.clients() {
			for _, token := range []string{`"7"`, `7`, `9007199254740993`, `""`} {
				for range 20 {
					r := withToken(c, "a__t", token)
					if len(r.Events) != 3 || at(r.Events[0], "params", "progressToken") != token || at(r.Events[1], "params", "progress") != "2" {
						t.Fatalf("%s, token %s: %v", era, token, r)
					}
				}
				if south := at(u.last(t, "tools/call").Params, "_meta", "progressToken"); south == token {
					t.Errorf("%s: token %s went south as it is", era, token)
				}
			}
			if r := c.request("tools/call", `"name":"a__t"`); len(r.Events) > 1 {
				t.Errorf("%s: progress without a token: %v", era, r)
			}
		}
	})
}

// S34. Subscriptions are counted: the first asks the upstream, the last lets go,
// and one client's end is not another's.
func TestS34SubscriptionsAreCounted(t *testing.T) {
	bothTelling(t, func(t *testing.T, w *telling) {
		w.resource("x:/a")
		g := open(t, members{"u": w.upstream})
		one, two := g.legacy("2025-11-25"), g.legacy("2025-06-18")
		ears := []*hearing{one.stand(), two.stand()}
		for i, s := range []*session{one, two, one} {
			if r := s.call("resources/subscribe", `"uri":"x:/a"`); at(r.message(), "result") != "{}" {
				t.Fatalf("%d: %v", i, r)
			}
		}
		modern, _ := g.listen("1", `{"resourceSubscriptions":["x:/a"]}`)
		ears = append(ears, modern)
		if w.legacy != "" && len(w.requests("resources/subscribe")) != 1 {
			t.Errorf("the upstream was asked %d times", len(w.requests("resources/subscribe")))
		}
		w.listens(t, "x:/a") // on one stream
		w.tell(updated, `"uri":"x:/a"`)
		for _, h := range ears {
			h.want("an update", updated)
		}
		one.call("resources/unsubscribe", `"uri":"x:/a"`)
		w.tell(updated, `"uri":"x:/a"`)
		ears[0].quiet("after it unsubscribed", 300*time.Millisecond)
		for _, h := range ears[1:] {
			h.want("another's unsubscribe", updated)
		}
		if r, err := two.do(context.Background(), "DELETE", "", two.headers()...); err != nil || r.Status != http.StatusNoContent {
			t.Fatal(r, err)
		}
		w.tell(updated, `"uri":"x:/a"`)
		modern.want("another's DELETE", updated)
		modern.close()
		if w.legacy != "" {
			eventually(t, "the last one lets go", 10*time.Second, func() bool { return len(w.requests("resources/unsubscribe")) == 1 })
		}
		var none string
		for _, r := range w.requests("resources/unsubscribe") {
			none += fmt.Sprint(r.Params)
		}
		if strings.Count(none, "x:/a") > 1 {
			t.Errorf("unsubscribed: %s", none)
		}
	})
}
