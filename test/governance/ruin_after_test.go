package governance_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// resultOf is a result as an upstream of the era writes it.
func resultOf(m *mill, members string) string {
	if m.legacy {
		return "{" + members + "}"
	}
	return `{"resultType":"complete",` + members + "}"
}

func TestAnAfterHookRewritesAndDeniesResults(t *testing.T) {
	t.Parallel()
	millsOf(t, func(t *testing.T, m *mill) {
		j := newJudge(t)
		h := build(t, over(m, "hooks:\n"+hooking("dlp", j, "deny", "", afters)))
		h.known("")
		carriers := h.carriers()
		all := map[string]query{"SSE": {Params: tool("echo", `{"sse":true}`)}}
		for kind, q := range kinds {
			all[kind] = q
		}
		for _, c := range carriers {
			for name, q := range all {
				kind := strings.Replace(name, "SSE", "tool", 1)
				asked, sent := len(j.questions(kind+".after")), len(m.calls(""))
				const mark = "censored-by-the-hook"
				members := map[string]string{
					"tool":     `"content":[{"type":"text","text":"` + mark + `"}]`,
					"prompt":   `"messages":[{"role":"user","content":{"type":"text","text":"` + mark + `"}}]`,
					"resource": `"contents":[{"uri":"file:///a","text":"` + mark + `"}]`,
				}[kind]
				j.decide(func(w http.ResponseWriter, _ *http.Request, _ *hookQuestion) {
					decide(w, `{"decision":"allow","result":`+resultOf(m, members)+`}`)
				})
				if r := c.do(&q); r.Code != 0 || !strings.Contains(string(r.Result), mark) || strings.Contains(string(r.Result), `"ok"`) {
					t.Errorf("%s, %s, rewritten: %v", c.name, name, r)
				}
				j.decide(func(w http.ResponseWriter, _ *http.Request, _ *hookQuestion) {
					decide(w, `{"decision":"deny","message":"too private"}`)
				})
				r := c.do(&q)
				if r.Code != hookRefused || !strings.Contains(r.Said, "too private") || r.Result != nil || !strings.Contains(r.Said, "ran") {
					t.Errorf("%s, %s, denied: %v", c.name, name, r)
				}
				shown := j.questions(kind + ".after")
				if len(shown) != asked+2 || len(m.calls("")) != sent+2 {
					t.Fatalf("%s, %s: the hook was asked %d times and the upstream %d", c.name, name, len(shown)-asked, len(m.calls(""))-sent)
				}
				if is := shown[asked]; is.Result == nil || is.Upstream != "up" || !json.Valid(is.Result) {
					t.Errorf("%s, %s: the hook was shown %+v", c.name, name, is)
				}
			}
			// An error is no result; a failed tool is one.
			asked := len(j.questions("tool.after"))
			if r := c.do(&query{Params: tool("fail", `{}`)}); r.Code != -32050 || len(j.questions("tool.after")) != asked {
				t.Errorf("%s, an error of the upstream's: %v", c.name, r)
			}
			if r := c.do(&query{Params: tool("broken", `{}`)}); r.Code != hookRefused || len(j.questions("tool.after")) != asked+1 {
				t.Errorf("%s, a failed tool: %v", c.name, r)
			}
		}
	})
}

func TestAResultBeyondMaxBytesIsDecidedByOnError(t *testing.T) {
	t.Parallel()
	const size = 400_000
	millsOf(t, func(t *testing.T, m *mill) {
		for _, onError := range []string{"deny", "allow"} {
			j := newJudge(t)
			h := build(t, over(m, "hooks:\n"+hooking("dlp", j, onError, ", max_bytes: 128KiB", "tool.after")))
			h.known("")
			for _, c := range h.carriers() {
				for _, sse := range []bool{false, true} {
					name := fmt.Sprintf("%s, %s, SSE %v", onError, c.name, sse)
					asked, before := len(j.questions("tool.after")), h.counts()
					r := c.do(&query{Params: tool("large", fmt.Sprintf(`{"bytes":%d,"sse":%v}`, size, sse))})
					if len(j.questions("tool.after")) != asked {
						t.Errorf("%s: the hook was shown more than it may be", name)
					}
					outcome := map[string]string{"deny": `outcome="too_large_denied"`, "allow": `outcome="too_large_allowed"`}[onError]
					if n := h.counts().sum("penstock_hook_duration_seconds_count", outcome) - before.sum("penstock_hook_duration_seconds_count", outcome); n != 1 {
						t.Errorf("%s: the counter tells %d", name, n)
					}
					if onError == "deny" {
						if r.Code != hookFailed || strings.Contains(r.Body, "####") {
							t.Errorf("%s: %.300s", name, r)
						}
					} else if r.Code != 0 || len(r.Text) != size {
						t.Errorf("%s: %d bytes, %.300s", name, len(r.Text), r)
					}
					// What is large, and not too large, is shown whole and can be rewritten.
					j.decide(func(w http.ResponseWriter, _ *http.Request, q *hookQuestion) {
						if strings.Count(string(q.Result), "#") < 100_000 {
							http.Error(w, "not whole", http.StatusInternalServerError)
							return
						}
						decide(w, `{"decision":"allow","result":`+strings.ReplaceAll(string(q.Result), "#", "y")+`}`)
					})
					if r := c.do(&query{Params: tool("large", fmt.Sprintf(`{"bytes":100000,"sse":%v}`, sse))}); r.Text != strings.Repeat("y", 100_000) {
						t.Errorf("%s, not too large: %.300s", name, r)
					}
					j.decide(allow)
				}
			}
		}
	})
}

const canElicit = `{"elicitation":{}}`

// answering is a retry of a question's call with its answer.
func answering(t *testing.T, q *query, asked *reaction) *query {
	t.Helper()
	var is struct {
		InputRequests map[string]json.RawMessage `json:"inputRequests"`
		RequestState  string                     `json:"requestState"`
	}
	if err := json.Unmarshal(asked.Result, &is); err != nil || len(is.InputRequests) != 1 || is.RequestState == "" {
		t.Fatalf("no question: %v", asked)
	}
	again := *q
	for key := range is.InputRequests {
		state, _ := json.Marshal(is.RequestState)
		again.Params += `,"inputResponses":{"` + key + `":{"action":"accept","content":{"who":"me"}}},"requestState":` + string(state)
	}
	return &again
}

// The before hook rewrites, and the retry repeats what the client sent at first; a modern upstream is asked anew.
func TestQuestionsAreNotShownToHooksAndTheirAnswersGoOnUnderRewrittenArguments(t *testing.T) {
	t.Parallel()
	millsOf(t, func(t *testing.T, m *mill) {
		j := newJudge(t)
		h := build(t, over(m, "hooks:\n"+hooking("dlp", j, "deny", "", "tool.before", "tool.after")))
		h.known("")
		j.decide(func(w http.ResponseWriter, r *http.Request, q *hookQuestion) {
			if q.Result != nil {
				allow(w, r, q)
				return
			}
			decide(w, `{"decision":"allow","arguments":{"text":"rewritten"}}`)
		})
		stdio, _ := h.line()
		for name, do := range map[string]func(*query) *reaction{"HTTP": h.do, "stdio": stdio.do} {
			after, sent := len(j.questions("tool.after")), len(m.calls(""))
			q := &query{Params: tool("ask", `{"text":"original"}`), Caps: canElicit}
			asked := do(q)
			if asked.Type != "input_required" || len(j.questions("tool.after")) != after {
				t.Fatalf("%s: asked the hook about a question, or there was none: %v", name, asked)
			}
			again := answering(t, q, asked)
			if r := do(again); !r.served() {
				t.Errorf("%s, the retry: %v", name, r)
			}
			if n := len(j.questions("tool.after")) - after; n != 1 {
				t.Errorf("%s: the hook was asked about %d results", name, n)
			}
			calls := m.calls("")[sent:]
			if want := map[bool]int{true: 1, false: 2}[m.legacy]; len(calls) != want {
				t.Errorf("%s: the upstream was called %d times", name, len(calls))
			}
			for _, c := range calls {
				if c.Arguments != `{"text":"rewritten"}` {
					t.Errorf("%s: the upstream saw %s", name, c.Arguments)
				}
			}
			// The answer belongs to what the client asked for, whatever the hook made of it.
			if m.legacy {
				asked := do(q)
				other := answering(t, &query{Params: tool("ask", `{"text":"other"}`), Caps: canElicit}, asked)
				if r := do(other); r.Code != -32602 {
					t.Errorf("%s: the answer with other arguments: %v", name, r)
				}
				if r := do(answering(t, q, asked)); !r.served() {
					t.Errorf("%s: the answer after that: %v", name, r)
				}
			}
		}
	})
}

func TestALegacyClientIsAskedAndTheHookSeesOnlyTheResult(t *testing.T) {
	t.Parallel()
	millsOf(t, func(t *testing.T, m *mill) {
		j := newJudge(t)
		h := build(t, over(m, "hooks:\n"+hooking("dlp", j, "deny", "", "tool.before", "tool.after")))
		h.known("")
		j.decide(func(w http.ResponseWriter, _ *http.Request, q *hookQuestion) {
			if q.Result != nil {
				decide(w, `{"decision":"allow","result":`+resultOf(m, `"content":[{"type":"text","text":"seen"}]`)+`}`)
				return
			}
			decide(w, `{"decision":"allow","arguments":{"text":"rewritten"}}`)
		})
		session := h.session("2025-11-25", canElicit, "")
		after := len(j.questions("tool.after"))
		s := h.stream(&query{Session: session, ID: "5", Params: tool("ask", `{"text":"original"}`)})
		var q struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if m := s.next(t); json.Unmarshal([]byte(m), &q) != nil || q.Method != "elicitation/create" {
			t.Fatalf("no question: %s", m)
		}
		if len(j.questions("tool.after")) != after {
			t.Error("the hook was asked about a question")
		}
		if r := h.do(&query{Session: session, Body: `{"jsonrpc":"2.0","id":` + string(q.ID) + `,"result":{"action":"accept","content":{"who":"me"}}}`}); r.Status != http.StatusAccepted {
			t.Fatalf("the answer: %v", r)
		}
		r := &reaction{}
		r.read(s.next(t))
		if r.Text != "seen" || len(j.questions("tool.after")) != after+1 {
			t.Errorf("%+v; the hook was asked %d times", r, len(j.questions("tool.after"))-after)
		}
	})
}

func TestACallerThatGivesUpWhileAHookHangsSendsNothing(t *testing.T) {
	t.Parallel()
	j, m := newJudge(t), newMill(t, false)
	h := build(t, over(m, "hooks:\n"+strings.Replace(hooking("dlp", j, "allow", "", "tool.before"), "timeout: 1s", "timeout: 30s", 1)))
	h.known("")
	entered, left := make(chan struct{}, 10), make(chan struct{}, 10)
	j.decide(func(_ http.ResponseWriter, r *http.Request, _ *hookQuestion) {
		entered <- struct{}{}
		<-r.Context().Done()
		left <- struct{}{}
	})
	cancelled := func() int { return h.counts().sum("penstock_requests_total", `outcome="cancelled"`) }
	await := func(what string, c chan struct{}) {
		t.Helper()
		select {
		case <-c:
		case <-time.After(10 * time.Second):
			t.Fatalf("the hook is not %s", what)
		}
	}

	// A modern client hangs up.
	ctx, hangUp := context.WithCancel(context.Background())
	go func() {
		<-entered
		hangUp()
	}()
	if r := h.do(&query{Params: echo("given-up"), Context: ctx}); r.Err == nil {
		t.Errorf("an answer after all: %v", r)
	}
	await("given up", left)
	wait(t, "the modern cancellation", 10*time.Second, func() bool { return cancelled() == 1 })

	// A legacy client says so.
	session := h.session("2025-11-25", "{}", "")
	answer := make(chan *reaction, 1)
	go func() { answer <- h.do(&query{Session: session, ID: "77", Params: echo("given-up")}) }()
	await("asked", entered)
	h.do(&query{Session: session, Body: `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}}`})
	await("given up", left)
	if r := <-answer; r.Status != http.StatusAccepted && r.Body != "" {
		t.Errorf("a cancelled call was answered: %v", r)
	}
	wait(t, "the legacy cancellation", 10*time.Second, func() bool { return cancelled() == 2 })
	if m.arrived("given-up") != 0 {
		t.Error("a call was sent that its caller had given up")
	}
}
