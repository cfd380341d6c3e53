package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/north"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// Bounds on how often one call of a legacy client comes back: with questions
// (checklist 7.4), and with nothing but the wish to be called again (T36); and
// on how much one round may ask.
const (
	maxRounds    = 10
	maxIdle      = 3
	maxQuestions = 32
)

// round is what a modern upstream's question turns a legacy client's call into:
// the same call with the answers, and the state that came with the question
// (checklist 7.5).
type round struct {
	responses []byte // raw object of answers by key; nil: none were asked for
	state     []byte // raw string; nil: the upstream sent none
}

// dialogue is what a legacy client's call remembers from one round to the next.
type dialogue struct {
	rounds, idle int
	visit        visit // what the user was sent to, and agreed to
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

// errUnasked is a question that this client cannot be asked, or did not answer.
var errUnasked = errors.New("the client cannot be asked")

// refusedError is a client's error in the place of an answer that a round of a
// modern upstream has no room for (checklist 7.5, X2).
type refusedError struct {
	method  string
	failure []byte // raw error object, or nil
}

func (e *refusedError) Error() string { return "the client refuses " + e.method }

// patience is how long a call waits before it answers an upstream that asked
// nothing and only wants to be called again (checklist T36).
const patience = 200 * time.Millisecond

// askRound asks a legacy client what a modern upstream wants to know. It returns
// the next round, or nil after the call was answered because there is none.
func (o *outbound) askRound(ctx context.Context, s *wire.Answer) (*round, error) {
	r := &round{}
	if s.RequestState.Ok() {
		r.state = append([]byte(nil), s.RequestState.Of(s.Raw)...)
	}
	if !s.InputRequests.Ok() {
		if o.talk.idle++; o.talk.idle > maxIdle {
			return nil, o.cannot("more rounds than one call has")
		}
		return r, o.pause(ctx, patience)
	}
	caps, err := mcp.ParseClientCaps(o.x.Session.Capabilities)
	if err != nil {
		return nil, o.cannot("a question that this client cannot be asked")
	}
	if o.talk.rounds == maxRounds {
		return nil, o.cannot("more rounds than one call has")
	}
	o.talk.visit.begin()
	asked, err := o.collect(ctx, caps, s.InputRequests.Of(s.Raw), r)
	var refused *refusedError
	switch {
	case errors.Is(err, errUnasked):
		return nil, o.cannot("an answer that the client cannot give")
	case errors.As(err, &refused):
		return nil, o.refused(refused)
	case err != nil:
		return nil, err
	}
	if len(o.talk.visit.again) > 0 {
		if !o.talk.visit.patient(o.g.visiting) {
			return nil, o.visitFirst(r)
		}
		if err := o.pause(ctx, o.talk.visit.next(o.g.visiting)); err != nil {
			return nil, err
		}
	}
	if asked > 0 {
		o.talk.rounds++ // the rounds that only wait have a bound of their own
	}
	return r, nil
}

// posed is one question of a round on its way to the client.
type posed struct {
	key, method string
	params      []byte
	id          string          // of an interaction at a URL
	open        *north.Question // nil: the answer is known
	answer      []byte
}

// collect asks the questions of one round, all at once, and puts the answers into
// r in the order of their keys. asked counts those that the client was bothered
// with.
func (o *outbound) collect(ctx context.Context, caps mcp.ClientCaps, requests []byte, r *round) (asked int, err error) {
	var all []*posed
	defer func() {
		for _, p := range all {
			if p.open != nil {
				p.open.Withdraw() // does nothing where it was answered
			}
		}
	}()
	var failed error
	err = wire.Members(requests, func(key, request []byte) bool {
		if len(all) == maxQuestions {
			failed = fault.New(fault.InvalidAnswer, "upstream %q asks more than %d questions at once", o.t.Upstream, maxQuestions)
			return false
		}
		var p *posed
		if p, failed = o.pose(caps, string(key), request); failed != nil {
			return false
		}
		if all = append(all, p); p.open != nil {
			asked++
		}
		return true
	})
	if failed != nil {
		return asked, failed
	}
	if err != nil {
		return asked, fault.Wrap(err, fault.InvalidAnswer, "upstream %q asks with malformed inputRequests", o.t.Upstream)
	}
	r.responses = append(r.responses, '{')
	for i, p := range all {
		if err := o.await(ctx, p); err != nil {
			return asked, err
		}
		if i > 0 {
			r.responses = append(r.responses, ',')
		}
		r.responses = append(r.responses, '"')
		r.responses = append(r.responses, p.key...)
		r.responses = append(r.responses, '"', ':')
		r.responses = append(r.responses, p.answer...)
	}
	r.responses = append(r.responses, '}')
	return asked, nil
}

// pose puts one question to the client, unless the user answered it in a round
// before.
func (o *outbound) pose(caps mcp.ClientCaps, key string, request []byte) (*posed, error) {
	method, err := wire.String(at(request, methodPath))
	if err != nil {
		return nil, fault.Wrap(err, fault.InvalidAnswer, "upstream %q asks without a method", o.t.Upstream)
	}
	q, ok := mcp.ProjectQuestion(method, caps, o.x.Revision, at(request, paramsPath))
	if !ok {
		return nil, errUnasked
	}
	p := &posed{key: key, method: method, params: q.Params}
	if q.URL {
		if p.answer = o.talk.visit.agreed(q.Params); p.answer != nil {
			return p, nil
		}
		p.id = rand.Text()
		p.params = mcp.WithElicitationID(q.Params, p.id)
	}
	msg := append([]byte(`{"jsonrpc":"2.0","id":0,"method":`), wire.AppendString(nil, method)...)
	if p.params != nil {
		msg = append(msg, `,"params":`...)
		msg = append(msg, p.params...)
	}
	msg = append(msg, '}')
	p.open, err = o.x.Pose(msg, wire.Span{Start: len(`{"jsonrpc":"2.0","id":`), End: len(`{"jsonrpc":"2.0","id":0`)})
	if errors.Is(err, north.ErrCannotAsk) {
		return nil, errUnasked
	}
	return p, err
}

// await waits for the bare result to send on.
func (o *outbound) await(ctx context.Context, p *posed) error {
	if p.open == nil {
		return nil
	}
	response, err := p.open.Await(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, north.ErrCannotAsk):
		return errUnasked
	case err != nil:
		return err
	}
	var m wire.Message
	if err := wire.Parse(response, &m); err != nil {
		return err
	}
	result := m.Result.Of(m.Raw)
	switch {
	case len(result) > 0 && result[0] == '{':
		p.answer = without(result, isMeta) // (checklist T63)
	case p.method == mcp.CreateElicitation:
		p.answer = []byte(`{"action":"cancel"}`) // an error has no place in inputResponses
		return nil
	default:
		return &refusedError{p.method, m.Error.Of(m.Raw)}
	}
	if p.id != "" {
		o.talk.visit.note(p.params, p.id, p.answer)
	}
	return nil
}

// pause waits within a call, whose stream, if it has one, is kept alive meanwhile.
func (o *outbound) pause(ctx context.Context, d time.Duration) error {
	wake := make(chan struct{})
	over := time.AfterFunc(d, func() { close(wake) })
	defer over.Stop()
	if o.x.TakesQuestions() {
		return o.x.Wait(ctx, wake)
	}
	select { // there is no stream
	case <-wake:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

var (
	methodPath  = []string{"method"}
	paramsPath  = []string{"params"}
	codePath    = []string{"code"}
	messagePath = []string{"message"}
)

// without is a copy of a raw object without the members that drop names; of what
// cannot be read it is a copy as it is.
func without(obj []byte, drop func(name []byte) bool) []byte {
	edits, err := wire.DropMembers(nil, obj, wire.Span{End: len(obj)}, drop)
	if err != nil {
		edits = nil
	}
	return wire.Splice(nil, obj, edits...)
}

func isMeta(name []byte) bool { return string(name) == "_meta" }

// cannot ends a call whose question found no answer.
func (o *outbound) cannot(what string) error {
	return failed(o.x, "upstream \""+o.t.Upstream+"\" needs "+what)
}

// refused ends a call whose question the client answered with an error: as a
// failed tool, or as an error with the client's own in its data (checklist 7.5-3).
func (o *outbound) refused(e *refusedError) error {
	text := "upstream \"" + o.t.Upstream + "\" needs an answer to " + e.method + ", which the client refused"
	if said, err := wire.String(at(e.failure, messagePath)); err == nil && said != "" {
		text += ": " + said
	}
	if o.x.Method.Name == mcp.ToolsCall {
		return failed(o.x, text)
	}
	data := []byte{'{'}
	for _, m := range [...]struct {
		name string
		path []string
	}{{"code", codePath}, {"message", messagePath}} {
		if v := at(e.failure, m.path); v != nil {
			if len(data) > 1 {
				data = append(data, ',')
			}
			data = append(append(append(data, '"'), m.name...), '"', ':')
			data = append(data, v...)
		}
	}
	return replyError(o.x, fault.Internal, text, append(data, '}'))
}

// replyError answers a call with an error on its own stream, where a question
// has opened that already.
func replyError(x *north.Exchange, code fault.Code, text string, data []byte) error {
	b := []byte(`{"code":`)
	b = strconv.AppendInt(b, int64(code), 10)
	b = append(b, `,"message":`...)
	b = wire.AppendString(b, text)
	b = append(b, `,"data":`...)
	b = append(b, data...)
	return x.Reply(http.StatusOK, []byte(`{"jsonrpc":"2.0","id":`), x.ID(), []byte(`,"error":`), b, []byte(`}}`))
}
