package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/penstock-mcp/penstock/internal/catalog"
	"github.com/penstock-mcp/penstock/internal/durable"
	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/north"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// durableTask serves a request about a task whose id has the form of those of
// durable tasks. It reports whether there is one for this caller; else the id is
// looked up like any other, and reads as unknown like any other (DESIGN section 9).
//
// Policy judges it each time by the tool that it came from.
func (g *Gateway) durableTask(ctx context.Context, x *north.Exchange, v *server, id string) (served bool, err error) {
	if g.durable == nil || x.Era != mcp.Modern || !durable.IsPublicID(id) {
		return false, nil
	}
	who := g.durableCaller(x)
	origin, err := g.durable.Origin(ctx, who, id)
	if errors.Is(err, durable.ErrNoTask) {
		return false, nil
	}
	if err != nil {
		return true, durableFault(x, err)
	}
	m, t, err := g.durableOrigin(v, &origin)
	if err != nil {
		return true, err
	}
	x.Trail.Upstream, x.Trail.Original = m.key, origin.Tool
	if !g.shows(v, g.scope(x), g.sees(x, v), t) {
		x.Trail.Decision, x.Trail.Detail = "hidden", "the tool that the task came from is not allowed any more"
		g.metrics.Task("denied")
		return true, unknownTask(x)
	}
	if g.policy != nil {
		x.Trail.Decision = "allow"
	}
	if err := g.admitUpstream(x, m); err != nil {
		return true, err
	}
	var result json.RawMessage
	switch x.Method.Name {
	case mcp.TasksGet:
		result, err = g.durable.Get(ctx, who, id)
	case mcp.TasksCancel:
		result, err = g.durable.Cancel(ctx, who, id)
	case mcp.TasksUpdate:
		result, err = g.durable.Update(ctx, who, id, x.Msg.Params.Of(x.Msg.Raw))
	default:
		return true, unknownTask(x)
	}
	switch {
	case errors.Is(err, durable.ErrNoTask): // it expired just now
		return false, nil
	case err != nil:
		return true, durableFault(x, err)
	}
	out, err := g.durableAnswer(ctx, x, v, m, t, result)
	if err != nil {
		return true, err
	}
	return true, x.Reply(http.StatusOK, out)
}

// durableOrigin is the tool that a durable task came from, as policy judges it, and
// its upstream. One that is not served here now is away.
func (g *Gateway) durableOrigin(v *server, d *durable.Target) (*member, *catalog.Target, error) {
	m := v.byKey[d.Upstream]
	for _, other := range v.members {
		if m == nil && slices.Contains(g.doc.Upstreams[other.key].Formerly, d.Upstream) {
			m = other
		}
	}
	if m == nil {
		return nil, nil, fault.New(fault.UpstreamUnavailable, "the upstream that has the task is not served here now").
			WithHint("the task is not lost; try again later")
	}
	t := v.catalog.ToolOf(m.key, d.Tool)
	if d.Alias != "" && d.Server == v.name && !slices.Contains(t.Names, d.Alias) {
		t.Names = append(slices.Clone(t.Names), d.Alias)
	}
	return m, &t, nil
}

// durableAnswer is what the room of durable tasks says of a task as the message for
// the client: with the tool's result within it as the tool's own answer would have
// it, shown to the hooks and with its identifiers mapped.
func (g *Gateway) durableAnswer(ctx context.Context, x *north.Exchange, v *server, m *member, t *catalog.Target, result json.RawMessage) ([]byte, error) {
	whole, s, err := enclosed(x.ID(), result)
	if err != nil {
		return nil, err
	}
	if x.Method.Name != mcp.TasksCancel && x.Method.Name != mcp.TasksUpdate {
		if whole, err = g.inlined(ctx, x, v, m, t, &s, whole); err != nil {
			return nil, err
		}
	}
	plan := g.ownPlan(x, v, m.key)
	return plan.Apply(nil, whole)
}

// ownPlan is what the gateway puts into a result that it made itself about an
// upstream's work.
func (g *Gateway) ownPlan(x *north.Exchange, v *server, upstream string) wire.Plan {
	p := wire.Plan{ID: x.ID(), LineSafe: x.Framed()}
	if m := v.byKey[upstream]; v.tag && m != nil {
		p.SetMeta = append(p.SetMeta, wire.Member{Name: mcp.MetaOrigin, Value: m.origin})
	}
	p.SetMeta = append(p.SetMeta, wire.Member{Name: mcp.MetaServerInfo, Value: g.self[mcp.LatestModern]})
	return p
}

// durableLook is tasks/get in a listener's name, for what it is told. The error is
// durable.ErrNoTask, or errHidden, where it is told no more.
func (g *Gateway) durableLook(ctx context.Context, t *teller, who durable.Caller, id string) (json.RawMessage, *durable.Target, error) {
	v := g.servers[t.x.Server]
	if v == nil || g.durable == nil {
		return nil, nil, errHidden
	}
	origin, err := g.durable.Origin(ctx, who, id)
	if err != nil {
		return nil, nil, err
	}
	m, target, err := g.durableOrigin(v, &origin)
	if err != nil {
		return nil, &origin, err
	}
	if !g.shows(v, g.scope(t.x), g.sees(t.x, v), target) {
		g.metrics.Task("denied")
		return nil, &origin, errHidden
	}
	if _, ok := m.rate.Take(time.Now()); !ok {
		g.metrics.Limited("upstream")
		return nil, &origin, fault.New(fault.RateLimited, "upstream %q has as many calls as it may take", m.key)
	}
	result, err := g.durable.Get(ctx, who, id)
	return result, &origin, err
}
