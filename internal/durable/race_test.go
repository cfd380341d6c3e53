package durable

import (
	"context"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/store"
)

// TestCancelRaces: a cancellation that arrives while the call is under way keeps
// its intent, whatever the answer is.
func TestCancelRaces(t *testing.T) {
	for _, c := range []struct {
		name    string
		fate    fate
		phase   Phase // right behind the call
		status  string
		cancels int // that the upstream heard
		end     string
	}{
		{"a task", answered, CancelRequested, "working", 1, "cancelled"},
		{"a result", atOnce, Terminal, "completed", 0, "completed"},
		{"nothing", lostAfter, CancelRequested, "working", 0, ""},
		{"a refusal", rejected, Terminal, "failed", 0, "failed"},
		{"not sent", unsent, Terminal, "failed", 0, "failed"},
		{"a forged result", atOnceForged, CancelRequested, "working", 0, ""},
		{"an id that cannot be bound", wrongID, CancelRequested, "working", 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			both(t, func(t *testing.T, words Spelling) {
				r := newRig(t, words, nil)
				r.w.next = func(method string) fate {
					if method == "tools/call" {
						return c.fate
					}
					return answered
				}
				id := ""
				r.w.in = func(method string) {
					if method != "tools/call" {
						return
					}
					row, err := r.store.Routes().Find(context.Background(), "ann", "acme", "k")
					if err != nil {
						t.Fatal(err)
					}
					id = row.ID
					r.expect("while it is under way", r.get(id), Dispatching, "working", "")
					if err := r.cancel(id); err != nil {
						t.Errorf("cancel: %v", err)
					}
					r.expect("with the intent", r.get(id), CancelRequested, "working", "TASK_CANCELLATION_RECONCILIATION_REQUIRED")
				}
				s := r.submit("k")
				if s.TaskID != id {
					t.Errorf("the handle is of %s", s.TaskID)
				}
				r.expect("handle", s, c.phase, c.status, "")
				if r.w.called("tasks/cancel") != c.cancels {
					t.Errorf("%d cancels, want %d", r.w.called("tasks/cancel"), c.cancels)
				}
				g := r.get(id)
				if c.end != "" && g.Status != c.end {
					t.Errorf("the end is %s, want %s", g.Status, c.end)
				} else if c.end == "" {
					r.expect("for good", g, CancelRequested, "working", "TASK_CANCELLATION_RECONCILIATION_REQUIRED")
				}
			})
		})
	}
}

// TestCancelOutcomes: success says that the intent is durable, and a poll tries
// once more.
func TestCancelOutcomes(t *testing.T) {
	both(t, func(t *testing.T, words Spelling) {
		r := newRig(t, words, nil)
		s := r.submit("k")
		r.w.next = func(string) fate { return lostBefore }
		if err := r.cancel(s.TaskID); err != nil {
			t.Errorf("a cancel that was lost: %v", err)
		}
		if err := r.cancel(s.TaskID); err != nil {
			t.Errorf("once more: %v", err)
		}
		r.expect("poll, and nothing is heard", r.get(s.TaskID), CancelRequested, "working", "TASK_CANCELLATION_PENDING")
		r.w.next = func(string) fate { return answered }
		r.expect("poll", r.get(s.TaskID), Terminal, "cancelled", "")
		if r.w.called("tasks/cancel") != 1 {
			t.Errorf("%d cancels arrived", r.w.called("tasks/cancel"))
		}
		if err := r.cancel(s.TaskID); err != nil {
			t.Errorf("cancel of what has ended: %v", err)
		}

		r.w.finish = "completed"
		s = r.submit("finished")
		r.get(s.TaskID)
		if err := r.cancel(s.TaskID); err != nil {
			t.Error(err)
		}
		r.expect("the end stays", r.get(s.TaskID), Terminal, "completed", "")
	})
}

// TestTakeOver: another instance takes a dispatch over when its owner is taken
// for dead. It never dispatches; and the owner, if it lives after all, does not
// any more, or settles the doubt by the answer that it gets.
func TestTakeOver(t *testing.T) {
	r := newRig(t, Penstock, func(o *Options) { o.Shared = true })
	dead := &deaf{Routes: r.routes.Routes}
	other := New(Options{
		Routes: dead, Leases: r.store.Leases(), Sources: r.w, Instance: NewInstanceID(), Now: r.clock.now, Shared: true, LeaseOptional: true,
	})
	find := func(key string) string {
		row, err := r.store.Routes().Find(context.Background(), "ann", "acme", key)
		if err != nil {
			t.Fatal(err)
		}
		return row.ID
	}
	take := func(key string) {
		s, err := r.read(other.Get(context.Background(), r.caller, find(key)))
		if err != nil {
			t.Fatal(err)
		}
		r.expect("taken over", s, Reconciliation, "working", "TASK_RECONCILIATION_REQUIRED")
		again, err := r.read(other.Submit(context.Background(), &Submit{
			Caller: r.caller, Spelling: Penstock, Target: r.target, Arguments: []byte(`{}`), Task: encode(t, r.task(key)),
		}))
		if err != nil || again.phase(Penstock) != Reconciliation {
			t.Errorf("a retry at the other: %+v %v", again, err)
		}
	}
	lease := r.lease()

	// Between the claim and the first byte.
	r.routes.kill = func(_ int, name string) (bool, bool) {
		if name == "get" {
			r.routes.kill = nil
			r.routes.mu.Unlock()
			take("early")
			r.routes.mu.Lock()
		}
		return false, false
	}
	s, err := r.send(lease, r.task("early"))
	if err != nil {
		t.Fatal(err)
	}
	r.began("early", 0)
	r.expect("stopped at the fence", s, Terminal, "failed", "")
	if got := s.Meta["penstock/taskRoute"].Execution; got != "not_dispatched" {
		t.Errorf("execution state %s", got)
	}

	// While the call is under way.
	r.w.in = func(string) { r.w.in = nil; take("late") }
	if s, err = r.send(lease, r.task("late")); err != nil {
		t.Fatal(err)
	}
	r.expect("settled by the answer", s, Routed, "working", "")
	r.began("late", 1)

	// One that is alive is waited for.
	dead.alive = true
	r.w.in = func(string) {
		r.w.in = nil
		s, err := r.read(other.Get(context.Background(), r.caller, find("living")))
		if err != nil {
			t.Fatal(err)
		}
		r.expect("not taken over", s, Dispatching, "working", "")
	}
	if _, err := r.send(lease, r.task("living")); err != nil {
		t.Fatal(err)
	}
	r.began("living", 1)
}

// deaf is a store over which nobody else seems to live.
type deaf struct {
	store.Routes
	alive bool
}

func (d *deaf) Alive(context.Context, string) (bool, error) { return d.alive, nil }

// TestHeartbeat: nothing is dispatched by an instance that others may take for
// dead, and nothing is lost by that.
func TestHeartbeat(t *testing.T) {
	r := newRig(t, Penstock, func(o *Options) { o.Shared = true })
	lease := r.lease()
	mute := &muteStore{Routes: r.routes.Routes, mute: true}
	r.routes.Routes = mute
	if _, err := r.send(lease, r.task("k")); r.code(err) != "STORAGE_WRITE" {
		t.Errorf("%v", err)
	}
	r.began("k", 0)
	mute.mute = false
	s, err := r.send(lease, r.task("k"))
	if err != nil {
		t.Fatal(err)
	}
	r.expect("sent after all", s, Routed, "working", "")
	r.began("k", 1)
	// The margin is over between the claim and the first byte.
	r.w.in = nil
	r.routes.kill = func(_ int, name string) (bool, bool) {
		if name == string(Dispatching) {
			r.c.beaten.Store(time.Now().Add(beatMargin).UnixNano())
		}
		return false, false
	}
	if s, err = r.send(lease, r.task("k2")); err != nil {
		t.Fatal(err)
	}
	r.expect("fenced", s, Terminal, "failed", "")
	r.began("k2", 0)
}

type muteStore struct {
	store.Routes
	mute bool
}

func (m *muteStore) Beat(ctx context.Context, instance string, validity time.Duration) error {
	if m.mute {
		return store.ErrUnavailable
	}
	return m.Routes.Beat(ctx, instance, validity)
}

// TestWatchdog: with the watchdog on, what nobody polls ends all the same: it is
// read once, then cancelled, and asked again with growing pauses.
func TestWatchdog(t *testing.T) {
	both(t, func(t *testing.T, words Spelling) {
		ctx := context.Background()
		r := newRig(t, words, nil)
		run, fin, lost := r.submit("runs-on"), r.submit("finished"), ""
		r.w.set(func() { r.w.tasks["w1"].status = "completed" })
		r.w.next = func(string) fate { return lostAfter }
		lost = r.submit("lost").TaskID
		r.w.next = func(string) fate { return answered }
		r.c.watch(ctx)
		if n := r.w.called("tasks/get"); n != 0 {
			t.Errorf("%d polls before the time", n)
		}
		phase := func(id string) Phase {
			route, _, err := r.c.Show(ctx, id)
			if err != nil {
				t.Fatal(err)
			}
			return route.Phase
		}
		r.clock.move(30 * time.Second)
		r.c.watch(ctx)
		if phase(run.TaskID) != CancelRequested || phase(fin.TaskID) != Terminal || phase(lost) != Reconciliation {
			t.Errorf("at the cutoff: %s %s %s", phase(run.TaskID), phase(fin.TaskID), phase(lost))
		}
		if n := r.w.called("tasks/cancel"); n != 1 {
			t.Errorf("%d cancels", n)
		}
		r.expect("finished in time", r.get(fin.TaskID), Terminal, "completed", "")
		r.clock.move(time.Second)
		r.c.watch(ctx)
		if phase(run.TaskID) != Terminal {
			t.Errorf("a second later: %s", phase(run.TaskID))
		}

		// One that cannot be reached is asked with growing pauses, over restarts.
		slow := r.submit("away")
		r.w.set(func() { r.w.down = true })
		r.clock.move(31 * time.Second)
		for range 4 {
			r.c.watch(ctx)
			r.clock.move(time.Second)
		}
		route, _, err := r.c.Show(ctx, slow.TaskID)
		if err != nil || route.Phase != CancelRequested || route.Cancels < 1 || route.Cancels > 3 {
			t.Errorf("%+v %v", route, err)
		}
		r.reopen()
		r.w.set(func() { r.w.down = false })
		r.clock.move(time.Minute)
		r.c.watch(ctx)
		r.clock.move(time.Minute)
		r.c.watch(ctx)
		if phase(slow.TaskID) != Terminal {
			t.Errorf("back again: %s", phase(slow.TaskID))
		}
		for _, key := range []string{"runs-on", "finished", "lost", "away"} {
			r.began(key, 1)
		}
	})
}
