package taskslegacy_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock"
	"github.com/penstock-mcp/penstock/internal/demo"
)

const (
	cake  = `{"name":"jobs__bake_cake","arguments":{"flavor":"lemon"}}`
	order = `{"name":"jobs__ship_order","arguments":{"item":"teapot"}}`
)

// answers are the responses to questions that arrived.
func (s *shop) answers() []string { return s.bodies("") }

func TestAModernClientHasTheTasksOfALegacyUpstream(t *testing.T) {
	each(t, func(t *testing.T, dial dialer) {
		up := quick(t, demo.LegacyJobs)
		h := serve(t, map[string]string{"jobs": up.url})
		c := dial(h, modern, bridgeCaps)
		if a := c.call(t, "server/discover", "{}"); !strings.Contains(a.raw, `"extensions":{"io.modelcontextprotocol/tasks":{}}`) || strings.Contains(a.raw, `"tasks":{"cancel"`) {
			t.Errorf("server/discover: %s", a.raw)
		}
		id := c.made(t, order)
		if got := up.bodies("tools/call"); len(got) != 1 || !strings.Contains(got[0], `"task":{}`) || strings.Contains(got[0], "clientCapabilities") {
			t.Errorf("the upstream got %s", got)
		}
		asked := c.becomes(t, id, "input_required")
		// The same questions have the same keys, however often they are looked at.
		if again := c.detail(t, id); fmt.Sprint(keysOf(again)) != fmt.Sprint(keysOf(asked)) || len(keysOf(asked)) != 1 {
			t.Errorf("asked under %v, then under %v", keysOf(asked), keysOf(again))
		}
		if a := c.reply(t, &asked, home("", nil)); a.Error != nil {
			t.Errorf("tasks/update: %s", a.raw)
		}
		done := c.becomes(t, id, "completed")
		if !strings.Contains(string(done.Result), "Lock Lane") {
			t.Errorf("the result: %s", done.Result)
		}
		for _, late := range []string{home("", nil), `{"action":"cancel"}`} {
			if a := c.reply(t, &asked, late); a.Error != nil {
				t.Errorf("a late tasks/update: %s", a.raw)
			}
		}
		got := up.answers()
		if len(got) != 1 || !strings.Contains(got[0], `"io.modelcontextprotocol/related-task":{"taskId":"`+id+`"}`) {
			t.Errorf("the upstream was answered %d times: %s", len(got), got)
		}
	})
}

func keysOf(d detailed) (keys []string) {
	for k := range d.InputRequests {
		keys = append(keys, k)
	}
	return keys
}

func TestAnAnswerIsHandedInOnce(t *testing.T) {
	up := quick(t, demo.LegacyJobs)
	h := serve(t, map[string]string{"jobs": up.url})
	c := h.http(t, modern, bridgeCaps)
	id := c.made(t, order)
	asked := c.becomes(t, id, "input_required")
	if a := c.reply(t, &asked, `{"what":"ever"}`); a.code() != -32602 || len(up.answers()) != 0 {
		t.Errorf("what is no answer: %s", a.raw)
	}
	if a := c.call(t, "tasks/update", fmt.Sprintf(`{"taskId":%q}`, id)); a.code() != -32602 {
		t.Errorf("without answers: %s", a.raw)
	}
	if a := c.call(t, "tasks/update", fmt.Sprintf(`{"taskId":%q,"inputResponses":{"other":{"action":"accept"}}}`, id)); a.Error != nil {
		t.Errorf("under a key that nobody gave: %s", a.raw)
	}
	update := fmt.Sprintf(`{"taskId":%q,"inputResponses":{%q:%s}}`, id, keysOf(asked)[0], home("", nil))
	var sent []int
	for range 8 {
		sent = append(sent, c.begun(t, "tasks/update", update))
	}
	seen := map[string]*message{}
	for len(seen) < len(sent) {
		m := <-c.came
		seen[string(m.ID)] = m
		if m.Error != nil {
			t.Errorf("tasks/update: %s", m.raw)
		}
	}
	c.becomes(t, id, "completed")
	if got := up.answers(); len(got) != 1 {
		t.Errorf("the upstream was answered %d times", len(got))
	}
}

func TestWhatBecomesOfACallIsForTheToolAndTheClientToSay(t *testing.T) {
	up := quick(t, demo.LegacyJobs)
	h := serve(t, map[string]string{"jobs": up.url}, "tasks: {ttl: 90s}")
	c, plain := h.http(t, modern, bridgeCaps), h.http(t, modern, formCaps)
	if a := plain.call(t, "tools/call", order); a.code() != -32021 || !strings.Contains(a.raw, `"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`) || up.got("tools/call") != 0 {
		t.Errorf("required, and not declared: %s", a.raw)
	}
	if a := plain.call(t, "tools/call", cake); !strings.Contains(a.raw, "lemon cake") {
		t.Errorf("optional, and not declared: %s", a.raw)
	}
	if a := c.call(t, "tools/call", `{"name":"jobs__list_jobs","arguments":{},"task":{}}`); a.Error != nil || strings.Contains(a.raw, "taskId") {
		t.Errorf("forbidden: %s", a.raw)
	}
	c.made(t, cake)
	// The client has no say in it.
	c.made(t, `{"name":"jobs__bake_cake","arguments":{"flavor":"lemon"} , "task": {"ttl":5} }`)
	bodies := up.bodies("tools/call")
	if got := bodies[len(bodies)-1]; !strings.Contains(got, `"task":{"ttl":90000}`) || strings.Contains(got, `"ttl":5}`) {
		t.Errorf("the upstream got %s", got)
	}
	h = serve(t, map[string]string{"jobs": up.url}, "tasks: {optional: call}")
	c = h.http(t, modern, bridgeCaps)
	if a := c.call(t, "tools/call", cake); !strings.Contains(a.raw, "lemon cake") || strings.Contains(a.raw, "taskId") {
		t.Errorf("optional, and the document wants calls: %s", a.raw)
	}
	c.made(t, order)
}

func TestACallThatMustBeATaskIsDrivenForAModernClientThatHasNone(t *testing.T) {
	up := open(t, demo.LegacyJobs, demo.JobOptions{Pace: 60 * time.Millisecond, Poll: 50 * time.Millisecond, Conformance: true})
	h := serve(t, map[string]string{"jobs": up.url}, "tasks: {drive: on}")
	for _, caps := range []string{"{}", formCaps} {
		c := h.http(t, modern, caps)
		a := c.call(t, "tools/call", `{"name":"jobs__failing_job","arguments":{}}`)
		if !strings.Contains(a.raw, `"isError":true`) || !strings.Contains(a.raw, `"resultType":"complete"`) || strings.Contains(a.raw, "taskId") {
			t.Errorf("%s: %s", caps, a.raw)
		}
		// The upstream knows that nobody can be asked within it, and asks nobody.
		if a := c.call(t, "tools/call", order); !strings.Contains(a.raw, "this client cannot be asked") {
			t.Errorf("%s: %s", caps, a.raw)
		}
		if a := c.call(t, "tools/call", cake); !strings.Contains(a.raw, "lemon cake") {
			t.Errorf("%s: one that need not be a task: %s", caps, a.raw)
		}
	}
	if n := up.got("tasks/cancel"); n != 0 {
		t.Errorf("%d tasks/cancel", n)
	}
	late := open(t, demo.LegacyJobs, demo.JobOptions{Pace: time.Minute, Poll: 50 * time.Millisecond, Conformance: true})
	h = serve(t, map[string]string{"jobs": late.url}, "tasks: {drive: on}\nlimits: {call_timeout: 1s}")
	c := h.http(t, modern, "{}")
	if a := c.call(t, "tools/call", `{"name":"jobs__failing_job","arguments":{}}`); a.code() != -31002 || late.got("tasks/cancel") != 1 {
		t.Errorf("one that takes too long, %d tasks/cancel: %s", late.got("tasks/cancel"), a.raw)
	}
}

func TestOnlyErrorsOfTheProtocolFailATaskOfTheExtension(t *testing.T) {
	h := serve(t, map[string]string{"jobs": quick(t, demo.LegacyJobs).url})
	c := h.http(t, modern, bridgeCaps)
	crash := c.made(t, `{"name":"jobs__flaky_job","arguments":{"how":"crash"}}`)
	if d := c.becomes(t, crash, "failed"); d.Error == nil || d.Error.Code != -32603 || d.Error.Message != "the machine lost its power" || d.Result != nil {
		t.Errorf("an error: %+v", d)
	}
	wrong := c.made(t, `{"name":"jobs__flaky_job","arguments":{"how":"error"}}`)
	if d := c.becomes(t, wrong, "completed"); !strings.Contains(string(d.Result), `"isError":true`) {
		t.Errorf("a tool that failed: %+v", d)
	}
}

func TestACancelIsAcknowledgedWhateverTheTaskIs(t *testing.T) {
	up := slow(t, demo.LegacyJobs)
	h := serve(t, map[string]string{"jobs": up.url})
	c := h.http(t, modern, bridgeCaps)
	id := c.made(t, cake)
	for range 2 {
		a := c.call(t, "tasks/cancel", fmt.Sprintf(`{"taskId":%q}`, id))
		if a.Error != nil || !strings.Contains(a.raw, `"resultType":"complete"`) || strings.Contains(a.raw, "status") {
			t.Errorf("tasks/cancel: %s", a.raw)
		}
	}
	if d := c.detail(t, id); d.Status != "cancelled" || d.Result != nil || d.Error != nil {
		t.Errorf("the task: %+v", d)
	}
	for _, method := range []string{"tasks/get", "tasks/cancel", "tasks/update"} {
		if a := c.call(t, method, `{"taskId":"nobody's","inputResponses":{}}`); a.code() != -32602 {
			t.Errorf("%s of an unknown task: %s", method, a.raw)
		}
	}
}

func TestAListenerIsToldOfTheTasksOfALegacyUpstream(t *testing.T) {
	up := quick(t, demo.LegacyJobs)
	h := serve(t, map[string]string{"jobs": up.url})
	c, ear := h.http(t, modern, bridgeCaps), h.http(t, modern, bridgeCaps)
	id := c.made(t, order)
	ear.begun(t, "subscriptions/listen", fmt.Sprintf(`{"notifications":{"taskIds":[%q,"nobody's"]}}`, id))
	told := func(status string) (d detailed) {
		for m := range ear.came {
			switch m.Method {
			case "notifications/subscriptions/acknowledged":
				if !strings.Contains(m.raw, fmt.Sprintf(`"taskIds":[%q]`, id)) {
					t.Errorf("acknowledged: %s", m.raw)
				}
			case "notifications/tasks":
				if err := json.Unmarshal(m.Params, &d); err != nil || d.TaskID != id || d.ResultType != "" {
					t.Errorf("told: %s", m.raw)
				}
				if d.Status == status {
					return d
				}
				d = detailed{}
			default:
				t.Errorf("the listener got %s", m.raw)
			}
		}
		return d
	}
	asked := told("input_required")
	if len(asked.InputRequests) != 1 {
		t.Fatalf("told: %+v", asked)
	}
	c.reply(t, &asked, home("", nil))
	if done := told("completed"); !strings.Contains(string(done.Result), "Lock Lane") {
		t.Errorf("told: %+v", done)
	}
}

func TestARevokedGrantEndsWhatAModernClientSeesOfItsTasks(t *testing.T) {
	up := slow(t, demo.LegacyJobs)
	upstreams := map[string]string{"own": up.url}
	h := serve(t, upstreams, everythingAllowed)
	c := h.http(t, modern, bridgeCaps)
	id := c.made(t, `{"name":"own__bake_cake","arguments":{"flavor":"lemon"}}`)
	c.detail(t, id)
	h.reload(t, upstreams, noCakes)
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		if a := c.call(t, method, fmt.Sprintf(`{"taskId":%q,"inputResponses":{}}`, id)); a.code() != -32602 {
			t.Errorf("%s: %s", method, a.raw)
		}
	}
	if up.got("tasks/cancel") != 0 {
		t.Error("the task was cancelled")
	}
	h.reload(t, upstreams, everythingAllowed)
	if d := c.detail(t, id); d.Status != "working" {
		t.Errorf("allowed again, the task is %s", d.Status)
	}
}

func TestHooksSeeABridgedTaskAsTheExtensionHasIt(t *testing.T) {
	seen := make(chan penstock.HookCall, 10)
	h := hooked(t, map[string]string{"jobs": quick(t, demo.LegacyJobs).url}, func(c *penstock.HookCall) (v penstock.HookVerdict) {
		seen <- *c
		if !strings.Contains(string(c.Result), "taskId") {
			v.Result = []byte(`{"content":[{"type":"text","text":"redacted"}]}`)
		}
		return v
	})
	c := h.http(t, modern, bridgeCaps)
	id := c.made(t, cake)
	if d := c.becomes(t, id, "completed"); !strings.Contains(string(d.Result), "redacted") || strings.Contains(string(d.Result), "lemon") {
		t.Errorf("the result: %s", d.Result)
	}
	for i := range 2 {
		if got := <-seen; got.Name != "jobs__bake_cake" || i == 0 && !strings.Contains(string(got.Result), `"resultType":"task"`) {
			t.Errorf("the hook saw %s of %s", got.Result, got.Name)
		}
	}
	h = hooked(t, map[string]string{"jobs": quick(t, demo.LegacyJobs).url}, func(*penstock.HookCall) penstock.HookVerdict {
		return penstock.HookVerdict{Deny: true}
	})
	c = h.http(t, modern, bridgeCaps)
	if a := c.call(t, "tools/call", cake); a.code() != -31017 || strings.Contains(a.raw, "taskId") {
		t.Errorf("a task that is withheld: %s", a.raw)
	}
}

func TestATaskIsFollowedInTheSessionThatMadeIt(t *testing.T) {
	up := quick(t, demo.LegacyJobs)
	h := serve(t, map[string]string{"jobs": up.url})
	c := h.http(t, modern, bridgeCaps)
	id := c.made(t, order)
	// The same caller, who declares less this time.
	c.caps = tasksCaps
	asked := c.becomes(t, id, "input_required")
	c.reply(t, &asked, home("", nil))
	c.becomes(t, id, "completed")
	if n := up.got("initialize"); n > 3 { // the probe, the lists and the task have one each
		t.Errorf("%d sessions", n)
	}
}
