package gateway

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/north"
	"github.com/penstock-mcp/penstock/internal/relay"
	"github.com/penstock-mcp/penstock/internal/task"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// confirmTime is how long an acknowledgement waits for upstreams to say what they
// honour.
const confirmTime = time.Second

// subscriptions serves subscriptions/listen (checklist 58 to 61): the acknowledgement of
// what is honoured first, then what was asked for and nothing else, tagged with
// the id of the request, until the client or the gateway ends it.
func (g *Gateway) subscriptions(ctx context.Context, x *north.Exchange) error {
	m := &x.Msg
	filter, err := mcp.ParseFilter(m.Notifications.Of(m.Raw))
	if err != nil {
		return fault.Wrap(err, fault.InvalidParams, "params.%v", err)
	}
	if len(filter.TaskIDs) > 0 {
		// Before any look-up: what is not declared tells nothing of ids (T72).
		caps, err := mcp.ParseClientCaps(m.MetaCaps.Of(m.Raw))
		if err != nil || !caps.HasExtension(mcp.ExtensionTasks) {
			return fault.New(fault.MissingCapability, "params.notifications.taskIds needs the extension %s, which this request does not declare", mcp.ExtensionTasks).
				WithData([]byte(`{"requiredCapabilities":{"extensions":{"` + mcp.ExtensionTasks + `":{}}}}`))
		}
	}
	ctx, done := g.whileGood(ctx, x)
	defer done()
	l := g.board.Listen(g.view(x), filter, g.subscribed(ctx, x, filter.URIs))
	defer l.Close()
	t := teller{x: x, tag: append([]byte(nil), x.ID()...)}
	if len(filter.TaskIDs) > 0 {
		t.follows, t.ear = g.follows, g.follows.Listen(l.Nudge)
		defer t.ear.Close()
		who := g.durableCaller(x)
		routes, others, err := g.followedRoutes(ctx, &t, who, filter.TaskIDs)
		if err != nil {
			return err
		}
		if filter.TaskIDs, err = g.followed(ctx, x, t.ear, others); err != nil {
			return err
		}
		if len(routes) > 0 {
			filter.TaskIDs = append(filter.TaskIDs, routes...)
			t.routeEar = g.durable.ears.listenRoutes(ctx, &t, who, routes, l.Nudge)
			defer t.routeEar.close()
		}
	}
	wait, cancel := context.WithTimeout(ctx, confirmTime)
	filter.URIs = nil
	for _, r := range l.Confirmed(wait) {
		filter.URIs = append(filter.URIs, r.Exposed)
	}
	cancel()
	if err := t.acknowledge(filter); err != nil {
		return err
	}
	err = t.follow(ctx, l)
	if !errors.Is(err, north.ErrStreamsEnd) && !errors.Is(err, relay.ErrEnded) {
		return err
	}
	// Ours to end: a goodbye is a result (checklist 60, C3).
	return x.Result([]byte(`{"resultType":"complete","_meta":{"`+mcp.MetaServerInfo+`":`), g.self[x.Revision],
		[]byte(`,"`+mcp.MetaSubscriptionID+`":`), t.tag, []byte(`}}`))
}

// view is whose lists the client of an exchange sees.
func (g *Gateway) view(x *north.Exchange) relay.View {
	s := g.scope(x)
	view := relay.View{Server: x.Server, Principal: s.Principal, Caps: s.Caps}
	if c := callerOf(x); c != nil {
		view.Who = c
	}
	return view
}

// subscribed resolves the URIs of a filter. What nobody here offers is left out,
// and so not acknowledged.
func (g *Gateway) subscribed(ctx context.Context, x *north.Exchange, uris []string) []relay.Resource {
	var out []relay.Resource
	v := g.servers[x.Server]
	for _, uri := range uris {
		t, err := v.catalog.Resolve(ctx, g.scope(x), mcp.Resources, uri)
		if err != nil {
			g.log.Debug("resource not subscribed to", "server", x.Server, "error", err)
			continue
		}
		if !g.shows(v, g.scope(x), g.sees(x, v), &t) {
			continue // as if there were none
		}
		out = append(out, relay.Resource{Upstream: t.Upstream, URI: t.ID, Exposed: uri})
	}
	return out
}

// teller writes to one client what a listener was told.
type teller struct {
	x   *north.Exchange
	tag []byte // raw id of the subscription; nil for a legacy client
	buf []byte

	follows *follows
	ear     *task.Ear // nil: no tasks are listened for

	routeEar *routeEar // likewise, of durable ones
}

func (t *teller) acknowledge(f mcp.Filter) error {
	b := append(t.buf[:0], `{"jsonrpc":"2.0","method":"`+mcp.Acknowledged+`","params":{"_meta":{"`+mcp.MetaSubscriptionID+`":`...)
	b = append(b, t.tag...)
	b = append(b, `},"notifications":`...)
	b = f.Append(b)
	return t.send(append(b, `}}`...))
}

// follow passes on what the listener is told until ctx ends, and returns its
// cause. A client that does not keep up is cut off.
func (t *teller) follow(ctx context.Context, l *relay.Listener) error {
	for {
		if err := t.x.Wait(ctx, l.Wake()); err != nil {
			return err
		}
		changed, updates, end := l.Take()
		for _, kind := range changed {
			if err := t.send(t.listChanged(kind)); err != nil {
				return err
			}
		}
		for i := range updates {
			b, err := t.updated(&updates[i])
			if err != nil {
				continue // it is no object, and so no notification
			}
			if err := t.send(b); err != nil {
				return err
			}
		}
		if err := t.tasks(ctx); err != nil {
			return err
		}
		if err := t.routes(ctx); err != nil {
			return err
		}
		if errors.Is(end, relay.ErrSlow) {
			return fault.Wrap(end, fault.AtCapacity, "the client does not read its notifications as fast as they come").
				WithHint("listen again; some were missed")
		}
		if end != nil {
			return end
		}
	}
}

func (t *teller) send(msg []byte) error {
	t.buf = msg
	safe, err := wire.LineSafe(nil, msg)
	if err != nil {
		return nil //nolint:nilerr // it cannot be framed; the stream itself goes on
	}
	_, err = t.x.Event(safe)
	return err
}

func (t *teller) listChanged(kind mcp.Kind) []byte {
	b := append(t.buf[:0], `{"jsonrpc":"2.0","method":"`...)
	b = append(b, kind.Changed()...)
	b = append(b, '"')
	if t.tag != nil {
		b = append(b, `,"params":{"_meta":{"`+mcp.MetaSubscriptionID+`":`...)
		b = append(b, t.tag...)
		b = append(b, `}}`...)
	}
	return append(b, '}')
}

// updated is resources/updated as this client knows the resource: with its
// identifier and its own subscription, and all else as the upstream said it.
func (t *teller) updated(u *relay.Update) ([]byte, error) {
	params := u.Params
	if params == nil {
		params = []byte(`{"uri":""}`)
	}
	edits, err := t.edits(params, u.URI)
	if err != nil {
		return nil, err
	}
	b := append(t.buf[:0], `{"jsonrpc":"2.0","method":"`+mcp.ResourceUpdated+`","params":`...)
	b = wire.Splice(b, params, edits...)
	return append(b, '}'), nil
}

// edits give params the identifier and the subscription of this client.
func (t *teller) edits(params []byte, uri string) (edits []wire.Edit, err error) {
	var tag []wire.Member
	if t.tag != nil {
		tag = []wire.Member{{Name: mcp.MetaSubscriptionID, Value: t.tag}}
	}
	tagged, bare := false, false
	err = wire.MemberSpans(params, func(name []byte, at wire.Span) bool {
		switch {
		case isName(name, "uri"):
			edits = append(edits, wire.Edit{Span: at, With: wire.AppendString(nil, uri)})
		case isName(name, "_meta"):
			tagged = true
			meta := retag(at.Of(params), tag)
			if bare = string(meta) == "{}"; !bare {
				edits = append(edits, wire.Edit{Span: at, With: meta})
			}
		}
		return true
	})
	all := wire.Span{Start: bytes.IndexByte(params, '{'), End: len(params)}
	switch {
	case err != nil:
	case bare: // it held nothing but what was another hop's
		edits, err = wire.DropMembers(edits, params, all, isMeta)
	case !tagged && tag != nil:
		edits = append(edits, wire.InsertMembers(params, all, wire.Member{Name: "_meta", Value: retag(nil, tag)}))
	}
	slices.SortFunc(edits, func(a, b wire.Edit) int { return a.Start - b.Start })
	return edits, err
}

// retag is a raw _meta without what belongs to another hop, and with a tag.
func retag(meta []byte, tag []wire.Member) []byte {
	if len(meta) == 0 || meta[0] != '{' {
		meta = []byte(`{}`)
	}
	kept := without(meta, reserved)
	return wire.Splice(nil, kept, wire.InsertMembers(kept, wire.Span{Start: 0, End: len(kept)}, tag...))
}
