package north

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/store"
)

// Why the gateway closes one standing stream.
var (
	errNewerStream = errors.New("another stream of the session is newer")
	errSessionOver = errors.New("the session is over")
)

// olderGrace is how long a new standing stream waits for the one it replaces to
// say its last, so that a message is on one of them only (checklist 94).
const olderGrace = time.Second

// storeGrace bounds what a stream asks of the store while it is open or closes.
const storeGrace = 5 * time.Second

// get opens the stream of a legacy session that belongs to no request
// (checklist 82, DESIGN section 7). It is open at once, and stays open.
func (h *Handler) get(w http.ResponseWriter, r *http.Request, server string) {
	h.serving.Add(-1) // a replaced handler does not wait for it
	defer h.serving.Add(1)
	x := exchanges.Get().(*Exchange)
	x.Server, x.Header, x.Era, x.sessions, x.handler = server, r.Header, mcp.Legacy, h.sessions, h
	out := &httpReply{w: w, rc: http.NewResponseController(w), json: true, deadline: h.o.WriteTimeout}
	x.out = out
	x.Trail.Began, x.Trail.Source, x.Trail.Verb = time.Now(), source(r), http.MethodGet
	defer x.free()
	defer h.record(x)
	defer h.survive(x)
	p, err := h.gw.Identify(r)
	if err != nil {
		h.fail(x, err)
		return
	}
	x.Principal = p
	if err := h.gw.Admit(x); err != nil {
		h.fail(x, err)
		return
	}
	if err := h.resume(r.Context(), x); err != nil {
		h.fail(x, err)
		return
	}
	_, out.stream, _ = mcp.Accepts(r.Header["Accept"])
	h.closed(x, h.comeBack(r, x))
}

// closed ends the answer of a GET: a stream that is over simply ends.
func (h *Handler) closed(x *Exchange, err error) {
	switch {
	case err == nil, IsGone(err), errors.Is(err, context.Canceled), errors.Is(err, ErrStreamsEnd),
		errors.Is(err, errNewerStream), errors.Is(err, errSessionOver):
		h.o.Log.Debug("stream closed", "server", x.Server, "reason", err)
	case x.out.begun():
		x.Trail.fail(fault.From(err))
		h.log(x, fault.From(err))
		x.out.abort()
	default:
		h.fail(x, err)
	}
}

// stand serves the standing stream of a session.
func (h *Handler) stand(ctx context.Context, x *Exchange) error { return h.standAfter(ctx, x, "", 0) }

// standAfter makes this the standing stream of its session, and serves it; first
// what came behind an event of the stream of that name, if it is still known.
func (h *Handler) standAfter(ctx context.Context, x *Exchange, name string, position uint64) error {
	id := x.Session.ID
	s := &standing{done: make(chan struct{})}
	var err error
	if s.claim, s.stored, err = h.take(ctx, id); err != nil {
		return StoreFault(err, "the stream cannot be claimed")
	}
	ctx, s.end = context.WithCancelCause(ctx)
	defer s.end(nil)
	defer h.release(s)
	older, newest := h.ongoing.hold(s)
	defer h.ongoing.letGo(s)
	if !newest {
		return errNewerStream
	}
	if older != nil {
		older.end(errNewerStream)
		t := time.NewTimer(olderGrace)
		defer t.Stop()
		select {
		case <-older.done:
		case <-t.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	// Whoever ends the session from now on ends this stream.
	if _, err := h.sessions.Get(ctx, id); err != nil {
		if errors.Is(err, store.ErrNotFound) {
			return fault.New(fault.SessionNotFound, "no such session").WithHint("send initialize again")
		}
		return StoreFault(err, "the session cannot be read")
	}
	defer h.inUse(id, s.end).stop()
	finish, err := h.openStanding(x, name, position)
	defer finish()
	if err != nil {
		return err
	}
	return h.gw.Stand(ctx, x)
}

// take claims the standing stream of a session. Without a store of claims it is
// known in this process alone.
func (h *Handler) take(ctx context.Context, session string) (c store.Claim, stored bool, err error) {
	if h.o.Claims == nil {
		return h.ongoing.localClaim(session), false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeGrace)
	defer cancel()
	c, err = h.o.Claims.Take(ctx, session, h.o.Instance)
	return c, true, err
}

// release gives a claim back, whether it still holds or not.
func (h *Handler) release(s *standing) {
	if !s.stored {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeGrace)
	defer cancel()
	if err := h.o.Claims.Release(ctx, s.claim); err != nil {
		h.o.Log.Debug("claim on a stream not released", "error", err)
	}
}

// CheckClaims closes the standing streams whose sessions have a newer one at
// another instance, or none any more. Its owner calls it once a second, so that
// an older stream closes within two. After an error all of them go on.
func (h *Handler) CheckClaims(ctx context.Context) error {
	if h.o.Claims == nil {
		return nil
	}
	held := h.ongoing.claims()
	if len(held) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeGrace)
	defer cancel()
	lost, err := h.o.Claims.Lost(ctx, held)
	for _, c := range lost {
		h.ongoing.endClaim(c, errNewerStream)
	}
	return err
}

// over cleans up after a session that has ended, however that came about.
func (h *Handler) over(s *store.Session) {
	h.ongoing.endStanding(s.ID, errSessionOver)
	h.ongoing.talkOf(s.ID).forget(s.ID)
	h.gw.Ended(s)
}
