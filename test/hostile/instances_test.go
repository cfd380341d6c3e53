package hostile_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/penstock-mcp/penstock/internal/store/pgtest"
)

// instances are three gateways on one database.
func instances(t *testing.T, ups members) []*gateway {
	t.Helper()
	doc := document(ups, nil, quick+"\nstate: '"+pgtest.Database(t)+"'")
	var out []*gateway
	for range 3 {
		out = append(out, serveKept(t, doc))
	}
	return out
}

// at is the same session at another instance.
func (s *session) at(g *gateway) *session {
	moved := *s
	moved.client = g.client
	return &moved
}

func TestASessionIsServedByEveryInstanceAndNoListIsEmpty_contextforge5600(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		u.tool("t").prompt("p").resource("file:///r")
		all := instances(t, members{"a": u, "b": newLegacy(t).tool("fine")})
		for i, opened := range all {
			for _, version := range []string{"2025-03-26", "2025-11-25"} {
				s := opened.legacy(version)
				for n := range 6 {
					here := s.at(all[(i+n)%3])
					here.ids = int64(10 * n)
					if got := names(t, here, "tools/list"); !slices.Equal(got, []string{"a__t", "b__fine"}) {
						t.Errorf("instance %d, opened at %d: %v", (i+n)%3, i, got)
					}
					for _, method := range []string{"prompts/list", "resources/list"} {
						if got := names(t, here, method); len(got) != 1 {
							t.Errorf("instance %d, opened at %d: %s: %v", (i+n)%3, i, method, got)
						}
					}
					healthy(t, here, "a__t")
					healthy(t, here, "b__fine")
				}
			}
		}
	})
}

func TestARequestAtAnotherInstanceIsSentOnceAndForwardedNowhere_contextforge5393(t *testing.T) {
	t.Parallel()
	u := newLegacy(t).tool("t")
	all := instances(t, members{"a": u})
	for _, g := range all {
		_ = names(t, g, "tools/list") // whatever an instance needs for itself, it has now
	}
	s := all[0].legacy("2025-11-25")
	healthy(t, s, "a__t")
	session := u.last(t, "tools/call").Session
	opened := len(u.requests("initialize"))
	for n := range 9 {
		here := s.at(all[n%3])
		here.ids = int64(100 + n)
		before := len(u.requests("tools/call"))
		args := fmt.Sprintf(`{"n":%d}`, n)
		if result := wantResult(t, here.call("tools/call", `"name":"a__t","arguments":`+args)); text(result, "content", 0, "text") != "ok" {
			t.Errorf("instance %d: %s", n%3, result)
		}
		sent := u.requests("tools/call")[before:]
		if len(sent) != 1 || sent[0].Session != session || at(sent[0].Params, "arguments") != args {
			t.Errorf("instance %d: the upstream saw %d calls, %+v", n%3, len(sent), sent)
		}
	}
	if n := len(u.requests("initialize")) - opened; n != 0 {
		t.Errorf("the other instances opened %d sessions more", n)
	}
}

func TestAQuestionIsAnsweredThroughAnotherInstance_mcpnest262(t *testing.T) {
	t.Parallel()
	u := newModern(t).tool("ask")
	u.handle("tools/call", func(x *exchange) {
		switch text(x.Params, "requestState") {
		case "":
			x.result(`{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{"message":"m"}}},"requestState":"mine"}`)
		case "mine":
			x.result(`{"content":[{"type":"text","text":"ok"}]}`)
		default:
			x.fail(-32602, "not the state that was given")
		}
	})
	all := instances(t, members{"a": u}) // without configured keys
	for i, g := range all {
		asked := wantResult(t, g.modern("tools/call", `"name":"a__ask"`))
		for j, other := range all {
			r := other.modern("tools/call", `"name":"a__ask","inputResponses":{"q":{"action":"accept","content":{}}},"requestState":`+at(asked, "requestState"))
			if text(wantResult(t, r), "content", 0, "text") != "ok" {
				t.Errorf("asked through %d, answered through %d: %v", i, j, r)
			}
		}
	}
}
