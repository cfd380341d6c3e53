package tasks_test

import "testing"

func TestEachRequestAboutATaskIsRecorded_29(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, "up")
	d := over(u)
	d.tasks = "probe: off"
	d.more = "policy:\n  - {id: own, who: {subject: [ann, eve]}, allow: {tools: [\"*\"]}}\n"
	g := serve(t, d)
	ann := g.as("ann")
	id := ann.mint(t, "up__work")
	for _, method := range methods {
		ann.task(method, id)
		g.as("bob").task(method, id)
		ann.task(method, "never-was")
	}
	u.forget(id)
	ann.get(id)
	u.fails(true)
	ann.get(id)
	u.fails(false)
	d.more = "policy: []\n"
	g.reload(d)
	ann.get(id)

	if got := g.recorded("tools/call"); len(got) != 1 || got[0].Detail != "task minted" || got[0].Outcome != "ok" || got[0].Decision != "allow" {
		t.Errorf("the mint: %+v", got)
	}
	for _, method := range methods {
		got := g.recorded(method)
		if len(got) < 3 {
			t.Fatalf("%s: %+v", method, got)
		}
		if r := got[0]; r.Kind != "task" || r.Name != id || r.Upstream != "up" || r.Original != "work" || r.Subject != "ann" || r.Tenant != "acme" || r.Decision != "allow" || r.Outcome != "ok" || r.Code != 0 {
			t.Errorf("%s of one's own: %+v", method, r)
		}
		// Whoever tries another's can be told from whoever mistypes.
		if r := got[1]; r.Kind != "task" || r.Name != id || r.Subject != "bob" || r.Decision != "hidden" || r.Detail == "" || r.Outcome != "refused" || r.Code != invalidParams {
			t.Errorf("%s of another's: %+v", method, r)
		}
		if r := got[2]; r.Kind != "task" || r.Name != "never-was" || r.Decision != "" || r.Outcome != "refused" || r.Code != invalidParams {
			t.Errorf("%s of none: %+v", method, r)
		}
	}
	got := g.recorded("tasks/get")
	if len(got) != 6 {
		t.Fatalf("%d records: %+v", len(got), got)
	}
	if r := got[3]; r.Outcome != "error" || r.Upstream != "up" || r.Code != invalidParams {
		t.Errorf("the owner's own error: %+v", r)
	}
	if r := got[4]; r.Outcome != "failed" || r.Upstream != "up" || r.Decision != "allow" {
		t.Errorf("an outage: %+v", r)
	}
	if r := got[5]; r.Outcome != "refused" || r.Upstream != "up" || r.Decision != "hidden" || r.Name != id || r.Original != "work" {
		t.Errorf("revoked: %+v", r)
	}
}

func TestTasksAreCounted_30(t *testing.T) {
	t.Parallel()
	a, b := newUpstream(t, "a"), newUpstream(t, "b")
	d := over(a, b)
	d.tasks = "probe: on, probe_rate: 30/m" // three at once
	d.more = "policy:\n  - {id: own, who: {subject: [ann, bob]}, allow: {tools: [\"*\"]}}\n"
	g := serve(t, d)
	ann, bob := g.as("ann"), g.as("bob")
	id := ann.mint(t, "a__work")
	ann.plain().call("b__work") // both are known
	bob.get(id)
	bob.get("never-was")
	a.set("strays", "")
	ann.owns(t, "strays")
	a.set("claimed", "")
	b.set("claimed", "")
	ann.get("claimed")
	b.ids(id)
	ann.call("b__work")
	ann.plain().get(id)
	for i := range 20 {
		bob.get("made-up-" + string(rune('a'+i)))
	}
	events := map[string]int{"minted": 1, "foreign": 1, "located": 1, "ambiguous": 1, "collision": 1, "refused": 1}
	for event, want := range events {
		if n := g.count("penstock_tasks_total", `event="`+event+`"`); n != want {
			t.Errorf("%s: %d, want %d", event, n, want)
		}
	}
	if n := g.count("penstock_tasks_total", `event="unknown"`); n < 20 {
		t.Errorf("unknown: %d", n)
	}
	if n := g.count("penstock_limited_total", `scope="search"`); n == 0 {
		t.Error("nobody counts the searches that were too many")
	}
	d.more = "policy: []\n"
	g.reload(d)
	ann.get(id)
	if n := g.count("penstock_tasks_total", `event="denied"`); n != 1 {
		t.Errorf("denied: %d", n)
	}
	// What is turned away is no failure of the gateway's.
	if n := g.count("penstock_requests_total", `method="tasks/get"`, `outcome="failed"`); n > 1 { // the ambiguous one
		t.Errorf("%d refusals count as failures", n)
	}
}
