package gateway

import (
	"context"
	"crypto/sha256"

	"github.com/penstock-mcp/penstock/internal/catalog"
	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/relay"
	"github.com/penstock-mcp/penstock/internal/south"
)

// rooms are what the board of listeners needs of one gateway.
type rooms struct{ g *Gateway }

var _ relay.Rooms = rooms{}

// Upstreams implements relay.Rooms.
func (r rooms) Upstreams(server string) []string {
	v := r.g.servers[server]
	if v == nil {
		return nil
	}
	return v.keys
}

// watchServer is the virtual server in the key of the sessions over which
// upstreams are heard: they are nobody's and declare nothing.
const watchServer = "penstock:watch"

// watchKey is that key. It names the instance, for two must not share a stream.
func (g *Gateway) watchKey() south.SessionKey {
	return south.SessionKey{Server: watchServer, North: g.storage.Instance}
}

// Watch implements relay.Rooms.
func (r rooms) Watch(upstream string, h *relay.Hub) (relay.Watch, any) {
	u := r.g.upstreams[upstream]
	if u == nil {
		return nil, nil
	}
	return u.Watch(r.g.watchKey(), h), u
}

// Same implements relay.Rooms.
func (r rooms) Same(upstream string) any {
	if u := r.g.upstreams[upstream]; u != nil {
		return u
	}
	return nil
}

// Digest implements relay.Rooms. The list of resources changes with that of
// templates, for one notification stands for both.
func (r rooms) Digest(ctx context.Context, view relay.View, kind mcp.Kind) (d relay.ListDigest, err error) {
	v := r.g.servers[view.Server]
	if v == nil {
		return d, fault.New(fault.Internal, "there is no virtual server %q", view.Server)
	}
	scope := catalog.Scope{Principal: view.Principal, Caps: view.Caps}
	c, _ := view.Who.(*caller)
	who := r.g.viewer(c, v)
	if d.Seen, d.Whole, err = v.catalog.Digest(ctx, scope, who, kind); err != nil {
		return d, err
	}
	if kind == mcp.Tools && v.meta != nil {
		// Who cannot see the tool that comes and goes hears of a change once too often.
		state := r.g.metaState(v)
		d.Seen, d.Whole = sha256.Sum256(append(d.Seen[:], state)), sha256.Sum256(append(d.Whole[:], state))
	}
	if kind != mcp.Resources {
		return d, nil
	}
	seen, whole, err := v.catalog.Digest(ctx, scope, who, mcp.Templates)
	d.Seen = sha256.Sum256(append(d.Seen[:], seen[:]...))
	d.Whole = sha256.Sum256(append(d.Whole[:], whole[:]...))
	return d, err
}

// Invalidate implements relay.Rooms.
func (r rooms) Invalidate(upstream string, kind mcp.Kind) {
	if r.g.durable != nil {
		r.g.durable.sources.doubt(upstream)
	}
	for _, v := range r.g.servers {
		if v.byKey[upstream] == nil {
			continue
		}
		v.catalog.Invalidate(upstream, kind, false)
		if kind == mcp.Resources {
			v.catalog.Invalidate(upstream, mcp.Templates, false)
		}
	}
}

// Expose implements relay.Rooms.
func (r rooms) Expose(view relay.View, upstream, uri, exposed string) (as string, shown bool) {
	v := r.g.servers[view.Server]
	if v == nil || v.byKey[upstream] == nil {
		return uri, false
	}
	if exposed == "" {
		exposed = uri
		if out, changed := v.catalog.ExposeURI(upstream, nil, uri); changed {
			exposed = string(out)
		}
	}
	c, _ := view.Who.(*caller)
	who := r.g.viewer(c, v)
	if who == nil {
		return exposed, true
	}
	scope := catalog.Scope{Principal: view.Principal, Caps: view.Caps}
	t := catalog.Target{Upstream: upstream, Kind: mcp.Resources, ID: uri, Exposed: exposed, Names: v.catalog.NamesOf(scope, uri, exposed)}
	return exposed, r.g.shows(v, scope, who, &t)
}
