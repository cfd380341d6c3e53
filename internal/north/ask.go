package north

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"time"

	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// ErrCannotAsk is a request that this client cannot be asked now: it takes no
// event stream, speaks no session, or too many questions of its are open.
var ErrCannotAsk = errors.New("north: the client cannot be asked")

// askKey names a question that is open. Only the session it was asked in can
// answer it.
type askKey struct{ session, id string }

// Ask poses a server's request to the client of a call, and waits for the
// response; see Pose and Await.
func (x *Exchange) Ask(ctx context.Context, raw []byte, id wire.Span) ([]byte, error) {
	q, err := x.Pose(raw, id)
	if err != nil {
		return nil, err
	}
	return q.Await(ctx)
}

// Question is a server's request that a client was sent. It is used by the
// goroutine of its exchange, and ends with Await or Withdraw.
type Question struct {
	x      *Exchange
	key    askKey
	ours   string // raw id that the client sees
	theirs []byte // raw id of the server's
	answer chan []byte
	late   time.Time
	over   bool
}

// Pose sends a server's request to the client of a call, on the call's own event
// stream (checklist 92, 7.7). raw is the server's request and id its id within;
// the client sees an id of ours that cannot be guessed. Several may be open at
// once.
func (x *Exchange) Pose(raw []byte, id wire.Span) (*Question, error) {
	if x.handler == nil || x.Session == nil {
		return nil, ErrCannotAsk
	}
	o := &x.handler.o
	if n := x.Principal.tally().parked.Add(1); o.Parked > 0 && n > int64(o.Parked) {
		x.Principal.tally().parked.Add(-1)
		return nil, ErrCannotAsk
	}
	q := &Question{
		x: x, ours: `"` + rand.Text() + `"`, theirs: append([]byte(nil), id.Of(raw)...),
		answer: make(chan []byte, 1), late: time.Now().Add(o.InputTimeout),
	}
	q.key = askKey{x.Session.ID, idKey([]byte(q.ours))}
	msg, err := wire.LineSafe(nil, wire.Splice(nil, raw, wire.Edit{Span: id, With: []byte(q.ours)}))
	if err != nil {
		q.end()
		return nil, ErrCannotAsk
	}
	t := x.handler.ongoing.talkOf(x.Session.ID)
	t.mu.Lock()
	t.asks[q.key] = q.answer
	t.mu.Unlock()
	if sent, err := x.Event(msg); err != nil || !sent {
		q.end()
		return nil, errors.Join(ErrCannotAsk, err)
	}
	return q, nil
}

// Await waits for the response that the client posts in the same session, and
// returns it with the server's own id in it. It waits as long as ctx and
// Options.InputTimeout, counted from Pose, allow, and keeps the stream alive
// meanwhile. A question that is given up is withdrawn.
func (q *Question) Await(ctx context.Context) ([]byte, error) {
	response, err := q.await(ctx)
	if err != nil {
		q.Withdraw()
		return nil, err
	}
	q.end()
	var m wire.Message
	if err := wire.Parse(response, &m); err != nil {
		return nil, err
	}
	return wire.Splice(nil, response, wire.Edit{Span: m.ID, With: q.theirs}), nil
}

// Withdraw tells the client that nobody waits for its answer any more (checklist
// 7.5), as far as it can still be told.
func (q *Question) Withdraw() {
	if q.over {
		return
	}
	q.end()
	msg := append([]byte(`{"jsonrpc":"2.0","method":"`+mcp.Cancelled+`","params":{"requestId":`), q.ours...)
	if _, err := q.x.Event(append(msg, `,"reason":"the call that asked has ended, or waited for too long"}}`...)); err != nil {
		q.x.handler.o.Log.Debug("a question was not withdrawn", "server", q.x.Server, "error", err)
	}
}

// end lets no answer come any more.
func (q *Question) end() {
	if q.over {
		return
	}
	q.over = true
	q.x.Principal.tally().parked.Add(-1)
	t := q.x.handler.ongoing.talkOf(q.key.session)
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.asks, q.key)
}

// TakesQuestions reports whether the client can be asked while this call runs.
func (x *Exchange) TakesQuestions() bool {
	return x.handler != nil && x.Session != nil && x.out.takesEvents()
}

func (q *Question) await(ctx context.Context) ([]byte, error) {
	x := q.x
	over := time.NewTimer(time.Until(q.late))
	defer over.Stop()
	alive := time.NewTicker(x.handler.o.KeepAlive)
	defer alive.Stop()
	for {
		select {
		case r := <-q.answer:
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
