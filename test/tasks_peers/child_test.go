package taskspeers_test

import (
	"encoding/json"
	"testing"

	"github.com/penstock-mcp/penstock/test/peers"
)

// A tasks server that is a child process of the gateway is driven by clients of both eras, and of its tasks that another
// process of the client started it knows.
func TestTheTasksOfAChildProcessAreDriven(t *testing.T) {
	need(t, peers.JavaScript, peers.Python)
	argv, err := peers.FastMCPTasksArgv()
	if err != nil {
		t.Fatal(err)
	}
	at, err := json.Marshal(argv)
	if err != nil {
		t.Fatal(err)
	}
	h := serve(t, map[string]string{"fast": string(at)})
	t.Run("modern", func(t *testing.T) {
		t.Parallel()
		drivesToTheEnd(t, peers.ExtTasks(true), h.url, fastWorks)
		goesOnByTheID(t, peers.ExtTasks(true), h.url, fastWorks)
	})
	t.Run("legacy", func(t *testing.T) {
		t.Parallel()
		d := run(t, peers.SDKTasks(), h.url, fastWorks.completes.step("run"), fastWorks.asks.step("run"), fastWorks.fails.step("run"))
		d.ends(t, 0, fastWorks.completes, "completed")
		d.ends(t, 1, fastWorks.asks, "completed")
		d.asked(t, 1, fastWorks.asks)
		d.ends(t, 2, fastWorks.fails, "failed")
	})
}
