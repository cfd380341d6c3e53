package gateway

import (
	"context"
	"errors"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/north"
	"github.com/penstock-mcp/penstock/internal/south"
	"github.com/penstock-mcp/penstock/internal/store"
	"github.com/penstock-mcp/penstock/internal/task"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// locate looks for the owner of an id that this principal has no record of. An id
// of somebody else's is looked for in appearance alone (DESIGN section 9).
func (g *Gateway) locate(ctx context.Context, x *north.Exchange, v *server, id string, foreign bool) (*store.Task, error) {
	if g.doc.Tasks.Probe == "off" {
		return nil, unknownTask(x)
	}
	owner, err := g.locator.Locate(ctx, &task.Search{
		ID: id, Principal: x.Principal.Key, Foreign: foreign, Among: g.searched(x, v),
		Ask: func(ctx context.Context, upstream string) task.Verdict {
			return g.claims(ctx, v, v.byKey[upstream], [32]byte{}, g.southKey(v, x), id)
		},
	})
	var often *task.TooOften
	switch {
	case errors.As(err, &often):
		g.metrics.Limited("search")
		return nil, fault.New(fault.RateLimited, "this caller looks for more unknown tasks than it may").
			WithHint("slow down").WithRetryAfter(often.Wait)
	case errors.Is(err, task.ErrUnknown):
		return nil, unknownTask(x)
	case errors.Is(err, task.ErrAmbiguous):
		g.metrics.Task("ambiguous")
		return nil, fault.New(fault.TaskAmbiguous, "two upstreams claim this task id").WithHint("ask the gateway's operator")
	case errors.Is(err, task.ErrUnsure):
		return nil, fault.New(fault.UpstreamUnavailable, "not every upstream that may have the task answers").WithHint("try again")
	case err != nil:
		return nil, err
	}
	g.metrics.Task("located")
	rec := &store.Task{Principal: x.Principal.Key, Server: v.name, Upstream: owner, Legacy: x.Era == mcp.Legacy}
	if i := v.byKey[owner].south.Info(); x.Era == mcp.Modern && i != nil && i.Era == mcp.Legacy {
		rec.Legacy, rec.Session = true, sessionMark+g.southKey(v, x).Caps
	}
	stored, err := g.tasks.Found(ctx, id, rec, task.Life{})
	var other *task.CollisionError
	switch {
	case errors.As(err, &other):
		return other.Owner, nil // it was minted meanwhile, for this principal
	case errors.Is(err, store.ErrConflict):
		return nil, unknownTask(x) // it was minted meanwhile, for another
	case err != nil:
		return nil, fault.Wrap(err, fault.StoreUnavailable, "who owns the task cannot be stored now").WithHint("try again")
	}
	return stored, nil
}

// searched are the upstreams that may be asked for an id without a record: those
// that speak tasks, that the caller may reach, and that tell callers apart, unless
// the document has it otherwise or there is one caller only.
func (g *Gateway) searched(x *north.Exchange, v *server) []string {
	everywhere := g.doc.Tasks.Probe == "on" || g.doc.Auth == nil && g.principal == g.local
	who := g.sees(x, v)
	var out []string
	for _, m := range v.members {
		i := m.south.Info()
		if i == nil || !makesTasks(i) || i.Era == mcp.Modern && x.Era == mcp.Legacy {
			continue
		}
		if !everywhere && !personal(g.doc.Upstreams[m.key]) {
			continue
		}
		if who == nil || who.Reaches(m.key, mcp.Tools) {
			out = append(out, m.key)
		}
	}
	return out
}

// claims asks an upstream, or the replica of it that has the task, with a read,
// whether it has a task for this caller.
func (g *Gateway) claims(ctx context.Context, v *server, m *member, replica [32]byte, key south.SessionKey, id string) task.Verdict {
	u := m.at(replica)
	if u == nil {
		return task.NoAnswer
	}
	link, err := u.Link(ctx, key)
	if err != nil {
		return task.NoAnswer
	}
	whole, err := sendWhole(ctx, link, g.ownTaskRequest(link, mcp.TasksGet, id))
	if err != nil {
		return task.NoAnswer
	}
	var s wire.Answer
	if wire.Scan(whole, &s) != nil {
		return task.NoAnswer
	}
	if s.Error.Ok() {
		switch fault.Code(s.ErrorCode) {
		case fault.InvalidParams, fault.ResourceNotFound, fault.MethodNotFound:
			return task.NotMine
		}
		return task.NoAnswer
	}
	if got, err := wire.String(s.TaskID.Of(whole)); err != nil || got != id {
		return task.NotMine // whoever answers for another task has not this one
	}
	return task.Mine
}
