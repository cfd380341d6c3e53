package durablegateway_test

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/config"
)

// Policy shows in search and describe what it shows in lists, judges the target of invoke and submit like that of a direct call, and a task
// by the tool that it came from each time.
func TestPolicyJudgesWhatTheMetaToolsName(t *testing.T) {
	t.Parallel()
	w, dir := startWorker(t, "kitchen"), t.TempDir()
	rules := func(bake string) string {
		return keys("ann", "bob", "eve") + `policy:
  - {id: ann, who: {subject: [ann]}, allow: {tools: ["` + bake + `"]}, when: '!has(arguments.flavor) || arguments.flavor != "tar"'}
  - {id: bob, who: {subject: [bob]}, allow: {tools: ["kitchen__read"]}}
`
	}
	doc := document(t, dir, rules("*"), w)
	g := serve(t, dir, doc)
	ann, bob, eve := g.as("ann").ready(), g.as("bob"), g.as("eve")
	if got := eve.tools(); len(got) != 0 {
		t.Errorf("listed to who may see nothing: %v", got)
	}
	unknown, meta := eve.call("penstock_nothing", `{}`), eve.call("penstock_search", `{"query":"cake"}`)
	if strings.ReplaceAll(meta.Body, "penstock_search", "penstock_nothing") != unknown.Body {
		t.Errorf("a meta-tool for who may see nothing: %v\nunknown: %v", meta, unknown)
	}
	if r := bob.call("penstock_search", `{"query":"cake recipe kitchen"}`); text(r.Structured, "results", 0, "alias") != "kitchen__read" || at(r.Structured, "results", 1) != "" {
		t.Errorf("bob searches: %v", r)
	}
	for _, args := range []string{`{"alias":"kitchen__bake"}`, `{"alias":"kitchen__none"}`} {
		if r := bob.call("penstock_describe", args); r.ToolCode != "PENSTOCK_CAPABILITY_NOT_FOUND" {
			t.Errorf("bob describes %s: %v", args, r)
		}
	}
	if r := bob.call("penstock_lease", `{"aliases":["kitchen__bake"]}`); r.ToolCode != "PENSTOCK_LEASE_CAPABILITY_OUTSIDE_CONE" {
		t.Errorf("bob leases: %v", r)
	}
	lease, _ := ann.leased("penstock", "kitchen__bake")
	if r := ann.call("penstock_invoke", `{"leaseId":`+quote(lease)+`,"alias":"kitchen__bake","arguments":{"flavor":"tar"}}`); r.Code != -31004 {
		t.Errorf("invoke with what is denied: %v", r)
	}
	if r := ann.submit("kitchen__bake", "tar", `{"flavor":"tar"}`); r.Code != -31004 {
		t.Errorf("submit with what is denied: %v", r)
	}
	if n := w.count("tools/call"); n != 0 {
		t.Errorf("%d calls arrived", n)
	}
	id := text(ann.submit("kitchen__bake", "k", `{}`).Result, "taskId")
	if r := ann.task("tasks/get", id); text(r.Result, "status") != "working" {
		t.Errorf("get: %v", r)
	}
	if r := bob.call("penstock_invoke", `{"leaseId":`+quote(lease)+`,"alias":"kitchen__read"}`); r.ToolCode != "PENSTOCK_LEASE_PRINCIPAL_MISMATCH" {
		t.Errorf("another's lease: %v", r)
	}
	g.reload(document(t, dir, rules("kitchen__read"), w))
	none := ann.task("tasks/get", "pst_00000000-0000-4000-8000-000000000000")
	for _, method := range []string{"tasks/get", "tasks/cancel"} {
		if r := ann.task(method, id); r.Body != none.Body {
			t.Errorf("%s after the grant was taken away: %v", method, r)
		}
	}
	g.reload(doc)
	if r := ann.task("tasks/get", id); text(r.Result, "status") != "working" || at(r.Result, "_meta", "penstock/taskRoute", "reconciliationRequired") == "true" {
		t.Errorf("given back, after two reloads on one connection: %v", r)
	}
	for _, r := range g.recorded("tools/call") {
		if r.Via == "penstock_submit" && r.Code == -31004 && (r.Decision != "deny" || r.Name != "kitchen__bake" || r.Original != "bake") {
			t.Errorf("record: %+v", r)
		}
	}
}

func (g *gateway) reload(doc string) {
	g.t.Helper()
	parsed, err := config.Parse("test.yaml", []byte(doc), func(string) (string, bool) { return "", false })
	if err != nil {
		g.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := g.gw.Reload(ctx, parsed); err != nil {
		g.t.Fatal(err)
	}
}

// A hook sees the tool of a submission as that of a direct call, may refuse it, and fails it by rewriting what is bound; it sees the result in the poll.
func TestHooksSeeSubmissionsAndTheirResults(t *testing.T) {
	t.Parallel()
	w, dir := startWorker(t, "kitchen"), t.TempDir()
	hook := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := bufio.NewReader(r.Body).ReadString(0)
		answer := `{"decision":"allow"}`
		switch {
		case text(body, "name") != "kitchen__bake" || text(body, "original") != "bake":
			answer = `{"decision":"deny","message":"not the tool: ` + strings.ReplaceAll(text(body, "name"), `"`, "") + `"}`
		case text(body, "event") == "tool.before" && text(body, "arguments", "flavor") == "tar":
			answer = `{"decision":"deny","message":"no tar"}`
		case text(body, "event") == "tool.before" && text(body, "arguments", "flavor") == "mint":
			answer = `{"decision":"allow","arguments":{"flavor":"lemon"}}`
		case text(body, "event") == "tool.after" && text(body, "result", "content", 0, "text") == "a cake":
			answer = `{"decision":"allow","result":{"content":[{"type":"text","text":"a smaller cake"}]}}`
		}
		rw.Header().Set("Content-Type", "application/json")
		_, _ = rw.Write([]byte(answer))
	}))
	t.Cleanup(hook.Close)
	more := keys("ann") + `hooks: [{id: h, url: "` + hook.URL + `", events: [tool.before, tool.after], timeout: 5s, on_error: deny}]`
	g := serve(t, dir, document(t, dir, more, w))
	ann := g.as("ann").ready()
	if r := ann.submit("kitchen__bake", "1", `{"flavor":"tar"}`); r.Code != -31017 {
		t.Errorf("refused: %v", r)
	}
	if r := ann.submit("kitchen__bake", "2", `{"flavor":"mint"}`); r.Code != -31018 || !strings.Contains(r.Said, "rewrote") {
		t.Errorf("rewritten: %v", r)
	}
	if n := w.count("tools/call"); n != 0 {
		t.Errorf("%d calls arrived", n)
	}
	id := text(ann.submit("kitchen__bake", "3", `{"flavor":"lemon"}`).Result, "taskId")
	w.end("completed")
	if r := ann.task("tasks/get", id); text(r.Result, "result", "content", 0, "text") != "a smaller cake" {
		t.Errorf("get: %v", r)
	}
}

// Who listens for a durable task hears of its end, though the worker tells nothing by itself.
func TestAListenerHearsOfADurableTask(t *testing.T) {
	t.Parallel()
	w, dir := startWorker(t, "kitchen"), t.TempDir()
	g := serve(t, dir, document(t, dir, keys("ann", "eve"), w))
	ann := g.as("ann").ready()
	id := text(ann.submit("kitchen__bake", "k", `{}`).Result, "taskId")
	heard := ann.listen(t, id)
	if got := <-heard; !strings.Contains(got, "acknowledged") || !strings.Contains(got, id) {
		t.Fatalf("acknowledged: %s", got)
	}
	if got := <-g.as("eve").listen(t, id); strings.Contains(got, id) {
		t.Errorf("acknowledged to another: %s", got)
	}
	if got := <-heard; text(got, "method") != "notifications/tasks" || text(got, "params", "status") != "working" {
		t.Errorf("told: %s", got)
	}
	w.end("completed")
	if got := <-heard; text(got, "params", "status") != "completed" || text(got, "params", "taskId") != id || text(got, "params", "result", "content", 0, "text") != "a cake" {
		t.Errorf("told: %s", got)
	}
}

// listen subscribes to tasks and gives what is heard.
func (c *client) listen(t *testing.T, ids ...string) <-chan string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	quoted := make([]string, len(ids))
	for i := range ids {
		quoted[i] = quote(ids[i])
	}
	resp, err := c.send(ctx, "subscriptions/listen", `"notifications":{"taskIds":[`+strings.Join(quoted, ",")+`]}`, "")
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	out, done := make(chan string, 32), make(chan struct{})
	go func() {
		defer close(done)
		defer close(out)
		lines := bufio.NewScanner(resp.Body)
		for lines.Scan() {
			if data, is := strings.CutPrefix(lines.Text(), "data:"); is {
				out <- strings.TrimSpace(data)
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		_ = resp.Body.Close()
		<-done
	})
	return out
}

// A gateway without an upstream that is pinned, or without a database, has none of this.
func TestWithoutDurableNothingIsDifferent(t *testing.T) {
	t.Parallel()
	w, dir := startWorker(t, "kitchen"), t.TempDir()
	with := document(t, dir, "", w)
	for name, doc := range map[string]string{
		"no pin": with[:strings.Index(with, ", durable:")] + "}\n",
		"off":    strings.Replace(with, "\nupstreams:", "\ndurable: {enabled: off}\nupstreams:", 1),
	} {
		t.Run(name, func(t *testing.T) {
			g := serve(t, dir, doc)
			defer g.close()
			c := g.as("")
			if got := c.tools(); !slices.Equal(got, []string{"kitchen__bake", "kitchen__read"}) {
				t.Errorf("listed: %v", got)
			}
			unknown := c.call("penstock_nothing", `{}`)
			if r := c.call("penstock_search", `{"query":"x"}`); strings.ReplaceAll(r.Body, "penstock_search", "penstock_nothing") != unknown.Body {
				t.Errorf("search: %v", r)
			}
		})
	}
}
