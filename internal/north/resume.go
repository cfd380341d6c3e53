package north

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

// lastEventID is where a client says what it has.
const lastEventID = "Last-Event-Id"

// errCannotHangUp is a server that lets no answer end before its handler does.
var errCannotHangUp = errors.New("north: this server cannot close a connection while its call goes on")

// Suspend closes the client's connection of this call now, where the client can
// come back for the rest (2025-11-25 with event streams): primed, with the given
// retry; the call goes on and its events wait. It does nothing for other
// clients. After an error the connection is still there, and all goes on as
// before.
func (x *Exchange) Suspend(retry time.Duration) error {
	if a, ok := x.out.(*keptReply); ok {
		return x.alone(func() error { return a.suspend(retry) })
	}
	return nil
}

// resumable reports whether the streams of a session are kept. Older clients
// choke on the empty data of a priming event (checklist T26).
func (h *Handler) resumable(x *Exchange) bool {
	return h.o.ResumeEvents > 0 && x.Revision == mcp.V20251125
}

// keep makes x answer so that the client can come back.
func (h *Handler) keep(x *Exchange, out *httpReply) *keptReply {
	x.kept = keptReply{httpReply: out, talk: h.ongoing.talkOf(x.Session.ID), session: x.Session.ID, limit: h.o.ResumeEvents}
	x.out = &x.kept
	return &x.kept
}

// serveKept is serveLegacy for a client that can come back.
func (h *Handler) serveKept(x *Exchange, out *httpReply) {
	a := h.keep(x, out)
	defer a.finish()
	defer h.survive(x)
	h.done(x, h.serveLegacy(x))
}

// comeBack serves the GET of a client that has something already. What it has of
// a call's stream it gets the rest of, until the call's answer; anything else is
// the standing stream. An id of another session's stream names nothing.
func (h *Handler) comeBack(r *http.Request, x *Exchange) error {
	ids := r.Header[lastEventID]
	if len(ids) == 0 || !h.resumable(x) {
		return h.stream(r.Context(), x, h.stand)
	}
	name, position, ok := parseEventID(ids[0])
	if ok && name[0] == ofStanding {
		return h.stream(r.Context(), x, func(ctx context.Context, x *Exchange) error {
			return h.standAfter(ctx, x, name, position)
		})
	}
	var s *keptStream
	if ok && len(ids) == 1 {
		s = h.ongoing.talkOf(x.Session.ID).find(x.Session.ID, name, position)
	}
	if s == nil {
		return &statusError{status: http.StatusBadRequest, err: fault.New(fault.InvalidRequest, "header Last-Event-ID names no event that is still known here").
			WithHint("the call may have run; check before sending it again")}
	}
	// It is not ended with all streams: its call has an answer yet to come.
	return h.counted(r.Context(), x, func(ctx context.Context, x *Exchange) error {
		return h.follow(ctx, x, s, position)
	})
}

// follow writes what a call's stream says behind a position, until it is over or
// the client has come back on yet another connection.
func (h *Handler) follow(ctx context.Context, x *Exchange, s *keptStream, position uint64) error {
	out, t := x.out.(*httpReply), h.ongoing.talkOf(x.Session.ID)
	reader := t.takeOver(s)
	defer h.inUse(x.Session.ID, nil).stop()
	if err := out.greet(); err != nil {
		return err
	}
	for {
		p := t.after(s, position, reader)
		switch {
		case p.taken:
			return errNewerStream
		case len(p.events) > 0:
			for i, msg := range p.events {
				position = p.first + uint64(i)
				if err := out.writeEvent(s.eventID(position), msg); err != nil {
					return err
				}
			}
		case p.over:
			return nil
		default:
			if err := x.Wait(ctx, p.wake); err != nil {
				return err
			}
		}
	}
}

// openStanding opens the standing stream; where the client can come back to it,
// what it has missed behind an event comes first.
func (h *Handler) openStanding(x *Exchange, name string, position uint64) (finish func(), err error) {
	out := x.out.(*httpReply)
	if !h.resumable(x) {
		err := out.greet()
		out.through = true // no response may come on it (checklist 95)
		return func() {}, err
	}
	a := h.keep(x, out)
	a.alone = true
	a.kept, a.reader = a.talk.standingStream(a.session, a.limit)
	if name != a.kept.name {
		out.open()
		if err := a.writePriming(a.kept.eventID(a.talk.end(a.kept)), usualRetry); err != nil {
			return a.finish, &gone{err}
		}
		return a.finish, out.flush()
	}
	if err := out.greet(); err != nil {
		return a.finish, err
	}
	p := a.talk.after(a.kept, position, a.reader)
	for i, msg := range p.events {
		if err := out.writeEvent(a.kept.eventID(p.first+uint64(i)), msg); err != nil {
			return a.finish, err
		}
	}
	return a.finish, nil
}
