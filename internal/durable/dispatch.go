package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/penstock-mcp/penstock/internal/store"
)

// Why a call that was claimed is not sent after all.
var (
	errFenced = errors.New("durable: others may take this instance for dead")
	errMoved  = errors.New("durable: the route is not this dispatch's any more")
	errAway   = errors.New("durable: the upstream is not here, or not eligible")
)

// connected is the current connection of a route's upstream.
func (c *Coordinator) connected(ctx context.Context, r *Route) (Connection, error) {
	source, ok := c.o.Sources.Source(r.Capability.Source)
	if !ok {
		return nil, errAway
	}
	ctx, cancel := context.WithTimeout(ctx, lifecycleTime)
	defer cancel()
	return source.Connect(ctx)
}

// current tells whether the connection that a route is bound to is the one that
// there is.
func (c *Coordinator) current(ctx context.Context, r *Route) bool {
	conn, err := c.connected(ctx, r)
	return err == nil && r.boundTo(conn)
}

func (r *Route) boundTo(conn Connection) bool {
	return conn.Session() == r.Session && conn.Snapshot() == r.Snapshot && conn.Configuration() == r.Capability.Configuration
}

// dispatch sends a prepared submission, once. It returns the route as it stands
// when the upstream has answered, or has not.
func (c *Coordinator) dispatch(ctx context.Context, r *Route, conn Connection, arguments json.RawMessage) (*Route, error) {
	words := r.words()
	now, err := c.clock()
	if err != nil {
		return nil, storage(err, words, "CLOCK_INVALID")
	}
	if r.late(now) {
		r, err = c.never(ctx, r, "TASK_RUNTIME_BOUND_REACHED")
	} else {
		r, err = c.send(ctx, r, conn, arguments)
	}
	if err != nil {
		return nil, storage(err, words, "STORAGE_WRITE")
	}
	return r, nil
}

func (c *Coordinator) send(ctx context.Context, r *Route, conn Connection, arguments json.RawMessage) (*Route, error) {
	if err := c.alive(ctx); err != nil {
		return r, err // it stays prepared
	}
	mine := false
	r, err := c.change(ctx, r, func(next *Route) bool {
		if mine = next.Phase == Prepared; mine {
			next.Phase, next.Reason, next.Owner = Dispatching, "", c.o.Instance
			next.DispatchSession, next.Session, next.Endpoint = conn.Session(), conn.Session(), conn.Endpoint()
		}
		return mine
	})
	if err != nil || !mine {
		return r, err
	}
	claimed := r
	key, envelope, err := claimed.envelope()
	if err != nil {
		return r, err
	}
	params := append([]byte(`{"name":`), appendString(nil, claimed.Tool)...)
	params = append(append(params, `,"arguments":`...), arguments...)
	params = append(append(append(params, `,"_meta":{`...), appendString(nil, key)...), ':')
	params = append(append(params, envelope...), `}}`...)
	// The caller may go; the call does not go with it, for its answer is what the
	// route is bound by.
	left := time.UnixMilli(claimed.Cutoff).Sub(c.o.Now())
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(min(left, dispatchTime), time.Millisecond))
	defer cancel()
	reply := conn.Send(call, "tools/call", claimed.Tool, params, func() error { return c.fence(call, claimed) })
	return c.keep(context.WithoutCancel(ctx), func(ctx context.Context) (*Route, error) {
		return c.dispatched(ctx, claimed, conn, reply)
	})
}

// keep writes down what came of a call also when the store is away for a moment:
// an id that is not written down is lost for good.
func (c *Coordinator) keep(ctx context.Context, write func(context.Context) (*Route, error)) (*Route, error) {
	ctx, cancel := context.WithTimeout(ctx, keepTime)
	defer cancel()
	pause := backoff.NewExponentialBackOff()
	for {
		r, err := write(ctx)
		if !errors.Is(err, store.ErrUnavailable) {
			return r, err
		}
		c.o.Log.Warn("what came of a durable call is not written yet", "error", err)
		select {
		case <-ctx.Done():
			return r, err
		case <-time.After(pause.NextBackOff()):
		}
	}
}

// fence is asked right before the first byte of a call leaves: this instance is
// alive to others, and the route is at the claim that the call was made for.
func (c *Coordinator) fence(ctx context.Context, claimed *Route) error {
	if !c.safe() {
		return errFenced
	}
	row, err := c.o.Routes.Get(ctx, claimed.ID)
	if err != nil {
		return fmt.Errorf("the route cannot be read: %w", err)
	}
	if row.Version != claimed.Version || Phase(row.Phase) != Dispatching {
		return errMoved
	}
	return nil
}

// accepted tells of an error whether the upstream may have begun the work: these
// codes say that it took no such request.
func accepted(e *RemoteError) bool {
	switch e.Code {
	case -32600, -32601, -32602, -32021:
		return false
	}
	return true
}

// dispatched writes down what came of the call (contract 3.3).
func (c *Coordinator) dispatched(ctx context.Context, r *Route, conn Connection, reply Reply) (*Route, error) {
	switch {
	case reply.Fault != nil && reply.Unsent:
		c.o.Log.Info("durable call not sent", "task", r.ID, "upstream", r.Capability.Source, "error", reply.Fault)
		return c.change(ctx, r, func(next *Route) bool {
			return next.Phase != Terminal && next.UpstreamTask == "" &&
				end(next, "TASK_NOT_DISPATCHED", "not_dispatched", broken(next, "TASK_NOT_DISPATCHED", "not_dispatched"))
		})
	case reply.Fault != nil:
		c.o.Log.Warn("what came of a durable call is unknown", "task", r.ID, "upstream", r.Capability.Source, "error", reply.Fault)
		return c.doubt(ctx, r, "TASK_RECONCILIATION_REQUIRED")
	case reply.Error != nil && !accepted(reply.Error):
		return c.change(ctx, r, func(next *Route) bool {
			return next.Phase != Terminal && next.UpstreamTask == "" &&
				end(next, "TASK_UPSTREAM_REJECTED", "upstream_rejected", broken(next, "TASK_UPSTREAM_REJECTED", "upstream_rejected"))
		})
	case reply.Error != nil:
		c.o.Log.Warn("an upstream failed a durable call without saying whether it began", "task", r.ID, "upstream", r.Capability.Source, "code", reply.Error.Code)
		return c.doubt(ctx, r, "TASK_RECONCILIATION_REQUIRED")
	}
	var head struct {
		ResultType string `json:"resultType"`
		TaskID     string `json:"taskId"`
	}
	if json.Unmarshal(reply.Result, &head) != nil {
		return c.doubt(ctx, r, "TASK_RECONCILIATION_REQUIRED")
	}
	switch head.ResultType {
	case "task":
		return c.bound(ctx, r, conn, head.TaskID, reply.Result)
	case "complete":
		return c.completed(ctx, r, conn, reply.Result)
	}
	return c.doubt(ctx, r, "TASK_RECONCILIATION_REQUIRED")
}

// bound binds the upstream's task id to the route.
func (c *Coordinator) bound(ctx context.Context, r *Route, conn Connection, id string, result json.RawMessage) (*Route, error) {
	if !validUpstreamTask(id, maxUpstreamTask) {
		if validUpstreamTask(id, maxNamedTask) {
			c.forwardCancel(ctx, conn, id)
		}
		return c.doubt(ctx, r, "TASK_UPSTREAM_ID_INVALID")
	}
	echoed := !c.wantsEcho(r) || r.echoes(result)
	took := false
	r, err := c.change(ctx, r, func(next *Route) bool {
		switch {
		case next.UpstreamTask != "":
			took = next.UpstreamTask == id
			return false
		case next.Phase == Dispatching, next.Phase == Reconciliation:
			// Doubt that arose elsewhere meanwhile is settled by the answer itself.
			next.Phase, next.Reason, next.UpstreamTask = Routed, "", id
			if !echoed {
				next.Phase, next.Reason = CancelRequested, "TASK_EXECUTION_BINDING_MISMATCH"
			} else if now := c.o.Now(); next.late(now) {
				next.Phase, next.Reason = CancelRequested, "TASK_RUNTIME_BOUND_REACHED"
			}
		case next.Phase == CancelRequested:
			next.UpstreamTask = id
		default:
			return false
		}
		took = true
		return true
	})
	if err != nil {
		return r, err
	}
	if !took || r.Phase == CancelRequested {
		// A task that no route will ever ask about again is not left running.
		c.forwardCancel(ctx, conn, id)
	}
	return r, nil
}

// completed ends a route that the upstream answered at once.
func (c *Coordinator) completed(ctx context.Context, r *Route, conn Connection, result json.RawMessage) (*Route, error) {
	if c.wantsEcho(r) && !r.echoes(result) {
		return c.doubt(ctx, r, "TASK_EXECUTION_BINDING_MISMATCH")
	}
	own, err := r.without(result)
	if err != nil {
		return c.doubt(ctx, r, "TASK_RECONCILIATION_REQUIRED")
	}
	now := c.o.Now()
	return c.change(ctx, r, func(next *Route) bool {
		if next.Phase == Terminal || next.UpstreamTask != "" {
			return false
		}
		if next.late(now) {
			return end(next, "TASK_DEADLINE_EXCEEDED", "completed", broken(next, "TASK_DEADLINE_EXCEEDED", "completed"))
		}
		return conclude(next, "completed", "result", own)
	})
}

// wantsEcho tells whether the upstream of a route has to give the envelope back.
// One that is not configured any more has to.
func (c *Coordinator) wantsEcho(r *Route) bool {
	source, ok := c.o.Sources.Source(r.Capability.Source)
	return !ok || source.Settings().Echo
}

// never ends a route of which it is certain that nothing was sent.
func (c *Coordinator) never(ctx context.Context, r *Route, code string) (*Route, error) {
	return c.change(ctx, r, func(next *Route) bool {
		return next.Phase == Prepared && end(next, code, "not_dispatched", broken(next, code, "not_dispatched"))
	})
}

// doubt moves a route to where its outcome is unknown. An intent to cancel stays
// one.
func (c *Coordinator) doubt(ctx context.Context, r *Route, reason string) (*Route, error) {
	return c.change(ctx, r, func(next *Route) bool {
		if next.Phase != Dispatching && next.Phase != Routed {
			return false
		}
		next.Phase, next.Reason = Reconciliation, reason
		return true
	})
}

// judgeDispatch looks at a dispatch that is not known to have ended: one of an
// instance that is gone, or behind its time, is in doubt.
func (c *Coordinator) judgeDispatch(ctx context.Context, r *Route, now time.Time) (*Route, error) {
	if r.Phase != Dispatching {
		return r, nil
	}
	if r.late(now) {
		return c.doubt(ctx, r, "TASK_RUNTIME_BOUND_REACHED")
	}
	if r.Owner == c.o.Instance {
		return r, nil
	}
	if c.o.Shared {
		lives, err := c.o.Routes.Alive(ctx, r.Owner)
		if err != nil || lives {
			return r, err
		}
	}
	return c.doubt(ctx, r, "TASK_RECONCILIATION_REQUIRED")
}
