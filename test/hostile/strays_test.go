package hostile_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A change that is told on the stream of a call is a change all the same.
func TestAChangeToldDuringACallIsEverybodys(t *testing.T) {
	bothTelling(t, func(t *testing.T, w *telling) {
		w.tool("one").resource("x:/r")
		w.handle("tools/call", func(x *exchange) {
			w.upstream.mu.Lock()
			w.lists["tools"] = nil
			w.upstream.mu.Unlock()
			w.tool("one", "two")
			x.stream(event(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`) +
				event(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:/r"}}`) + event(x.message(done)))
		})
		g := open(t, members{"a": w.upstream})
		if got := names(t, g.client, "tools/list"); len(got) != 1 {
			t.Fatalf("listed: %v", got)
		}
		h, _ := g.listen("1", `{"toolsListChanged":true,"resourceSubscriptions":["x:/r"]}`)
		time.Sleep(200 * time.Millisecond)
		for era, c := range g.clients() {
			if r := c.request("tools/call", `"name":"a__one"`); len(r.Events) > 1 {
				t.Errorf("%s: the caller got %v", era, r)
			}
			break
		}
		got := map[string]bool{}
		for range 2 {
			got[text(h.next(), "method")] = true
		}
		if !got[toolsChanged] || !got[updated] {
			t.Errorf("told: %v", got)
		}
		if got := names(t, g.client, "tools/list"); len(got) != 2 {
			t.Errorf("listed: %v", got)
		}
	})
}

// Whatever an upstream sends that is for nobody reaches nobody, and does not
// flood the log.
func TestWhatIsForNobodyReachesNobodyAndIsLoggedOnce(t *testing.T) {
	bothTelling(t, func(t *testing.T, w *telling) {
		w.tool("t")
		const often = 500
		w.handle("tools/call", func(x *exchange) {
			var b strings.Builder
			for i := range often {
				b.WriteString(event(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"never given","progress":%d}}`, i)))
				b.WriteString(event(`{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"somebody's"}}`))
				b.WriteString(event(`{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"somebody's"}}`))
				b.WriteString(event(fmt.Sprintf(`{"jsonrpc":"2.0","id":"other-%d","result":{}}`, i)))
				if w.legacy == "" {
					b.WriteString(event(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"sampling/createMessage","params":{}}`, i)))
				}
			}
			// Progress after the result, in the same breath.
			x.stream(b.String() + event(x.message(done)) + event(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1}}`))
		})
		g := open(t, members{"a": w.upstream})
		ears := g.ears()
		for era, c := range g.clients() {
			for _, r := range []*reply{withToken(c, "a__t", `"p"`), c.request("tools/call", `"name":"a__t"`)} {
				if len(r.Events) > 1 || at(r.message(), "result") == "" {
					t.Errorf("%s: %.500v", era, r)
				}
			}
		}
		for _, h := range ears {
			h.quiet("what is for nobody", 300*time.Millisecond)
		}
		for _, kind := range []string{"reported progress of nothing", "notification that is for nobody", "answered what this call did not ask"} {
			if n := strings.Count(g.log.String(), kind); n != 1 {
				t.Errorf("%q is logged %d times", kind, n)
			}
		}
		if n := strings.Count(g.log.String(), "a modern upstream sent a request"); w.legacy == "" && n != 1 {
			t.Errorf("requests are logged %d times", n)
		}
	})
}

// A client's answers to nothing are accepted and go nowhere: to questions never
// asked, a second time, from another session.
func TestAnswersToNothingGoNowhere(t *testing.T) {
	t.Parallel()
	u := newLegacy(t).tool("t")
	answers := make(chan string, 16)
	u.handle("", func(x *exchange) {
		answers <- string(x.Raw)
		x.w.WriteHeader(http.StatusAccepted)
	})
	u.handle("tools/call", func(x *exchange) {
		x.stream(event(`{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{"message":"who?","requestedSchema":{"type":"object","properties":{}}}}`))
		got := <-answers
		x.stream(event(x.message(`"result":{"content":[{"type":"text","text":` + quote(text(got, "result", "content", "name")) + `}]}`)))
	})
	g := open(t, members{"a": u})
	caps := `{"elicitation":{}}`
	asked, foreign := g.legacyWith("2025-11-25", caps), g.legacyWith("2025-11-25", caps)
	h := asked.hear(http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__t"}}`, asked.headers()...)
	q := h.want("the question", "elicitation/create")[0]
	id := at(q, "id")
	answer := func(s *session, id, name string) {
		t.Helper()
		if r := s.send(`{"jsonrpc":"2.0","id":` + id + `,"result":{"action":"accept","content":{"name":` + quote(name) + `}}}`); r.Status != http.StatusAccepted {
			t.Errorf("answer of %s: %v", name, r)
		}
	}
	answer(asked, "7", "the upstream's own id")
	answer(asked, `"made up"`, "made up")
	answer(foreign, id, "another session")
	if len(answers) != 0 {
		t.Fatalf("the upstream got %s", <-answers)
	}
	answer(asked, id, "right")
	answer(asked, id, "twice")
	last := h.next()
	if text(last, "result", "content", 0, "text") != "right" {
		t.Errorf("the call ends with %s", last)
	}
	if len(answers) != 0 {
		t.Errorf("the upstream got another answer: %s", <-answers)
	}
	if n := strings.Count(g.log.String(), "a client answered what nobody asks"); n != 1 {
		t.Errorf("that is logged %d times", n)
	}
}

// An upstream that asks in a list call, or outside of any, is refused, and nobody
// is asked.
func TestAListNeverAsksAnybody(t *testing.T) {
	t.Parallel()
	u := newLegacy(t).tool("t")
	answers := make(chan string, 16)
	u.handle("", func(x *exchange) {
		answers <- string(x.Raw)
		x.w.WriteHeader(http.StatusAccepted)
	})
	u.handle("tools/list", func(x *exchange) {
		x.stream(event(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object"}}}`))
		select {
		case a := <-answers:
			if at(a, "id") != `"q"` || at(a, "error", "code") != "-32602" {
				t.Errorf("the upstream is answered %s", a)
			}
		case <-time.After(5 * time.Second):
			t.Error("the upstream is not answered")
		}
		x.stream(event(x.message(`"result":{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`)))
	})
	g := open(t, members{"a": u})
	s := g.legacyWith("2025-11-25", `{"elicitation":{},"sampling":{},"roots":{}}`)
	r := s.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "Accept", "text/event-stream")
	if len(r.Events) != 1 || at(r.Events[0], "result") == "" {
		t.Errorf("the list: %v", r)
	}
}
