package durable

import (
	"context"
	"encoding/json"
	"testing"
	"time"
)

// TestLife is the way of a task that nothing happens to.
func TestLife(t *testing.T) {
	both(t, func(t *testing.T, words Spelling) {
		r := newRig(t, words, nil)
		s := r.submit("k")
		r.expect("handle", s, Routed, "working", "")
		meta := s.Meta[words.Meta("taskRoute")]
		if s.Type != "task" || s.TTL != 600_000 || s.Poll != 100 || s.CreatedAt != "2023-11-14T22:13:20.000Z" || meta.Public != s.TaskID ||
			meta.Schema != words.Schema("task-route") || meta.Execution != "upstream_reported" || meta.Reconciliation || meta.Source != "worker" ||
			meta.Verification != "not_performed" || meta.Acceptance != words.Evaluated() || meta.Outcome != "not_applicable_to_task_routing" ||
			len(meta.Limitations) != 4 || meta.Submission["schemaVersion"] != words.Schema("task-route") || meta.Version != 2 ||
			meta.Capability != r.target.Capability.ID().String() {
			t.Errorf("the handle is %+v", s)
		}
		if d, err := SumJSON(mustEncode(meta.Submission)); err != nil || d.String() != meta.Request {
			t.Errorf("the request digest %s is not that of the binding: %s %v", meta.Request, d, err)
		}
		r.expect("first poll", r.get(s.TaskID), Routed, "working", "")
		r.w.finish = "completed"
		end := r.get(s.TaskID)
		r.expect("end", end, Terminal, "completed", "")
		if end.Type != "complete" || end.Result["content"] == nil || end.Result["_meta"] != nil {
			t.Errorf("the end is %+v", end)
		}
		polls := r.w.called("tasks/get")
		r.expect("again", r.get(s.TaskID), Terminal, "completed", "")
		r.restart()
		r.expect("after a restart", r.get(s.TaskID), Terminal, "completed", "")
		if r.w.called("tasks/get") != polls {
			t.Error("an end that is kept was asked for again")
		}
		again, err := r.send("no lease", r.task("k"))
		if err != nil || again.TaskID != s.TaskID || again.Status != "completed" {
			t.Errorf("the retry: %+v %v", again, err)
		}
		r.began("k", 1)
		if _, _, err := r.c.Show(context.Background(), s.TaskID); err != nil {
			t.Error(err)
		}
	})
}

// TestEnds: what an upstream may say of an end, and what is kept of it.
func TestEnds(t *testing.T) {
	both(t, func(t *testing.T, words Spelling) {
		r := newRig(t, words, nil)
		failed := r.submit("failed")
		r.w.finish = "failed"
		s := r.get(failed.TaskID)
		r.expect("failed", s, Terminal, "failed", "")
		if s.Error == nil || s.Error.Code != -32000 || s.Error.Message != "it failed" {
			t.Errorf("the error is %+v", s.Error)
		}
		r.w.finish, r.w.size = "completed", 70_000
		large := r.submit("large")
		s = r.get(large.TaskID)
		r.expect("too large", s, Terminal, "failed", "TASK_OUTPUT_LIMIT_EXCEEDED")
		if s.Error.Code != -32001 || s.Error.Message != words.Code("TASK_OUTPUT_LIMIT_EXCEEDED") || s.Error.Data["executionState"] != "completed" ||
			s.Error.Data["automaticResubmission"] != false || s.Error.Data["brokerAcceptance"] != "rejected" {
			t.Errorf("the error is %+v", s.Error)
		}
		r.w.size = 10
		small := r.task("small")
		small["limits"].(map[string]any)["maxOutputBytes"] = 40
		h, err := r.send(r.lease(), small)
		if err != nil {
			t.Fatal(err)
		}
		r.expect("more than agreed", r.get(h.TaskID), Terminal, "failed", "TASK_OUTPUT_LIMIT_EXCEEDED")

		r.w.finish = ""
		asks := r.submit("asks")
		r.w.set(func() { r.w.tasks["w3"].asks = true })
		s = r.get(asks.TaskID)
		r.expect("asks", s, Routed, "input_required", "")
		if s.InputRequests["q"] == nil {
			t.Error("the question is not shown")
		}
		_, err = r.c.Update(context.Background(), r.caller, asks.TaskID, json.RawMessage(`{"inputResponses":{"q":{}}}`))
		if got := r.code(err); got != "TASK_UPDATE_UNSUPPORTED_DURABLE" {
			t.Errorf("update: %s", got)
		}
	})
}

// TestDispatchOutcomes: everything that can come of the one call (contract 3.3),
// and that it is made once, whatever came of it and however often its caller
// asks again.
func TestDispatchOutcomes(t *testing.T) {
	for _, c := range []struct {
		name   string
		fate   fate
		phase  Phase
		status string
		code   string // of the error, or of the message of a poll
		runs   int
		state  string // executionState
	}{
		{"taken", answered, Routed, "working", "", 1, "upstream_reported"},
		{"lost on its way", lostBefore, Reconciliation, "working", "TASK_RECONCILIATION_REQUIRED", 0, "unknown"},
		{"taken, and the answer lost", lostAfter, Reconciliation, "working", "TASK_RECONCILIATION_REQUIRED", 1, "unknown"},
		{"not sent", unsent, Terminal, "failed", "TASK_NOT_DISPATCHED", 0, "not_dispatched"},
		{"refused", rejected, Terminal, "failed", "TASK_UPSTREAM_REJECTED", 0, "upstream_rejected"},
		{"failed without saying whether it began", failing, Reconciliation, "working", "TASK_RECONCILIATION_REQUIRED", 1, "unknown"},
		{"no echo", noEcho, CancelRequested, "working", "TASK_CANCELLATION_PENDING", 1, "cancellation_requested"},
		{"a forged echo", forgedEcho, CancelRequested, "working", "TASK_CANCELLATION_PENDING", 1, "cancellation_requested"},
		{"an id that cannot be bound", wrongID, Reconciliation, "working", "TASK_RECONCILIATION_REQUIRED", 1, "unknown"},
		{"a result at once", atOnce, Terminal, "completed", "", 1, "upstream_reported"},
		{"a result at once with a forged echo", atOnceForged, Reconciliation, "working", "TASK_RECONCILIATION_REQUIRED", 1, "unknown"},
		{"something else", garbage, Reconciliation, "working", "TASK_RECONCILIATION_REQUIRED", 1, "unknown"},
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
				s := r.submit("k")
				r.expect("handle", s, c.phase, c.status, "")
				if got := s.Meta[words.Meta("taskRoute")].Execution; got != c.state {
					t.Errorf("execution state %s", got)
				}
				for range 3 {
					again, err := r.send(r.lease(), r.task("k"))
					if err != nil || again.TaskID != s.TaskID {
						t.Fatalf("retry: %+v %v", again, err)
					}
				}
				r.began("k", c.runs)
				if c.phase == CancelRequested {
					if r.w.called("tasks/cancel") != 1 {
						t.Errorf("%d cancels", r.w.called("tasks/cancel"))
					}
					// What gave no echo at first may give it now; its end is known then.
					r.expect("poll", r.get(s.TaskID), Terminal, "cancelled", "")
					return
				}
				g := r.get(s.TaskID)
				r.expect("poll", g, c.phase, c.status, c.code)
				if c.status == "failed" && (g.Error == nil || g.Error.Message != words.Code(c.code) || g.Error.Data["executionState"] != c.state) {
					t.Errorf("the error is %+v", g.Error)
				}
				r.restart()
				if c.phase != Routed {
					r.expect("after a restart", r.get(s.TaskID), c.phase, c.status, "")
				}
				r.began("k", c.runs)
			})
		})
	}
}

// TestPolls: everything that can come of a poll, what it leads to, and that the
// next good one mends it.
func TestPolls(t *testing.T) {
	for _, c := range []struct {
		name    string
		fate    fate
		phase   Phase
		message string
	}{
		{"no answer", lostAfter, Reconciliation, "TASK_RECONCILIATION_REQUIRED"},
		{"an error", failing, Reconciliation, "TASK_RECONCILIATION_REQUIRED"},
		{"an unknown task", rejected, Reconciliation, "TASK_RECONCILIATION_REQUIRED"},
		{"no echo", noEcho, Reconciliation, "TASK_EXECUTION_BINDING_MISMATCH"},
		{"a forged echo", forgedEcho, Reconciliation, "TASK_EXECUTION_BINDING_MISMATCH"},
		{"another task's id", wrongID, Reconciliation, "TASK_EXECUTION_BINDING_MISMATCH"},
		{"something else", garbage, Reconciliation, "TASK_EXECUTION_BINDING_MISMATCH"},
	} {
		t.Run(c.name, func(t *testing.T) {
			both(t, func(t *testing.T, words Spelling) {
				r := newRig(t, words, nil)
				s := r.submit("k")
				r.w.next = func(string) fate { return c.fate }
				r.expect("poll", r.get(s.TaskID), c.phase, "working", c.message)
				r.w.next = func(string) fate { return answered }
				r.expect("good poll", r.get(s.TaskID), Routed, "working", "")
				r.w.finish = "completed"
				r.expect("end", r.get(s.TaskID), Terminal, "completed", "")
				r.began("k", 1)
			})
		})
	}
}

// TestSlowPoll: a poll without an answer in its time leads to reconciliation,
// and not to a cancellation.
func TestSlowPoll(t *testing.T) {
	t.Parallel()
	r := newRig(t, Penstock, nil)
	s := r.submit("k")
	r.w.next = func(string) fate { return slow }
	began := time.Now()
	r.expect("poll", r.get(s.TaskID), Reconciliation, "working", "TASK_RECONCILIATION_REQUIRED")
	if took := time.Since(began); took < lifecycleTime || took > lifecycleTime+3*time.Second {
		t.Errorf("it took %s", took)
	}
	if r.w.called("tasks/cancel") != 0 {
		t.Error("the task was cancelled")
	}
}

// TestCutoff: what happens to a task beyond its time, which nobody watches.
func TestCutoff(t *testing.T) {
	both(t, func(t *testing.T, words Spelling) {
		r := newRig(t, words, nil)
		s := r.submit("runs-on")
		r.clock.move(30*time.Second + time.Millisecond)
		if r.w.called("tasks/cancel") != 0 {
			t.Error("cancelled before anybody asked")
		}
		r.expect("first poll behind it", r.get(s.TaskID), CancelRequested, "working", "TASK_RUNTIME_BOUND_REACHED")
		if r.w.called("tasks/cancel") != 1 {
			t.Errorf("%d cancels", r.w.called("tasks/cancel"))
		}
		r.expect("second", r.get(s.TaskID), Terminal, "cancelled", "")

		r.w.finish = "completed"
		intime := r.submit("in-time")
		r.w.set(func() { r.w.tasks["w1"].status = "completed" }) // its last update is now
		r.clock.move(40 * time.Second)
		r.expect("finished in time, polled late", r.get(intime.TaskID), Terminal, "completed", "")

		late := r.submit("late")
		r.clock.move(40 * time.Second)
		s = r.get(late.TaskID) // finishes with this poll
		r.expect("finished late", s, Terminal, "failed", "TASK_DEADLINE_EXCEEDED")
		if s.Error.Data["executionState"] != "completed" {
			t.Errorf("the error is %+v", s.Error)
		}
		for _, key := range []string{"runs-on", "in-time", "late"} {
			r.began(key, 1)
		}
	})
}

// TestRetention: an expired task is not there, and its key is free.
func TestRetention(t *testing.T) {
	both(t, func(t *testing.T, words Spelling) {
		r := newRig(t, words, nil)
		s := r.submit("k")
		r.clock.move(600*time.Second - time.Millisecond)
		r.get(s.TaskID)
		r.clock.move(time.Millisecond)
		if _, err := r.ask(s.TaskID); r.code(err) != "no task" {
			t.Errorf("%v", err)
		}
		again := r.submit("k")
		if again.TaskID == s.TaskID {
			t.Error("the same task")
		}
		r.began("k", 2)
	})
}
