package tasks_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock"
)

func TestEveryPathToAToolRemembersItsTask(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		server string
		ups    int
		tool   string
	}{
		"passthrough":          {"naming: passthrough", 1, "work"},
		"namespaced":           {"naming: namespaced", 2, "up__work"},
		"prefixed":             {"naming: prefixed", 2, "up-work"},
		"prefixed, by another": {`naming: prefixed, separator: "."`, 2, "up.work"},
		"by an alias":          {"aliases: {do_it: {upstream: up, tool: work}}", 2, "do_it"},
	} {
		for _, sse := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, sse=%v", name, sse), func(t *testing.T) {
				t.Parallel()
				u, other := newUpstream(t, "up"), newUpstream(t, "other")
				u.sse = sse
				d := over(u)
				if c.ups > 1 {
					d = over(u, other)
				}
				d.server = c.server
				g := serve(t, d)
				ann := g.as("ann")
				var id string
				eventually(t, "a task is made", 30*time.Second, func() bool { id = ann.call(c.tool).id(); return id != "" })
				for _, method := range methods {
					if r := ann.task(method, id); r.Code != 0 || len(u.got(method, id)) != 1 {
						t.Errorf("%s: %v", method, r)
					}
				}
				g.as("bob").lacks(t, id)
				if other.heard() != 0 {
					t.Error("another upstream was asked")
				}
			})
		}
	}
}

func TestATaskAfterAQuestionIsRemembered(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, "up")
	u.handle("tools/call", func(x *exchange) {
		if at(x.Params, "inputResponses") == "" {
			x.result(`{"resultType":"input_required","inputRequests":{"k":{"method":"elicitation/create","params":{"message":"sure?","requestedSchema":{"type":"object","properties":{}}}}},"requestState":"s"}`)
			return
		}
		if text(x.Params, "requestState") != "s" || !x.Declared {
			x.fail(invalidParams, "not the state that was given, or no tasks")
			return
		}
		x.task()
	})
	g := serve(t, over(u))
	ann := g.as("ann")
	q := ann.call("up__work")
	if text(q.Result, "resultType") != "input_required" {
		t.Fatalf("%v", q)
	}
	r := ann.call("up__work", `"arguments":{}`, `"inputResponses":{"k":{"action":"accept","content":{}}}`, `"requestState":`+at(q.Result, "requestState"))
	if r.id() == "" || strings.Contains(r.Message, "requestState") || strings.Contains(r.Message, "inputRequests") {
		t.Fatalf("%v", r)
	}
	ann.owns(t, r.id())
	g.as("bob").lacks(t, r.id())
}

func TestLargeAnswersAboutTasks(t *testing.T) {
	t.Parallel()
	for _, sse := range []bool{false, true} {
		u := newUpstream(t, "up")
		u.sse = sse
		g := serve(t, over(u))
		ann := g.as("ann")
		ann.call("up__work")
		big := strings.Repeat("0123456789abcdef", 300<<10/16)
		for name, result := range map[string]string{
			"type first": `{"resultType":"task",` + taskOf("large-1", `"ttlMs":null`, `"statusMessage":"`+big+`"`) + `}`,
			"type last":  `{` + taskOf("large-1", `"ttlMs":null`, `"statusMessage":"`+big+`"`) + `,"resultType":"task"}`,
		} {
			u.handle("tools/call", func(x *exchange) {
				x.u.set("large-1", "")
				x.message(200, `{"jsonrpc":"2.0","id":`+x.ID+`,"result":`+result+`}`)
			})
			r := ann.call("up__work")
			if r.id() != "large-1" || text(r.Result, "statusMessage") != big {
				t.Errorf("sse=%v, %s: %.300v", sse, name, r)
			}
			ann.owns(t, "large-1")
		}
		huge := strings.Repeat(big, 3)
		u.set("large-1", `"status":"completed","result":{"content":[{"type":"text","text":"`+huge+`"}]}`)
		if r := ann.get("large-1"); text(r.Result, "result", "content", 0, "text") != huge {
			t.Errorf("sse=%v, a result of %d bytes: %.300v", sse, len(huge), r)
		}
		ann.owns(t, "large-1")
	}
}

func TestAnAnswerBeyondTheBoundFailsOnePollAlone(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, "up")
	d := over(u)
	d.limits = "list_timeout: 10s, call_timeout: 30s, response_bytes: 1MiB"
	g := serve(t, d)
	ann := g.as("ann")
	id := ann.mint(t, "up__work")
	u.set(id, `"status":"completed","result":{"content":[{"type":"text","text":"`+strings.Repeat("x", 2<<20)+`"}]}`)
	if r := ann.get(id); r.Code == 0 || r.Code == invalidParams || len(r.Body) > 1000 {
		t.Errorf("%.300v", r)
	}
	u.set(id, "")
	ann.owns(t, id)
}

// What a task brings is mapped as the tool's own answer would be.
func TestIdentifiersInWhatATaskBroughtAreMapped(t *testing.T) {
	t.Parallel()
	u, other := newUpstream(t, "up"), newUpstream(t, "other")
	const content = `{"content":[{"type":"resource_link","uri":"file:///a","name":"a"},{"type":"resource","resource":{"uri":"file:///b","text":"b"}},{"type":"text","text":"file:///c"}],"structuredContent":{"uri":"file:///d"},"more": [1.0]}`
	d := over(u, other)
	d.server = "naming: prefixed"
	var c censor
	for _, hooked := range []bool{false, true} {
		g := serve(t, d)
		if hooked {
			g = serve(t, d, c.option(penstock.ToolAfter))
		}
		ann := g.as("ann")
		u.handle("tools/call", nil)
		var id string
		eventually(t, "a task is made", 30*time.Second, func() bool { id = ann.call("up-work").id(); return id != "" })
		u.handle("tools/call", func(x *exchange) { x.result(content) })
		plain := ann.call("up-work")
		if text(plain.Result, "content", 0, "uri") == "file:///a" || at(plain.Result, "content") == "" {
			t.Fatalf("the call itself is not mapped: %v", plain)
		}
		u.set(id, `"status":"completed","before":"x","result":`+content+`,"after":"y"`)
		r := ann.get(id)
		for _, member := range []string{"content", "structuredContent", "more"} {
			if got, want := at(r.Result, "result", member), at(plain.Result, member); got != want {
				t.Errorf("%s of a task is\n%s, and of a call\n%s", member, got, want)
			}
		}
		if text(r.Result, "before") != "x" || text(r.Result, "after") != "y" || text(r.Result, "status") != "completed" {
			t.Errorf("%v", r)
		}
	}
}

func TestATaskOfAReplicaIsAskedForThereAlone(t *testing.T) {
	t.Parallel()
	one, two, other := newUpstream(t, "one"), newUpstream(t, "two"), newUpstream(t, "other")
	d := doc{limits: "list_timeout: 3s, call_timeout: 5s", tasks: "probe: on, probe_rate: 1000/s"}
	urls := func(ups ...*upstream) string {
		var all []string
		for _, u := range ups {
			all = append(all, fmt.Sprintf("%q", u.url()))
		}
		return fmt.Sprintf("  up: {urls: [%s], era: modern, breaker: {failures: 5, open: 1s}}\n", strings.Join(all, ", "))
	}
	d.ups = []string{urls(one, two), other.line("other", "")}
	g := serve(t, d)
	at := map[*upstream][]string{}
	ann := g.as("ann")
	for range 40 {
		id := ann.mint(t, "up__work")
		if strings.HasPrefix(id, "one-") {
			at[one] = append(at[one], id)
		} else {
			at[two] = append(at[two], id)
		}
		for who, n := range map[string]int{"bob": 1, "eve": 1} {
			for range n {
				g.as(who).call("up__work")
			}
		}
	}
	if len(at[one]) == 0 || len(at[two]) == 0 {
		t.Logf("all tasks were made by one replica: %d and %d", len(at[one]), len(at[two]))
	}
	for u, ids := range at {
		for _, id := range ids {
			for _, method := range methods {
				if r := ann.task(method, id); r.Code != 0 || len(u.got(method, id)) != 1 {
					t.Errorf("%s of %s: %v", method, id, r)
				}
			}
		}
	}
	owner, spare := one, two
	if len(at[one]) == 0 {
		owner, spare = two, one
	}
	id := at[owner][0]
	// Another upstream mints the id: the replica that has the task is asked, and none else.
	for range 4 {
		before := len(spare.got("tasks/get", id))
		other.ids(id)
		if r := ann.call("other__work"); r.Code != taskAmbiguous {
			t.Errorf("an id changed hands: %v", r)
		}
		if len(spare.got("tasks/get", id)) != before {
			t.Error("a replica without the task was asked for it")
		}
	}
	// Away, it is away, and the other replica does not stand in.
	owner.fails(true)
	before := spare.heard()
	for range 3 {
		if r := ann.get(id); r.Code != upstreamUnavailable && r.Code != connectionLost {
			t.Errorf("%v", r)
		}
	}
	if spare.heard() != before {
		t.Error("another replica was asked")
	}
	owner.fails(false)
	eventually(t, "it is back", 40*time.Second, func() bool { return ann.get(id).Code == 0 })
	// Its place in the document is nothing, its address everything.
	d.ups[0] = urls(spare, owner)
	g.reload(d)
	ann.owns(t, id)
	d.ups[0] = urls(spare)
	g.reload(d)
	if r := ann.get(id); r.Code != upstreamUnavailable {
		t.Errorf("its address is configured no more: %v", r)
	}
	d.ups[0] = urls(owner, spare)
	g.reload(d)
	ann.owns(t, id)
}
