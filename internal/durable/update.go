package durable

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/penstock-mcp/penstock/internal/store"
)

// Update is tasks/update, with params as sent. Unless updates are persisted it
// is refused: a lost acknowledgement could not be told from an answer that was
// never sent. The error is a *Refusal, or ErrNoTask for an id that is not this
// caller's.
func (c *Coordinator) Update(ctx context.Context, who Caller, id string, params json.RawMessage) (json.RawMessage, error) {
	r, _, unlock, err := c.take(ctx, &who, id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	words := r.words()
	if r.Phase != Routed {
		return nil, refuse(words, InvalidParams, "TASK_NOT_UPDATEABLE")
	}
	if !c.o.PersistUpdates {
		return nil, refuse(words, InvalidParams, "TASK_UPDATE_UNSUPPORTED_DURABLE")
	}
	var sent struct {
		Responses json.RawMessage `json:"inputResponses"`
	}
	var answered map[string]json.RawMessage
	if json.Unmarshal(params, &sent) != nil || json.Unmarshal(sent.Responses, &answered) != nil || len(answered) == 0 {
		return nil, refuse(words, InvalidParams, "TASK_UPDATE_INVALID")
	}
	digest, err := SumJSON(sent.Responses)
	if err != nil {
		return nil, because(err, words, InvalidParams, "TASK_UPDATE_INVALID")
	}
	conn, err := c.connected(ctx, r)
	if err != nil || !r.boundTo(conn) {
		return nil, because(err, words, Failure, "TASK_SOURCE_SNAPSHOT_CHANGED")
	}
	return c.deliver(ctx, r, conn, digest.String(), sent.Responses, answered)
}

// deliver sends an answer whose intent is durable, unless it may have arrived
// already and the questions that it answers are not open any more.
func (c *Coordinator) deliver(ctx context.Context, r *Route, conn Connection, digest string, responses json.RawMessage, answered map[string]json.RawMessage) (json.RawMessage, error) {
	words := r.words()
	intent, _, err := c.o.Routes.Intend(ctx, &store.RouteUpdate{Route: r.ID, Digest: digest, State: store.UpdatePrepared, At: c.o.Now()}, maxIntents)
	switch {
	case errors.Is(err, store.ErrFull):
		return nil, because(err, words, InvalidParams, "TASK_UPDATE_LIMIT_EXCEEDED")
	case err != nil:
		return nil, storage(err, words, "STORAGE_WRITE")
	case intent.State == store.UpdateAcked:
		return done, nil
	case intent.State != store.UpdatePrepared:
		// It was sent, and nobody knows whether it arrived. The upstream does: it
		// asks on, or it does not.
		open, err := c.asks(ctx, r, conn, answered)
		if err != nil {
			return nil, because(err, words, Failure, "TASK_UPDATE_OUTCOME_UNKNOWN")
		}
		if !open {
			return done, c.settleIntent(ctx, r, digest, intent.State, store.UpdateAcked)
		}
	}
	if err := c.settleIntent(ctx, r, digest, intent.State, store.UpdateSent); err != nil {
		return nil, err
	}
	params := append([]byte(`{"taskId":`), appendString(nil, r.UpstreamTask)...)
	params = append(append(params, `,"inputResponses":`...), responses...)
	params = append(params, `,"_meta":{}}`...)
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), lifecycleTime)
	defer cancel()
	reply := conn.Send(call, "tasks/update", r.UpstreamTask, params, nil)
	switch {
	case reply.Fault != nil && reply.Unsent:
		return nil, errors.Join(c.settleIntent(ctx, r, digest, store.UpdateSent, store.UpdatePrepared), because(reply.Fault, words, Failure, "TASK_UPDATE_NOT_SENT"))
	case reply.Fault != nil:
		return nil, errors.Join(c.settleIntent(ctx, r, digest, store.UpdateSent, store.UpdateUnknown), because(reply.Fault, words, Failure, "TASK_UPDATE_OUTCOME_UNKNOWN"))
	case reply.Error != nil:
		return nil, errors.Join(c.settleIntent(ctx, r, digest, store.UpdateSent, store.UpdatePrepared), refuse(words, InvalidParams, "TASK_UPDATE_REJECTED"))
	}
	return done, c.settleIntent(ctx, r, digest, store.UpdateSent, store.UpdateAcked)
}

func (c *Coordinator) settleIntent(ctx context.Context, r *Route, digest, from, to string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTime)
	defer cancel()
	if from == to {
		return nil
	}
	if err := c.o.Routes.Resolve(ctx, r.ID, digest, from, to, c.o.Now()); err != nil {
		return storage(err, r.words(), "STORAGE_WRITE")
	}
	return nil
}

// asks tells whether the upstream still has one of the questions open.
func (c *Coordinator) asks(ctx context.Context, r *Route, conn Connection, answered map[string]json.RawMessage) (bool, error) {
	_, _, rep, err := c.poll(ctx, r, conn, c.o.Now())
	if err != nil {
		return false, err
	}
	if rep == nil {
		return false, errors.New("the upstream did not say")
	}
	var open map[string]json.RawMessage
	if rep.Status == "input_required" {
		if err := json.Unmarshal(rep.InputRequests, &open); err != nil {
			return false, err
		}
	}
	for key := range answered {
		if open[key] != nil {
			return true, nil
		}
	}
	return false, nil
}
