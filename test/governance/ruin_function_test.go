package governance_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock"
)

func TestAFunctionOfTheEmbeddingProgramIsAHookAfterThoseOfTheDocument(t *testing.T) {
	t.Parallel()
	j, m := newJudge(t), newMill(t, false)
	var mu sync.Mutex
	var seen []penstock.HookCall
	h := build(t, over(m, "hooks:\n"+hooking("dlp", j, "deny", "", "tool.before")),
		penstock.WithHook(penstock.Hook{
			ID: "own", Events: []penstock.HookEvent{penstock.ToolBefore, penstock.ToolAfter, penstock.PromptBefore, penstock.ResourceBefore}, Timeout: 20 * time.Second,
			Func: func(_ context.Context, c *penstock.HookCall) (v penstock.HookVerdict, err error) {
				mu.Lock()
				seen = append(seen, *c)
				mu.Unlock()
				switch {
				case c.Event == penstock.ResourceBefore:
					v.Deny, v.Message = true, "no files"
				case c.Event == penstock.ToolAfter:
					v.Result = []byte(strings.Replace(string(c.Result), `"ok"`, `"by the function"`, 1))
				case c.Event == penstock.ToolBefore && strings.Contains(string(c.Arguments), "once"):
					v.Arguments = []byte(strings.Replace(string(c.Arguments), "once", "twice", 1))
				}
				return v, nil
			},
		}))
	wait(t, "the upstream", 30*time.Second, func() bool { return h.do(&query{Method: "prompts/get", Params: `"name":"greet"`}).Code == 0 })
	j.decide(decided(`{"decision":"allow","arguments":{"text":"once"}}`))
	for _, c := range h.carriers() {
		sent := len(m.calls(""))
		if r := c.do(&query{Params: echo("first")}); r.Text != "by the function" || m.calls("")[sent].Arguments != `{"text":"twice"}` {
			t.Errorf("%s: %v, and the upstream saw %s", c.name, r, m.calls("")[sent].Arguments)
		}
		if r := c.do(&query{Method: "resources/read", Params: `"uri":"file:///a"`}); r.Code != hookRefused || !strings.Contains(r.Said, "no files") || len(m.calls("")) != sent+1 {
			t.Errorf("%s, a resource: %v", c.name, r)
		}
	}
	// It stays over a reload that takes the document's hook away.
	h.reload(over(m, ""))
	sent := len(m.calls(""))
	if r := h.do(&query{Params: echo("once")}); r.Text != "by the function" || m.calls("")[sent].Arguments != `{"text":"twice"}` {
		t.Errorf("after a reload: %v", r)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, c := range seen {
		if c.Server != "default" || c.Upstream != "up" || c.Name == "" || c.Name != c.Original || c.Principal.Subject == "" {
			t.Errorf("the function was shown %+v", c)
		}
	}
}

func TestAFunctionThatPanicsHangsOrFailsDoesWhatItsOptionsDeclare(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]penstock.HookFunc{
		"panics": func(context.Context, *penstock.HookCall) (penstock.HookVerdict, error) {
			panic("a secret of the function")
		},
		"hangs": func(ctx context.Context, _ *penstock.HookCall) (penstock.HookVerdict, error) {
			<-ctx.Done()
			return penstock.HookVerdict{}, ctx.Err()
		},
		"fails": func(context.Context, *penstock.HookCall) (penstock.HookVerdict, error) {
			return penstock.HookVerdict{}, errors.New("a secret of the function")
		},
		"rubbish": func(context.Context, *penstock.HookCall) (penstock.HookVerdict, error) {
			return penstock.HookVerdict{Arguments: []byte(`{"a":1,"a":2}`)}, nil
		},
	} {
		m := newMill(t, false)
		h := build(t, over(m, ""),
			penstock.WithHook(penstock.Hook{ID: "strict", Func: f, Events: []penstock.HookEvent{penstock.ToolBefore}, Timeout: 50 * time.Millisecond}),
			penstock.WithHook(penstock.Hook{ID: "lax", Func: f, Events: []penstock.HookEvent{penstock.PromptBefore}, Timeout: 50 * time.Millisecond, AllowOnError: true}))
		wait(t, name+": the upstream", 30*time.Second, func() bool { return h.do(&query{Method: "prompts/get", Params: `"name":"greet"`}).Code == 0 })
		for _, c := range h.carriers() {
			if r := c.do(&query{Params: echo("denied")}); r.Code != hookFailed || strings.Contains(r.Body, "a secret") || m.arrived("denied") != 0 {
				t.Errorf("%s, %s: %v", name, c.name, r)
			}
			if r := c.do(&query{Method: "prompts/get", Params: `"name":"greet"`}); r.Code != 0 || r.Result == nil {
				t.Errorf("%s, %s, allowed on error: %v", name, c.name, r)
			}
		}
		if n := h.counts().sum("penstock_hook_duration_seconds_count", `hook="strict"`, `outcome="error_denied"`); n != 4 {
			t.Errorf("%s: four calls were refused, and the counter tells %d", name, n)
		}
		if n := h.counts().sum("penstock_panics_total"); n != 0 {
			t.Errorf("%s: a panic of a hook counts as one of the gateway: %d", name, n)
		}
		h.close()
	}
}
