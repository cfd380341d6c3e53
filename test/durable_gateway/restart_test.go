package durablegateway_test

import (
	"bufio"
	"fmt"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// childEnv makes this program a worker that speaks stdio.
const childEnv = "DURABLE_GATEWAY_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		beChild()
		return
	}
	goleak.VerifyTestMain(m)
}

// beChild serves the worker over stdio until its input ends, or a call of read tells it to die.
func beChild() {
	w := newWorker("kitchen")
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		line := lines.Text()
		if at(line, "id") == "" {
			continue
		}
		if text(line, "params", "arguments", "flavor") == "poison" {
			os.Exit(1)
		}
		out := httptest.NewRecorder()
		w.ServeHTTP(out, httptest.NewRequest("POST", "/mcp", strings.NewReader(line)))
		fmt.Println(out.Body.String())
	}
}

// A task belongs to the connection that made it: after a restart its id is not sent over another one, unless the document says that the upstream keeps
// no state by connection.
func TestARestartLeavesATaskToReconciliationUnlessItsUpstreamIsStateless(t *testing.T) {
	t.Parallel()
	for _, session := range []string{"strict", "stateless"} {
		t.Run(session, func(t *testing.T) {
			t.Parallel()
			w, dir := startWorker(t, "kitchen"), t.TempDir()
			doc := strings.Replace(document(t, dir, "", w), "durable: {", "durable: {session: "+session+", ", 1)
			g := serve(t, dir, doc)
			id := text(g.as("").ready().submit("kitchen__bake", "k", `{}`).Result, "taskId")
			g.close()
			polls := w.count("tasks/get")
			g = serve(t, dir, doc)
			c := g.as("").ready()
			r := c.task("tasks/get", id)
			doubtful := at(r.Result, "_meta", "penstock/taskRoute", "reconciliationRequired") == "true"
			if text(r.Result, "status") != "working" || doubtful != (session == "strict") {
				t.Errorf("get: %v", r)
			}
			if asked := w.count("tasks/get") > polls; asked != (session == "stateless") {
				t.Errorf("the worker was asked: %v", asked)
			}
			if r := c.submit("kitchen__bake", "k", `{}`); text(r.Result, "taskId") != id {
				t.Errorf("again: %v", r)
			}
			if n := w.count("tools/call"); n != 1 {
				t.Errorf("%d calls arrived", n)
			}
		})
	}
}

// Each run of a child is a connection of its own.
func TestAChildThatIsStartedAgainIsAnotherConnection(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	doc := fmt.Sprintf("state: %q\naudit: {file: %q}\nupstreams:\n  kitchen: {command: [%q], env: {%s: \"1\"}, restart: {backoff: 10ms}, durable: {pin: %q}}\n",
		"sqlite:"+dir+"/p.db", dir+"/audit.jsonl", exe, childEnv, newWorker("kitchen").pin(t))
	g := serve(t, dir, doc)
	c := g.as("").ready()
	id := text(c.submit("kitchen__bake", "k", `{}`).Result, "taskId")
	if r := c.task("tasks/get", id); text(r.Result, "status") != "working" || at(r.Result, "_meta", "penstock/taskRoute", "reconciliationRequired") != "false" {
		t.Fatalf("get: %v", r)
	}
	if r := c.call("kitchen__read", `{"flavor":"poison"}`); r.Code == 0 {
		t.Fatalf("the child lives: %v", r)
	}
	if r := c.task("tasks/get", id); at(r.Result, "_meta", "penstock/taskRoute", "reconciliationRequired") != "true" {
		t.Errorf("get after its end: %v", r)
	}
	c.ready()
	if r := c.task("tasks/get", id); at(r.Result, "_meta", "penstock/taskRoute", "reconciliationRequired") != "true" {
		t.Errorf("get over another run: %v", r)
	}
	if r := c.submit("kitchen__bake", "k2", `{}`); text(r.Result, "_meta", "penstock/taskRoute", "routePhase") != "routed" {
		t.Errorf("submit to another run: %v", r)
	}
}

// An alias that is called like a tool of the gateway's own keeps its name.
func TestAnAliasKeepsTheNameOfAMetaTool(t *testing.T) {
	t.Parallel()
	w, dir := startWorker(t, "kitchen"), t.TempDir()
	g := serve(t, dir, document(t, dir, "servers: {default: {aliases: {penstock_search: {upstream: kitchen, tool: read}}}}", w))
	c := g.as("").ready()
	n := 0
	for _, name := range c.tools() {
		if name == "penstock_search" {
			n++
		}
	}
	if n != 1 {
		t.Errorf("listed %d times", n)
	}
	if r := c.call("penstock_search", `{}`); !strings.HasPrefix(text(r.Result, "content", 0, "text"), "read for") {
		t.Errorf("call: %v", r)
	}
	if r := c.call("gaugemesh_search", `{"query":"cake"}`); text(r.Structured, "results", 0, "source") != "kitchen" {
		t.Errorf("the other spelling: %v", r)
	}
}

// What an upstream offers is looked at again when it says that it has changed, and what was bound to it is over.
func TestAChangeThatIsToldOfEndsTheConnection(t *testing.T) {
	t.Parallel()
	w, dir := startWorker(t, "kitchen"), t.TempDir()
	g := serve(t, dir, document(t, dir, "", w))
	c := g.as("").ready()
	id := text(c.submit("kitchen__bake", "k", `{}`).Result, "taskId")
	polls := w.count("tasks/get")
	w.change(func() { w.tools, w.tells = "["+bakeTool+"]", true })
	if r := c.call("kitchen__bake", `{}`); r.Code != 0 {
		t.Fatal(r)
	}
	eventually(t, "submit is not listed", 10*time.Second, func() bool { return !slices.Contains(c.tools(), "penstock_submit") })
	if r := c.task("tasks/get", id); at(r.Result, "_meta", "penstock/taskRoute", "reconciliationRequired") != "true" || w.count("tasks/get") != polls {
		t.Errorf("get: %v", r)
	}
	if r := c.submit("kitchen__bake", "k2", `{}`); r.ToolCode != "PENSTOCK_TASK_DURABLE_ROUTE_UNAVAILABLE" {
		t.Errorf("submit: %v", r)
	}
}

// A caller who gives its work too little time leaves the tasks of others alone.
func TestACallThatIsGivenLittleTimeEndsNoConnection(t *testing.T) {
	t.Parallel()
	w, dir := startWorker(t, "kitchen"), t.TempDir()
	g := serve(t, dir, document(t, dir, keys("ann", "eve"), w))
	ann := g.as("ann").ready()
	id := text(ann.submit("kitchen__bake", "k", `{}`).Result, "taskId")
	hold := make(chan struct{})
	w.change(func() { w.hold = hold })
	r := g.as("eve").submitFor(50*time.Millisecond, "kitchen__bake", "k", `{}`)
	close(hold)
	if text(r.Result, "_meta", "penstock/taskRoute", "routePhase") != "reconciliation_required" {
		t.Errorf("submit: %v", r)
	}
	if r := ann.task("tasks/get", id); at(r.Result, "_meta", "penstock/taskRoute", "reconciliationRequired") != "false" {
		t.Errorf("get: %v", r)
	}
}

// The first list behind the start waits for what its upstreams offer: a client that lists once is told that it can submit.
func TestTheFirstListSaysWhatCanBeSubmitted(t *testing.T) {
	t.Parallel()
	for range 5 {
		w, dir := startWorker(t, "kitchen"), t.TempDir()
		g := serve(t, dir, document(t, dir, "", w))
		if all := g.as("").tools(); !slices.Contains(all, "penstock_submit") {
			t.Errorf("the first list has %q", all)
		}
		g.close()
	}
}
