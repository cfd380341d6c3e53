package governance_test

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// kinds are one request of each kind that hooks are asked about.
var kinds = map[string]query{
	"tool":     {Params: tool("echo", `{"text":"it"}`)},
	"prompt":   {Method: "prompts/get", Params: `"name":"greet","arguments":{"who":"it"}`},
	"resource": {Method: "resources/read", Params: `"uri":"file:///a"`},
}

const (
	befores = "tool.before, prompt.before, resource.before"
	afters  = "tool.after, prompt.after, resource.after"
)

// millsOf runs a test against an upstream of each era.
func millsOf(t *testing.T, f func(t *testing.T, m *mill)) {
	for _, legacy := range []bool{false, true} {
		m := newMill(t, legacy)
		t.Run(m.era()+" upstream", func(t *testing.T) { f(t, m) })
	}
}

func TestABeforeHookAllowsAndDeniesEachKindForEachClient(t *testing.T) {
	t.Parallel()
	millsOf(t, func(t *testing.T, m *mill) {
		j := newJudge(t)
		h := build(t, over(m, "hooks:\n"+hooking("dlp", j, "deny", "", befores)))
		h.known("")
		for _, c := range h.carriers() {
			for kind, q := range kinds {
				sent := len(m.calls(q.method()))
				asked := len(j.questions(kind + ".before"))
				j.decide(allow)
				if r := c.do(&q); r.Code != 0 || r.Result == nil || len(m.calls(q.method())) != sent+1 {
					t.Errorf("%s, %s, allowed: %v", c.name, kind, r)
				}
				j.decide(func(w http.ResponseWriter, _ *http.Request, _ *hookQuestion) {
					decide(w, `{"decision":"deny","message":"not on a Sunday"}`)
				})
				r := c.do(&q)
				if r.Code != hookRefused || !strings.Contains(r.Said, "not on a Sunday") || r.Result != nil {
					t.Errorf("%s, %s, denied: %v", c.name, kind, r)
				}
				if len(m.calls(q.method())) != sent+1 {
					t.Errorf("%s, %s: the upstream saw what the hook denied", c.name, kind)
				}
				all := j.questions(kind + ".before")
				if len(all) != asked+2 {
					t.Fatalf("%s, %s: the hook was asked %d times", c.name, kind, len(all)-asked)
				}
				is := all[len(all)-1]
				name := map[string]string{"tool": "echo", "prompt": "greet", "resource": "file:///a"}[kind]
				arguments := map[string]string{"tool": `{"text":"it"}`, "prompt": `{"who":"it"}`, "resource": `{}`}[kind]
				if is.Hook != "dlp" || is.Server != "default" || is.Upstream != "up" || is.Name != name || is.Original != name ||
					string(is.Arguments) != arguments || is.Result != nil || is.Principal.Subject == "" {
					t.Errorf("%s, %s: the hook was shown %+v", c.name, kind, is)
				}
			}
		}
	})
}

func TestRewrittenArgumentsReachTheUpstreamByteForByte(t *testing.T) {
	t.Parallel()
	const rewritten = `{"text": "it's é ☃ \u00e9",  "big":123456789012345678901234567890, "small":1.50e-7,"z":[1,2 , {"a":null}]}`
	millsOf(t, func(t *testing.T, m *mill) {
		j := newJudge(t)
		h := build(t, over(m, "hooks:\n"+hooking("dlp", j, "deny", "", befores)))
		h.known("")
		j.decide(func(w http.ResponseWriter, _ *http.Request, _ *hookQuestion) {
			decide(w, `{"decision":"allow","arguments":`+rewritten+`}`)
		})
		for _, c := range h.carriers() {
			for kind, q := range kinds {
				sent := len(m.calls(q.method()))
				r := c.do(&q)
				calls := m.calls(q.method())
				if kind == "resource" { // it has no arguments to be rewritten
					if r.Code != hookFailed || len(calls) != sent {
						t.Errorf("%s, %s: %v", c.name, kind, r)
					}
					continue
				}
				if r.Code != 0 || len(calls) != sent+1 {
					t.Fatalf("%s, %s: %v", c.name, kind, r)
				}
				if got := calls[sent].Arguments; got != rewritten {
					t.Errorf("%s, %s: the upstream saw\n%s, and the hook said\n%s", c.name, kind, got, rewritten)
				}
			}
			// Of a call without arguments, too.
			if r := c.do(&query{Params: `"name":"echo"`}); !r.served() || m.calls("tools/call")[len(m.calls("tools/call"))-1].Arguments != rewritten {
				t.Errorf("%s, without arguments: %v", c.name, r)
			}
		}
	})
}

func TestRewrittenArgumentsAreAuthorizedAgain(t *testing.T) {
	t.Parallel()
	j, m := newJudge(t), newMill(t, false)
	h := build(t, over(m, `policy:
  - {id: all, allow: {tools: ["*"], prompts: ["*"], resources: ["*"]}}
  - {id: no-prod, deny: {tools: ["*"]}, when: 'has(arguments.env) && arguments.env == "prod"'}
hooks:
`+hooking("dlp", j, "deny", "", "tool.before")))
	h.known("")
	j.decide(func(w http.ResponseWriter, _ *http.Request, q *hookQuestion) {
		decide(w, `{"decision":"allow","arguments":{"env":"`+map[bool]string{true: "prod", false: "test"}[strings.Contains(string(q.Arguments), "to-prod")]+`"}}`)
	})
	for _, c := range h.carriers() {
		sent, before := len(m.calls("")), h.counts()
		if r := c.do(&query{Params: tool("echo", `{"env":"to-prod"}`)}); r.Code != policyDenied || len(m.calls("")) != sent {
			t.Errorf("%s, rewritten to what is denied: %v", c.name, r)
		}
		if n := h.counts().sum("penstock_decisions_total", `effect="deny"`) - before.sum("penstock_decisions_total", `effect="deny"`); n != 1 {
			t.Errorf("%s: the counter tells %d denials", c.name, n)
		}
		if r := c.do(&query{Params: tool("echo", `{"env":"prod"}`)}); r.Code != policyDenied || len(m.calls("")) != sent {
			t.Errorf("%s, denied before the hook could help: %v", c.name, r)
		}
		if r := c.do(&query{Params: tool("echo", `{"env":"other"}`)}); !r.served() || m.calls("")[sent].Arguments != `{"env":"test"}` {
			t.Errorf("%s, rewritten to what is allowed: %v", c.name, r)
		}
	}
}

func TestParameterHeadersAreThoseOfTheRewrittenArguments(t *testing.T) {
	t.Parallel()
	j, m := newJudge(t), newMill(t, false)
	h := build(t, over(m, "hooks:\n"+hooking("dlp", j, "deny", "", "tool.before")))
	h.known("")
	j.decide(func(w http.ResponseWriter, _ *http.Request, _ *hookQuestion) {
		decide(w, `{"decision":"allow","arguments":{"region":"us","n":7}}`)
	})
	for _, c := range h.carriers() {
		sent := len(m.calls(""))
		r := c.do(&query{
			Params: tool("region", `{"region":"eu","n":1}`),
			Header: map[string]string{"Mcp-Param-Region": "eu", "Mcp-Param-Count": "1"},
		})
		if !r.served() {
			t.Errorf("%s: %v", c.name, r)
			continue
		}
		got := m.calls("")[sent]
		if got.Header.Get("Mcp-Param-Region") != "us" || got.Header.Get("Mcp-Param-Count") != "7" || got.Arguments != `{"region":"us","n":7}` {
			t.Errorf("%s: the upstream saw %v with the headers %v", c.name, got.Arguments, got.Header)
		}
	}
	// And those of the client are held against what the client sent, before any hook.
	if r := h.do(&query{
		Params: tool("region", `{"region":"eu","n":1}`), Header: map[string]string{"Mcp-Param-Region": "us", "Mcp-Param-Count": "1"},
	}); r.Code != -32020 {
		t.Errorf("a header unlike the message: %v", r)
	}
}

func TestHooksAreAskedInOrderAndEachSeesWhatTheOneBeforeMade(t *testing.T) {
	t.Parallel()
	first, second, m := newJudge(t), newJudge(t), newMill(t, false)
	step := func(j *judge, from, to string) {
		j.decide(func(w http.ResponseWriter, _ *http.Request, q *hookQuestion) {
			if q.Result != nil {
				decide(w, `{"decision":"allow","result":`+strings.ReplaceAll(string(q.Result), from, to)+`}`)
				return
			}
			decide(w, `{"decision":"allow","arguments":`+strings.ReplaceAll(string(q.Arguments), from, to)+`}`)
		})
	}
	step(first, "ok", "one")
	step(second, "one", "two")
	h := build(t, over(m, "hooks:\n"+hooking("first", first, "deny", "", "tool.before", "tool.after")+hooking("second", second, "deny", "", "tool.before", "tool.after")))
	var r *reaction
	wait(t, "the call", 30*time.Second, func() bool {
		r = h.do(&query{Params: tool("echo", `{"text":"ok"}`)})
		return r.Code == 0 && r.Err == nil
	})
	if r.Text != "two" || m.calls("")[0].Arguments != `{"text":"two"}` {
		t.Errorf("the upstream saw %s and the client %s", m.calls("")[0].Arguments, r.Text)
	}
	first.decide(func(w http.ResponseWriter, _ *http.Request, _ *hookQuestion) { decide(w, `{"decision":"deny"}`) })
	asked := len(second.questions("tool.before"))
	if r := h.do(&query{Params: echo("denied")}); r.Code != hookRefused || len(second.questions("tool.before")) != asked || m.arrived("denied") != 0 {
		t.Errorf("denied by the first: %v", r)
	}
}
