package taskslegacy_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/penstock-mcp/penstock/internal/demo"
)

type dialer = func(h *house, revision, caps string) *client

const formCaps = `{"elicitation":{"form":{}}}`

// home answers where an order goes.
func home(string, json.RawMessage) string {
	return `{"action":"accept","content":{"street":"1 Lock Lane","city":"Weir"}}`
}

func TestATaskOfItsOwnDialectIsMadePolledAndFetched(t *testing.T) {
	each(t, func(t *testing.T, dial dialer) {
		up := quick(t, demo.LegacyJobs)
		h := serve(t, map[string]string{"jobs": up.url})
		c := dial(h, legacy, "")
		id := c.made(t, `{"name":"jobs__bake_cake","arguments":{"flavor":"lemon"},"task":{"ttl":60000}}`)
		if s := c.status(t, id); s != "working" && s != "completed" {
			t.Errorf("the task is %s", s)
		}
		a := c.call(t, "tasks/result", fmt.Sprintf(`{"taskId":%q}`, id))
		if !strings.Contains(a.raw, `"lemon cake"`) && !strings.Contains(a.raw, `lemon cake`) {
			t.Errorf("tasks/result: %s", a.raw)
		}
		if !strings.Contains(a.raw, `"io.modelcontextprotocol/related-task":{"taskId":"`+id+`"}`) || !strings.Contains(a.raw, `"penstock/upstream":"jobs"`) {
			t.Errorf("the result names neither its task nor its origin: %s", a.raw)
		}
		if s := c.status(t, id); s != "completed" {
			t.Errorf("the task is %s", s)
		}
		a = c.call(t, "tasks/cancel", fmt.Sprintf(`{"taskId":%q}`, id))
		if a.code() != -32602 {
			t.Errorf("a task that has ended is cancelled: %s", a.raw)
		}
	})
}

func TestATaskAsksItsClientWhileItsResultIsAwaited(t *testing.T) {
	each(t, func(t *testing.T, dial dialer) {
		up := quick(t, demo.LegacyJobs)
		h := serve(t, map[string]string{"jobs": up.url})
		c := dial(h, legacy, formCaps)
		c.answer = home
		id := c.made(t, `{"name":"jobs__ship_order","arguments":{"item":"teapot"},"task":{}}`)
		a := c.call(t, "tasks/result", fmt.Sprintf(`{"taskId":%q}`, id))
		if !strings.Contains(a.raw, "Lock Lane") {
			t.Errorf("tasks/result: %s", a.raw)
		}
		questions := c.heard("elicitation/create")
		if len(questions) != 1 || !strings.Contains(questions[0].raw, `"io.modelcontextprotocol/related-task":{"taskId":"`+id+`"}`) {
			t.Errorf("the client was asked %d times: %v", len(questions), questions)
		}
	})
}

func TestATaskIsCancelledAtItsOwner(t *testing.T) {
	up := slow(t, demo.LegacyJobs)
	h := serve(t, map[string]string{"jobs": up.url})
	c := h.http(t, legacy, "")
	id := c.made(t, `{"name":"jobs__bake_cake","arguments":{"flavor":"lemon"},"task":{}}`)
	result := c.begun(t, "tasks/result", fmt.Sprintf(`{"taskId":%q}`, id))
	until(t, "tasks/result arrives", func() bool { return up.got("tasks/result") == 1 })
	a := c.call(t, "tasks/cancel", fmt.Sprintf(`{"taskId":%q}`, id))
	if !strings.Contains(a.raw, `"cancelled"`) {
		t.Errorf("tasks/cancel: %s", a.raw)
	}
	_ = result // its answer may have come before that of the cancel
	if s := c.status(t, id); s != "cancelled" {
		t.Errorf("the task is %s", s)
	}
}

func TestTasksAreOfferedToTheRevisionThatHasThem(t *testing.T) {
	own, ext := quick(t, demo.LegacyJobs), quick(t, demo.Jobs)
	h := serve(t, map[string]string{"own": own.url, "ext": ext.url})
	for revision, want := range map[string]bool{legacy: true, "2025-06-18": false, "2025-03-26": false, modern: false} {
		c := h.http(t, revision, "")
		list := c.call(t, "tools/list", "{}")
		if got := strings.Contains(list.raw, `"execution"`); got != want {
			t.Errorf("%s: execution in the list: %v", revision, got)
		}
		var r struct {
			Tools []struct {
				Name      string
				Execution *struct{ TaskSupport string }
			}
		}
		if err := json.Unmarshal(list.Result, &r); err != nil || len(r.Tools) == 0 {
			t.Fatalf("%v: %s", err, list.raw)
		}
		for _, tool := range r.Tools {
			if strings.HasPrefix(tool.Name, "ext__") && tool.Execution != nil {
				t.Errorf("%s: the tool %s of an upstream without such tasks has an execution", revision, tool.Name)
			}
			if want && tool.Name == "own__ship_order" && (tool.Execution == nil || tool.Execution.TaskSupport != "required") {
				t.Errorf("%s: own__ship_order has %v", revision, tool.Execution)
			}
		}
		if revision == modern {
			continue
		}
		if got := strings.Contains(c.server.raw, `"tasks":{"cancel":{},"list":{},"requests":{"tools":{"call":{}}}}`); got != want {
			t.Errorf("%s: tasks are declared: %v: %s", revision, got, c.server.raw)
		}
	}
}

func TestNoTasksAreServedWhereNoneAreMade(t *testing.T) {
	h := serve(t, map[string]string{"ext": quick(t, demo.Jobs).url})
	c := h.http(t, legacy, "")
	for _, method := range []string{"tasks/get", "tasks/result", "tasks/cancel", "tasks/list", "tasks/update"} {
		if a := c.call(t, method, `{"taskId":"x"}`); a.code() != -32601 || a.status != 200 {
			t.Errorf("%s: HTTP %d %s", method, a.status, a.raw)
		}
	}
	h = serve(t, map[string]string{"own": quick(t, demo.LegacyJobs).url})
	old, new := h.http(t, "2025-06-18", ""), h.http(t, modern, `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`)
	for _, method := range []string{"tasks/get", "tasks/result", "tasks/cancel", "tasks/list"} {
		if a := old.call(t, method, `{"taskId":"x"}`); a.code() != -32601 {
			t.Errorf("2025-06-18: %s: %s", method, a.raw)
		}
	}
	for _, method := range []string{"tasks/result", "tasks/list"} {
		if a := new.call(t, method, `{"taskId":"x"}`); a.code() != -32601 || a.status != 404 {
			t.Errorf("2026-07-28: %s: HTTP %d %s", method, a.status, a.raw)
		}
	}
}

func TestAnUnknownTaskIsNotFound(t *testing.T) {
	up := quick(t, demo.LegacyJobs)
	h := serve(t, map[string]string{"jobs": up.url})
	c := h.http(t, legacy, "")
	for _, method := range []string{"tasks/get", "tasks/result", "tasks/cancel"} {
		a := c.call(t, method, `{"taskId":"nobody's"}`)
		if a.code() != -32002 || a.status != 200 || a.Error.Message != "Task not found" {
			t.Errorf("%s: HTTP %d %s", method, a.status, a.raw)
		}
	}
	if up.got("tasks/cancel")+up.got("tasks/result") != 0 {
		t.Error("an upstream was asked for more than a look")
	}
}

func TestATaskIsAskedForOnlyWhereTheToolAllowsIt(t *testing.T) {
	up := quick(t, demo.LegacyJobs)
	h := serve(t, map[string]string{"jobs": up.url, "ext": quick(t, demo.Jobs).url})
	c := h.http(t, legacy, "")
	c.call(t, "tools/list", "{}")
	if a := c.call(t, "tools/call", `{"name":"jobs__list_jobs","arguments":{},"task":{}}`); a.code() != -32601 || up.got("tools/call") != 0 {
		t.Errorf("a tool that forbids it: %s", a.raw)
	}
	if a := c.call(t, "tools/call", `{"name":"jobs__ship_order","arguments":{"item":"x"}}`); a.code() != -32601 {
		t.Errorf("a tool that requires it: %s", a.raw)
	}
	if a := c.call(t, "tools/call", `{"name":"ext__list_jobs","arguments":{},"task":{}}`); a.Result == nil {
		t.Errorf("an upstream that knows nothing of it: %s", a.raw)
	}
	old := h.http(t, "2025-06-18", "")
	if a := old.call(t, "tools/call", `{"name":"jobs__bake_cake","arguments":{"flavor":"plum"},"task":{}}`); a.Result == nil || strings.Contains(a.raw, "taskId") {
		t.Errorf("a client without tasks: %s", a.raw)
	}
}

func TestTasksAreListedFromWhatTheGatewayRemembers_28(t *testing.T) {
	up, other := slow(t, demo.LegacyJobs), slow(t, demo.LegacyJobs)
	h := serve(t, map[string]string{"jobs": up.url, "more": other.url}, "limits: {list_timeout: 2s}")
	c := h.http(t, legacy, "")
	made := map[string]bool{}
	for i := range 60 {
		key := []string{"jobs", "more"}[i%2]
		made[c.made(t, `{"name":"`+key+`__bake_cake","arguments":{"flavor":"lemon"},"task":{}}`)] = true
	}
	pages, cursor := 0, ""
	for {
		params := "{}"
		if cursor != "" {
			params = fmt.Sprintf(`{"cursor":%q}`, cursor)
		}
		a := c.call(t, "tasks/list", params)
		var r struct {
			Tasks      []struct{ TaskID, Status, CreatedAt string }
			NextCursor string
		}
		if a.Result == nil || json.Unmarshal(a.Result, &r) != nil {
			t.Fatalf("tasks/list: %s", a.raw)
		}
		for _, task := range r.Tasks {
			if !made[task.TaskID] || task.Status != "working" || task.CreatedAt == "" {
				t.Errorf("listed %+v", task)
			}
			delete(made, task.TaskID)
		}
		if pages++; r.NextCursor == "" {
			break
		}
		cursor = r.NextCursor
	}
	if pages != 2 || len(made) != 0 {
		t.Errorf("%d pages, and %d tasks are not listed", pages, len(made))
	}
	if up.got("tasks/list")+other.got("tasks/list") != 0 {
		t.Error("an upstream was asked for its list")
	}
	if a := c.call(t, "tasks/list", fmt.Sprintf(`{"cursor":%q}`, cursor[:len(cursor)-2]+"AA")); a.code() != -32602 {
		t.Errorf("another cursor: %s", a.raw)
	}
	other.Close()
	a := c.call(t, "tasks/list", "{}")
	if !strings.Contains(a.raw, `"penstock/partial":[{"upstream":"more","reason":`) || strings.Count(a.raw, `"taskId"`) != 25 {
		t.Errorf("with an owner that is down: %s", a.raw)
	}
}
