package taskslegacy_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/config"
	"github.com/penstock-mcp/penstock/internal/demo"
)

const (
	everythingAllowed = "policy: [{id: all, allow: {tools: ['*']}}]"
	noCakes           = "policy: [{id: all, allow: {tools: ['*']}}, {id: none, deny: {tools: ['*__bake_cake', '*__ship_order']}}]"
)

// reload serves the same upstreams under another policy.
func (h *house) reload(t *testing.T, upstreams map[string]string, policy string) {
	t.Helper()
	text := policy + "\nupstreams:\n"
	for key, url := range upstreams {
		text += fmt.Sprintf("  %s: {url: '%s'}\n", key, url)
	}
	doc, err := config.Parse("test.yaml", []byte(text), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := h.gw.Reload(ctx, doc); err != nil {
		t.Fatal(err)
	}
}

func TestARevokedGrantEndsWhatIsLeftOfItsTasks(t *testing.T) {
	own, ext := slow(t, demo.LegacyJobs), slow(t, demo.Jobs)
	upstreams := map[string]string{"own": own.url, "ext": ext.url}
	h := serve(t, upstreams, everythingAllowed)
	c := h.http(t, legacy, formCaps)
	id := c.made(t, `{"name":"own__bake_cake","arguments":{"flavor":"lemon"},"task":{}}`)
	driven := c.begun(t, "tools/call", `{"name":"ext__ship_order","arguments":{"item":"teapot"}}`)
	until(t, "the driven task is polled", func() bool { return ext.got("tasks/get") > 0 })
	h.reload(t, upstreams, noCakes)
	if a := c.await(t, driven); a.code() != -31004 || ext.got("tasks/cancel") != 1 {
		t.Errorf("the driven call, %d tasks/cancel: %s", ext.got("tasks/cancel"), a.raw)
	}
	polls := own.got("tasks/get")
	for _, method := range []string{"tasks/get", "tasks/result", "tasks/cancel"} {
		if a := c.call(t, method, fmt.Sprintf(`{"taskId":%q}`, id)); a.code() != -32002 {
			t.Errorf("%s: %s", method, a.raw)
		}
	}
	if a := c.call(t, "tasks/list", "{}"); string(a.Result) != `{"tasks":[]}` {
		t.Errorf("tasks/list: %s", a.raw)
	}
	if own.got("tasks/get") != polls || own.got("tasks/cancel") != 0 {
		t.Error("the upstream was asked about a task that is out of reach")
	}
	h.reload(t, upstreams, everythingAllowed)
	if s := c.status(t, id); s != "working" {
		t.Errorf("allowed again, the task is %s", s)
	}
}

func TestTasksAreNotOfferedToWhoMayReachNoneOfTheirMakers(t *testing.T) {
	h := serve(t, map[string]string{"own": quick(t, demo.LegacyJobs).url, "ext": quick(t, demo.Jobs).url},
		"policy: [{id: some, upstream: ext, allow: {tools: ['*']}}]")
	c := h.http(t, legacy, "")
	if a := c.call(t, "tasks/list", "{}"); a.code() != -32601 {
		t.Errorf("tasks/list: %s", a.raw)
	}
}
