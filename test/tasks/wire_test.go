package tasks_test

import (
	"net/http"
	"strings"
	"testing"
)

func TestATaskReachesItsClientWhole_1(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, "up")
	const created = `"resultType":"task","taskId":"whole-1","status":"working","statusMessage":"on it","createdAt":"2026-01-02T03:04:05Z",` +
		`"lastUpdatedAt":"2026-01-02T03:04:05Z","ttlMs":3.6e6,"pollIntervalMs":  25,"later":{"a":[1,2.50]}`
	u.handle("tools/call", func(x *exchange) {
		x.u.set("whole-1", "")
		x.result(`{` + created + `,"requestState":"leaks"}`)
	})
	g := serve(t, over(u))
	r := g.as("ann").call("up__work")
	if r.Status != http.StatusOK || !strings.Contains(r.Message, `"result":{`+created) {
		t.Errorf("the upstream said {%s}, and the client heard %v", created, r)
	}
	for _, none := range []string{`"content"`, `"requestState"`, `"task":`} {
		if strings.Contains(r.Message, none) {
			t.Errorf("the client heard %s: %v", none, r)
		}
	}
	g.as("ann").owns(t, "whole-1")
}

func TestTasksAreOfferedToWhoSpeaksThem_2(t *testing.T) {
	t.Parallel()
	u, plain := newUpstream(t, "up"), newUpstream(t, "plain")
	plain.plain = true
	g := serve(t, over(u, plain))
	ann := g.as("ann")
	d := ann.request("server/discover", "", "")
	if at(d.Result, "capabilities", "extensions", extension) == "" || at(d.Result, "capabilities", "tasks") != "" {
		t.Errorf("server/discover: %v", d)
	}
	ann.mint(t, "up__work")
	if calls := u.got("tools/call"); len(calls) != 1 || !calls[0].Declared {
		t.Errorf("the upstream that speaks tasks saw %+v", calls)
	}
	if r := ann.call("plain__work"); r.Code != 0 || r.id() != "" {
		t.Errorf("a call that makes no task: %v", r)
	}
	if calls := plain.got("tools/call"); len(calls) != 1 || calls[0].Declared {
		t.Errorf("the upstream that has no tasks saw %+v", calls)
	}
	if r := ann.plain().call("up__work"); r.Code != 0 || r.id() != "" || text(r.Result, "content", 0, "text") != "done at once" {
		t.Errorf("a client without tasks: %v", r)
	}
	if calls := u.got("tools/call"); calls[len(calls)-1].Declared {
		t.Error("tasks were declared for a client that has none")
	}
	alone := serve(t, over(plain))
	if d := alone.as("ann").request("server/discover", "", ""); strings.Contains(d.Message, extension) || d.Code != 0 {
		t.Errorf("no upstream has tasks, and the gateway says %v", d)
	}
}

func TestATaskThatWasNotAskedForIsNoAnswer_2(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, "up")
	u.handle("tools/call", (*exchange).task)
	g := serve(t, over(u))
	r := g.as("ann").plain().call("up__work")
	if r.Code != invalidAnswer || strings.Contains(r.Body, "up-task-1") {
		t.Errorf("%v", r)
	}
	g.as("ann").lacks(t, "up-task-1")
}

func TestAnUnknownTaskIsInvalidParamsAndWhoHasNoTasksIsToldSoFirst_3(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, "up")
	g := serve(t, over(u))
	ann := g.as("ann")
	id := ann.mint(t, "up__work")
	ann.lacks(t, "never-was")
	for _, method := range methods {
		var first string
		for _, asked := range []string{id, "never-was"} {
			r := ann.plain().task(method, asked)
			if r.Status != http.StatusBadRequest || r.Code != missingCapability || at(r.Message, "error", "data", "requiredCapabilities", "extensions", extension) != "{}" {
				t.Errorf("%s without the extension: %v", method, r)
			}
			if first == "" {
				first = r.Body
			}
			if r.Body != first {
				t.Errorf("%s tells whether a task exists: %s and %s", method, first, r.Body)
			}
		}
	}
	if n := u.heard(); n != 0 {
		t.Errorf("the upstream was asked %d times", n)
	}
}

func TestWhatTheExtensionTookAwayIsNoMethod_4(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, "up")
	g := serve(t, over(u))
	ann := g.as("ann")
	id := ann.mint(t, "up__work")
	for _, method := range []string{"tasks/list", "tasks/result"} {
		for _, name := range []string{"", id} {
			if r := ann.request(method, `"taskId":`+quote(id), name); r.Status != http.StatusNotFound || r.Code != methodNotFound {
				t.Errorf("%s: %v", method, r)
			}
		}
		if len(u.got(method)) != 0 {
			t.Errorf("%s reached the upstream", method)
		}
	}
}

func TestATaskParameterOfACallMeansNothing_4(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, "up")
	g := serve(t, over(u))
	if r := g.as("ann").plain().call("up__work", `"arguments":{}`, `"task":{"ttl":60000}`); r.Code != 0 || text(r.Result, "content", 0, "text") != "done at once" {
		t.Errorf("%v", r)
	}
}

func TestTheNameHeaderIsTheTaskOnBothLegsAndChecked_5(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, "up")
	g := serve(t, over(u))
	ann := g.as("ann")
	for _, id := range []string{"plain-id", "an id with spaces", "größe"} {
		u.ids(id)
		ann.mint(t, "up__work")
		for _, method := range methods {
			if r := ann.task(method, id); r.Code != 0 {
				t.Errorf("%s of %q: %v", method, id, r)
			}
			if got := u.got(method, id); len(got) != 1 || unsentinel(t, got[0].Name) != id {
				t.Errorf("%s of %q: the upstream saw %+v", method, id, got)
			}
		}
	}
	before := u.heard()
	for _, method := range methods {
		for what, headers := range map[string][]string{
			"another": {"Mcp-Name", "an id with spaces"}, "none": {"-Mcp-Name", ""}, "no base64": {"Mcp-Name", "=?base64?%?="},
			"another spelling": {"Mcp-Name", "PLAIN-ID"},
		} {
			if r := ann.request(method, `"taskId":"plain-id"`, "plain-id", headers...); r.Status != http.StatusBadRequest || r.Code != headerMismatch {
				t.Errorf("%s with %s in Mcp-Name: %v", method, what, r)
			}
		}
	}
	if n := u.heard(); n != before {
		t.Errorf("%d requests with a wrong header reached the upstream", n-before)
	}
}

func TestResultsAboutTasksAreCompleteAndSayWhereTheyComeFrom_8(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, "up")
	g := serve(t, over(u))
	ann := g.as("ann")
	id := ann.mint(t, "up__work")
	if r := ann.call("up__work"); text(r.Result, "_meta", "penstock/upstream") != "up" {
		t.Errorf("a mint: %v", r)
	}
	for name, said := range map[string]string{
		"honest":  `"resultType":"complete",`,
		"missing": ``,
		"wrong":   `"resultType":"task",`,
	} {
		for _, method := range methods {
			u.handle(method, func(x *exchange) {
				x.message(http.StatusOK, `{"jsonrpc":"2.0","id":`+x.ID+`,"result":{`+said+taskOf(x.Task, `"ttlMs":null`, "")+`,"requestState":"leaks"}}`)
			})
			r := ann.task(method, id)
			if text(r.Result, "_meta", "penstock/upstream") != "up" || text(r.Result, "resultType") != "complete" || strings.Contains(r.Message, "requestState") {
				t.Errorf("%s, %s: %v", method, name, r)
			}
		}
	}
	for _, method := range methods[1:] {
		u.handle(method, func(x *exchange) { x.message(http.StatusOK, `{"jsonrpc":"2.0","id":`+x.ID+`,"result":{}}`) })
		if r := ann.task(method, id); text(r.Result, "resultType") != "complete" || text(r.Result, "_meta", "penstock/upstream") != "up" {
			t.Errorf("%s, acknowledged: %v", method, r)
		}
	}
}

func TestAnOwnersOwnErrorPassesAsItIs(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, "up")
	g := serve(t, over(u))
	ann := g.as("ann")
	id := ann.mint(t, "up__work")
	const own = `"error":{"code":-32602,"message":"it  has passed","data":{"why":[1.0]}}`
	for _, method := range methods {
		u.handle(method, func(x *exchange) { x.message(http.StatusOK, `{"jsonrpc":"2.0","id":`+x.ID+`,`+own+`}`) })
		if r := ann.task(method, id); !strings.Contains(r.Message, own) || r.Status != http.StatusOK {
			t.Errorf("%s: %v", method, r)
		}
	}
}
