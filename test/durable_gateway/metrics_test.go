package durablegateway_test

import (
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Each transition of a durable task is counted by the phase that it leads to, and each stored task by the phase that it is in.
func TestTransitionsAndRoutesAreCounted(t *testing.T) {
	t.Parallel()
	w, dir := startWorker(t, "kitchen"), t.TempDir()
	g := serve(t, dir, document(t, dir, "", w))
	page := func() string {
		rec := httptest.NewRecorder()
		g.gw.Metrics().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
		return rec.Body.String()
	}
	has := func(series, value string) bool {
		return regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + ` ` + value + `$`).MatchString(page())
	}
	c := g.as("").ready()
	id := text(c.submit("kitchen__bake", "k", `{}`).Result, "taskId")
	w.end("completed")
	if r := c.task("tasks/get", id); text(r.Result, "status") != "completed" {
		t.Fatalf("get: %v", r)
	}
	w.change(func() { w.drop = true })
	c.submit("kitchen__bake", "lost", `{}`)
	for phase, n := range map[string]string{"prepared": "2", "dispatching": "2", "routed": "1", "reconciliation_required": "1", "terminal": "1"} {
		if series := `penstock_durable_transitions_total{phase="` + phase + `"}`; !has(series, n) {
			t.Errorf("%s is not %s", series, n)
		}
	}
	eventually(t, "the routes are counted", 10*time.Second, func() bool {
		return has(`penstock_durable_routes{phase="terminal"}`, "1") && has(`penstock_durable_routes{phase="reconciliation_required"}`, "1")
	})
	if t.Failed() {
		for line := range strings.Lines(page()) {
			if strings.HasPrefix(line, "penstock_durable") {
				t.Log(line)
			}
		}
	}
}
