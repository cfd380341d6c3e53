package durable

import (
	"context"
	"encoding/json"
)

// done is the result object of a cancel, and of an update.
var done = json.RawMessage(`{"resultType":"complete"}`)

// Cancel is tasks/cancel. Success says that the intent is durable, not that
// anything was prevented. The error is a *Refusal, or ErrNoTask for an id that
// is not this caller's.
func (c *Coordinator) Cancel(ctx context.Context, who Caller, id string) (json.RawMessage, error) {
	r, now, unlock, err := c.take(ctx, &who, id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	words := r.words()
	if r, err = c.intend(ctx, r, "TASK_CANCELLATION_PENDING"); err != nil {
		return nil, storage(err, words, "STORAGE_WRITE")
	}
	if r.Phase == Terminal || r.UpstreamTask == "" {
		return done, nil // over, or to be sent when there is something to send it to
	}
	conn, err := c.connected(ctx, r)
	switch {
	case err == nil && r.boundTo(conn):
		c.forwardCancel(ctx, conn, r.UpstreamTask)
	case err == nil && c.reachable(r, conn):
		// First it has to show that it is the one that was bound; then it is told.
		if _, _, _, err := c.poll(ctx, r, conn, now); err != nil {
			return nil, storage(err, words, "STORAGE_WRITE")
		}
	default:
		return nil, because(err, words, Failure, "TASK_SOURCE_SNAPSHOT_CHANGED")
	}
	return done, nil
}

// intend makes the wish to cancel durable. What was never sent is over with it.
func (c *Coordinator) intend(ctx context.Context, r *Route, reason string) (*Route, error) {
	return c.change(ctx, r, func(next *Route) bool {
		switch next.Phase {
		case Terminal, CancelRequested:
			return false
		case Prepared:
			cached, err := ending("cancelled", "", nil)
			return err == nil && end(next, "TASK_NOT_DISPATCHED", "not_dispatched", cached)
		}
		next.Phase, next.Reason = CancelRequested, reason
		return true
	})
}

// forwardCancel tells the upstream, once. Whether it heard is learnt by polling:
// neither an acknowledgement nor its absence is evidence.
func (c *Coordinator) forwardCancel(ctx context.Context, conn Connection, task string) {
	params := append([]byte(`{"taskId":`), appendString(nil, task)...)
	params = append(params, `,"_meta":{}}`...)
	ctx, cancel := context.WithTimeout(ctx, lifecycleTime)
	defer cancel()
	if reply := conn.Send(ctx, "tasks/cancel", task, params, nil); reply.Fault != nil {
		c.o.Log.Info("cancellation of a durable task not delivered", "error", reply.Fault)
	}
}
