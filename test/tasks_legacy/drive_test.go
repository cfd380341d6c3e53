package taskslegacy_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/demo"
)

const tasksCaps = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`

func TestACallThatMustBeATaskIsDrivenToItsEnd(t *testing.T) {
	each(t, func(t *testing.T, dial dialer) {
		up := quick(t, demo.Jobs)
		h := serve(t, map[string]string{"jobs": up.url})
		for _, revision := range []string{legacy, "2025-06-18"} {
			c := dial(h, revision, formCaps)
			c.answer = home
			a := c.call(t, "tools/call", `{"name":"jobs__ship_order","arguments":{"item":"teapot"},"_meta":{"progressToken":"p1"}}`)
			if !strings.Contains(a.raw, "Lock Lane") || strings.Contains(a.raw, "resultType") || !strings.Contains(a.raw, `"penstock/upstream":"jobs"`) {
				t.Errorf("%s: %s", revision, a.raw)
			}
			if n := len(c.heard("elicitation/create")); n != 1 {
				t.Errorf("%s: the client was asked %d times", revision, n)
			}
			progress := c.heard("notifications/progress")
			if len(progress) == 0 || !strings.Contains(progress[0].raw, `"progressToken":"p1"`) || !strings.Contains(progress[0].raw, `"message":`) {
				t.Errorf("%s: it was told of progress %d times", revision, len(progress))
			}
		}
		if up.got("tasks/cancel") != 0 || up.got("tasks/update") != 2 {
			t.Errorf("%d tasks/cancel, %d tasks/update", up.got("tasks/cancel"), up.got("tasks/update"))
		}
	})
}

func TestADrivenTaskIsThePrincipals(t *testing.T) {
	up := slow(t, demo.Jobs)
	h := serve(t, map[string]string{"jobs": up.url})
	c, owner := h.http(t, legacy, formCaps), h.http(t, modern, tasksCaps)
	c.begun(t, "tools/call", `{"name":"jobs__ship_order","arguments":{"item":"teapot"}}`)
	until(t, "the task is polled", func() bool { return up.got("tasks/get") > 0 })
	var get struct{ Params struct{ TaskID string } }
	if err := json.Unmarshal([]byte(up.bodies("tasks/get")[0]), &get); err != nil {
		t.Fatal(err)
	}
	if s := owner.status(t, get.Params.TaskID); s != "working" {
		t.Errorf("the task is %s", s)
	}
	// Cancelled by another, it ends the call with an error.
	owner.call(t, "tasks/cancel", fmt.Sprintf(`{"taskId":%q}`, get.Params.TaskID))
	if a := c.await(t, c.n); a.code() != -32603 || !strings.Contains(a.raw, "cancelled") {
		t.Errorf("the call: %s", a.raw)
	}
}

func TestADrivenTaskEndsWithItsCall(t *testing.T) {
	each(t, func(t *testing.T, dial dialer) {
		up := slow(t, demo.Jobs)
		h := serve(t, map[string]string{"jobs": up.url})
		c := dial(h, legacy, formCaps)
		id := c.begun(t, "tools/call", `{"name":"jobs__ship_order","arguments":{"item":"teapot"}}`)
		until(t, "the task is polled", func() bool { return up.got("tasks/get") > 0 })
		c.say(t, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, id))
		until(t, "the task is cancelled", func() bool { return up.got("tasks/cancel") == 1 })
	})
}

func TestADrivenTaskThatTakesTooLongIsCancelled(t *testing.T) {
	up := slow(t, demo.Jobs)
	h := serve(t, map[string]string{"jobs": up.url}, "limits: {call_timeout: 1s}")
	c := h.http(t, legacy, formCaps)
	a := c.call(t, "tools/call", `{"name":"jobs__ship_order","arguments":{"item":"teapot"}}`)
	if a.code() != -31002 || up.got("tasks/cancel") != 1 {
		t.Errorf("%d tasks/cancel, and %s", up.got("tasks/cancel"), a.raw)
	}
}

func TestADrivenTaskThatAsksWhoCannotAnswerIsCancelled(t *testing.T) {
	up := quick(t, demo.Jobs)
	h := serve(t, map[string]string{"jobs": up.url})
	c := h.http(t, legacy, formCaps)
	c.answer = func(string, json.RawMessage) string { return `{"action":"decline"}` }
	if a := c.call(t, "tools/call", `{"name":"jobs__ship_order","arguments":{"item":"teapot"}}`); !strings.Contains(a.raw, "nothing was shipped") {
		t.Errorf("who declines: %s", a.raw)
	}
	// Without the ability the upstream says so before it makes a task.
	c = h.http(t, legacy, "")
	made := up.got("tasks/get")
	if a := c.call(t, "tools/call", `{"name":"jobs__ship_order","arguments":{"item":"teapot"}}`); !strings.Contains(a.raw, `"isError":true`) || up.got("tasks/get") != made {
		t.Errorf("who cannot be asked: %s", a.raw)
	}
}

func TestADrivenTaskThatFailsEndsTheCallWithItsError(t *testing.T) {
	for how, want := range map[string]string{"crash": `"error":{"code":-32603,"message":"the machine lost its power"`, "error": `"isError":true`} {
		var ahead atomic.Int64
		now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		up := open(t, demo.Jobs, demo.JobOptions{Pace: time.Minute, Poll: 50 * time.Millisecond, Now: now})
		h := serve(t, map[string]string{"jobs": up.url})
		c := h.http(t, legacy, "")
		id := c.begun(t, "tools/call", `{"name":"jobs__flaky_job","arguments":{"how":"`+how+`"}}`)
		until(t, "the task is polled", func() bool { return up.got("tasks/get") > 0 })
		ahead.Store(int64(10 * time.Minute))
		if a := c.await(t, id); !strings.Contains(a.raw, want) {
			t.Errorf("%s: %s", how, a.raw)
		}
	}
}

func TestNothingIsDrivenForWhoCanHaveTasks(t *testing.T) {
	up := quick(t, demo.Jobs)
	params := `{"name":"jobs__ship_order","arguments":{"item":"teapot"}}`
	for drive, driven := range map[string]map[string]bool{
		"off":    {legacy: false, modern: false},
		"legacy": {legacy: true, modern: false},
		"on":     {legacy: true, modern: true},
	} {
		h := serve(t, map[string]string{"jobs": up.url}, "tasks: {drive: "+drive+"}")
		for revision, want := range driven {
			c := h.http(t, revision, formCaps)
			c.answer = home
			before := up.got("tasks/get")
			a := c.call(t, "tools/call", params)
			if got := up.got("tasks/get") > before; got != want {
				t.Errorf("drive: %s, %s: driven: %v: %s", drive, revision, got, a.raw)
			}
			switch {
			case revision == modern && !want && a.code() != -32021,
				revision == modern && want && a.code() != -32021, // it asks within the task
				revision == legacy && want && !strings.Contains(a.raw, "Lock Lane"),
				revision == legacy && !want && !strings.Contains(a.raw, `"isError":true`):
				t.Errorf("drive: %s, %s: %s", drive, revision, a.raw)
			}
		}
		c := h.http(t, modern, `{"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`)
		before := up.got("tasks/get")
		if a := c.call(t, "tools/call", params); !strings.Contains(a.raw, `"resultType":"task"`) || up.got("tasks/get") != before {
			t.Errorf("drive: %s, with the extension: %s", drive, a.raw)
		}
	}
}
