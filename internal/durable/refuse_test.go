package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/store"
)

// TestIdempotency: one key of one caller is one task, with the very same
// submission, and nobody else's.
func TestIdempotency(t *testing.T) {
	both(t, func(t *testing.T, words Spelling) {
		r := newRig(t, words, nil)
		s := r.submit("k")
		for member, value := range map[string]any{
			"logicalTaskId": "x", "attemptId": "x", "correlationId": "x", "deadlineUnixMs": r.clock.now().UnixMilli() + 1,
			"retentionMs": 700_000, "acceptancePolicySha256": Sum(nil).String(), "artifactScopeSha256": Sum(nil).String(),
			"limits": map[string]any{"maxRuntimeMs": 29_999, "maxOutputBytes": 65_536, "maxArtifactBytes": 8_388_608, "maxAttempts": 1},
		} {
			doc := r.task("k")
			doc[member] = value
			if _, err := r.send(r.lease(), doc); r.code(err) != "TASK_IDEMPOTENCY_CONFLICT" {
				t.Errorf("another %s: %v", member, err)
			}
		}
		doc := r.task("k")
		doc["inputSha256"] = Sum([]byte(`{"a":1}`)).String()
		_, err := r.c.Submit(context.Background(), &Submit{
			Caller: r.caller, Spelling: words, Target: r.target, LeaseID: r.lease(), Arguments: json.RawMessage(`{"a":1}`), Task: encode(t, doc),
		})
		if r.code(err) != "TASK_IDEMPOTENCY_CONFLICT" {
			t.Errorf("other arguments: %v", err)
		}
		r.began("k", 1)

		mine := r.caller
		for _, who := range []Caller{{Principal: "bob", Tenant: "acme"}, {Principal: "ann", Tenant: "other"}} {
			who.Scopes = mine.Scopes
			r.caller = who
			if _, err := r.ask(s.TaskID); r.code(err) != "no task" {
				t.Errorf("%+v sees it: %v", who, err)
			}
			if err := r.cancel(s.TaskID); r.code(err) != "no task" {
				t.Errorf("%+v cancels it: %v", who, err)
			}
			if _, err := r.c.Update(context.Background(), who, s.TaskID, nil); r.code(err) != "no task" {
				t.Errorf("%+v updates it: %v", who, err)
			}
			if own := r.submit("k"); own.TaskID == s.TaskID {
				t.Errorf("%+v has its task", who)
			}
		}
		r.began("k", 3)
		r.caller = mine
		// Equal JSON is the same input.
		doc = r.task("k2")
		doc["inputSha256"] = mustSum(`{"a":{"c":2,"b":1}}`)
		for _, arguments := range []string{`{"a":{"b":1,"c":2}}`, `{ "a" : {"c":2, "b":1} }`} {
			if _, err := r.c.Submit(context.Background(), &Submit{
				Caller: r.caller, Spelling: words, Target: r.target, LeaseID: r.lease(), Arguments: json.RawMessage(arguments), Task: encode(t, doc),
			}); err != nil {
				t.Errorf("%s: %v", arguments, err)
			}
		}
		r.began("k2", 1)
	})
}

func mustSum(s string) string {
	d, err := SumJSON([]byte(s))
	if err != nil {
		panic(err)
	}
	return d.String()
}

// TestLateRecovery: behind its deadline a submission finds what it was, and
// creates nothing (contract 2.2).
func TestLateRecovery(t *testing.T) {
	both(t, func(t *testing.T, words Spelling) {
		r := newRig(t, words, nil)
		r.w.finish = "completed"
		doc := r.task("k")
		s, err := r.send(r.lease(), doc)
		if err != nil {
			t.Fatal(err)
		}
		r.get(s.TaskID)
		other := r.task("other")
		r.clock.move(61 * time.Second)
		again, err := r.send("", doc)
		if err != nil || again.TaskID != s.TaskID || again.Status != "completed" {
			t.Errorf("%+v %v", again, err)
		}
		if _, err := r.send(r.lease(), other); r.code(err) != "TASK_DEADLINE_INVALID" {
			t.Errorf("a new one: %v", err)
		}
		doc["attemptId"] = "x"
		if _, err := r.send("", doc); r.code(err) != "TASK_IDEMPOTENCY_CONFLICT" {
			t.Errorf("another binding: %v", err)
		}
		delete(doc, "idempotencyKey")
		if _, err := r.send(r.lease(), doc); r.code(err) != "TASK_SUBMISSION_INVALID" {
			t.Errorf("no key: %v", err)
		}
		r.began("k", 1)
		r.began("other", 0)
	})
}

// TestRefusedBeforeAnything: what is refused leaves no trace and sends nothing.
func TestRefusedBeforeAnything(t *testing.T) {
	both(t, func(t *testing.T, words Spelling) {
		r := newRig(t, words, func(o *Options) { o.MaxRoutes, o.MaxRoutesPerCaller = 6, 3 })
		arguments := func(a string) error {
			doc := r.task("x")
			if d, err := SumJSON([]byte(a)); err == nil {
				doc["inputSha256"] = d.String()
			}
			_, err := r.c.Submit(context.Background(), &Submit{Caller: r.caller, Spelling: words, Target: r.target, LeaseID: r.lease(), Arguments: json.RawMessage(a), Task: encode(t, doc)})
			return err
		}
		for _, a := range []string{``, `null`, `[]`, `"x"`, `7`, `{`} {
			if err := arguments(a); r.code(err) != "TASK_ARGUMENTS_REQUIRED" {
				t.Errorf("arguments %q: %v", a, err)
			}
		}
		if err := arguments(`{"a":"` + strings.Repeat("x", maxInput) + `"}`); r.code(err) != "TASK_INPUT_LIMIT_EXCEEDED" {
			t.Errorf("too much input: %v", err)
		}
		for _, who := range []Caller{
			{Principal: strings.Repeat("p", 129), Tenant: "t", Local: true}, {Principal: "", Tenant: "t", Local: true}, {Principal: "p", Tenant: "a\x00", Local: true},
		} {
			mine := r.caller
			r.caller = mine
			lease := r.lease(func(g *Grant) {})
			_, err := r.c.Submit(context.Background(), &Submit{Caller: who, Spelling: words, Target: r.target, LeaseID: lease, Arguments: json.RawMessage(`{}`), Task: encode(t, r.task("x"))})
			if err == nil {
				t.Errorf("a submission of %+v", who)
			}
		}
		r.w.set(func() { r.w.down = true })
		if _, err := r.send(r.lease(), r.task("x")); r.code(err) != "TASK_UPSTREAM_UNAVAILABLE" {
			t.Errorf("a worker that is away: %v", err)
		}
		r.w.set(func() { r.w.down = false })
		target := r.target
		r.target.Upstream = "gone"
		if _, err := r.send(r.lease(), r.task("x")); r.code(err) != "TASK_UPSTREAM_UNAVAILABLE" {
			t.Errorf("an upstream that is not eligible: %v", err)
		}
		r.target = target
		if n, err := r.store.Routes().Count(context.Background()); err != nil || len(n) != 0 {
			t.Errorf("%v routes, %v", n, err)
		}
		r.began("x", 0)

		first := r.submit("k0")
		r.submit("k1")
		r.submit("k2")
		if _, err := r.send(r.lease(), r.task("k3")); r.code(err) != "TASK_ROUTE_CAPACITY" {
			t.Errorf("the caller's fourth: %v", err)
		}
		if again, err := r.send("", r.task("k0")); err != nil || again.TaskID != first.TaskID {
			t.Errorf("a retry at capacity: %v", err)
		}
		mine := r.caller
		r.caller.Principal = "bob"
		for i := range 3 {
			r.submit(fmt.Sprint("k", i))
		}
		r.caller.Principal = "eve"
		if _, err := r.send(r.lease(), r.task("k")); r.code(err) != "TASK_ROUTE_CAPACITY" {
			t.Errorf("the seventh of all: %v", err)
		}
		r.clock.move(601 * time.Second)
		r.submit("k")
		r.caller = mine
		r.submit("k3")
	})
}

// TestConcurrentSubmits: one key submitted by many at once is one operation, and
// all of them are told of the same task.
func TestConcurrentSubmits(t *testing.T) {
	r := newRig(t, Penstock, nil)
	lease := r.lease()
	ids := make(chan string, 32)
	var all sync.WaitGroup
	for range cap(ids) {
		all.Go(func() {
			s, err := r.send(lease, r.task("k"))
			if err != nil {
				t.Error(err)
				return
			}
			ids <- s.TaskID
		})
	}
	all.Wait()
	close(ids)
	one := ""
	for id := range ids {
		if one == "" {
			one = id
		}
		if id != one {
			t.Errorf("%s and %s", id, one)
		}
	}
	r.began("k", 1)
}

// TestStoredRecord: a record that was edited by hand is refused, whatever was
// edited, and nothing is sent on its word.
func TestStoredRecord(t *testing.T) {
	both(t, func(t *testing.T, words Spelling) {
		for name, c := range map[string]struct {
			edit func(row *store.Route)
			code string
		}{
			"document": {func(row *store.Route) {
				row.Document = []byte(strings.Replace(string(row.Document), `"w0"`, `"w1"`, 1))
			}, "STORAGE_TASK_ROUTE_INTEGRITY"},
			"document and digest": {func(row *store.Route) { redigest(row, `"upstream_task_id":"w0"`, `"upstream_task_id":"w1"`) }, "STORAGE_TASK_ROUTE:" + words.Code("TASK_ROUTE_COLUMN_MISMATCH")},
			"an unknown member":   {func(row *store.Route) { redigest(row, `{"alias"`, `{"a":1,"alias"`) }, "STORAGE_TASK_ROUTE_INTEGRITY"},
			"the binding":         {func(row *store.Route) { redigest(row, `logical-k`, `logical-x`) }, "STORAGE_TASK_ROUTE:" + words.Code("TASK_ROUTE_INVARIANT")},
			"no JSON":             {func(row *store.Route) { redigest(row, `{"alias"`, `["alias"`) }, "STORAGE_TASK_ROUTE_INTEGRITY"},
			"an end before its end": {func(row *store.Route) {
				redigest(row, `"cached_terminal_state":null`, `"cached_terminal_state":{"status":"completed"}`)
			}, "STORAGE_TASK_ROUTE:" + words.Code("TASK_ROUTE_INVARIANT")},
		} {
			r := newRig(t, words, nil)
			s := r.submit("k")
			edited := &editing{Routes: r.routes.Routes, edit: c.edit}
			r.routes.Routes = edited
			if _, err := r.ask(s.TaskID); r.code(err) != c.code {
				t.Errorf("%s: get: %v, want %s", name, err, c.code)
			}
			if err := r.cancel(s.TaskID); r.code(err) != c.code {
				t.Errorf("%s: cancel: %v, want %s", name, err, c.code)
			}
			if _, err := r.send(r.lease(), r.task("k")); err == nil {
				t.Errorf("%s: a retry was answered", name)
			}
			if n := r.w.called("tasks/get") + r.w.called("tasks/cancel"); n != 0 {
				t.Errorf("%s: %d requests on its word", name, n)
			}
			r.began("k", 1)
		}
	})
}

func redigest(row *store.Route, from, to string) {
	row.Document = []byte(strings.Replace(string(row.Document), from, to, 1))
	row.Integrity = Sum(row.Document).String()
}

// editing is a store whose records were edited by hand.
type editing struct {
	store.Routes
	edit func(*store.Route)
}

func (e *editing) change(r *store.Route, err error) (*store.Route, error) {
	if err != nil {
		return nil, err
	}
	c := *r
	e.edit(&c)
	return &c, nil
}

func (e *editing) Get(ctx context.Context, id string) (*store.Route, error) {
	return e.change(e.Routes.Get(ctx, id))
}

func (e *editing) Find(ctx context.Context, principal, tenant, key string) (*store.Route, error) {
	return e.change(e.Routes.Find(ctx, principal, tenant, key))
}

// TestStoreFaults: a store that fails, or is full, is told of, and nothing is
// sent that was not written down.
func TestStoreFaults(t *testing.T) {
	both(t, func(t *testing.T, words Spelling) {
		for _, c := range []struct {
			step, code string
			runs       int
		}{{"begin", "STORAGE_WRITE", 0}, {string(Dispatching), "STORAGE_WRITE", 0}, {string(Routed), "STORAGE_WRITE", 1}} {
			r := newRig(t, words, nil)
			lease := r.lease()
			full := &failingStore{Routes: r.routes.Routes, step: c.step, err: fmt.Errorf("%w: disk", store.ErrNoSpace)}
			r.routes.Routes = full
			if _, err := r.send(lease, r.task("k")); r.code(err) != c.code {
				t.Errorf("%s: %v", c.step, err)
			}
			r.began("k", c.runs)
			full.step = ""
			s, err := r.send(lease, r.task("k"))
			if err != nil {
				t.Fatalf("%s: once there is room: %v", c.step, err)
			}
			r.began("k", 1)
			if c.step == string(Routed) {
				// The bind could not be written. The call has ended all the same, and
				// what it is bound to is not known: never again.
				r.clock.move(31 * time.Second)
				r.expect("behind its time", r.get(s.TaskID), Reconciliation, "working", "TASK_RUNTIME_BOUND_REACHED")
			}
			r.began("k", 1)
		}
	})
}

type failingStore struct {
	store.Routes
	step string
	err  error
}

func (f *failingStore) Begin(ctx context.Context, r *store.Route, e *store.RouteEvent, now time.Time, b store.RouteBounds) (*store.Route, bool, error) {
	if f.step == "begin" {
		return nil, false, f.err
	}
	return f.Routes.Begin(ctx, r, e, now, b)
}

func (f *failingStore) Update(ctx context.Context, r *store.Route, e *store.RouteEvent) error {
	if f.step == r.Phase {
		return f.err
	}
	return f.Routes.Update(ctx, r, e)
}

// TestClockBack: a clock that goes back makes no time stamp go back, ends
// nothing and begins nothing.
func TestClockBack(t *testing.T) {
	r := newRig(t, Penstock, nil)
	r.clock.move(time.Hour)
	s := r.submit("k")
	r.clock.move(-2 * time.Hour)
	g := r.get(s.TaskID)
	r.expect("poll", g, Routed, "working", "")
	if err := r.cancel(s.TaskID); err != nil {
		t.Fatal(err)
	}
	after := r.get(s.TaskID)
	if after.LastUpdatedAt < g.LastUpdatedAt || after.CreatedAt != s.CreatedAt {
		t.Errorf("%s went to %s", g.LastUpdatedAt, after.LastUpdatedAt)
	}
	r.began("k", 1)
	r.clock.at = time.UnixMilli(-1)
	if _, err := r.ask(s.TaskID); r.code(err) != "CLOCK_INVALID" {
		t.Errorf("before 1970: %v", err)
	}
	if _, err := r.send("", r.task("k2")); r.code(err) != "CLOCK_INVALID" {
		t.Errorf("before 1970: %v", err)
	}
}

// TestResolve: an operator ends what nobody else can, once, and the caller is
// told who said so.
func TestResolve(t *testing.T) {
	both(t, func(t *testing.T, words Spelling) {
		ctx := context.Background()
		r := newRig(t, words, nil)
		r.w.next = func(string) fate { return lostAfter }
		for status, want := range map[string]string{"completed": "completed", "failed": "failed", "cancelled": "cancelled", "unknown": "failed"} {
			s := r.submit(status)
			if err := r.c.Resolve(ctx, s.TaskID, status, "looked at it", "op"); err != nil {
				t.Fatal(err)
			}
			g := r.get(s.TaskID)
			r.expect(status, g, Terminal, want, "TASK_RESOLVED_BY_OPERATOR")
			if state := g.Meta[words.Meta("taskRoute")].Execution; state != "operator_resolved" {
				t.Errorf("%s: %s", status, state)
			}
			if err := r.c.Resolve(ctx, s.TaskID, "failed", "again", "op"); !errors.Is(err, ErrResolved) {
				t.Errorf("twice: %v", err)
			}
			_, events, err := r.c.Show(ctx, s.TaskID)
			if err != nil || len(events) != 4 {
				t.Errorf("%d events, %v", len(events), err)
			}
			r.began(status, 1)
		}
		s := r.submit("k")
		if err := r.c.Resolve(ctx, s.TaskID, "done", "x", "op"); !errors.Is(err, ErrResolved) {
			t.Errorf("an odd end: %v", err)
		}
		if list, err := r.c.List(ctx, store.RouteFilter{}, 3); err != nil || len(list) != 3 {
			t.Errorf("%d, %v", len(list), err)
		}
	})
}

// TestStoreAwayForAMoment: what came of a call is written down when the store is
// back, and the call is not in doubt.
func TestStoreAwayForAMoment(t *testing.T) {
	r := newRig(t, Penstock, nil)
	lease, times := r.lease(), 0
	away := &failingStore{Routes: r.routes.Routes, step: string(Routed), err: store.ErrUnavailable}
	r.routes.kill = func(_ int, name string) (bool, bool) {
		if name == string(Routed) {
			if times++; times == 2 {
				away.step = ""
			}
		}
		return false, false
	}
	r.routes.Routes = away
	s, err := r.send(lease, r.task("k"))
	if err != nil {
		t.Fatal(err)
	}
	r.expect("written after all", s, Routed, "working", "")
	r.began("k", 1)
	if times != 2 {
		t.Errorf("%d attempts", times)
	}
}

// TestRetryNeedsTheScopeOfNow: what was never sent is not sent for a caller whose
// scope is gone; it is told of, and sent once the scope is back.
func TestRetryNeedsTheScopeOfNow(t *testing.T) {
	both(t, func(t *testing.T, words Spelling) {
		r := newRig(t, words, nil)
		lease := r.lease()
		r.routes.kill = func(_ int, n string) (bool, bool) { return n == string(Dispatching), false }
		if _, err := r.send(lease, r.task("k")); err == nil {
			t.Fatal("the process lived on")
		}
		r.restart()
		scopes := r.caller.Scopes
		r.caller.Scopes = nil
		s, err := r.send("", r.task("k"))
		if err != nil {
			t.Fatal(err)
		}
		r.expect("without the scope", s, Prepared, "working", "")
		r.began("k", 0)
		r.caller.Scopes = scopes
		if s, err = r.send("", r.task("k")); err != nil {
			t.Fatal(err)
		}
		r.expect("with it", s, Routed, "working", "")
		r.began("k", 1)
	})
}
