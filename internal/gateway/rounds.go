package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/north"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// Bounds on how often one call of a legacy client comes back: with questions
// (checklist 7.4), and with nothing but the wish to be called again (T36).
const (
	maxRounds = 10
	maxIdle   = 3
)

// round is what a modern upstream's question turns a legacy client's call into:
// the same call with the answers, and the state that came with the question
// (checklist 7.5).
type round struct {
	responses []byte // raw object of answers by key; nil: none were asked for
	state     []byte // raw string; nil: the upstream sent none
}

// questionError is a question of a modern upstream for a legacy client.
type questionError struct{ asked wire.Answer }

func (*questionError) Error() string { return "the upstream asks" }

// question keeps a question beyond the answer it came in.
func question(s *wire.Answer) error {
	q := &questionError{}
	if err := wire.Scan(append([]byte(nil), s.Raw...), &q.asked); err != nil {
		return err
	}
	return q
}

// patience is how long a call waits before it answers an upstream that asked
// nothing and only wants to be called again (checklist T36).
const patience = 200 * time.Millisecond

// askRound asks a legacy client what a modern upstream wants to know. It returns
// the next round, or nil after the call was answered because the user would not.
func (o *outbound) askRound(ctx context.Context, s *wire.Answer) (*round, error) {
	r := &round{}
	if s.RequestState.Ok() {
		r.state = append([]byte(nil), s.RequestState.Of(s.Raw)...)
	}
	if !s.InputRequests.Ok() {
		select {
		case <-time.After(patience):
			return r, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	caps, err := mcp.ParseClientCaps(o.x.Session.Capabilities)
	if err != nil {
		return nil, o.cannot("a question that this client cannot be asked")
	}
	r.responses = append(r.responses, '{')
	var failed error
	err = wire.Members(s.InputRequests.Of(s.Raw), func(key, request []byte) bool {
		var answer []byte
		if answer, failed = o.askOne(ctx, caps, request); failed != nil || answer == nil {
			r.responses = nil
			return false
		}
		if len(r.responses) > 1 {
			r.responses = append(r.responses, ',')
		}
		r.responses = append(r.responses, '"')
		r.responses = append(r.responses, key...)
		r.responses = append(r.responses, '"', ':')
		r.responses = append(r.responses, answer...)
		return true
	})
	switch {
	case failed != nil:
		return nil, failed
	case err != nil:
		return nil, fault.Wrap(err, fault.InvalidAnswer, "upstream %q asks with malformed inputRequests", o.t.Upstream)
	case r.responses == nil:
		return nil, o.cannot("an answer that the client did not give")
	}
	r.responses = append(r.responses, '}')
	return r, nil
}

// askOne asks one question and returns the bare result to send on; nil when the
// client gives none.
func (o *outbound) askOne(ctx context.Context, caps mcp.ClientCaps, request []byte) ([]byte, error) {
	method, err := wire.String(at(request, methodPath))
	if err != nil {
		return nil, fault.Wrap(err, fault.InvalidAnswer, "upstream %q asks without a method", o.t.Upstream)
	}
	params := at(request, paramsPath)
	mode, _ := wire.String(at(params, modePath))
	if !caps.CanBeAsked(method, mode) {
		return nil, nil
	}
	if method == "elicitation/create" && o.x.Revision < mcp.V20251125 {
		params = without(params, "mode") // the revision has only the one
	}
	msg := append([]byte(`{"jsonrpc":"2.0","id":0,"method":`), wire.AppendString(nil, method)...)
	if len(params) > 0 {
		msg = append(msg, `,"params":`...)
		msg = append(msg, params...)
	}
	msg = append(msg, '}')
	response, err := o.x.Ask(ctx, msg, wire.Span{Start: len(`{"jsonrpc":"2.0","id":`), End: len(`{"jsonrpc":"2.0","id":0`)})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, north.ErrCannotAsk):
		return nil, nil
	case err != nil:
		return nil, err
	}
	var m wire.Message
	if err := wire.Parse(response, &m); err != nil {
		return nil, err
	}
	switch {
	case m.Result.Ok():
		return without(m.Result.Of(m.Raw), "_meta"), nil // (checklist T63)
	case method == "elicitation/create":
		return []byte(`{"action":"cancel"}`), nil // an error has no place in inputResponses
	}
	return nil, nil
}

var (
	methodPath = []string{"method"}
	paramsPath = []string{"params"}
)

// without is a raw object without a member.
func without(obj []byte, name string) []byte {
	raw := append([]byte{'['}, obj...) // a span never ends at 0
	edits, err := wire.DropMembers(nil, raw, wire.Span{Start: 1, End: len(raw)}, func(n []byte) bool { return string(n) == name })
	if err != nil {
		return obj
	}
	return wire.Splice(nil, raw, edits...)[1:]
}

// cannot ends a call whose question found no answer.
func (o *outbound) cannot(what string) error {
	return failed(o.x, "upstream \""+o.t.Upstream+"\" needs "+what)
}
