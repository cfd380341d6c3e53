package taskspeers_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/demo"
	"github.com/penstock-mcp/penstock/test/peers"
)

// Checklist 8.5 LM, 8.6: a legacy client gets the result of a call that a modern server makes a task of, and is asked
// what the task asks. The gateway drives the task.
func TestLegacyClientsGetTheResultsOfModernTasks(t *testing.T) {
	need(t, peers.JavaScript, peers.Python)
	h := serve(t, map[string]string{"jobs": jobs(t, demo.Jobs, quickPace), "fast": started(t, peers.FastMCPTasks())})
	order, w := jobWorks("jobs", "").asks, fastWorks
	measure := work{tool: "fast__measure", arguments: map[string]any{"text": "abc"}, want: `{"length":3}`}
	declines := w.asks
	declines.answer, declines.want = nil, "the oak was not planted"
	at := func(c peers.TaskClient, name, endpoint string) {
		t.Run(c.Name+name, func(t *testing.T) {
			t.Parallel()
			d := run(t, c, endpoint, order.step("run"), w.completes.step("run"), w.refuses.step("run"), w.asks.step("run"), declines.step("run"),
				measure.step("run"), w.fails.step("run"))
			for i, each := range []work{order, w.completes, w.refuses, w.asks, declines, measure} {
				if !d.Answers[i].Immediate {
					t.Errorf("%s: %s is no plain call: %s", c.Name, each.tool, d.part(i))
				}
				d.ends(t, i, each, "completed")
				if each.asks != "" {
					d.asked(t, i, each)
				}
			}
			d.refused(t, 2, w.refuses)
			d.ends(t, 6, w.fails, "failed")
			d.promisesNone(t)
		})
	}
	for _, c := range []peers.TaskClient{peers.ExtTasks(false), peers.SDKTasks(), peers.FastMCPTasksClient(false)} {
		at(c, "", h.url)
	}
	at(peers.SDKTasks(), " over stdio", h.stdio)
}

// With `tasks.drive: on` a modern client that knows nothing of tasks gets results, too; otherwise it is told what it lacks.
func TestModernClientsWithoutTasksGetResultsWhereThatIsOn(t *testing.T) {
	need(t, peers.JavaScript, peers.Python)
	upstream := map[string]string{"fast": started(t, peers.FastMCPTasks())}
	steps := []peers.Step{{Method: "tools/call", Params: map[string]any{"name": "fast__compost", "arguments": map[string]any{"leaves": 3}}}}
	for drive, driven := range map[string]bool{"on": true, "legacy": false} {
		h := serveWith(t, map[string]any{"tasks": map[string]any{"drive": drive}}, "auto", upstream)
		for _, c := range peers.Clients() {
			if c.Name != "go-modern" && c.Name != "ts-v2-modern" {
				continue
			}
			t.Run(drive+" "+c.Name, func(t *testing.T) {
				report, err := c.Run(t.Context(), h.url, steps)
				if err != nil {
					t.Fatal(err)
				}
				switch a := report.Answers[0]; {
				case driven && !strings.Contains(fmt.Sprint(a.Result["structuredContent"]), "3 leaves of soil"):
					t.Errorf("no result: %+v", a)
				case !driven && (a.Error == nil || a.Error.Code != -32021):
					t.Errorf("not refused for the lack of tasks: %+v", a)
				}
			})
		}
	}
}

// A call that its client cancels does not leave its task behind.
func TestADrivenTaskOfFastMCPIsCancelledWithItsCall(t *testing.T) {
	need(t, peers.JavaScript, peers.Python)
	h := serve(t, map[string]string{"fast": started(t, peers.FastMCPTasks())})
	d := run(t, peers.SDKTasks(), h.url, fastWorks.lasts.cancelled())
	if e := d.Answers[0].Error; e == nil {
		t.Fatalf("the call was not cancelled: %s", d.part(0))
	}
	tally := peers.TaskStep{Do: "run", Name: "fast__tally"}
	for end := time.Now().Add(30 * time.Second); ; {
		d = run(t, peers.SDKTasks(), h.url, tally)
		if r := d.Answers[0].Result; r != nil && r.Content[0].Text == "begun 1, stopped 1" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the task goes on: %s", d.part(0))
		}
	}
}

// FastMCP says of its tools that they must be tasks to legacy clients, too, to whom it offers none. They are not told so,
// and the calls end as the server ends them.
func TestFastMCPHasNoLegacyTasks(t *testing.T) {
	need(t, peers.JavaScript, peers.Python)
	h := serveWith(t, nil, "legacy", map[string]string{"fast": started(t, peers.FastMCPTasks())})
	measure := work{tool: "fast__measure", arguments: map[string]any{"text": "abc"}, want: `{"length":3}`}
	for _, c := range []peers.TaskClient{peers.SDKTasks(), peers.ExtTasks(true)} {
		d := run(t, c, h.url, fastWorks.completes.step("run"), measure.step("run"))
		if c.Modern {
			d.code(t, 0, -32021)
		} else {
			d.refused(t, 0, work{tool: "fast__compost", want: "needs a capability"})
		}
		d.ends(t, 1, measure, "completed")
		d.promisesNone(t)
	}
}
