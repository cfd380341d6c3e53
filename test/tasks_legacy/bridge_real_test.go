package taskslegacy_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// bridgeCaps are those of a modern client that takes tasks and can be asked.
const bridgeCaps = `{"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`

// detailed is a task as a modern client sees it.
type detailed struct {
	ResultType, TaskID, Status, CreatedAt, LastUpdatedAt string
	TTLMs                                                json.RawMessage
	PollIntervalMs                                       json.RawMessage
	Result                                               json.RawMessage
	Error                                                *struct {
		Code    int
		Message string
	}
	InputRequests map[string]struct {
		Method string
		Params json.RawMessage
	}
}

// detail is how a task is, all of it.
func (c *client) detail(t *testing.T, id string) detailed {
	t.Helper()
	a := c.call(t, "tasks/get", fmt.Sprintf(`{"taskId":%q}`, id))
	var d detailed
	if a.Result == nil || json.Unmarshal(a.Result, &d) != nil || d.TaskID != id {
		t.Fatalf("tasks/get: %s", a.raw)
	}
	if d.ResultType != "complete" || strings.Contains(a.raw, `"ttl"`) || strings.Contains(a.raw, "pollInterval\"") || strings.Contains(a.raw, "related-task") {
		t.Errorf("tasks/get: %s", a.raw)
	}
	return d
}

// becomes polls a task until it has a status.
func (c *client) becomes(t *testing.T, id, status string) detailed {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		d := c.detail(t, id)
		if d.Status == status {
			return d
		}
		if time.Now().After(end) {
			t.Fatalf("the task is %s, and not %s: %+v", d.Status, status, d)
		}
	}
}

// reply answers all that a task asks with one answer.
func (c *client) reply(t *testing.T, d *detailed, answer string) *message {
	t.Helper()
	var all []string
	for key := range d.InputRequests {
		all = append(all, fmt.Sprintf(`%q:%s`, key, answer))
	}
	return c.call(t, "tasks/update", fmt.Sprintf(`{"taskId":%q,"inputResponses":{%s}}`, d.TaskID, strings.Join(all, ",")))
}

func TestAModernClientHasTheTasksOfARealLegacyServer(t *testing.T) {
	for name, child := range map[string]bool{"http": false, "child": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := serve(t, map[string]string{"real": researcher(t, child)})
			for _, caps := range []string{bridgeCaps, tasksCaps} {
				c := h.http(t, modern, caps)
				a := c.call(t, "tools/call", `{"name":"real__simulate-research-query","arguments":{"topic":"python","ambiguous":true}}`)
				var d detailed
				if a.Result == nil || json.Unmarshal(a.Result, &d) != nil || d.ResultType != "task" || d.TaskID == "" || d.Status != "working" ||
					string(d.TTLMs) != "300000" || string(d.PollIntervalMs) != "1000" || strings.Contains(a.raw, `"task":`) {
					t.Fatalf("tools/call: %s", a.raw)
				}
				if caps == bridgeCaps {
					asked := c.becomes(t, d.TaskID, "input_required")
					for _, q := range asked.InputRequests {
						if q.Method != "elicitation/create" || !strings.Contains(string(q.Params), "interpretation") || strings.Contains(string(q.Params), "_meta") {
							t.Errorf("it asks %s %s", q.Method, q.Params)
						}
					}
					if a := c.reply(t, &asked, `{"action":"accept","content":{"interpretation":"snake"}}`); a.raw == "" || a.Error != nil || !strings.Contains(a.raw, `"resultType":"complete"`) {
						t.Errorf("tasks/update: %s", a.raw)
					}
				}
				done := c.becomes(t, d.TaskID, "completed")
				if got := string(done.Result); !strings.Contains(got, "Research Report: python") || strings.Contains(got, "(snake)") != (caps == bridgeCaps) || !strings.Contains(got, `"resultType":"complete"`) {
					t.Errorf("the result: %s", got)
				}
				if again := c.detail(t, d.TaskID); string(again.Result) != string(done.Result) {
					t.Errorf("the result, again: %s", again.Result)
				}
				if a := c.call(t, "tasks/cancel", fmt.Sprintf(`{"taskId":%q}`, d.TaskID)); a.Error != nil {
					t.Errorf("tasks/cancel of what has ended: %s", a.raw)
				}
			}
			plain := h.http(t, modern, formCaps)
			if a := plain.call(t, "tools/call", `{"name":"real__simulate-research-query","arguments":{"topic":"x"}}`); a.code() != -32021 || a.status != 400 {
				t.Errorf("without the extension: HTTP %d %s", a.status, a.raw)
			}
		})
	}
}
