package south

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// resume is where the GET stream of a session ended.
type resume struct {
	live *wireSession
	id   string
}

// ear is what hears a legacy upstream: the GET stream of a session, or a process.
type ear struct {
	ended chan struct{} // closed when nothing more comes
	out   outcome       // read after ended
	last  string        // id of the last event; read after ended
}

// follow keeps the GET stream of a legacy session open (checklist 134, 6.4). The
// session is kept while it is followed.
func (w *Watch) follow(l *Link) outcome {
	s := l.session
	s.watched.Add(1)
	defer s.watched.Add(-1)
	want, _ := w.wanted()
	if !w.worthFollowing(l, want) {
		return outcome{how: wayDeaf, err: errNothingOffered}
	}
	ctx, cancel := context.WithCancelCause(w.ctx)
	defer cancel(nil)
	live, resp, out := w.tune(ctx, cancel, l)
	if resp == nil {
		return out
	}
	e := &ear{ended: make(chan struct{})}
	go func() {
		defer close(e.ended)
		e.out, e.last = w.read(ctx, l, live, newFeed(resp.body))
	}()
	defer func() {
		cancel(nil)
		<-e.ended
		w.resume = resume{live: live, id: e.last}
	}()
	w.holdAt(l, live, s.subscriptions(live))
	return w.attune(l, e, func() bool { return s.current() == live })
}

// worthFollowing reports whether a session's stream may bring anything: what is
// wanted, log messages, or the sequel of a question to the user.
func (w *Watch) worthFollowing(l *Link, want mcp.Filter) bool {
	caps := l.Capabilities()
	return !within(want, caps).Empty() || hasMember(caps, "logging") || w.key.Caps != ""
}

// attune keeps subscriptions in line with what is wanted while e hears, and the
// session or process stays what it is.
func (w *Watch) attune(l *Link, e *ear, same func() bool) outcome {
	var told struct {
		turn uint64
		f    mcp.Filter
	}
	for {
		want, turn := w.wanted()
		switch {
		case w.ctx.Err() != nil, want.Empty():
			return outcome{how: wayOver}
		case !same():
			w.missed(nil, false)
			return outcome{how: wayOver}
		case w.misplaced(l):
			return outcome{err: errMoved, opened: true}
		}
		f := within(want, l.Capabilities())
		got, whole := w.subscribe(w.ctx, f.URIs, turn)
		if _, now := w.wanted(); now != turn || w.ctx.Err() != nil || !same() {
			continue
		}
		f.URIs = got
		switch {
		case told.turn == 0:
			w.opened(turn, f)
		case told.turn != turn || !told.f.Equal(f):
			w.settle(turn, f)
		}
		told.turn, told.f = turn, f
		var again <-chan time.Time
		if !whole {
			again = time.After(subscribeAgain)
		}
		select {
		case <-w.ctx.Done():
		case <-w.poke:
		case <-again:
		case <-e.ended:
			return e.out
		}
	}
}

// tune opens the stream. cancel ends its context. resp is nil when there is none,
// and out says why.
//
// That nothing is heard while no head of a response comes is the upstream's
// business; nobody but the watch waits for it, and not for long (go-sdk#633).
func (w *Watch) tune(ctx context.Context, cancel context.CancelCauseFunc, l *Link) (live *wireSession, resp *hopResponse, out outcome) {
	u, s := l.Upstream, l.session
	for asked := false; ; asked = true {
		live = s.current()
		h := head{session: live.id, version: live.version()}
		if w.resume.live == live {
			h.lastEventID = w.resume.id
		}
		clock := time.AfterFunc(u.o.ProbeTimeout, func() { cancel(errDeadline) })
		resp, err := u.knock(ctx, http.MethodGet, nil, &h)
		inTime := clock.Stop()
		if err != nil {
			if !inTime {
				return live, nil, outcome{how: wayQuiet, err: err}
			}
			return live, nil, outcome{err: err}
		}
		if isStream(resp) {
			return live, resp, outcome{}
		}
		drain(resp.body)
		bad := resp.status == http.StatusNotFound || resp.status == http.StatusBadRequest
		if bad && live.id != "" && !asked {
			// The session is forgotten, or GET is not served. A ping tells, and heals.
			if err := w.ping(l); err != nil {
				return live, nil, outcome{err: err}
			}
			if s.current() != live {
				w.missed(nil, false)
				continue
			}
		}
		if h.lastEventID != "" && resp.status/100 == 4 && resp.status != http.StatusMethodNotAllowed {
			w.resume = resume{}
			return live, nil, outcome{err: errNoStream}
		}
		out = noStream(resp.status)
		out.stubborn = true
		return live, nil, out
	}
}

// ping has the upstream show that it knows the session; one that it forgot is
// made anew.
func (w *Watch) ping(l *Link) error {
	id := l.NextID(nil)
	body := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	body = append(body, `,"method":"`+mcp.Ping+`"}`...)
	a, err := l.Send(w.ctx, &Request{Method: mcp.Ping, ID: id, Body: body, Safe: true, Timeout: l.Upstream.o.ProbeTimeout})
	if err != nil {
		return err
	}
	a.Close()
	return nil
}

// read hears the stream to its end.
func (w *Watch) read(ctx context.Context, l *Link, live *wireSession, f *feed) (out outcome, last string) {
	defer f.close()
	for {
		data, err := f.next()
		if err != nil {
			last = f.events.lastID
			if errors.Is(err, errEventLarge) {
				w.complain("upstream's stream is given up", err)
				last = "" // or it would come again
			}
			return outcome{err: err, opened: true, retry: f.events.retry}, last
		}
		w.messages(data, func(s *wire.Answer) {
			switch s.Kind() {
			case wire.Request:
				w.reply(ctx, l, live, s)
			case wire.Notification:
				w.notice(s, true)
			}
		})
	}
}

// reply answers a request of the upstream, which belongs to no call, before its
// stream is read on: so it cannot ask more than it takes answers.
func (w *Watch) reply(ctx context.Context, l *Link, live *wireSession, s *wire.Answer) {
	u := l.Upstream
	method := text(s.Method.Of(s.Raw))
	ctx, cancel := context.WithTimeout(ctx, u.o.ProbeTimeout)
	defer cancel()
	resp, err := u.guarded(ctx, strayAnswer(s.ID.Of(s.Raw), method), &head{session: live.id, version: live.version()})
	if err != nil {
		u.o.Log.Debug("answer to an upstream's request not delivered", "upstream", u.o.Key, "method", method, "error", err)
		return
	}
	drain(resp.body)
}
