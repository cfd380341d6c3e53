package tasks_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock"
)

// censor is a hook in Go that sees every result of a tool.
type censor struct {
	mu      sync.Mutex // guards what follows
	seen    []penstock.HookCall
	decides func(c *penstock.HookCall) (penstock.HookVerdict, error)
}

func (c *censor) option(events ...penstock.HookEvent) penstock.Option {
	return penstock.WithHook(penstock.Hook{ID: "dlp", Events: events, Timeout: 20 * time.Second, Func: func(_ context.Context, call *penstock.HookCall) (penstock.HookVerdict, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		kept := *call
		kept.Result = append([]byte(nil), call.Result...)
		c.seen = append(c.seen, kept)
		if c.decides == nil {
			return penstock.HookVerdict{}, nil
		}
		return c.decides(call)
	}})
}

func (c *censor) decide(f func(c *penstock.HookCall) (penstock.HookVerdict, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.decides = f
}

// sees returns what the hook was asked since it was last asked so.
func (c *censor) sees() []penstock.HookCall {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.seen
	c.seen = nil
	return out
}

func denies(*penstock.HookCall) (penstock.HookVerdict, error) {
	return penstock.HookVerdict{Deny: true, Message: "not yours to see"}, nil
}

func TestAHookThatRefusesAMintWithholdsTheTask_12(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, "up")
	var c censor
	g := serve(t, over(u), c.option(penstock.ToolAfter))
	ann := g.as("ann")
	kept := ann.mint(t, "up__work")
	if seen := c.sees(); len(seen) != 1 || text(string(seen[0].Result), "taskId") != kept || seen[0].Name != "up__work" || seen[0].Original != "work" || seen[0].Upstream != "up" || seen[0].Principal.Subject != "ann" {
		t.Errorf("the hook was shown %+v", seen)
	}
	for name, decide := range map[string]func(*penstock.HookCall) (penstock.HookVerdict, error){
		"denies": denies,
		"makes another task of it": func(call *penstock.HookCall) (penstock.HookVerdict, error) {
			return penstock.HookVerdict{Result: []byte(strings.Replace(string(call.Result), "up-task", "of-the-hook", 1))}, nil
		},
		"makes no task of it": func(*penstock.HookCall) (penstock.HookVerdict, error) {
			return penstock.HookVerdict{Result: []byte(`{"resultType":"complete","content":[]}`)}, nil
		},
	} {
		c.decide(decide)
		r := ann.call("up__work")
		id := u.latest()
		if r.Code != hookRefused && r.Code != hookFailed || strings.Contains(r.Body, "task-") || !strings.Contains(r.Said, "ran") {
			t.Errorf("%s: %v", name, r)
		}
		if n := len(u.got("tasks/cancel", id)); n != 1 {
			t.Errorf("%s: it was cancelled %d times", name, n)
		}
		heard := u.heard()
		c.decide(nil)
		for _, who := range []string{"ann", "bob"} {
			g.as(who).lacks(t, id)
			g.as(who).lacks(t, "of-the-hook"+strings.TrimPrefix(id, "up-task"))
		}
		if u.heard() != heard {
			t.Errorf("%s: the upstream was asked for what is withheld", name)
		}
	}
	ann.owns(t, kept)
	if n := g.count("penstock_tasks_total", `event="withheld"`); n != 3 {
		t.Errorf("three mints were withheld, and the counter tells %d", n)
	}
}

func TestAHookSeesWhatATaskBroughtAndMayRefuseIt_12(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, "up")
	var c censor
	g := serve(t, over(u), c.option(penstock.ToolAfter))
	ann := g.as("ann")
	id := ann.mint(t, "up__work")
	ann.owns(t, id) // without a result
	if n := len(c.sees()); n != 1 {
		t.Errorf("a task under way was shown to the hook: %d", n-1)
	}
	for name, result := range map[string]string{
		"complete":         `{"resultType":"complete","content":[{"type":"text","text":"the secret"}]}`,
		"without a type":   `{"content":[{"type":"text","text":"the secret"}]}`,
		"an isError":       `{"content":[{"type":"text","text":"the secret"}],"isError":true}`,
		"of another type":  `{"resultType":"input_required","content":[{"type":"text","text":"the secret"}]}`,
		"a task":           `{"resultType":"task","taskId":"x","content":[{"type":"text","text":"the secret"}]}`,
		"of no known type": `{"resultType":"odd","content":[{"type":"text","text":"the secret"}]}`,
		"of a typed type":  `{"resultType":5,"content":[{"type":"text","text":"the secret"}]}`,
		"a text":           `"the secret"`,
		"a list":           `["the secret"]`,
	} {
		u.set(id, `"status":"completed","result":`+result)
		c.decide(denies)
		for range 2 { // again and again
			c.sees()
			r := ann.get(id)
			if r.Code == 0 || strings.Contains(r.Body, "the secret") {
				t.Errorf("%s: the result leaves in spite of the hook: %v", name, r)
			}
			seen := c.sees()
			if strings.HasPrefix(result, "{") && (len(seen) != 1 || !strings.Contains(string(seen[0].Result), "the secret") || seen[0].Name != "up__work") {
				t.Errorf("%s: the hook was shown %+v", name, seen)
			}
		}
	}
	u.set(id, `"status":"completed","result":{"content":[{"type":"text","text":"the secret"}]}`)
	c.decide(func(call *penstock.HookCall) (penstock.HookVerdict, error) {
		return penstock.HookVerdict{Result: []byte(strings.Replace(string(call.Result), "the secret", "***", 1))}, nil
	})
	if r := ann.get(id); text(r.Result, "result", "content", 0, "text") != "***" || text(r.Result, "status") != "completed" || r.id() != id || strings.Contains(r.Body, "secret") {
		t.Errorf("rewritten: %v", r)
	}
}
