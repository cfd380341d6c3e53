package taskspeers_test

import (
	"strings"
	"testing"

	"github.com/penstock-mcp/penstock/internal/demo"
	"github.com/penstock-mcp/penstock/test/peers"
)

// Checklist 8.5 ML: to modern clients, the tasks of a legacy job server are tasks of the extension, under the server's ids.
func TestModernClientsDriveLegacyTasks(t *testing.T) {
	need(t, peers.JavaScript, peers.Python)
	h := serve(t, map[string]string{"jobs": jobs(t, demo.LegacyJobs, quickPace), "slow": jobs(t, demo.LegacyJobs, slowPace)})
	w := jobWorks("jobs", "slow")
	for _, c := range []peers.TaskClient{peers.ExtTasks(true), peers.FastMCPTasksClient(true)} {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			drivesToTheEnd(t, c, h.url, w)
			goesOnByTheID(t, c, h.url, w)
		})
	}
	t.Run("ext-tasks over stdio", func(t *testing.T) {
		t.Parallel()
		drivesToTheEnd(t, peers.ExtTasks(true), h.stdio, w)
	})
	t.Run("answers by hand", func(t *testing.T) {
		t.Parallel()
		id := run(t, peers.ExtTasks(true), h.url, w.asks.step("start")).task(t, 0)
		if !strings.HasPrefix(id, idHead) {
			t.Errorf("%q is not the server's id", id)
		}
		d := run(t, peers.ExtTasks(true), h.url, w.asks.about("update", id), w.asks.about("await", id))
		d.asked(t, 0, w.asks)
		d.ends(t, 1, w.asks, "completed")
	})
}

// The same at the npm everything server, which ties a task to the session that made it: all processes of a modern client
// share one.
func TestModernClientsDriveTheTasksOfTheEverythingServer(t *testing.T) {
	need(t, peers.JavaScript, peers.Python)
	h := serve(t, map[string]string{"research": started(t, peers.NpmEverything())})
	w := researchWorks
	for _, c := range []peers.TaskClient{peers.ExtTasks(true), peers.FastMCPTasksClient(true)} {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			d := run(t, c, h.url, w.completes.step("run"), w.asks.step("run"), w.lasts.cancelled())
			d.ends(t, 0, w.completes, "completed")
			d.ends(t, 1, w.asks, "completed")
			d.asked(t, 1, w.asks)
			d.ends(t, 2, w.lasts, "cancelled")
			d.promisesNone(t)
		})
		t.Run(c.Name+" with the id alone", func(t *testing.T) {
			t.Parallel()
			id := run(t, c, h.url, w.asks.step("start")).task(t, 0)
			d := run(t, c, h.url, w.asks.about("resume", id))
			d.ends(t, 0, w.asks, "completed")
			d.asked(t, 0, w.asks)
			d = run(t, c, h.url, w.asks.about("await", id))
			d.ends(t, 0, w.asks, "completed")
		})
	}
	t.Run("ext-tasks over stdio", func(t *testing.T) {
		t.Parallel()
		d := run(t, peers.ExtTasks(true), h.stdio, w.asks.step("run"))
		d.ends(t, 0, w.asks, "completed")
		d.asked(t, 0, w.asks)
	})
}
