package gateway

import (
	"context"
	"net/url"
	"path"
	"slices"
	"strings"

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
			again := pt
			again.Names = []string{other}
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
		again := *t
		again.Names = []string{other}
		if !who.Sees(&again) {
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

// spellings are the other URIs that a server may take the URI of a read for: with
// its escapes decoded and its dots resolved, once and until nothing changes any
// more. A rule must allow each, or file:///public/%2e%2e/secret would be public.
func spellings(t *catalog.Target) []string {
	if t.Kind != mcp.Resources || !strings.ContainsAny(t.ID, `%\`) && !strings.Contains(t.ID, "/.") && !strings.Contains(t.ID, "//") {
		return nil
	}
	var out []string
	for uri, rounds := t.ID, 0; rounds < 4; rounds++ {
		next := resolved(uri)
		if next == uri {
			break
		}
		if !slices.Contains(t.Names, next) {
			out = append(out, next)
		}
		uri = next
	}
	return out
}

// resolved is a URI with one layer of escapes decoded, backslashes read as
// slashes, and the dots of its path taken away.
func resolved(uri string) string {
	scheme, rest, found := strings.Cut(uri, "://")
	if !found {
		if scheme, rest, found = strings.Cut(uri, ":"); !found {
			return uri
		}
	} else {
		scheme += "://"
	}
	if !strings.HasSuffix(scheme, "/") {
		scheme += ":"
	}
	if plain, err := url.PathUnescape(rest); err == nil {
		rest = plain
	}
	rest = strings.ReplaceAll(rest, `\`, "/")
	p, tail := rest, ""
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		p, tail = rest[:i], rest[i:]
	}
	host := ""
	if strings.HasSuffix(scheme, "//") {
		if i := strings.IndexByte(p, '/'); i >= 0 {
			host, p = p[:i], p[i:]
		} else {
			host, p = p, ""
		}
	}
	if p != "" {
		slash := strings.HasSuffix(p, "/") || strings.HasSuffix(p, "/.") || strings.HasSuffix(p, "/..")
		if p = path.Clean(p); slash && !strings.HasSuffix(p, "/") {
			p += "/"
		}
	}
	return scheme + host + p + tail
}
