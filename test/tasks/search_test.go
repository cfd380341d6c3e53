package tasks_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/test/idp"
)

func TestOnlyUpstreamsThatTellCallersApartHearOfUnknownIds_16(t *testing.T) {
	t.Parallel()
	p := idp.Start(t)
	own, shared, plain := newUpstream(t, "own"), newUpstream(t, "shared"), newUpstream(t, "plain")
	plain.plain = true
	d := over(shared)
	d.tasks = "probe: caller, probe_rate: 1000/s"
	d.ups = append(d.ups, own.line("own", "credentials: {passthrough: {audience: up}}"), plain.line("plain", "credentials: {passthrough: {audience: up}}"))
	d.auth = fmt.Sprintf("auth:\n  jwt:\n    - {issuer: %q, audience: gw, algorithms: [RS256, ES256]}", p.Issuer())
	g := serve(t, d)
	ann := g.bearing(p.Token(t, idp.TokenSpec{Subject: "ann", Audience: []string{"gw", "up"}}))
	bob := g.bearing(p.Token(t, idp.TokenSpec{Subject: "bob", Audience: []string{"gw", "up"}}))
	for _, tool := range []string{"own__work", "shared__work", "plain__work"} {
		eventually(t, tool+" answers", 30*time.Second, func() bool { return ann.call(tool).Code == 0 && bob.call(tool).Code == 0 })
	}
	for _, u := range []*upstream{own, shared, plain} {
		u.set("made-before", "")
		u.set("shared-only", "")
	}
	own.forget("shared-only")
	bob.lacks(t, "shared-only")
	bob.lacks(t, "never-was")
	bob.owns(t, "made-before")
	for _, u := range []*upstream{shared, plain} {
		if n := u.heard(); n != 0 {
			t.Errorf("%s heard of %d unknown ids", u.name, n)
		}
	}
	for _, a := range own.got("tasks/get") {
		if a.Authorization != "Bearer "+bob.key {
			t.Error("a search came in another name than the caller's")
		}
	}
	if n := len(own.got("tasks/update")) + len(own.got("tasks/cancel")); n != 0 {
		t.Errorf("%d requests that change something were used to search", n)
	}
	// A task of ann's is looked for by nobody else.
	id := ann.mint(t, "own__work")
	bob.lacks(t, id)
	if n := len(own.got("tasks/get", id)); n != 0 {
		t.Error("a foreign id was sent to an upstream")
	}
}

func TestWithoutAuthTheOneCallerFindsItsTasksAgain_16(t *testing.T) {
	t.Parallel()
	a, b := newUpstream(t, "a"), newUpstream(t, "b")
	d := over(a, b)
	d.auth = "allow_anonymous: false"
	g := serve(t, d)
	me := g.bearing("")
	for _, u := range []*upstream{a, b} {
		eventually(t, "the upstream answers", 30*time.Second, func() bool { return me.call(u.name+"__work").Code == 0 })
	}
	b.set("made-before", "")
	me.owns(t, "made-before")
	asked := len(a.got("tasks/get"))
	me.owns(t, "made-before")
	if asked != 1 || len(a.got("tasks/get")) != 1 {
		t.Errorf("the other upstream was asked %d times and then %d", asked, len(a.got("tasks/get")))
	}
}

func TestSearchesAreFewAndOnceAndRemembered_23(t *testing.T) {
	t.Parallel()
	a, b := newUpstream(t, "a"), newUpstream(t, "b")
	a.slows(300 * time.Millisecond)
	b.slows(300 * time.Millisecond)
	d := over(a, b)
	d.tasks = "probe: on, probe_rate: 30/m, miss_ttl: 1h"
	g := serve(t, d)
	ann, bob := g.as("ann"), g.as("bob")
	foreign := []string{}
	for range 6 {
		foreign = append(foreign, ann.mint(t, "a__work"))
	}
	bob.call("b__work")

	// Many at once are one search, and what was missed is not looked for again.
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() { unknown(t, bob.get("never-was")) })
	}
	all.Wait()
	for range 20 {
		bob.lacks(t, "never-was")
	}
	for _, u := range []*upstream{a, b} {
		if n := len(u.got("tasks/get")); n != 1 {
			t.Errorf("%s was asked %d times for one id", u.name, n)
		}
	}
	// A caller that makes ids up is stopped, with foreign ids as with unknown ones.
	met := map[string]bool{}
	for i := range 40 {
		kind, id := "unknown", fmt.Sprintf("made-up-%d", i)
		if i%2 == 0 {
			kind, id = "foreign", foreign[i/2%len(foreign)]
		}
		r := bob.get(id)
		switch {
		case r.Code == rateLimited && r.Status == 429 && r.Header.Get("Retry-After") != "":
			met[kind] = true
		case r.Code != invalidParams:
			t.Errorf("%v", r)
		}
	}
	if !met["unknown"] {
		t.Error("whoever makes ids up is not stopped")
	}
	if n := len(a.got("tasks/get")); n > 12 {
		t.Errorf("one caller had an upstream asked %d times", n)
	}
	// It is stopped alone, and keeps its own tasks.
	if r := g.as("eve").get("never-was"); r.Code != invalidParams {
		t.Errorf("another caller: %v", r)
	}
	bob.owns(t, bob.mint(t, "b__work"))
	// A remembered miss hides no task that is made later.
	b.ids("never-was")
	bob.mint(t, "b__work")
	bob.owns(t, "never-was")
}

func TestForeignIdsUseUpTheSameBudget_23(t *testing.T) {
	t.Parallel()
	a := newUpstream(t, "a")
	d := over(a)
	d.tasks = "probe: on, probe_rate: 10/h, miss_ttl: 1h"
	g := serve(t, d)
	count := func(who string, id func(i int) string) (n int) {
		for i := range 30 {
			if r := g.as(who).get(id(i)); r.Code == rateLimited {
				return i
			}
		}
		return -1
	}
	var foreign []string
	for range 30 {
		foreign = append(foreign, g.as("ann").mint(t, "a__work"))
	}
	theirs := count("bob", func(i int) string { return foreign[i] })
	nobodys := count("eve", func(i int) string { return fmt.Sprint("never-", i) })
	if theirs != nobodys || theirs <= 0 {
		t.Errorf("%d foreign ids may be asked for, and %d unknown ones", theirs, nobodys)
	}
}

func TestASearchDoesNotWaitForWhoHangs_24(t *testing.T) {
	t.Parallel()
	a, hung := newUpstream(t, "a"), newUpstream(t, "hung")
	d := over(a, hung)
	d.limits = "list_timeout: 1s, call_timeout: 30s"
	d.tasks = "probe: on, probe_rate: 1000/s"
	g := serve(t, d)
	bob := g.as("bob")
	for _, u := range []*upstream{a, hung} {
		eventually(t, "it is known", 30*time.Second, func() bool { return bob.call(u.name+"__work").Code == 0 })
	}
	hung.slows(time.Hour)
	for _, id := range []string{"made-before", "never-was"} {
		if id == "made-before" {
			a.set(id, "")
		}
		r := bob.get(id)
		if r.Took > 15*time.Second {
			t.Errorf("%s took %s: %v", id, r.Took, r)
		}
		if id == "never-was" && r.Code != upstreamUnavailable {
			t.Errorf("not everybody was asked, and the task is said not to exist: %v", r)
		}
	}
	// A task with a record depends on nobody but its owner.
	id := bob.mint(t, "a__work")
	before := len(hung.got("tasks/get"))
	for range 5 {
		if r := bob.get(id); r.Code != 0 || r.Took > 5*time.Second {
			t.Errorf("%v, after %s", r, r.Took)
		}
	}
	if len(hung.got("tasks/get")) != before {
		t.Error("somebody else was asked for a task with a record")
	}
}

func TestManyIdenticalPollsAreOneCall_27(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, "up")
	g := serve(t, over(u))
	ann := g.as("ann")
	id := ann.mint(t, "up__work")
	const many = 200
	var gate atomic.Pointer[chan struct{}]
	u.handle("tasks/get", func(x *exchange) {
		if ch := gate.Load(); ch != nil {
			select {
			case <-*ch:
			case <-x.r.Context().Done():
			}
		}
		x.result(`{` + taskOf(x.Task, `"ttlMs":60000`, "") + `}`)
	})
	var calls int
	for range 3 { // a busy machine may hold one of them up on its way
		ch := make(chan struct{})
		gate.Store(&ch)
		before, arrived := len(u.got("tasks/get")), g.arrived.Load()
		var all sync.WaitGroup
		for range many {
			all.Go(func() { ann.owns(t, id) })
		}
		eventually(t, "all polls have arrived", 30*time.Second, func() bool { return g.arrived.Load() >= arrived+many })
		time.Sleep(time.Second)
		close(ch)
		all.Wait()
		if calls = len(u.got("tasks/get")) - before; calls == 1 {
			break
		}
	}
	if calls != 1 {
		t.Errorf("%d polls at once are %d calls", many, calls)
	}
	// Another's is not, and neither is one after a change.
	ch := make(chan struct{})
	gate.Store(&ch)
	before := len(u.got("tasks/get"))
	var both sync.WaitGroup
	both.Go(func() { ann.owns(t, id) })
	eventually(t, "a poll is under way", 30*time.Second, func() bool { return len(u.got("tasks/get")) == before+1 })
	if r := ann.task("tasks/cancel", id); r.Code != 0 {
		t.Errorf("%v", r)
	}
	both.Go(func() { ann.owns(t, id) })
	eventually(t, "a poll after a cancel is one of its own", 30*time.Second, func() bool { return len(u.got("tasks/get")) == before+2 })
	close(ch)
	both.Wait()
}
