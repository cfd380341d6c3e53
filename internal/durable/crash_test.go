package durable

import (
	"context"
	"testing"
	"time"
)

// TestCrashWindows is the table of the contract (3.4): what is there after the
// process ended in each window, what a poll, a retry and a cancel find, and that
// the work is begun no second time.
func TestCrashWindows(t *testing.T) {
	type window struct {
		name   string
		kill   func(step int, name string) (before, behind bool)
		fate   fate  // of the call
		phase  Phase // after the restart, as polled; "": there is no task
		runs   int
		retry  Phase // what a retry finds
		reruns int   // operations after the retry
	}
	on := func(name string, behind bool) func(int, string) (bool, bool) {
		return func(_ int, n string) (bool, bool) { return n == name && !behind, n == name && behind }
	}
	for _, c := range []window{
		{"before the insert", on("begin", false), answered, "", 0, Routed, 1},
		{"after prepared", on("begin", true), answered, Prepared, 0, Routed, 1},
		{"before dispatching is committed", on(string(Dispatching), false), answered, Prepared, 0, Routed, 1},
		{"after dispatching, before the call", on(string(Dispatching), true), answered, Reconciliation, 0, Reconciliation, 0},
		{"at the fence", on("get", false), answered, Reconciliation, 0, Reconciliation, 0},
		{"after the upstream took it, before the bind", on(string(Routed), false), answered, Reconciliation, 1, Reconciliation, 1},
		{"after the bind", on(string(Routed), true), answered, Reconciliation, 1, Reconciliation, 1},
		{"before the end is kept", on(string(Terminal), false), atOnce, Reconciliation, 1, Reconciliation, 1},
		{"after the end", on(string(Terminal), true), atOnce, Terminal, 1, Terminal, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			both(t, func(t *testing.T, words Spelling) {
				r := newRig(t, words, nil)
				lease := r.lease()
				r.routes.kill = c.kill
				r.w.next = func(method string) fate {
					if method == "tools/call" {
						return c.fate
					}
					return answered
				}
				if _, err := r.send(lease, r.task("k")); err == nil {
					t.Fatal("the process lived on")
				}
				r.began("k", c.runs)
				r.restart()
				r.w.next = func(string) fate { return answered }
				row, err := r.store.Routes().Find(context.Background(), "ann", "acme", "k")
				if c.phase == "" {
					if err == nil {
						t.Fatalf("there is a route: %+v", row)
					}
				} else {
					if err != nil {
						t.Fatal(err)
					}
					s := r.get(row.ID)
					r.expect("poll", s, c.phase, s.Status, "")
					if c.phase == Reconciliation && s.Status != "working" {
						t.Errorf("an unknown outcome is called %s", s.Status)
					}
				}
				r.began("k", c.runs)
				again, err := r.send(r.lease(), r.task("k"))
				if err != nil {
					t.Fatal(err)
				}
				if c.phase != "" && again.TaskID != row.ID {
					t.Error("the retry is another task")
				}
				r.expect("retry", again, c.retry, again.Status, "")
				r.began("k", c.reruns)
				if c.retry == Reconciliation {
					r.clock.move(31 * time.Second)
					r.expect("long after", r.get(again.TaskID), Reconciliation, "working", "")
				}
				r.began("k", c.reruns)
				if _, _, err := r.c.Show(context.Background(), again.TaskID); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestCrashInCancel: an intent that was durable stays one, whether it was sent or
// not, and is never taken for an end.
func TestCrashInCancel(t *testing.T) {
	both(t, func(t *testing.T, words Spelling) {
		for _, behind := range []bool{false, true} {
			r := newRig(t, words, nil)
			s := r.submit("k")
			r.routes.kill = func(_ int, n string) (bool, bool) {
				return n == string(CancelRequested) && !behind, n == string(CancelRequested) && behind
			}
			if err := r.cancel(s.TaskID); err == nil {
				t.Fatal("the process lived on")
			}
			r.restart()
			if !behind {
				r.expect("poll", r.get(s.TaskID), Reconciliation, "working", "TASK_SOURCE_SNAPSHOT_CHANGED")
				continue
			}
			r.expect("poll", r.get(s.TaskID), CancelRequested, "working", "TASK_SOURCE_SNAPSHOT_CHANGED")
			if got := r.code(r.cancel(s.TaskID)); got != "TASK_SOURCE_SNAPSHOT_CHANGED" {
				t.Errorf("cancel: %s", got)
			}
			if r.w.called("tasks/cancel") != 0 {
				t.Error("a cancel went over another connection")
			}
		}
	})
}

// TestPreparedCutoff: what was never sent says so when its time is over.
func TestPreparedCutoff(t *testing.T) {
	both(t, func(t *testing.T, words Spelling) {
		for _, retry := range []bool{false, true} {
			r := newRig(t, words, nil)
			lease := r.lease()
			r.routes.kill = func(_ int, n string) (bool, bool) { return n == string(Dispatching), false }
			if _, err := r.send(lease, r.task("k")); err == nil {
				t.Fatal("the process lived on")
			}
			r.restart()
			row, err := r.store.Routes().Find(context.Background(), "ann", "acme", "k")
			if err != nil {
				t.Fatal(err)
			}
			doc := r.task("k")
			r.clock.move(31 * time.Second)
			if retry {
				if _, err := r.send("", doc); err != nil {
					t.Fatal(err)
				}
			}
			s := r.get(row.ID)
			r.expect("behind its time", s, Terminal, "failed", "TASK_RUNTIME_BOUND_REACHED")
			if s.Error.Data["executionState"] != "not_dispatched" {
				t.Errorf("the error is %+v", s.Error)
			}
			r.began("k", 0)
		}
	})
}

// TestReopen: a router that restarts over the very connection goes on with it.
func TestReopen(t *testing.T) {
	both(t, func(t *testing.T, words Spelling) {
		r := newRig(t, words, nil)
		s := r.submit("k")
		r.reopen()
		r.expect("poll", r.get(s.TaskID), Routed, "working", "")
		if err := r.cancel(s.TaskID); err != nil {
			t.Error(err)
		}
		r.expect("cancelled", r.get(s.TaskID), Terminal, "cancelled", "")
		r.began("k", 1)
	})
}

// TestDrift: a source that offers or is configured otherwise is not asked about
// what was bound before.
func TestDrift(t *testing.T) {
	both(t, func(t *testing.T, words Spelling) {
		for name, drift := range map[string]func(w *worker){
			"snapshot":      func(w *worker) { w.set(func() { w.snapshot = Sum([]byte("new")) }) },
			"configuration": func(w *worker) { w.set(func() { w.config = Sum([]byte("new")) }) },
			"session":       func(w *worker) { w.reconnect() },
			"away":          func(w *worker) { w.set(func() { w.down = true }) },
		} {
			r := newRig(t, words, nil)
			s := r.submit("k")
			drift(r.w)
			r.expect(name, r.get(s.TaskID), Reconciliation, "working", "TASK_SOURCE_SNAPSHOT_CHANGED")
			if got := r.code(r.cancel(s.TaskID)); got != "TASK_SOURCE_SNAPSHOT_CHANGED" {
				t.Errorf("%s: cancel: %s", name, got)
			}
			r.expect(name, r.get(s.TaskID), CancelRequested, "working", "TASK_SOURCE_SNAPSHOT_CHANGED")
			if n := r.w.called("tasks/get") + r.w.called("tasks/cancel"); n != 0 {
				t.Errorf("%s: %d requests went there", name, n)
			}
		}
	})
}

// TestStateless: where it was chosen, a route is bound again to the very same
// stateless upstream, by its echo; and to nothing else.
func TestStateless(t *testing.T) {
	both(t, func(t *testing.T, words Spelling) {
		r := newRig(t, words, nil)
		r.w.settings.Stateless, r.w.stateful = true, false
		s := r.submit("k")
		r.restart()
		r.w.next = func(string) fate { return forgedEcho }
		r.expect("a forged echo", r.get(s.TaskID), Reconciliation, "working", "TASK_EXECUTION_BINDING_MISMATCH")
		r.w.next = func(string) fate { return answered }
		r.expect("bound again", r.get(s.TaskID), Routed, "working", "")
		r.restart()
		r.w.set(func() { r.w.snapshot = Sum([]byte("new")) })
		r.expect("another snapshot", r.get(s.TaskID), Reconciliation, "working", "TASK_SOURCE_SNAPSHOT_CHANGED")
		r.w.set(func() { r.w.snapshot, r.w.stateful = Sum([]byte("snapshot")), true })
		r.expect("a session after all", r.get(s.TaskID), Reconciliation, "working", "TASK_SOURCE_SNAPSHOT_CHANGED")
		r.w.set(func() { r.w.stateful = false })
		if err := r.cancel(s.TaskID); err != nil {
			t.Errorf("cancel: %v", err)
		}
		if r.w.called("tasks/cancel") != 1 {
			t.Errorf("%d cancels", r.w.called("tasks/cancel"))
		}
		r.expect("cancelled", r.get(s.TaskID), Terminal, "cancelled", "")
		r.began("k", 1)
	})
}
