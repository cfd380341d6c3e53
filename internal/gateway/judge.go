package gateway

import (
	"context"

	"github.com/penstock-mcp/penstock/internal/catalog"
	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/north"
	"github.com/penstock-mcp/penstock/internal/policy"
)

// judged is a target as policy judges it.
func (v *server) judged(t *catalog.Target) policy.Target {
	pt := policy.Target{
		Server: v.name, Upstream: t.Upstream, Kind: t.Kind, Name: t.Exposed, Original: t.ID, Names: t.Names,
	}
	if m := v.byKey[t.Upstream]; m != nil && m.trusted {
		pt.Annotations = t.Notes
	}
	return pt
}

// authorize is step 6 of a request's way: may this caller call this target, with
// these arguments (DESIGN section 11)? A target that no rule could allow is
// answered as one that does not exist. asked is the identifier as the client sent
// it.
func (g *Gateway) authorize(ctx context.Context, x *north.Exchange, v *server, t *catalog.Target, asked string) error {
	g.aim(x, t)
	if g.policy == nil {
		return nil
	}
	view := g.sightOf(callerOf(x)).view
	pt := v.judged(t)
	args := x.Msg.Arguments.Of(x.Msg.Raw)
	d := view.Decide(ctx, &pt, args)
	if d.Allowed && t.Kind == mcp.Resources {
		// A server resolves what a glob sees as letters.
		for _, other := range spellings(t) {
			again := v.judged(&other)
			if d = view.Decide(ctx, &again, args); !d.Allowed {
				break
			}
		}
	}
	x.Trail.Rule = d.Rule
	switch {
	case d.Allowed:
		x.Trail.Decision = "allow"
		g.metrics.Decision("allow")
		return nil
	case d.Visible:
		x.Trail.Decision, x.Trail.Detail = "deny", d.Why
		g.metrics.Decision("deny")
		return fault.New(fault.PolicyDenied, "denied by policy").WithHint("ask the operator for access, or change the arguments")
	}
	return g.hide(x, v, t.Kind, asked, d.Why)
}

// reveal is authorize where the arguments are not known: in completions and
// subscriptions.
func (g *Gateway) reveal(x *north.Exchange, v *server, t *catalog.Target, asked string) error {
	g.aim(x, t)
	if !g.shows(g.sees(x, v), t) {
		return g.hide(x, v, t.Kind, asked, "no rule could allow it")
	}
	if g.policy != nil {
		x.Trail.Decision = "allow"
		g.metrics.Decision("allow")
	}
	return nil
}

// shows reports whether a viewer sees a target under every spelling of it.
func (g *Gateway) shows(who catalog.Viewer, t *catalog.Target) bool {
	if who == nil {
		return true
	}
	if !who.Sees(t) {
		return false
	}
	for _, other := range spellings(t) {
		if !who.Sees(&other) {
			return false
		}
	}
	return true
}

// hide answers as for what does not exist.
func (g *Gateway) hide(x *north.Exchange, v *server, kind mcp.Kind, asked, why string) error {
	x.Trail.Decision, x.Trail.Detail = "hidden", why
	g.metrics.Decision("hidden")
	return v.catalog.Nameless(kind, asked)
}

// aim notes the target in the record of the request.
func (g *Gateway) aim(x *north.Exchange, t *catalog.Target) {
	tr := &x.Trail
	tr.Kind, tr.Name, tr.Original, tr.Upstream = singular[t.Kind], t.Exposed, t.ID, t.Upstream
}

// singular are the kinds as policy and the audit record name one thing of them.
var singular = [mcp.NumKinds]string{mcp.Tools: "tool", mcp.Prompts: "prompt", mcp.Resources: "resource", mcp.Templates: "template"}
