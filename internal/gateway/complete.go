package gateway

import (
	"context"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/north"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// complete routes completion/complete by the prompt or resource in its ref.
func (g *Gateway) complete(ctx context.Context, x *north.Exchange, v *server) error {
	m := &x.Msg
	kind, err := wire.String(m.RefType.Of(m.Raw))
	if err != nil {
		return fault.New(fault.InvalidParams, "params.ref.type is missing or not a string")
	}
	var span wire.Span
	var of mcp.Kind
	switch kind {
	case "ref/prompt":
		span, of = m.RefName, mcp.Prompts
	case "ref/resource":
		span, of = m.RefURI, mcp.Templates
	default:
		return fault.New(fault.InvalidParams, "params.ref.type %q is neither ref/prompt nor ref/resource", kind)
	}
	id, err := wire.String(span.Of(m.Raw))
	if err != nil {
		return fault.New(fault.InvalidParams, "params.ref of %s names nothing", kind)
	}
	t, err := v.catalog.Resolve(ctx, g.scope(x), of, id)
	if err != nil {
		return g.unresolved(x, v, &t, id, err)
	}
	if err := g.reveal(x, v, &t, id); err != nil {
		return err
	}
	u := v.byKey[t.Upstream].south
	if i := u.Info(); i != nil && !has(i.Capabilities, "completions") {
		return fault.New(fault.MethodNotFound, "upstream %q offers no completions", t.Upstream)
	}
	return g.forward(ctx, x, v, &t, span)
}

// setLevel stores the session's log level. An upstream's own session learns it
// before its next call (checklist 6.1).
func (g *Gateway) setLevel(ctx context.Context, x *north.Exchange) error {
	m := &x.Msg
	level, err := wire.String(m.Level.Of(m.Raw))
	if err != nil || !mcp.ValidLogLevel(level) {
		return fault.New(fault.InvalidParams, "params.level is not one of the levels from debug to emergency")
	}
	if err := x.SetLevel(ctx, level); err != nil {
		return north.StoreFault(err, "the log level cannot be stored")
	}
	return x.Result(emptyObject)
}
