package south

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// ErrDeferred is what Request.OnRequest returns for a request whose response
// comes later, by Respond.
var ErrDeferred = errors.New("south: the response comes later")

// ErrNotTaken is a response that the upstream refused: it has forgotten the
// session, or the request.
var ErrNotTaken = errors.New("south: the upstream did not take the response")

// Respond hands in the response to a request of the upstream that OnRequest
// deferred, with the upstream's own id in it, and waits for its acceptance,
// within 10 seconds. It must be called once for each; the call's clock runs
// again when none is open, whatever becomes of the response. It may be called
// from any goroutine, also after the call has ended.
func (r *Request) Respond(ctx context.Context, response []byte) error {
	defer r.asker.clock.answered()
	return r.via.respond(ctx, &r.asker.session, response)
}

// respond posts a response to a request of a legacy upstream, in the session that
// it was asked in.
func (l *Link) respond(ctx context.Context, session *head, response []byte) error {
	if l.session == nil {
		line, err := wire.LineSafe(nil, response)
		if err != nil {
			return fault.Wrap(err, fault.InvalidParams, "the answer cannot be passed on")
		}
		return l.Notify(ctx, line)
	}
	// A call that was parked outlives its request, and so does its answer.
	ctx, cancel := context.WithTimeout(l.Upstream.onBehalf(ctx, &l.session.key), 10*time.Second)
	defer cancel()
	resp, err := l.Upstream.guarded(ctx, response, session)
	if err != nil {
		return err
	}
	status := resp.status
	drain(resp.body)
	if status/100 != http.StatusOK/100 {
		return ErrNotTaken
	}
	return nil
}

// Hold stops the clock of a call whose answer nobody takes yet, and Run starts it
// again.
func (a *Answer) Hold() { a.clock.hold() }

// Run undoes Hold.
func (a *Answer) Run() { a.clock.run() }

// sight is what is known of the id of an upstream's request.
type sight uint8

const (
	fresh sight = iota
	repeated
	flooded
)

// Bounds on the requests of an upstream within one call, and on their ids.
const (
	maxAsked   = 256
	maxAskedID = 256
)

// seen notes the id of a request. One that comes twice is not asked twice: a
// stream that was taken up again may repeat it, and of two questions under one id
// no answer could be told apart.
func (a *Answer) seen(id []byte) sight {
	if len(a.ids) == maxAsked || len(id) > maxAskedID {
		a.u.Dropped("an upstream asks more than one call may")
		return flooded
	}
	key := string(id)
	if s, err := wire.String(id); err == nil {
		key = `"` + s
	}
	if _, twice := a.ids[key]; twice {
		a.u.Dropped("an upstream asked twice with one id; the second is dropped")
		return repeated
	}
	if a.ids == nil {
		a.ids = map[string]struct{}{}
	}
	a.ids[key] = struct{}{}
	return fresh
}
