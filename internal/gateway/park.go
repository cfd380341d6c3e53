package gateway

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/penstock-mcp/penstock/internal/auth"
	"github.com/penstock-mcp/penstock/internal/catalog"
	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/north"
	"github.com/penstock-mcp/penstock/internal/relay"
	"github.com/penstock-mcp/penstock/internal/south"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// parkedCall is a modern client's call at a legacy upstream that may ask the
// client while it runs. It outlives the requests it is made for, and holds
// nothing of theirs.
type parkedCall struct {
	link    *south.Link
	request south.Request
	tasks   offering // whose a task is that the upstream may make of it
}

// Respond implements relay.Call.
func (c *parkedCall) Respond(ctx context.Context, response []byte) error {
	return c.request.Respond(ctx, response)
}

// parkedAnswer is how such a call ended. A small answer can be given to a request
// that is sent again; a large one streams, and is given once.
type parkedAnswer struct {
	stream *south.Answer // nil: it was small
	whole  []byte
}

// Once implements relay.Final.
func (f *parkedAnswer) Once() bool { return f.stream != nil }

// Close implements relay.Final.
func (f *parkedAnswer) Close() {
	if f.stream != nil {
		f.stream.Close()
	}
}

var anonymous = auth.Key(auth.IssuerAnonymous, "", "anonymous")

// southKey is the key of the southern session that a request uses. A client that
// can be asked has one that declares what it declared; it is never shared with
// another principal, so that nobody is asked for somebody else (checklist 7.1).
// Who has no name has none of its own.
func (g *Gateway) southKey(v *server, x *north.Exchange) south.SessionKey {
	if x.Session != nil {
		return g.clientKey(v, x.Session)
	}
	key := sessionKey(v, x.Principal.Key, "")
	key.Caps = g.askableNow(x)
	return key
}

// askableNow is what a modern client can be asked, in normal form.
func (g *Gateway) askableNow(x *north.Exchange) string {
	raw := x.Msg.MetaCaps.Of(x.Msg.Raw)
	if len(raw) == 0 || x.Principal.Key == anonymous {
		return ""
	}
	return g.askable.of(raw, x.Revision)
}

// mayAsk reports whether a call is one that its upstream may ask the client about:
// only these three methods have a way to (checklist 50).
func mayAsk(x *north.Exchange, link *south.Link, key south.SessionKey) bool {
	return x.Era == mcp.Modern && link.Era == mcp.Legacy && key.Caps != "" && x.Method.Header != mcp.NoName
}

// canBeAsked tells which questions the client of this request takes.
func canBeAsked(x *north.Exchange) func(*relay.Question) bool {
	caps, err := mcp.ParseClientCaps(bytes.Clone(x.Msg.MetaCaps.Of(x.Msg.Raw)))
	return func(q *relay.Question) bool {
		if err != nil {
			return false
		}
		_, ok := mcp.ProjectQuestion(q.Method, caps, mcp.LatestModern, q.Params)
		return ok
	}
}

// park makes a call that may ask its client, and waits until it has asked or
// ended.
func (g *Gateway) park(ctx context.Context, x *north.Exchange, v *server, t *catalog.Target, name wire.Span, link *south.Link, key south.SessionKey) error {
	o := outbound{g: g, x: x, v: v, t: t, link: link, name: name}
	m, can := v.byKey[t.Upstream], canBeAsked(x)
	slot, err := o.offerTasks(ctx, m)
	if err != nil {
		return err
	}
	span := leg(x, link, t.ID)
	if x.Span != nil {
		o.trace = span.AppendTraceparent(nil)
	}
	if err := o.build(nil); err != nil {
		slot.Release()
		land(span, err)
		return err
	}
	call := &parkedCall{link: link, tasks: o.offered(), request: south.Request{
		Method: x.Method.Name, ID: bytes.Clone(o.id), Body: o.body, Safe: x.Method.Safe, Traceparent: string(o.trace),
	}}
	who := callerOf(x)
	visit, err := g.parks.Begin(&relay.Start{
		Principal: x.Principal.Key, Upstream: m.south, Call: call, Can: can,
		Parked: g.doc.Limits.ParkedPerPrincipal, Wait: g.inputTimeout(),
		Run: func(ctx context.Context, p *relay.Park) (relay.Final, error) {
			defer slot.Release() // from here on its record counts, if there is going to be one
			began := time.Now()
			final, err := call.run(g.within(ctx, who), p, can)
			g.metrics.UpstreamCall(m.key, call.request.Method, callOutcome(err), time.Since(began))
			land(span, err)
			return final, err
		},
	})
	if err != nil {
		slot.Release()
		return ended(err)
	}
	turn, err := g.attend(ctx, x, v, t, name, visit)
	if err != nil || turn.Err == nil {
		return err
	}
	if err = turn.Err; !turn.Asked {
		err = elsewhere(m.south, link, key, err, x.Method.Safe)
	}
	return g.notAsked(x, v, m, err)
}

// run makes the call; what the client cannot be asked is refused on the way.
func (c *parkedCall) run(ctx context.Context, p *relay.Park, can func(*relay.Question) bool) (relay.Final, error) {
	c.request.OnEvent = p.Event
	c.request.OnRequest = func(_ context.Context, s *wire.Answer) ([]byte, error) {
		method, err := wire.String(s.Method.Of(s.Raw))
		if err != nil {
			return nil, nil //nolint:nilerr // a request without a name is refused like any that is not known
		}
		q := &relay.Question{Method: method, Params: northern(s.Params.Of(s.Raw)), ID: bytes.Clone(s.ID.Of(s.Raw))}
		if !can(q) {
			return nil, nil
		}
		response, deferred := p.Ask(q)
		if deferred {
			return nil, south.ErrDeferred
		}
		return response, nil
	}
	a, err := c.link.Send(ctx, &c.request)
	if err != nil {
		return nil, err
	}
	if a.Rest != nil {
		a.Hold() // until there is a request to give it to
		return &parkedAnswer{stream: a}, nil
	}
	defer a.Close()
	return &parkedAnswer{whole: bytes.Clone(a.Whole)}, nil
}

// northern is the params of a legacy upstream's question as inputRequests have
// them: a copy without what belongs to the other era (checklist 7.3, T38).
func northern(params []byte) []byte {
	if len(params) == 0 {
		return nil
	}
	return without(params, func(n []byte) bool {
		return string(n) == "_meta" || string(n) == "task" || string(n) == "elicitationId"
	})
}

// attend waits for what comes next in a call and answers the request with it. Only
// a call that ended with an error is left to the caller.
func (g *Gateway) attend(ctx context.Context, x *north.Exchange, v *server, t *catalog.Target, name wire.Span, visit *relay.Visit) (relay.Turn, error) {
	call := visit.Call().(*parkedCall)
	o := outbound{g: g, x: x, v: v, t: t, link: call.link, name: name, id: call.request.ID, token: x.Msg.ProgressToken.Ok()}
	x.StayAlive()
	defer x.Rest()
	turn, err := visit.Wait(ctx, o.event)
	switch {
	case err != nil || turn.Err != nil:
		return turn, err
	case turn.Offer != nil:
		if err := o.offer(turn.Offer); err != nil {
			visit.Unread()
			return turn, err
		}
		return turn, nil
	}
	err = o.give(ctx, turn.Final.(*parkedAnswer), call.tasks)
	var stale *staleError
	if turn.Asked && errors.As(err, &stale) {
		// The call has run: it is not made again for the gateway's sake.
		err = fault.Wrap(err, fault.InvalidAnswer, "upstream %q refuses the gateway's own headers with code %d", t.Upstream, int(stale.code)).
			WithHint("the call may have run; tell the upstream's owner")
	}
	return turn, err
}

// give answers the request with the end of its call.
func (o *outbound) give(ctx context.Context, f *parkedAnswer, offered offering) error {
	m := o.v.byKey[o.t.Upstream]
	if f.stream != nil {
		defer f.stream.Close()
		f.stream.Run()
		return o.g.answer(ctx, o.x, o.v, m, o.t, o.link, f.stream, offered)
	}
	a := south.Answer{Whole: f.whole}
	if err := wire.Scan(f.whole, &a.Scan); err != nil {
		return invalid(m, err)
	}
	return o.g.answer(ctx, o.x, o.v, m, o.t, o.link, &a, offered)
}

// retry deals with a requestState of the gateway's own. It reports whether the
// request is answered, or else whether it is a call to be made anew.
func (g *Gateway) retry(ctx context.Context, x *north.Exchange, v *server, t *catalog.Target, name wire.Span) (answered, anew bool, err error) {
	m := &x.Msg
	o := outbound{g: g, x: x, v: v, t: t, name: name}
	sealed, err := wire.String(m.RequestState.Of(m.Raw))
	if err != nil {
		return false, false, invalidState(err)
	}
	ticket, err := g.sealer.OpenTicket(sealed, o.binding())
	if err != nil {
		return false, false, nil //nolint:nilerr // it may be an upstream's own
	}
	if ticket.Arguments != relay.Digest(sentArguments(x)) {
		return true, false, invalidState(relay.ErrState)
	}
	in, err := relay.ParseInputs(m.InputResponses.Of(m.Raw))
	if err != nil {
		return true, false, ended(err)
	}
	switch ticket.Kind {
	case relay.Reissue:
		done, err := o.reissued(&ticket, in)
		return done, !done, err
	case relay.Parked:
		return true, false, g.goOn(ctx, &o, &ticket, in)
	}
	return true, false, invalidState(relay.ErrState)
}

// goOn takes the answers to a parked call and waits for what comes next there.
func (g *Gateway) goOn(ctx context.Context, o *outbound, ticket *relay.Ticket, in relay.Inputs) error {
	if ticket.Instance != g.storage.Instance {
		return fault.New(fault.Elsewhere, "the call that asked waits on another instance of the gateway").WithHint("try again")
	}
	visit, err := g.parks.Return(ticket.ID, o.x.Principal.Key, ticket.Round, in, canBeAsked(o.x))
	if err != nil {
		return ended(err)
	}
	turn, err := g.attend(ctx, o.x, o.v, o.t, o.name, visit)
	if err != nil || turn.Err == nil {
		return err
	}
	return g.notAsked(o.x, o.v, o.v.byKey[o.t.Upstream], turn.Err)
}

func invalidState(cause error) error {
	return fault.Wrap(cause, fault.InvalidParams, "params.requestState is not valid for this request").WithHint("call again without it")
}

// ended turns the end of a parked call into what its client is told.
func ended(err error) error {
	switch {
	case errors.Is(err, relay.ErrLost), errors.Is(err, relay.ErrTaken), errors.Is(err, south.ErrNotTaken):
		return fault.Wrap(err, fault.InvalidParams, "input request expired").WithHint("call again without requestState")
	case errors.Is(err, relay.ErrAnswered):
		return fault.Wrap(err, fault.InvalidParams, "the input request was answered before, and otherwise").WithHint("call again without requestState")
	case errors.Is(err, relay.ErrInputs):
		return fault.Wrap(err, fault.InvalidParams, "params.inputResponses is not an object of answers to what was asked").WithHint("correct it and send it with the same requestState")
	case errors.Is(err, relay.ErrClosed):
		return fault.Wrap(err, fault.ConnectionLost, "the gateway ended the call").WithHint("the call may have run; check before sending it again")
	}
	return err
}

// notAsked ends a request whose call ended with an error of the gateway's, or
// because it could not ask (checklist 7.4).
func (g *Gateway) notAsked(x *north.Exchange, v *server, m *member, err error) error {
	switch {
	case errors.Is(err, relay.ErrQuota):
		return g.gaveUp(x, v, m, "upstream \""+m.key+"\" asks for input, and too many calls wait for it already")
	case errors.Is(err, relay.ErrRounds):
		return g.gaveUp(x, v, m, "upstream \""+m.key+"\" asks for input more often than one call may")
	}
	return ended(err)
}

// gaveUp ends a modern client's call that was not completed: as a failed tool, or
// as an error where there is no such thing.
func (g *Gateway) gaveUp(x *north.Exchange, v *server, m *member, text string) error {
	if x.Method.Name != mcp.ToolsCall {
		return fault.New(fault.Internal, "%s", text)
	}
	x.Trail.Outcome = north.Failed
	plan := g.plan(x, v, m, nil)
	raw := append([]byte(`{"jsonrpc":"2.0","id":0,"result":{"isError":true,"content":[{"type":"text","text":`), wire.AppendString(nil, text)...)
	out, err := plan.Apply(nil, append(raw, `}]}}`...))
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, out)
}
