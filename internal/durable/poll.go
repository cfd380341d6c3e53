package durable

import (
	"context"
	"encoding/json"
	"time"
)

// Get is tasks/get: the result object with what is known of a task. The error is
// a *Refusal, or ErrNoTask for an id that is not this caller's.
func (c *Coordinator) Get(ctx context.Context, who Caller, id string) (json.RawMessage, error) {
	r, now, unlock, err := c.take(ctx, &who, id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	r, st, err := c.look(ctx, r, now)
	if err != nil {
		return nil, storage(err, r.words(), "STORAGE_WRITE")
	}
	return r.answer("complete", st)
}

// look finds out what can be known of a route now (contract 5.2), and returns it
// as it stands then with what its caller is told.
func (c *Coordinator) look(ctx context.Context, r *Route, now time.Time) (*Route, state, error) {
	r, why, report, err := c.advance(ctx, r, now)
	if err != nil {
		return r, state{}, err
	}
	if r.Phase == Terminal {
		st, err := r.ended()
		return r, st, err
	}
	st := state{Status: "working", Message: "The task is at its upstream."}
	if report != nil && r.Phase == Routed && report.Status == "input_required" {
		st.Status = "input_required"
		st.Body = map[string]json.RawMessage{"inputRequests": report.InputRequests}
	}
	switch {
	case why != "":
		st.Message = r.words().Code(why)
	case r.Phase == Reconciliation:
		st.Message = r.words().Code("TASK_RECONCILIATION_REQUIRED")
	case r.Phase == CancelRequested && r.UpstreamTask == "":
		st.Message = r.words().Code("TASK_CANCELLATION_RECONCILIATION_REQUIRED")
	case r.Phase == CancelRequested:
		st.Message = r.words().Code("TASK_CANCELLATION_PENDING")
	case r.Phase == Prepared:
		st.Message = "The submission is durable; its upstream has not been contacted."
	case r.Phase == Dispatching:
		st.Message = "The upstream's acknowledgement is pending."
	}
	return r, st, nil
}

// report is what an upstream says of a task.
type report struct {
	ResultType    string          `json:"resultType"`
	TaskID        string          `json:"taskId"`
	Status        string          `json:"status"`
	LastUpdatedAt string          `json:"lastUpdatedAt"`
	Result        json.RawMessage `json:"result"`
	Error         json.RawMessage `json:"error"`
	InputRequests json.RawMessage `json:"inputRequests"`
}

// advance moves a route as far as it can be moved now without sending the call:
// it asks the upstream where one is bound and current, and cancels what is
// beyond its time. why is a code for the caller; rep what the upstream said.
func (c *Coordinator) advance(ctx context.Context, r *Route, now time.Time) (_ *Route, why string, rep *report, err error) {
	switch {
	case r.Phase == Terminal:
		return r, "", nil, nil
	case r.Phase == Prepared:
		if r.late(now) {
			r, err = c.never(ctx, r, "TASK_RUNTIME_BOUND_REACHED")
		}
		return r, "", nil, err
	case r.Phase == Dispatching:
		late := r.late(now)
		if r, err = c.judgeDispatch(ctx, r, now); late && r.Phase == Reconciliation {
			why = "TASK_RUNTIME_BOUND_REACHED"
		}
		return r, why, nil, err
	case r.UpstreamTask == "":
		return r, "", nil, nil
	}
	conn, err := c.connected(ctx, r)
	if err != nil || !c.reachable(r, conn) {
		why = "TASK_SOURCE_SNAPSHOT_CHANGED"
		if err != nil {
			c.o.Log.Debug("durable task's upstream is away", "task", r.ID, "upstream", r.Capability.Source, "error", err)
		}
		r, err = c.doubt(ctx, r, why)
		return r, why, nil, err
	}
	if r.Phase == CancelRequested && r.Session == conn.Session() {
		c.forwardCancel(ctx, conn, r.UpstreamTask)
	}
	return c.poll(ctx, r, conn, now)
}

// reachable tells whether a route's upstream task may be asked about over a
// connection: over the one that it is bound to, and, where that was chosen, over
// another to the very same stateless upstream.
func (c *Coordinator) reachable(r *Route, conn Connection) bool {
	if r.boundTo(conn) {
		return true
	}
	source, ok := c.o.Sources.Source(r.Capability.Source)
	if !ok || !source.Settings().Stateless || !source.Settings().Echo || !conn.Stateless() {
		return false
	}
	return conn.Endpoint() == r.Endpoint && conn.Snapshot() == r.Snapshot && conn.Configuration() == r.Capability.Configuration
}

// poll asks the upstream once.
func (c *Coordinator) poll(ctx context.Context, r *Route, conn Connection, now time.Time) (_ *Route, why string, _ *report, err error) {
	params := append([]byte(`{"taskId":`), appendString(nil, r.UpstreamTask)...)
	params = append(params, `,"_meta":{}}`...)
	call, cancel := context.WithTimeout(ctx, lifecycleTime)
	reply := conn.Send(call, "tasks/get", r.UpstreamTask, params, nil)
	cancel()
	if reply.Fault != nil || reply.Error != nil {
		if ctx.Err() != nil && reply.Fault != nil {
			return r, "", nil, nil // the caller went away, and nothing is to be concluded from that
		}
		c.o.Log.Info("durable task not polled", "task", r.ID, "upstream", r.Capability.Source, "error", reply.Fault)
		r, err = c.doubt(ctx, r, "TASK_RECONCILIATION_REQUIRED")
		if err == nil && r.late(now) {
			return c.overdue(ctx, r, conn)
		}
		return r, "", nil, err
	}
	rep := new(report)
	if json.Unmarshal(reply.Result, rep) != nil || rep.ResultType != "complete" || rep.TaskID != r.UpstreamTask || c.wantsEcho(r) && !r.echoes(reply.Result) {
		why = "TASK_EXECUTION_BINDING_MISMATCH"
		r, err = c.doubt(ctx, r, why)
		return r, why, nil, err
	}
	return c.hear(ctx, r, conn, rep, now)
}

// hear takes in what an upstream reported and gave its echo for.
func (c *Coordinator) hear(ctx context.Context, r *Route, conn Connection, rep *report, now time.Time) (*Route, string, *report, error) {
	member, body := "", json.RawMessage(nil)
	switch rep.Status {
	case "completed":
		member, body = "result", rep.Result
	case "failed":
		member, body = "error", rep.Error
	case "cancelled":
	case "working", "input_required":
		return c.going(ctx, r, conn, rep, now)
	default:
		r, err := c.doubt(ctx, r, "TASK_RECONCILIATION_REQUIRED")
		return r, "", nil, err
	}
	if member != "" && body == nil {
		r, err := c.doubt(ctx, r, "TASK_RECONCILIATION_REQUIRED")
		return r, "", nil, err
	}
	// A result that was there in time is not thrown away because nobody asked in
	// time: the upstream's own clock says when it was.
	intime := !r.late(now) || rep.Status == "cancelled"
	if at, err := time.Parse(time.RFC3339Nano, rep.LastUpdatedAt); err == nil && at.UnixMilli() <= r.Cutoff {
		intime = true
	}
	r, err := c.change(ctx, r, func(next *Route) bool {
		if next.Phase == Terminal {
			return false
		}
		if !intime {
			return end(next, "TASK_DEADLINE_EXCEEDED", "completed", broken(next, "TASK_DEADLINE_EXCEEDED", "completed"))
		}
		return conclude(next, rep.Status, member, body)
	})
	return r, "", rep, err
}

// going takes in that a task is still on its way.
func (c *Coordinator) going(ctx context.Context, r *Route, conn Connection, rep *report, now time.Time) (*Route, string, *report, error) {
	if r.Phase == CancelRequested && r.Session != conn.Session() {
		// Recognized again: from here on it is asked, and told, over this connection.
		r, err := c.change(ctx, r, func(next *Route) bool {
			rebound := next.Phase == CancelRequested
			next.Session = conn.Session()
			return rebound
		})
		if err == nil && r.Phase == CancelRequested {
			c.forwardCancel(ctx, conn, r.UpstreamTask)
		}
		return r, "", rep, err
	}
	if r.late(now) {
		return c.overdue(ctx, r, conn)
	}
	if r.Phase == CancelRequested || r.Phase == Routed && r.Session == conn.Session() {
		return r, "", rep, nil
	}
	var err error
	if r.Phase == Routed { // reached over another connection: by way of doubt
		if r, err = c.doubt(ctx, r, "TASK_SOURCE_SNAPSHOT_CHANGED"); err != nil {
			return r, "", rep, err
		}
	}
	r, err = c.change(ctx, r, func(next *Route) bool {
		if next.Phase != Reconciliation {
			return false
		}
		next.Phase, next.Reason, next.Session = Routed, "", conn.Session()
		return true
	})
	return r, "", rep, err
}

// overdue cancels a task that is beyond its time.
func (c *Coordinator) overdue(ctx context.Context, r *Route, conn Connection) (*Route, string, *report, error) {
	const why = "TASK_RUNTIME_BOUND_REACHED"
	if r.Phase == CancelRequested {
		return r, "", nil, nil
	}
	r, err := c.intend(ctx, r, why)
	if err == nil && r.Phase == CancelRequested {
		c.forwardCancel(ctx, conn, r.UpstreamTask)
	}
	return r, why, nil, err
}
