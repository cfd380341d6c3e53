package gateway

import (
	"bytes"
	"context"
	"errors"

	"github.com/penstock-mcp/penstock/internal/catalog"
	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/hook"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/north"
	"github.com/penstock-mcp/penstock/internal/south"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// before asks the hooks of step 7. It reports whether they rewrote the arguments:
// x.Msg is then another message, which has to be judged again.
func (g *Gateway) before(ctx context.Context, x *north.Exchange, v *server, t *catalog.Target) (rewrote bool, err error) {
	e := hook.Before(t.Kind)
	if !g.hooks.Wants(e) {
		return false, nil
	}
	c := hook.Call{
		Event: e, Principal: callerOf(x).hook, Server: v.name, Upstream: t.Upstream, Name: t.Exposed, Original: t.ID,
		Arguments: x.Msg.Arguments.Of(x.Msg.Raw),
	}
	sent := c.Arguments
	if rewrote, err = g.hooks.Run(ctx, &c); err != nil {
		x.Trail.Detail = fault.From(err).Hint
		return false, err
	}
	if !rewrote || bytes.Equal(sent, c.Arguments) {
		return false, nil
	}
	if t.Kind != mcp.Tools && t.Kind != mcp.Prompts {
		return false, fault.New(fault.HookFailed, "a hook rewrote the arguments of what has none").WithHint("tell the gateway's operator")
	}
	x.Sent = sent
	if x.Sent == nil {
		x.Sent = []byte{}
	}
	return true, x.Rewrite(c.Arguments)
}

// sentArguments are the arguments as the client sent them, whatever a hook made of
// them: what it repeats when it comes back with an answer.
func sentArguments(x *north.Exchange) []byte {
	if x.Sent != nil {
		return x.Sent
	}
	return x.Msg.Arguments.Of(x.Msg.Raw)
}

// after asks the hooks of step 10 about a result that is held whole, and returns
// the message with the result they let pass. Questions are no results: what is
// asked is not yet answered. A task that was made of the call is one (minted).
func (g *Gateway) after(ctx context.Context, x *north.Exchange, v *server, t *catalog.Target, s *wire.Answer, whole []byte, minted bool) ([]byte, error) {
	e := hook.After(t.Kind)
	if !g.hooks.Wants(e) || !minted && !isFinal(s) {
		return whole, nil
	}
	c := g.afterCall(x, v, t, e)
	c.Result = s.Result.Of(whole)
	rewrote, err := g.hooks.Run(ctx, &c)
	if err != nil {
		return nil, g.withheld(x, err)
	}
	if !rewrote {
		return whole, nil
	}
	whole = wire.Splice(nil, whole, wire.Edit{Span: s.Result, With: c.Result})
	if err := wire.Scan(whole, s); err != nil {
		return nil, g.withheld(x, fault.Wrap(err, fault.HookFailed, "a hook made something of the result that is none"))
	}
	return whole, nil
}

func (g *Gateway) afterCall(x *north.Exchange, v *server, t *catalog.Target, e hook.Event) hook.Call {
	return hook.Call{
		Event: e, Principal: callerOf(x).hook, Server: v.name, Upstream: t.Upstream, Name: t.Exposed, Original: t.ID,
		Arguments: x.Msg.Arguments.Of(x.Msg.Raw),
	}
}

// holdForHooks reads on in a large answer as far as the hooks want to see it. It
// reports whether the answer may pass without them because it is larger.
func (g *Gateway) holdForHooks(ctx context.Context, x *north.Exchange, t *catalog.Target, a *south.Answer) (unseen bool, err error) {
	e := hook.After(t.Kind)
	if a.Rest == nil || !g.hooks.Wants(e) {
		return false, nil
	}
	// The result is smaller than its message.
	most := g.hooks.Holds(e) + int64(envelopeRoom)
	ended, err := a.More(most - int64(len(a.Head)))
	if err != nil || ended {
		return false, err
	}
	if err := g.hooks.Refuse(ctx, e, int64(len(a.Head))); err != nil {
		return false, g.withheld(x, err)
	}
	return true, nil
}

// envelopeRoom is what a message may hold besides its result.
const envelopeRoom = 4 << 10

// withheld is a refusal of a result: its call has run.
func (g *Gateway) withheld(x *north.Exchange, err error) error {
	var f *fault.Error
	if !errors.As(err, &f) {
		return err
	}
	x.Trail.Detail = f.Hint
	hint := "the call ran, and its result is withheld"
	if f.Hint != "" {
		hint += "; " + f.Hint
	}
	return f.WithHint("%s", hint)
}

// isFinal reports whether a result ends its call.
func isFinal(s *wire.Answer) bool {
	if !s.ResultType.Ok() {
		return true
	}
	kind, err := wire.String(s.ResultType.Of(s.Raw))
	return err == nil && kind == "complete"
}
