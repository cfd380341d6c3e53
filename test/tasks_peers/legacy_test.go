package taskspeers_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/penstock-mcp/penstock/internal/demo"
	"github.com/penstock-mcp/penstock/test/peers"
)

// DESIGN 9, checklist 8.5 LL: legacy clients drive legacy tasks, as a job server makes them and the npm everything server.
func TestLegacyClientsDriveLegacyTasks(t *testing.T) {
	need(t, peers.JavaScript)
	h := serve(t, map[string]string{
		"jobs": jobs(t, demo.LegacyJobs, quickPace), "slow": jobs(t, demo.LegacyJobs, slowPace), "research": started(t, peers.NpmEverything()),
	})
	clients := []peers.TaskClient{peers.ExtTasks(false), peers.SDKTasks()}
	for name, w := range map[string]works{"jobs": jobWorks("jobs", "slow"), "everything": researchWorks} {
		for _, c := range clients {
			t.Run(c.Name+" at "+name, func(t *testing.T) {
				t.Parallel()
				d := run(t, c, h.url, w.completes.step("run"), w.lasts.cancelled(), peers.TaskStep{Do: "list"})
				d.ends(t, 0, w.completes, "completed")
				d.is(t, 1, "cancelled")
				if list := d.Answers[2].Tasks; !slices.Contains(list, d.task(t, 0)) || !slices.Contains(list, d.task(t, 1)) {
					t.Errorf("%s: tasks/list lacks one of the tasks: %s", c.Name, d.part(2))
				}
			})
		}
		// ext-tasks asks for no tasks/result before the end of a legacy task, so that no question could reach it.
		for way, endpoint := range map[string]string{"http": h.url, "stdio": h.stdio} {
			t.Run("ts-v1 is asked at "+name+" over "+way, func(t *testing.T) {
				t.Parallel()
				d := run(t, peers.SDKTasks(), endpoint, w.asks.step("run"))
				d.ends(t, 0, w.asks, "completed")
				d.asked(t, 0, w.asks)
			})
		}
	}
	w := jobWorks("jobs", "slow")
	t.Run("failures", func(t *testing.T) {
		t.Parallel()
		d := run(t, peers.SDKTasks(), h.url, w.refuses.step("start"), peers.TaskStep{Do: "await", From: new(0)}, peers.TaskStep{Do: "look", From: new(0)},
			w.fails.step("start"), peers.TaskStep{Do: "await", From: new(3)}, peers.TaskStep{Do: "look", From: new(3)})
		if r := d.Answers[1].Result; r == nil || !r.IsError || !strings.Contains(r.Content[0].Text, w.refuses.want) {
			t.Errorf("ts-v1: not the error of the tool: %s", d.part(1))
		}
		d.ends(t, 4, w.fails, "failed")
		d.is(t, 2, "failed")
		d.is(t, 5, "failed")
		d = run(t, peers.ExtTasks(false), h.url, w.refuses.step("run"), w.fails.step("run"))
		d.is(t, 0, "failed")
		d.is(t, 1, "failed")
	})
	for _, c := range clients {
		t.Run(c.Name+" with the id alone", func(t *testing.T) {
			t.Parallel()
			d := run(t, c, h.url, w.completes.step("start"), w.lasts.step("start"))
			id, lasting := d.task(t, 0), d.task(t, 1)
			if !strings.HasPrefix(id, idHead) {
				t.Errorf("%s: %q is not the server's id", c.Name, id)
			}
			d = run(t, c, h.url, w.completes.about("await", id), w.lasts.about("look", lasting), w.lasts.about("cancel", lasting), w.lasts.about("look", lasting))
			d.ends(t, 0, w.completes, "completed")
			d.is(t, 1, "working")
			d.is(t, 3, "cancelled")
			d = run(t, c, h.url, peers.TaskStep{Do: "look", TaskID: "nobody's"}, peers.TaskStep{Do: "cancel", TaskID: "nobody's"})
			d.code(t, 0, -32002)
			d.code(t, 1, -32002)
		})
	}
}
