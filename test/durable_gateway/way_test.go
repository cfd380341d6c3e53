package durablegateway_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// A submission goes its whole way: found, described, leased, submitted, polled to its end, and not begun twice.
func TestASubmissionGoesItsWholeWay(t *testing.T) {
	t.Parallel()
	w, dir := startWorker(t, "kitchen"), t.TempDir()
	g := serve(t, dir, document(t, dir, keys("ann", "eve"), w))
	ann := g.as("ann").ready()
	want := []string{
		"kitchen__bake", "kitchen__read", "penstock_describe", "penstock_invoke", "penstock_lease", "penstock_release", "penstock_search", "penstock_submit",
	}
	if got := ann.tools(); !slices.Equal(got, want) {
		t.Errorf("listed: %v", got)
	}
	if got := ann.plain().tools(); !slices.Equal(got, want[:7]) {
		t.Errorf("listed to a client without tasks: %v", got)
	}
	if r := ann.call("penstock_search", `{"query":"cake"}`); text(r.Structured, "results", 0, "alias") != "kitchen__bake" || at(r.Structured, "results", 1) != "" {
		t.Errorf("search: %v", r)
	}
	r := ann.submit("kitchen__bake", "k1", `{"flavor":"lemon"}`)
	id := text(r.Result, "taskId")
	if !strings.HasPrefix(id, "pst_") || text(r.Result, "resultType") != "task" || text(r.Result, "_meta", "penstock/taskRoute", "routePhase") != "routed" {
		t.Fatalf("submit: %v", r)
	}
	if h, _ := w.last("tools/call"); h.Get("Mcp-Param-Flavor") != "lemon" || h.Get("Mcp-Name") != "bake" {
		t.Errorf("headers of the call: %v", h)
	}
	if again := ann.submit("kitchen__bake", "k1", `{"flavor":"lemon"}`); text(again.Result, "taskId") != id {
		t.Errorf("again: %v", again)
	}
	if n := w.count("tools/call"); n != 1 {
		t.Errorf("%d calls arrived", n)
	}
	if r := ann.task("tasks/get", id); text(r.Result, "status") != "working" {
		t.Errorf("get: %v", r)
	}
	unknown := g.as("ann").task("tasks/get", "pst_00000000-0000-4000-8000-000000000000")
	if r := g.as("eve").task("tasks/get", id); r.Status != unknown.Status || r.Body != unknown.Body || r.Code != -32602 {
		t.Errorf("another caller's: %v\nunknown: %v", r, unknown)
	}
	if r := ann.plain().task("tasks/get", id); r.Code != -32021 {
		t.Errorf("without the extension: %v", r)
	}
	if r := ann.task("tasks/update", id); r.Code != -32602 || r.Said != "PENSTOCK_TASK_UPDATE_UNSUPPORTED_DURABLE" {
		t.Errorf("update: %v", r)
	}
	w.end("completed")
	if r := ann.task("tasks/get", id); text(r.Result, "status") != "completed" || text(r.Result, "result", "content", 0, "text") != "a cake" {
		t.Errorf("completed: %v", r)
	}
	if code, out := g.admin("GET", "/routes", nil); code != 200 || text(out, "routes", 0, "id") != id || text(out, "routes", 0, "phase") != "terminal" {
		t.Errorf("the operator's list: %d %s", code, out)
	}
	records := g.recorded("tools/call")
	found := slices.ContainsFunc(records, func(r record) bool {
		return r.Via == "penstock_submit" && r.Kind == "tool" && r.Name == "kitchen__bake" && r.Original == "bake" && r.Upstream == "kitchen" && r.Outcome == "ok"
	})
	if !found {
		t.Errorf("records: %+v", records)
	}
	if polls := g.recorded("tasks/get"); len(polls) < 3 || polls[0].Upstream != "kitchen" || polls[0].Original != "bake" {
		t.Errorf("records of polls: %+v", polls)
	}
}

// The seed's words are understood, and a route keeps to those of its submission.
func TestTheSeedsSpellingIsCalledAndNotListed(t *testing.T) {
	t.Parallel()
	w, dir := startWorker(t, "kitchen"), t.TempDir()
	g := serve(t, dir, document(t, dir, strings.ReplaceAll(keys("ann"), "penstock:effect", "gaugemesh:effect"), w))
	ann := g.as("ann").ready()
	lease, schema := ann.leased("gaugemesh", "kitchen__bake")
	r := ann.call("gaugemesh_submit", `{"leaseId":`+quote(lease)+`,"alias":"kitchen__bake","arguments":{},"task":`+submission("gaugemesh", "k", schema, `{}`, time.Second*20)+`}`)
	id := text(r.Result, "taskId")
	if !strings.HasPrefix(id, "gmt_") || text(r.Result, "_meta", "dev.gaugemesh/taskRoute", "routePhase") != "routed" {
		t.Fatalf("submit: %v", r)
	}
	if r := ann.task("tasks/update", id); r.Said != "GM_TASK_UPDATE_UNSUPPORTED_DURABLE" {
		t.Errorf("update: %v", r)
	}
	if r := ann.call("gaugemesh_describe", `{"alias":"nothing"}`); r.ToolCode != "GM_CAPABILITY_NOT_FOUND" {
		t.Errorf("describe: %v", r)
	}
	if got := strings.Join(ann.tools(), " "); strings.Contains(got, "gaugemesh") {
		t.Errorf("listed: %s", got)
	}
}

// What is checked before a submission goes to the room of durable tasks is refused on the channels of the contract.
func TestRefusalsOfTheMetaTools(t *testing.T) {
	t.Parallel()
	w, dir := startWorker(t, "kitchen"), t.TempDir()
	g := serve(t, dir, document(t, dir, keys("ann"), w))
	ann := g.as("ann").ready()
	lease, _ := ann.leased("penstock", "kitchen__bake")
	task := submission("penstock", "k", "sha256:"+strings.Repeat("1", 64), `{}`, time.Second)
	for _, c := range []struct {
		who             *client
		tool, args, has string
		code            int
	}{
		{ann.plain(), "submit", `{}`, "TASK_CLIENT_CAPABILITY_REQUIRED", 0},
		{ann, "submit", `{"arguments":[]}`, "TASK_ARGUMENTS_REQUIRED", 0},
		{ann, "submit", `{"arguments":{}}`, "TASK_SUBMISSION_REQUIRED", 0},
		{ann, "submit", `{"arguments":{},"task":{},"alias":"x"}`, "CAPABILITY_NOT_FOUND", 0},
		{ann, "submit", `{"arguments":{},"task":` + task + `,"alias":"kitchen__bake","leaseId":"x"}`, "LEASE_CAPABILITY_OUTSIDE_CONE", 0},
		{ann, "submit", `{"arguments":{},"task":` + task + `,"alias":"kitchen__bake","leaseId":` + quote(lease) + `}`, "TASK_PROVIDER_VERSION_UNSUPPORTED", -32602},
		{ann, "lease", `{}`, "LEASE_CAPABILITY_OUTSIDE_CONE", 0},
		{ann, "lease", `{"aliases":[]}`, "LEASE_LIMIT_INVALID", 0},
		{ann, "lease", `{"aliases":[1]}`, "LEASE_CAPABILITY_OUTSIDE_CONE", 0},
		{ann, "lease", `{"aliases":["kitchen__read"],"ttlMs":1.5}`, "LEASE_LIMIT_INVALID", 0},
		{ann, "lease", `{"aliases":["kitchen__bake"]}`, "LEASE_SIDE_EFFECT_OUTSIDE_CONE", 0},
		{ann, "invoke", `{"alias":"kitchen__read","leaseId":` + quote(lease) + `}`, "LEASE_CAPABILITY_OUTSIDE_CONE", 0},
		{ann, "describe", `{}`, "CAPABILITY_NOT_FOUND", 0},
		{ann, "search", `{}`, "", -32602},
	} {
		r := c.who.call("penstock_"+c.tool, c.args)
		code := "PENSTOCK_" + c.has
		if c.code == 0 && r.ToolCode != code || c.code != 0 && (r.Code != c.code || c.has != "" && r.Said != code) {
			t.Errorf("%s %s: %v", c.tool, c.args, r)
		}
	}
	if n := w.count("tools/call"); n != 0 {
		t.Errorf("%d calls arrived", n)
	}
	if r := ann.call("penstock_release", `{"leaseId":`+quote(lease)+`}`); at(r.Structured, "released") != "true" {
		t.Errorf("release: %v", r)
	}
}

// invoke is an ordinary call under a lease.
func TestInvokeIsAnOrdinaryCall(t *testing.T) {
	t.Parallel()
	w, dir := startWorker(t, "kitchen"), t.TempDir()
	g := serve(t, dir, document(t, dir, keys("ann"), w))
	ann := g.as("ann").ready().plain()
	lease, _ := ann.leased("penstock", "kitchen__bake")
	r := ann.call("penstock_invoke", `{"alias":"kitchen__bake","arguments":{"flavor":"lemon"},"leaseId":`+quote(lease)+`}`)
	if text(r.Result, "content", 0, "text") != "bake for lemon" {
		t.Errorf("invoke: %v", r)
	}
	if h, body := w.last("tools/call"); h.Get("Mcp-Name") != "bake" || strings.Contains(body, "taskExecution") {
		t.Errorf("the call: %v %s", h, body)
	}
}

// A child of the document that offers something else than was pinned has no durable tasks, and has them again when it offers that again.
func TestWhatOffersSomethingElseIsNotEligible(t *testing.T) {
	t.Parallel()
	w, dir := startWorker(t, "kitchen"), t.TempDir()
	doc := document(t, dir, "", w)
	w.change(func() { w.tools = "[" + readTool + "," + bakeTool + "]" })
	g := serve(t, dir, doc)
	c := g.as("")
	eventually(t, "it is looked at", 10*time.Second, func() bool { return w.count("tools/list") >= 1 })
	if got := c.tools(); slices.Contains(got, "penstock_submit") || !slices.Contains(got, "penstock_search") {
		t.Errorf("listed: %v", got)
	}
	code, out := g.admin("GET", "/pin", url.Values{"upstream": {"kitchen"}})
	if code != 200 || text(out, "pin") == text(out, "pinned") || text(out, "pin") != w.pin(t) {
		t.Errorf("pin: %d %s", code, out)
	}
	w.change(func() { w.tools = "[" + bakeTool + "," + readTool + "]" })
	eventually(t, "it is eligible again", 30*time.Second, func() bool { return slices.Contains(c.tools(), "penstock_submit") })
}

// A lost answer leaves the outcome unknown: nothing is sent again, and the connection that is bound to it is over.
func TestALostAnswerIsReconciledAndNotRepeated(t *testing.T) {
	t.Parallel()
	w, dir := startWorker(t, "kitchen"), t.TempDir()
	g := serve(t, dir, document(t, dir, "", w))
	c := g.as("").ready()
	other := text(c.submit("kitchen__bake", "before", `{}`).Result, "taskId")
	w.change(func() { w.drop = true })
	r := c.submit("kitchen__bake", "k", `{}`)
	id := text(r.Result, "taskId")
	if text(r.Result, "_meta", "penstock/taskRoute", "routePhase") != "reconciliation_required" {
		t.Fatalf("submit: %v", r)
	}
	w.change(func() { w.drop = false })
	if r := c.submit("kitchen__bake", "k", `{}`); text(r.Result, "taskId") != id {
		t.Errorf("again: %v", r)
	}
	if n := w.count("tools/call"); n != 2 {
		t.Errorf("%d calls arrived", n)
	}
	polls := w.count("tasks/get")
	if r := c.task("tasks/get", other); text(r.Result, "status") != "working" || at(r.Result, "_meta", "penstock/taskRoute", "reconciliationRequired") != "true" {
		t.Errorf("a task of the connection before: %v", r)
	}
	if n := w.count("tasks/get"); n != polls {
		t.Error("its id was sent over another connection")
	}
	code, out := g.admin("POST", "/routes/resolve", url.Values{"id": {id}, "status": {"completed"}, "reason": {"seen in the oven"}})
	if code != 200 || text(out, "route", "phase") != "terminal" {
		t.Errorf("resolve: %d %s", code, out)
	}
	if r := c.task("tasks/get", id); text(r.Result, "status") != "completed" || !strings.Contains(r.Body, "seen in the oven") {
		t.Errorf("resolved: %v", r)
	}
	if code, _ := g.admin("POST", "/routes/resolve", url.Values{"id": {id}, "status": {"failed"}, "reason": {"x"}}); code != 409 {
		t.Errorf("resolved again: %d", code)
	}
	if all := g.recorded("tasks/resolve"); len(all) != 2 || all[0].Name != id || all[0].Upstream != "kitchen" || all[1].Outcome != "failed" {
		t.Errorf("records: %+v", all)
	}
}
