package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/penstock-mcp/penstock/internal/catalog"
	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/north"
	"github.com/penstock-mcp/penstock/internal/observe"
	"github.com/penstock-mcp/penstock/internal/relay"
	"github.com/penstock-mcp/penstock/internal/south"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// call is a request about one target: tools/call, prompts/get, resources/read.
func (g *Gateway) call(ctx context.Context, x *north.Exchange, v *server) error {
	m := &x.Msg
	span, param := m.Name, "name"
	if x.Method.Header == mcp.FromURI {
		span, param = m.URI, "uri"
	}
	id, err := wire.String(span.Of(m.Raw))
	if err != nil {
		return fault.New(fault.InvalidParams, "params.%s is missing or not a string", param)
	}
	if v.meta != nil {
		if c := g.metaCalled(ctx, x, v, id); c != nil {
			return c.serve(ctx)
		}
	}
	return g.callNamed(ctx, x, v, id, false)
}

// callNamed is call from step 5 on, of the target that id names. within says that
// it is named within another call, where no header repeats its arguments.
func (g *Gateway) callNamed(ctx context.Context, x *north.Exchange, v *server, id string, within bool) error {
	span := targetSpan(x)
	t, err := v.catalog.Resolve(ctx, g.scope(x), x.Method.Kind, id)
	if err != nil {
		return notFound(x, id, g.unresolved(x, v, &t, id, err))
	}
	if err := g.authorize(ctx, x, v, &t, id); err != nil {
		return notFound(x, id, err)
	}
	if x.Era == mcp.Modern && !x.Headerless && !within && len(t.Params) > 0 {
		if err := checkParams(x, t.Params); err != nil {
			return err
		}
	}
	rewrote, err := g.before(ctx, x, v, &t)
	if err != nil {
		return err
	}
	if rewrote {
		if err := g.authorize(ctx, x, v, &t, id); err != nil {
			return notFound(x, id, err)
		}
		span = targetSpan(x)
	}
	return g.forward(ctx, x, v, &t, span)
}

// unresolved is the error for what leads nowhere now. Who could see nothing there
// does not learn that there is something.
func (g *Gateway) unresolved(x *north.Exchange, v *server, t *catalog.Target, id string, err error) error {
	if t.Upstream == "" {
		return err
	}
	if hidden := g.reveal(x, v, t, id); hidden != nil {
		return hidden
	}
	return err
}

// notFound gives an unknown resource the code and data of the client's era
// (checklist 47, 99); it is the same for one that is hidden.
func notFound(x *north.Exchange, id string, err error) error {
	f := fault.From(err)
	if x.Method.Name != mcp.ResourcesRead || f.Code != fault.InvalidParams {
		return err
	}
	data := append([]byte(`{"uri":`), wire.AppendString(nil, id)...)
	data = append(data, '}')
	if x.Era == mcp.Legacy {
		return fault.New(fault.ResourceNotFound, "%s", f.Message).WithData(data)
	}
	return f.WithData(data)
}

// forward sends a request to its target and relays the answer. name is the
// span of the identifier that the target's own takes the place of.
//
// An upstream that refuses our version or our headers has changed since it was
// last looked at: that is ours to mend, once, and never the client's to see
// (checklist T62). Such a refusal says that nothing ran.
func (g *Gateway) forward(ctx context.Context, x *north.Exchange, v *server, t *catalog.Target, name wire.Span) error {
	moved := 0
	for try := 0; ; try++ {
		err := g.attempt(ctx, x, v, t, name)
		if err == nil {
			return nil
		}
		var off *unreachedError
		if errors.As(err, &off) && moved < off.others && ctx.Err() == nil {
			moved++
			try--
			continue
		}
		var stale *staleError
		if !errors.As(err, &stale) {
			return err
		}
		if try > 0 {
			return fault.Wrap(err, fault.InvalidAnswer, "upstream %q refuses the gateway's own headers with code %d", t.Upstream, int(stale.code)).
				WithHint("tell the upstream's owner")
		}
		m := v.byKey[t.Upstream]
		if stale.code == fault.UnsupportedVersion || stale.era == mcp.Legacy {
			m.south.Forget()
			continue
		}
		v.catalog.Invalidate(t.Upstream, t.Kind, false)
		if err := v.catalog.Refresh(ctx, g.scope(x), t.Kind, t.Upstream); err != nil {
			return err
		}
		asked := t.Exposed
		if *t, err = v.catalog.Resolve(ctx, g.scope(x), t.Kind, asked); err != nil {
			return err
		}
		// What is known of it now may be judged otherwise.
		if err := g.authorize(ctx, x, v, t, asked); err != nil {
			return err
		}
	}
}

// unreachedError is a call that did not reach one replica and ran nowhere.
type unreachedError struct {
	others int // replicas besides
	err    error
}

func (u *unreachedError) Error() string { return u.err.Error() }
func (u *unreachedError) Unwrap() error { return u.err }

// elsewhere marks a failed call that another replica may take: one that ran
// nowhere, or a read, which may run again.
func elsewhere(u upstream, l *south.Link, key south.SessionKey, err error, safe bool) error {
	r, ok := u.(replicated)
	code := fault.From(err).Code
	if !ok || (code != fault.UpstreamUnavailable && (!safe || code != fault.ConnectionLost)) {
		return err
	}
	r.Unreached(l, key)
	return &unreachedError{others: r.Width() - 1, err: err}
}

// staleError is an upstream's refusal of what the gateway added by itself.
type staleError struct {
	code fault.Code
	era  mcp.Era // what the upstream was taken for
}

func (s *staleError) Error() string {
	return "the upstream refused the gateway's headers: " + s.code.Name()
}

func (g *Gateway) attempt(ctx context.Context, x *north.Exchange, v *server, t *catalog.Target, name wire.Span) error {
	anew := false
	if x.Era == mcp.Modern && x.Msg.RequestState.Ok() {
		answered, again, err := g.retry(ctx, x, v, t, name)
		if answered || err != nil {
			return err
		}
		anew = again
	}
	m := v.byKey[t.Upstream]
	if err := g.admitUpstream(x, m); err != nil {
		return err
	}
	key := g.southKey(v, x)
	link, err := m.south.Link(ctx, key)
	if err != nil {
		return err
	}
	if x.Era == mcp.Modern && link.Era == mcp.Legacy && x.Msg.RequestState.Ok() && !anew {
		return invalidState(relay.ErrState) // such an upstream has no state of its own
	}
	if g.drivesHere(ctx, x, v, m, t, link) {
		key.Caps = ""
		if link, err = m.south.Link(ctx, key); err != nil {
			return err
		}
	}
	if mayAsk(x, link, key) {
		return g.park(ctx, x, v, t, name, link, key)
	}
	buf := getBuffer()
	defer putBuffer(buf)
	c := outbounds.Get().(*outbound)
	defer c.free()
	c.g, c.x, c.v, c.t, c.link, c.name = g, x, v, t, link, name
	slot, err := c.offerTasks(ctx, m)
	if err != nil {
		return err
	}
	defer slot.Release()
	c.next = c.recall()
	for {
		question, err := c.send(ctx, m, key, buf)
		var made *drivenError
		switch {
		case errors.As(err, &made):
			return c.drive(ctx, m, made.made, slot)
		case errors.Is(err, errNeedsTask) && c.driven:
			return failed(x, "upstream \""+m.key+"\" needs a capability that this client did not declare")
		case errors.Is(err, errNeedsTask):
			if slot, err = c.takeOver(ctx); err != nil {
				return err
			}
			defer slot.Release()
			continue
		}
		if question == nil || err != nil {
			return err
		}
		if c.next, err = c.askRound(ctx, question); err != nil || c.next == nil {
			return err
		}
	}
}

// send sends the call once and answers the client, or returns the question that
// a modern upstream has for a legacy client.
func (o *outbound) send(ctx context.Context, m *member, key south.SessionKey, buf *[]byte) (asked *wire.Answer, err error) {
	span := leg(o.x, o.link, o.t.ID)
	if o.x.Span != nil {
		o.trace = span.AppendTraceparent(o.trace[:0])
	}
	defer func() { land(span, err) }()
	if err := o.build((*buf)[:0]); err != nil {
		return nil, err
	}
	*buf = o.body
	r := south.Request{Method: o.x.Method.Name, ID: o.id, Body: o.body, Safe: o.x.Method.Safe, Params: o.params, Traceparent: string(o.trace), Timeout: o.longest}
	if o.link.Era == mcp.Modern {
		r.Name = o.headerName()
	} else if o.x.Session != nil {
		r.Level, r.OnBreak = o.x.Session.LogLevel, o.suspend
	}
	if key.Caps != "" && o.link.Era == mcp.Legacy {
		r.OnRequest = o.ask
	}
	if r.OnEvent = m.stray; o.listens() || r.OnRequest != nil || o.hearsTasks(m) {
		r.OnEvent = o.event
	}
	o.x.StayAlive()
	defer o.x.Rest()
	began := time.Now()
	a, err := o.link.Send(ctx, &r)
	took := time.Since(began)
	if err != nil {
		o.g.metrics.UpstreamCall(m.key, o.x.Method.Name, callOutcome(err), took)
		return nil, elsewhere(m.south, o.link, key, err, r.Safe)
	}
	defer a.Close()
	about := o.t
	if o.origin != nil {
		about = o.origin
		if err := o.g.judgedAgain(o.x, about); err != nil {
			return nil, err
		}
	}
	err = o.g.answer(ctx, o.x, o.v, m, about, o.link, a, o.offered())
	o.g.metrics.UpstreamCall(m.key, o.x.Method.Name, answerOutcome(o.x, err), took)
	var q *questionError
	if err != nil && errors.As(err, &q) {
		return &q.asked, nil
	}
	return nil, err
}

// callOutcome is how a call to an upstream went, for the metrics.
func callOutcome(err error) string {
	switch {
	case err == nil:
		return observe.OK
	case errors.Is(err, context.Canceled):
		return observe.Cancelled
	}
	switch code := fault.From(err).Code; code {
	case fault.UpstreamTimeout:
		return "timeout"
	case fault.ConnectionLost:
		return "lost"
	case fault.UpstreamUnavailable:
		return "unavailable"
	case fault.InvalidAnswer:
		return "invalid"
	default:
		return code.Name()
	}
}

// answerOutcome is how a call went that was answered. What the gateway or a hook made
// of the answer is not the upstream's.
func answerOutcome(x *north.Exchange, err error) string {
	if word, driven := drivenOutcome(err); driven {
		return word
	}
	if err != nil {
		switch word := callOutcome(err); word {
		case "timeout", "lost", "invalid":
			return word
		}
	}
	if x.Trail.Outcome == north.Error {
		return observe.Error
	}
	return observe.OK
}

// suspend lets the client go until the upstream, which has closed the stream of
// the call, takes it up again (checklist 93).
func (o *outbound) suspend(retry time.Duration) {
	if err := o.x.Suspend(retry); err != nil {
		o.g.log.Debug("client's stream not closed with its upstream's", "upstream", o.t.Upstream, "error", err)
	}
}
