package gateway

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/north"
	"github.com/penstock-mcp/penstock/internal/relay"
	"github.com/penstock-mcp/penstock/internal/south"
	"github.com/penstock-mcp/penstock/internal/task"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// watch waits for the result of the task, and for its questions on the way there. Over
// HTTP that is done from its beginning on; in a process of the caller's alone, which
// does one thing at a time, only while the task needs input.
func (b *bridge) watch() bool {
	caps, err := mcp.ParseClientCaps([]byte(b.link.Caps()))
	if err != nil {
		caps = mcp.ClientCaps{}
	}
	r := b.g.ownTaskRequest(b.link, mcp.TasksResult, b.id)
	r.Aside, r.Timeout = true, time.Duration(b.g.doc.Limits.CallTimeoutMax)
	if b.link.Caps() != "" {
		r.Beside = false // where a call is asked is where it has its turn
		r.OnRequest = func(_ context.Context, s *wire.Answer) ([]byte, error) { return b.asked(r, caps, s) }
	}
	r.OnEvent = b.heard
	// It must hold nothing of the request that began it.
	g, m, link, who := b.g, b.m, b.link, b.who
	return b.vigil.Watch(m.south, func(ctx context.Context) ([]byte, error) {
		began := time.Now()
		whole, err := sendWhole(g.within(ctx, who), link, r)
		g.metrics.UpstreamCall(m.key, mcp.TasksResult, callOutcome(err), time.Since(began))
		if err != nil && ctx.Err() == nil {
			g.log.Debug("the result of a task is not waited for any more", "upstream", m.key, "error", err)
		}
		return whole, err
	})
}

// asked opens a question of the task's. Nil is the answer of a client that cannot be
// asked such a thing, and of the task for what is said to be about another one.
func (b *bridge) asked(r *south.Request, caps mcp.ClientCaps, s *wire.Answer) ([]byte, error) {
	method, err := wire.String(s.Method.Of(s.Raw))
	if err != nil {
		return nil, nil //nolint:nilerr // a request without a name is refused like any that is not known
	}
	params := s.Params.Of(s.Raw)
	if about := at(params, relatedPath); about != nil {
		if id, err := wire.String(about); err != nil || id != b.id {
			return nil, nil //nolint:nilerr // likewise
		}
	}
	q := &relay.Question{Method: method, Params: northern(params), ID: bytes.Clone(s.ID.Of(s.Raw))}
	if _, ok := mcp.ProjectQuestion(method, caps, mcp.LatestModern, q.Params); !ok {
		return nil, nil
	}
	if !b.vigil.Ask(&task.Question{
		ID: string(q.ID), Method: q.Method, Params: q.Params, Patience: b.g.inputTimeout(), Fits: q.Fits,
		Respond: func(ctx context.Context, result []byte) error {
			response, err := related(q.Response(result), b.id)
			if err != nil {
				return fault.Wrap(err, fault.InvalidParams, "params.inputResponses cannot be passed on")
			}
			switch err := r.Respond(ctx, response); {
			case errors.Is(err, south.ErrNotTaken):
				return task.ErrWithdrawn
			case err != nil && fault.From(err).Code == fault.UpstreamUnavailable:
				return errors.Join(task.ErrUnheard, err)
			default:
				return err
			}
		},
		Nobody: func(ctx context.Context) {
			if err := r.Respond(ctx, q.Nobody()); err != nil {
				b.g.log.Debug("an upstream was not told that nobody answers", "upstream", b.m.key, "error", err)
			}
		},
	}) {
		return q.Nobody(), nil
	}
	return nil, south.ErrDeferred
}

var (
	relatedPath   = []string{"_meta", mcp.MetaRelatedTask, "taskId"}
	requestIDPath = []string{"requestId"}
)

// related is a response with what ties it to a task.
func related(response []byte, id string) ([]byte, error) {
	plan := wire.Plan{SetMeta: []wire.Member{{Name: mcp.MetaRelatedTask, Value: relatedTask(wire.AppendString(nil, id))}}}
	return plan.Apply(nil, response)
}

// heard takes what comes on the stream of tasks/result.
func (b *bridge) heard(s *wire.Answer) error {
	switch method, _ := wire.String(s.Method.Of(s.Raw)); method {
	case mcp.Cancelled:
		if id := at(s.Params.Of(s.Raw), requestIDPath); id != nil {
			b.vigil.Withdraw(string(id))
		}
	case mcp.TasksStatus:
		if id, err := wire.String(at(s.Params.Of(s.Raw), taskIDPath)); err == nil && id == b.id {
			b.vigil.Stir()
		}
	default:
		if b.m.stray != nil {
			return b.m.stray(s)
		}
	}
	return nil
}

// update hands in what a modern client answers to the questions of its task. What
// answers nothing that is open is passed over (checklist 70).
func (b *bridge) update(ctx context.Context, x *north.Exchange) error {
	raw := x.Msg.InputResponses.Of(x.Msg.Raw)
	in, err := relay.ParseInputs(raw)
	if err != nil || raw == nil {
		return misshapen(err)
	}
	switch err := b.vigil.Answer(ctx, in.Get); {
	case errors.Is(err, task.ErrMisshapen):
		return misshapen(err)
	default:
		return err
	}
}

func misshapen(err error) error {
	return fault.Wrap(err, fault.InvalidParams, "params.inputResponses is not an object of answers to what was asked").WithHint("correct it and send it again")
}
