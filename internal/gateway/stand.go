package gateway

import (
	"context"
	"errors"
	"slices"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/north"
	"github.com/penstock-mcp/penstock/internal/relay"
	"github.com/penstock-mcp/penstock/internal/store"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// Stand implements north.Gateway: a legacy client hears of every list, and of the
// resources that it subscribed to. What came while it had no stream, within a
// minute, it is told at once.
func (g *Gateway) Stand(ctx context.Context, x *north.Exchange) error {
	s := x.Session
	ctx, done := g.whileGood(ctx, x)
	defer done()
	l := g.board.Standing(s.ID, g.view(x), g.subscribed(ctx, x, s.Subscriptions))
	defer g.board.Leave(s.ID)
	t := teller{x: x}
	return t.follow(ctx, l)
}

// maxSubscriptions bounds the resources that one session is subscribed to.
const maxSubscriptions = mcp.MaxFilterURIs

// subscribe serves resources/subscribe: it is answered once the upstream has
// confirmed (checklist 6.4).
func (g *Gateway) subscribe(ctx context.Context, x *north.Exchange, v *server) error {
	uri, err := subject(x)
	if err != nil {
		return err
	}
	t, err := v.catalog.Resolve(ctx, g.scope(x), mcp.Resources, uri)
	if err != nil {
		return notFound(x, uri, g.unresolved(x, v, &t, uri, err))
	}
	if err := g.reveal(x, v, &t, uri); err != nil {
		return notFound(x, uri, err)
	}
	r := relay.Resource{Upstream: t.Upstream, URI: t.ID, Exposed: uri}
	l := g.board.Standing(x.Session.ID, g.view(x), []relay.Resource{r})
	defer g.board.Leave(x.Session.ID)
	wait, cancel := context.WithTimeout(ctx, subscribeTime)
	defer cancel()
	if !l.Honours(wait, r) {
		if !slices.Contains(x.Session.Subscriptions, uri) {
			l.Remove(uri)
		}
		return g.deaf(v.byKey[t.Upstream], uri)
	}
	err = x.Update(ctx, func(s *store.Session) error {
		if slices.Contains(s.Subscriptions, uri) {
			return nil
		}
		if len(s.Subscriptions) >= maxSubscriptions {
			return fault.New(fault.AtCapacity, "this session is subscribed to %d resources, the limit", maxSubscriptions).WithHint("unsubscribe from some")
		}
		s.Subscriptions = append(slices.Clone(s.Subscriptions), uri)
		return nil
	})
	if err != nil {
		l.Remove(uri)
		return stored(err, "the subscription cannot be stored")
	}
	return x.Result(emptyObject)
}

// subscribeTime is how long an upstream may take to confirm a subscription.
const subscribeTime = 10 * confirmTime

// deaf tells why a resource is not subscribed to.
func (g *Gateway) deaf(m *member, uri string) error {
	i := m.south.Info()
	switch {
	case i == nil:
		return fault.New(fault.UpstreamUnavailable, "upstream %q cannot be reached", m.key).WithHint("try again")
	case string(at(i.Capabilities, subscribePath)) != "true":
		return fault.New(fault.MethodNotFound, "upstream %q offers no subscriptions to resources", m.key)
	}
	return fault.New(fault.InvalidParams, "upstream %q did not confirm a subscription to %q", m.key, uri)
}

var subscribePath = []string{"resources", "subscribe"}

// unsubscribe serves resources/unsubscribe. What was never subscribed to is no
// error: the client has what it wants.
func (g *Gateway) unsubscribe(ctx context.Context, x *north.Exchange) error {
	uri, err := subject(x)
	if err != nil {
		return err
	}
	err = x.Update(ctx, func(s *store.Session) error {
		s.Subscriptions = slices.DeleteFunc(slices.Clone(s.Subscriptions), func(u string) bool { return u == uri })
		return nil
	})
	if err != nil {
		return stored(err, "the subscription cannot be ended")
	}
	g.board.Unsubscribe(x.Session.ID, uri)
	return x.Result(emptyObject)
}

// subject is the URI that a subscription is about.
func subject(x *north.Exchange) (string, error) {
	uri, err := wire.String(x.Msg.URI.Of(x.Msg.Raw))
	if err != nil {
		return "", fault.New(fault.InvalidParams, "params.uri is missing or not a string")
	}
	return uri, nil
}

// stored passes an error of ours on, and tells a client of one of the store.
func stored(err error, what string) error {
	var f *fault.Error
	if errors.As(err, &f) {
		return err
	}
	return north.StoreFault(err, what)
}
