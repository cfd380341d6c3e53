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
		d = g.decideReadings(ctx, v, g.scope(x), view, &pt, args, d)
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
	if !g.shows(v, g.scope(x), g.sees(x, v), t) {
		return g.hide(x, v, t.Kind, asked, "no rule could allow it")
	}
	if g.policy != nil {
		x.Trail.Decision = "allow"
		g.metrics.Decision("allow")
	}
	return nil
}

// shows reports whether a viewer sees a target in every reading of it.
func (g *Gateway) shows(v *server, scope catalog.Scope, who catalog.Viewer, t *catalog.Target) bool {
	if who == nil {
		return true
	}
	if !who.Sees(t) {
		return false
	}
	if t.Kind != mcp.Resources {
		return true
	}
	all, ok := readings(t.ID)
	for i := range all {
		again := *t
		again.ID = all[i].uri
		again.Exposed, again.Names = v.namesOf(scope, t.Upstream, all[i].uri)
		if all[i].loose {
			w, is := who.(*viewer)
			ok = ok && (!is || !w.denies(&again))
		} else {
			ok = ok && who.Sees(&again)
		}
	}
	return ok
}

const tooManyReadings = "it can be read in more ways than are judged"

// decideReadings judges a URI that is allowed as it stands by what its upstream
// may take it for.
func (g *Gateway) decideReadings(ctx context.Context, v *server, scope catalog.Scope, view *policy.View, pt *policy.Target, args []byte, d policy.Decision) policy.Decision {
	all, ok := readings(pt.Original)
	if !ok {
		return policy.Decision{Why: tooManyReadings}
	}
	for i := range all {
		again := v.readAs(scope, *pt, all[i].uri)
		switch {
		case all[i].loose && view.Denies(&again):
			return policy.Decision{Why: "a rule denies what it may be read as"}
		case all[i].loose:
		default:
			if d := view.Decide(ctx, &again, args); !d.Allowed {
				return d
			}
		}
	}
	return d
}

// readAs is a target as its upstream may take its URI for.
func (v *server) readAs(scope catalog.Scope, pt policy.Target, uri string) policy.Target {
	pt.Original = uri
	pt.Name, pt.Names = v.namesOf(scope, pt.Upstream, uri)
	return pt
}

// namesOf is the name under which another reading of a resource would be exposed,
// and every name under which it is judged. What a condition reads of the target is
// the reading, too.
func (v *server) namesOf(scope catalog.Scope, upstream, uri string) (exposed string, names []string) {
	exposed = uri
	if out, changed := v.catalog.ExposeURI(upstream, nil, uri); changed {
		exposed = string(out)
	}
	return exposed, v.catalog.NamesOf(scope, uri, exposed)
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
