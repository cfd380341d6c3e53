package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// consult puts what a task asks to a legacy client, as a question within its call,
// and hands the answers in. A question is put once, however long its upstream takes
// to notice that it was answered. A client that cannot be asked ends the call.
func (d *driving) consult(ctx context.Context, requests []byte) (ended bool, err error) {
	fresh, keys, err := d.unanswered(requests)
	if err != nil {
		return true, d.leave(ctx, invalid(d.m, err))
	}
	if len(keys) == 0 {
		return false, nil
	}
	if d.x.Era != mcp.Legacy {
		return true, d.leave(ctx, fault.New(fault.MissingCapability, "upstream %q asks within a task, which this request does not declare to have", d.m.key).
			WithData([]byte(`{"requiredCapabilities":{"extensions":{"`+mcp.ExtensionTasks+`":{}}}}`)))
	}
	caps, err := mcp.ParseClientCaps(d.x.Session.Capabilities)
	if err != nil || d.talk.rounds == maxRounds {
		return true, d.unanswerable(ctx)
	}
	began := time.Now()
	d.talk.rounds++
	d.talk.visit.begin()
	r := &round{}
	_, err = d.collect(ctx, caps, fresh, r)
	var refused *refusedError
	switch {
	case errors.Is(err, errUnasked):
		return true, d.unanswerable(ctx)
	case errors.As(err, &refused):
		d.g.cancelQuietly(ctx, d.x, d.v, d.m, d.link, d.id)
		return true, d.refused(refused)
	case err != nil:
		return true, d.leave(ctx, err)
	}
	d.x.StayAlive()
	d.last = d.last.Add(time.Since(began)) // the clock stood still
	d.late = time.Now().Add(d.calm)
	for _, key := range keys {
		d.answered[key] = true
	}
	return d.update(ctx, r.responses)
}

// unanswerable ends a call whose task asks what the client cannot answer.
func (d *driving) unanswerable(ctx context.Context) error {
	d.g.cancelQuietly(ctx, d.x, d.v, d.m, d.link, d.id)
	return d.cannot("an answer that the client cannot give")
}

// unanswered are the questions of a task that were not put yet, and their keys.
func (d *driving) unanswered(requests []byte) (fresh []byte, keys []string, err error) {
	if len(requests) == 0 {
		return nil, nil, nil
	}
	fresh = []byte{'{'}
	err = wire.Members(requests, func(name, value []byte) bool {
		if d.answered[string(name)] {
			return true
		}
		if len(keys) > 0 {
			fresh = append(fresh, ',')
		}
		fresh = append(append(append(append(fresh, '"'), name...), '"', ':'), value...)
		keys = append(keys, string(name))
		return true
	})
	return append(fresh, '}'), keys, err
}

// update hands answers in. It is not repeated: answers that were lost on the way
// end the call.
func (d *driving) update(ctx context.Context, responses []byte) (ended bool, err error) {
	within, cancel := context.WithDeadline(ctx, d.end())
	defer cancel()
	more := append([]byte(`,"inputResponses":`), responses...)
	began := time.Now()
	whole, err := sendWhole(within, d.link, d.g.ownTaskMessage(d.link, mcp.TasksUpdate, d.id, more))
	d.g.metrics.UpstreamCall(d.m.key, mcp.TasksUpdate, callOutcome(err), time.Since(began))
	if err != nil {
		return true, d.leave(ctx, err)
	}
	var s wire.Answer
	if err := wire.Scan(whole, &s); err != nil {
		return true, d.leave(ctx, invalid(d.m, err))
	}
	if s.Error.Ok() {
		d.g.cancelQuietly(ctx, d.x, d.v, d.m, d.link, d.id)
		return true, d.fails(&s)
	}
	return false, nil
}
