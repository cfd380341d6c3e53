package durablegateway_test

import (
	"fmt"
	"strings"
	"testing"
)

// A connection is with one replica: what it made is asked about there, and when it is gone, nowhere else.
func TestATaskStaysAtTheReplicaThatMadeIt(t *testing.T) {
	t.Parallel()
	a, b, dir := startWorker(t, "kitchen"), startWorker(t, "kitchen"), t.TempDir()
	doc := document(t, dir, "", a)
	doc = strings.Replace(doc, fmt.Sprintf("url: %q", a.srv.URL+"/mcp"), fmt.Sprintf("urls: [%q, %q]", a.srv.URL+"/mcp", b.srv.URL+"/mcp"), 1)
	g := serve(t, dir, doc)
	c := g.as("").ready()
	ids := map[string]bool{}
	for i := range 4 {
		id := text(c.submit("kitchen__bake", fmt.Sprint("k", i), `{}`).Result, "taskId")
		if r := c.task("tasks/get", id); text(r.Result, "status") != "working" {
			t.Errorf("get: %v", r)
		}
		ids[id] = true
	}
	if len(ids) != 4 || a.count("tools/call") != 4 || b.count("tools/call")+b.count("tasks/get") != 0 {
		t.Fatalf("%d tasks, %d and %d calls", len(ids), a.count("tools/call"), b.count("tools/call"))
	}
	a.srv.CloseClientConnections()
	a.srv.Close()
	for id := range ids {
		for range 2 {
			if r := c.task("tasks/get", id); text(r.Result, "status") != "working" || at(r.Result, "_meta", "penstock/taskRoute", "reconciliationRequired") != "true" {
				t.Errorf("get, its replica gone: %v", r)
			}
		}
	}
	c.ready()
	if r := c.submit("kitchen__bake", "later", `{}`); text(r.Result, "_meta", "penstock/taskRoute", "routePhase") != "routed" {
		t.Errorf("submit to the other replica: %v", r)
	}
	if b.count("tools/call") != 1 || b.count("tasks/get") != 0 {
		t.Errorf("the other replica got %d calls and %d polls", b.count("tools/call"), b.count("tasks/get"))
	}
}
