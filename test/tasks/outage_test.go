package tasks_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestAnOwnerInTroubleIsNeverATaskThatDoesNotExist_25(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]struct {
		begin func(u *upstream)
		codes []int
	}{
		"down":    {func(u *upstream) { u.fails(true) }, []int{upstreamUnavailable, connectionLost}},
		"hanging": {func(u *upstream) { u.handle("tasks/get", func(x *exchange) { x.pause(time.Hour) }) }, []int{upstreamTimeout}},
		"broken": {func(u *upstream) {
			u.handle("tasks/get", func(x *exchange) { x.message(http.StatusInternalServerError, "<html>broken</html>") })
		}, []int{upstreamUnavailable, connectionLost, invalidAnswer}},
		"malformed": {func(u *upstream) {
			u.handle("tasks/get", func(x *exchange) { x.message(http.StatusOK, `{"jsonrpc":"2.0","id":`+x.ID+`,"result":{"taskId":`) })
		}, []int{invalidAnswer, connectionLost}},
		"about another task": {func(u *upstream) {
			u.handle("tasks/get", func(x *exchange) { x.result(`{` + taskOf("another", `"ttlMs":null`, `"secret":"of another"`) + `}`) })
		}, []int{invalidAnswer}},
		"about no task": {func(u *upstream) {
			u.handle("tasks/get", func(x *exchange) { x.result(`{"status":"completed"}`) })
		}, []int{invalidAnswer}},
		"about a task in number": {func(u *upstream) {
			u.handle("tasks/get", func(x *exchange) { x.result(`{"taskId":1,"status":"completed"}`) })
		}, []int{invalidAnswer}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUpstream(t, "up")
			d := over(u)
			d.limits = "list_timeout: 2s, call_timeout: 2s"
			d.ups = []string{u.line("up", "breaker: {failures: 5, open: 1s}")}
			g := serve(t, d)
			ann := g.as("ann")
			id := ann.mint(t, "up__work")
			trouble.begin(u)
			for range 4 {
				r := ann.get(id)
				if !slices.Contains(trouble.codes, r.Code) || strings.Contains(r.Body, "of another") {
					t.Errorf("want one of %v, got %v", trouble.codes, r)
				}
			}
			u.fails(false)
			u.handle("tasks/get", nil)
			eventually(t, "the task is found again", 40*time.Second, func() bool { return ann.get(id).Code == 0 })
		})
	}
}

func TestAnUpstreamThatWasRenamedKeepsItsTasks_22(t *testing.T) {
	t.Parallel()
	u, other := newUpstream(t, "old"), newUpstream(t, "other")
	d := over(u, other)
	g := serve(t, d)
	ann, bob := g.as("ann"), g.as("bob")
	id := ann.mint(t, "old__work")

	renamed := doc{ups: []string{u.line("new", "formerly: [old]"), other.line("other", "")}}
	g.reload(renamed)
	if r := ann.get(id); r.id() != id || text(r.Result, "_meta", "penstock/upstream") != "new" {
		t.Errorf("renamed: %v", r)
	}
	bob.lacks(t, id)
	// What it mints now is minted under its new key, also the same id again.
	u.ids(id)
	ann.mint(t, "new__work")
	ann.owns(t, id)

	// Removed, it is away, and nobody else is asked.
	for name, d := range map[string]doc{
		"removed":                       {ups: []string{other.line("other", "")}},
		"removed, with searching":       {ups: []string{other.line("other", "")}, tasks: "probe: on"},
		"renamed without saying so":     {ups: []string{u.line("newer", ""), other.line("other", "")}},
		"another under the former name": {ups: []string{other.line("other", "formerly: [never]")}},
	} {
		g.reload(d)
		for _, method := range methods {
			if r := ann.task(method, id); r.Code != upstreamUnavailable {
				t.Errorf("%s: %s: %v", name, method, r)
			}
		}
		bob.lacks(t, id)
	}
	if n := other.heard(); n != 0 {
		t.Errorf("another upstream was asked %d times", n)
	}
	g.reload(renamed)
	ann.owns(t, id)
}

func TestLifetimesOfEveryKindKeepTheirTasks_26(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, "up")
	u.lives("")
	d := over(u)
	d.tasks = "grace: 1h"
	g := serve(t, d)
	ann := g.as("ann")
	lives := []string{
		`"ttlMs":null`, `"ttlMs":0`, `"ttlMs":-1`, `"ttlMs":-1e300`, `"ttlMs":1e300`, `"ttlMs":1e999`, `"ttlMs":9223372036854775807`, `"ttlMs":9223372036854775808`,
		`"ttlMs":1.5`, `"ttlMs":0.0000001`, `"ttlMs":"an hour"`, `"ttlMs":{}`, `"ttlMs":[1]`, `"ttlMs":true`, `"ttl":60000`, ``,
		`"ttlMs":1000,"createdAt":"2020-01-01T00:00:00Z"`, `"ttlMs":1000,"createdAt":"9999-12-31T23:59:59Z"`, `"ttlMs":60000,"createdAt":"yesterday"`, `"ttlMs":60000,"createdAt":7`,
		`"ttlMs":null,"createdAt":null`,
	}
	for i, life := range lives {
		id := "life-" + string(rune('a'+i))
		u.handle("tools/call", func(x *exchange) {
			x.u.set(id, life)
			x.result(`{"resultType":"task",` + taskOf(id, life, "") + `}`)
		})
		r := ann.call("up__work")
		if r.id() != id || life != "" && !strings.Contains(r.Message, life) {
			t.Errorf("%s: %v", life, r)
			continue
		}
		for j := range 5 { // it changes from poll to poll
			other := lives[(i+4*j+1)%len(lives)]
			u.set(id, other)
			if r := ann.get(id); r.id() != id {
				t.Errorf("%s, then %s: %v", life, other, r)
			}
		}
	}
}

// A record goes when its task has passed and the grace as well, whatever the upstream still knows; those of others stay.
func TestARecordGoesWithItsTask_26(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it waits for a sweep")
	}
	u := newUpstream(t, "up")
	d := over(u)
	d.tasks = "probe: off, grace: 1s"
	g := serve(t, d)
	ann := g.as("ann")
	u.lives(`"ttlMs":1000`)
	ended := ann.mint(t, "up__work")
	u.lives(`"ttlMs":3600000`)
	long := ann.mint(t, "up__work")
	u.lives(`"ttlMs":null`)
	endless := ann.mint(t, "up__work")
	prolonged := ann.mint(t, "up__work")
	u.set(ended, `"status":"completed","result":{"content":[]}`)
	u.lives(`"ttlMs":3600000`) // and now they all say so
	ann.owns(t, prolonged)
	eventually(t, "the records of what has passed are gone", 80*time.Second, func() bool {
		time.Sleep(500 * time.Millisecond)
		return ann.task("tasks/cancel", ended).Code == invalidParams
	})
	ann.lacks(t, ended)
	for _, id := range []string{long, endless, prolonged} {
		ann.owns(t, id)
	}
}
