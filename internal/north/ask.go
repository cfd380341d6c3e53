package north

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"time"

	"github.com/penstock-mcp/penstock/internal/wire"
)

// ErrCannotAsk is a request that this client cannot be asked now: it takes no
// event stream, speaks no session, or too many questions of its are open.
var ErrCannotAsk = errors.New("north: the client cannot be asked")

// askKey names a question that is open. Only the session it was asked in can
// answer it.
type askKey struct{ session, id string }

// Ask sends a server's request to the client of a call, on the call's own event
// stream, and waits for the response that the client posts in the same session
// (checklist 92, 7.7). raw is the server's request and id its id within; the
// client sees an id of ours that cannot be guessed. The response comes back with
// the server's own id in it.
//
// It waits as long as ctx and Options.InputTimeout allow, and keeps the stream
// alive meanwhile. A call's questions are asked one after the other.
func (x *Exchange) Ask(ctx context.Context, raw []byte, id wire.Span) ([]byte, error) {
	if x.handler == nil || x.Session == nil {
		return nil, ErrCannotAsk
	}
	o := &x.handler.o
	if n := x.Principal.parked.Add(1); o.Parked > 0 && n > int64(o.Parked) {
		x.Principal.parked.Add(-1)
		return nil, ErrCannotAsk
	}
	defer x.Principal.parked.Add(-1)

	ours := `"` + rand.Text() + `"`
	msg, err := wire.LineSafe(nil, wire.Splice(nil, raw, wire.Edit{Span: id, With: []byte(ours)}))
	if err != nil {
		return nil, ErrCannotAsk
	}
	t := x.handler.ongoing.talkOf(x.Session.ID)
	key := askKey{x.Session.ID, idKey([]byte(ours))}
	answer := make(chan []byte, 1)
	t.mu.Lock()
	t.asks[key] = answer
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.asks, key)
	}()
	if sent, err := x.Event(msg); err != nil || !sent {
		return nil, errors.Join(ErrCannotAsk, err)
	}
	theirs := append([]byte(nil), id.Of(raw)...)
	response, err := x.await(ctx, answer)
	if err != nil {
		return nil, err
	}
	var m wire.Message
	if err := wire.Parse(response, &m); err != nil {
		return nil, err
	}
	return wire.Splice(nil, response, wire.Edit{Span: m.ID, With: theirs}), nil
}

// TakesQuestions reports whether the client can be asked while this call runs.
func (x *Exchange) TakesQuestions() bool {
	return x.handler != nil && x.Session != nil && x.out.takesEvents()
}

// await waits for the response to one question.
func (x *Exchange) await(ctx context.Context, answer <-chan []byte) ([]byte, error) {
	o := &x.handler.o
	over := time.NewTimer(o.InputTimeout)
	defer over.Stop()
	alive := time.NewTicker(o.KeepAlive)
	defer alive.Stop()
	for {
		select {
		case r := <-answer:
			return r, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-over.C:
			return nil, ErrCannotAsk
		case <-alive.C:
			if err := x.alone(x.out.keepAlive); err != nil {
				return nil, err
			}
		}
	}
}

// responded hands a response that a client posted to the question it answers.
// One to no question, a second one, or one of another session is dropped.
func (h *Handler) responded(x *Exchange) {
	m := &x.Msg
	t := h.ongoing.talkOf(x.Session.ID)
	key := askKey{x.Session.ID, idKey(x.ID())}
	t.mu.Lock()
	answer := t.asks[key]
	delete(t.asks, key)
	t.mu.Unlock()
	if answer == nil {
		h.ongoing.oddities.Say(h.o.Log, slog.LevelInfo, "a client answered what nobody asks, or not any more; it is dropped", "server", x.Server, "principal", x.Principal.Name)
		return
	}
	answer <- append([]byte(nil), m.Raw...) // it has room for one, and no key comes twice
}

// endCalls cancels what a session that is over still has in flight.
func (h *Handler) endCalls(session string) {
	t := h.ongoing.talkOf(session)
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, call := range t.calls {
		if key.session == session {
			call.cancel()
		}
	}
}
