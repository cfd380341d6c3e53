package taskslegacy_test

import (
	"context"
	"strings"
	"testing"

	"github.com/penstock-mcp/penstock"
	"github.com/penstock-mcp/penstock/internal/demo"
)

// hooked is a gateway whose one hook sees results.
func hooked(t *testing.T, upstreams map[string]string, f func(c *penstock.HookCall) penstock.HookVerdict) *house {
	t.Helper()
	return serveWith(t, upstreams, []penstock.Option{penstock.WithHook(penstock.Hook{
		ID: "own", Events: []penstock.HookEvent{penstock.ToolAfter},
		Func: func(_ context.Context, c *penstock.HookCall) (penstock.HookVerdict, error) { return f(c), nil },
	})})
}

func TestATaskThatAHookWithholdsIsCancelledAndUnknown(t *testing.T) {
	up := odd(t, func(method, _ string) ([]string, string) {
		return nil, `"result":{"task":` + working("secret") + `}`
	})
	h := hooked(t, map[string]string{"odd": up.url}, func(*penstock.HookCall) penstock.HookVerdict {
		return penstock.HookVerdict{Deny: true}
	})
	c := h.http(t, legacy, "")
	if a := c.call(t, "tools/call", work); a.code() != -31017 || strings.Contains(a.raw, "secret") || up.times("tasks/cancel") != 1 {
		t.Errorf("%d tasks/cancel: %s", up.times("tasks/cancel"), a.raw)
	}
	if a := c.call(t, "tasks/get", `{"taskId":"secret"}`); a.code() != -32002 {
		t.Errorf("tasks/get: %s", a.raw)
	}
}

func TestHooksSeeTheResultOfATaskAsThatOfItsTool(t *testing.T) {
	seen := make(chan penstock.HookCall, 10)
	see := func(c *penstock.HookCall) (v penstock.HookVerdict) {
		seen <- *c
		if !strings.Contains(string(c.Result), `"task":{`) {
			v.Result = []byte(`{"content":[{"type":"text","text":"redacted"}]}`)
		}
		return v
	}
	up := odd(t, func(method, _ string) ([]string, string) {
		if method == "tools/call" {
			return nil, `"result":{"task":` + working("t1") + `}`
		}
		return nil, `"result":{"content":[{"type":"text","text":"plain"}],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t1"}}}`
	})
	ext := quick(t, demo.Jobs)
	h := hooked(t, map[string]string{"odd": up.url, "ext": ext.url}, see)
	c := h.http(t, legacy, formCaps)
	c.answer = home
	c.made(t, work)
	a := c.call(t, "tasks/result", `{"taskId":"t1"}`)
	if !strings.Contains(a.raw, "redacted") || strings.Contains(a.raw, "plain") || !strings.Contains(a.raw, `related-task":{"taskId":"t1"}`) {
		t.Errorf("tasks/result: %s", a.raw)
	}
	if a := c.call(t, "tools/call", `{"name":"ext__ship_order","arguments":{"item":"teapot"}}`); !strings.Contains(a.raw, "redacted") || strings.Contains(a.raw, "Lock Lane") {
		t.Errorf("a driven call: %s", a.raw)
	}
	for _, want := range []string{"odd__work", "odd__work", "ext__ship_order"} {
		if got := <-seen; got.Name != want {
			t.Errorf("the hook saw %s, want %s", got.Name, want)
		}
	}
}
