package taskspeers_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/penstock-mcp/penstock/internal/demo"
	"github.com/penstock-mcp/penstock/test/peers"
)

// DESIGN 9: the modern clients of tasks drive the modern servers of tasks.
func TestModernClientsDriveModernTasks(t *testing.T) {
	need(t, peers.JavaScript, peers.Python)
	h := serve(t, map[string]string{
		"jobs": jobs(t, demo.Jobs, quickPace), "slow": jobs(t, demo.Jobs, slowPace), "fast": started(t, peers.FastMCPTasks()),
	})
	for name, w := range map[string]works{"jobs": jobWorks("jobs", "slow"), "fastmcp": fastWorks} {
		for _, c := range []peers.TaskClient{peers.ExtTasks(true), peers.FastMCPTasksClient(true)} {
			t.Run(c.Name+" at "+name, func(t *testing.T) {
				t.Parallel()
				drivesToTheEnd(t, c, h.url, w)
				goesOnByTheID(t, c, h.url, w)
			})
		}
		t.Run("ext-tasks over stdio at "+name, func(t *testing.T) {
			t.Parallel()
			drivesToTheEnd(t, peers.ExtTasks(true), h.stdio, w)
		})
	}
	t.Run("answers by hand", func(t *testing.T) {
		t.Parallel()
		for _, w := range []work{jobWorks("jobs", "slow").asks, fastWorks.asks} {
			id := run(t, peers.ExtTasks(true), h.url, w.step("start")).task(t, 0)
			d := run(t, peers.ExtTasks(true), h.url, w.about("update", id), w.about("await", id))
			d.asked(t, 0, w)
			d.ends(t, 1, w, "completed")
		}
	})
	t.Run("an id that is nobody's", func(t *testing.T) {
		t.Parallel()
		for _, c := range []peers.TaskClient{peers.ExtTasks(true), peers.FastMCPTasksClient(true)} {
			d := run(t, c, h.url, peers.TaskStep{Do: "look", TaskID: "nobody's"}, peers.TaskStep{Do: "cancel", TaskID: "nobody's"})
			d.code(t, 0, -32602)
			d.code(t, 1, -32602)
		}
	})
}

// drivesToTheEnd holds that tasks end in each way, by the call of a user of the client's package.
func drivesToTheEnd(t *testing.T, c peers.TaskClient, endpoint string, w works) {
	t.Helper()
	d := run(t, c, endpoint, w.completes.step("run"), w.refuses.step("run"), w.asks.step("run"), w.lasts.cancelled(),
		w.fails.step("start"), peers.TaskStep{Do: "await", From: new(4)})
	d.ends(t, 0, w.completes, "completed")
	d.refused(t, 1, w.refuses)
	d.ends(t, 2, w.asks, "completed")
	d.asked(t, 2, w.asks)
	d.ends(t, 3, w.lasts, "cancelled")
	d.ends(t, 5, w.fails, "failed")
	d.promisesNone(t)
	if strings.HasPrefix(w.lasts.tool, "slow__") && !strings.HasPrefix(d.task(t, 3), idHead) {
		t.Errorf("%s: %q is not the server's id", c.Name, d.task(t, 3))
	}
}

// goesOnByTheID holds that another process, which has the ids alone, goes on with one task and cancels another, and that a
// third sees how they ended.
func goesOnByTheID(t *testing.T, c peers.TaskClient, endpoint string, w works) {
	t.Helper()
	d := run(t, c, endpoint, w.asks.step("start"), w.lasts.step("start"))
	asking, lasting := d.task(t, 0), d.task(t, 1)
	d = run(t, c, endpoint, w.asks.about("look", asking), w.asks.about("resume", asking), w.lasts.about("look", lasting), w.lasts.about("cancel", lasting))
	if s := d.Answers[0].Status; !slices.Contains([]string{"working", "input_required"}, s) || d.task(t, 0) != asking {
		t.Errorf("%s: the task is %q before it is answered: %s", c.Name, s, d.part(0))
	}
	d.ends(t, 1, w.asks, "completed")
	d.asked(t, 1, w.asks)
	d.is(t, 2, "working")
	d = run(t, c, endpoint, w.asks.about("await", asking), w.lasts.about("await", lasting))
	d.ends(t, 0, w.asks, "completed")
	d.ends(t, 1, w.lasts, "cancelled")
}
