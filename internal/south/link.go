package south

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// Link is a way to an upstream for the messages of one caller: stateless for a
// modern upstream, one session for a legacy one, one process of a child, and
// beside it that of the caller alone where a legacy child may ask it. It may be
// shared by concurrent calls.
type Link struct {
	Upstream *Upstream
	Era      mcp.Era
	Revision mcp.Revision
	session  *session    // legacy over HTTP only
	process  *process    // a child only
	key      *SessionKey // whose private process is asked for; nil: process does it all
}

// Request is one message for an upstream, its body built for the link's era.
type Request struct {
	Method      string
	Name        string  // value for Mcp-Name, already encoded; "" sends none
	Params      []Param // Mcp-Param headers, encoded
	Traceparent string  // of W3C trace context; "" sends none
	ID          []byte  // raw JSON id within Body; nil for a notification
	Body        []byte  // owned by the caller; must not change until the answer is closed
	Safe        bool    // a read, which may be repeated after a lost connection
	Timeout     time.Duration
	Level       string // log level that a legacy session should have; "" leaves it
	// OnEvent is called for every notification that arrives before the answer,
	// in order, on the goroutine that called Send. The message is valid during
	// the call only. An error ends the call with it. Nil drops them.
	OnEvent func(*wire.Answer) error
	// OnRequest is called, likewise, for a request of a legacy upstream to its
	// client. It returns the response for the upstream, or nil for the answer of a
	// client that cannot; or ErrDeferred, when Respond will hand the response in
	// while what else the upstream sends is read on. The call's clock stands still
	// meanwhile.
	OnRequest func(ctx context.Context, s *wire.Answer) ([]byte, error)
	// OnBreak is called, likewise, when a legacy upstream ended the stream of the
	// call and it is going to be taken up after its last event, before the wait
	// that the upstream asked for, or that is usual (checklist 134). Nil: nobody
	// needs to know.
	OnBreak func(retry time.Duration)

	// Beside says that the request is about what an earlier call of this link's
	// caller left behind, such as a task: where that call ran in a process of the
	// caller's alone it goes there, too, if it still runs, beside the call in flight.
	Beside bool
	// Aside says that the request takes none of the upstream's slots (max_concurrent):
	// it is about what runs already and must not wait until that has ended, or waits,
	// perhaps for long, for what happens at the upstream by itself.
	Aside bool
	// Fence is asked right before the first byte of the request leaves, on each try.
	// Its error ends the request unsent, as a FencedError. Nil: there is none. It
	// is called on a goroutine of the transport's, one at a time.
	Fence func() error

	// Where Respond goes; set before OnRequest is called for the first time.
	asker *Answer
	via   *Link
}

// Link returns the way to the upstream for key. It waits for the first probe,
// as long as ctx allows, and makes the legacy session when there is none.
func (u *Upstream) Link(ctx context.Context, key SessionKey) (*Link, error) {
	if u.child != nil {
		if key.Caps != "" {
			return u.child.linkFor(ctx, key)
		}
		return u.child.link(ctx)
	}
	i := u.info.Load()
	if i == nil {
		var err error
		if i, err = u.connect(ctx); err != nil {
			return nil, err
		}
	}
	if i.Era == mcp.Modern {
		return u.modern, nil
	}
	s, err := u.session(ctx, key)
	if err != nil {
		return nil, err
	}
	return &s.link, nil
}

// Child reports whether the link leads to a child process, over stdio.
func (l *Link) Child() bool { return l.process != nil }

// Caps are the client capabilities that the link's session declares, or that the
// process of the link's caller alone does, in normal form; "": none.
func (l *Link) Caps() string {
	switch {
	case l.key != nil:
		return l.key.Caps
	case l.session != nil:
		return l.session.key.Caps
	}
	return ""
}

// Private reports whether calls of the link run in a process of its caller's alone,
// one at a time.
func (l *Link) Private() bool { return l.key != nil }

// Standing identifies the session, or the process, that the link leads to now: what an
// upstream ties to one is not known in another. It is comparable.
func (l *Link) Standing() any {
	switch {
	case l.key != nil:
		return l.Upstream.child.privates.of(*l.key)
	case l.session != nil:
		return l.session.current()
	}
	return l.process
}

// NextID mints the id of a request on this link, as raw JSON appended to dst.
func (l *Link) NextID(dst []byte) []byte { return l.Upstream.nextID(dst) }

// Capabilities are the upstream's, as raw JSON, as this link's session or the
// last discovery saw them.
func (l *Link) Capabilities() []byte {
	if l.process != nil {
		return l.process.init.Capabilities
	}
	if l.session != nil {
		return l.session.current().init.Capabilities
	}
	if i := l.Upstream.info.Load(); i != nil {
		return i.Capabilities
	}
	return nil
}

// Send sends a request and reads up to its answer. The answer must be closed;
// until then it may still be streaming, and it holds one of the upstream's
// slots.
//
// A session that the upstream forgot is made anew and the request sent once
// more, for a 404 says that nothing ran. A read whose connection broke is
// repeated once, unless it asked its client. Nothing else is ever sent twice.
func (l *Link) Send(ctx context.Context, r *Request) (*Answer, error) {
	u := l.Upstream
	a := newAnswer(ctx, u, r.Timeout)
	a.id = r.ID
	if l.key != nil && r.OnRequest != nil {
		if err := l.consult(a, r); err != nil {
			a.Close()
			return nil, err
		}
		return a, nil
	}
	if l.key != nil && r.Beside {
		if own, left := u.child.privates.visit(*l.key); own != nil {
			defer left()
			l = own
		}
	}
	if !r.Aside {
		if err := u.acquire(a.ctx); err != nil {
			a.end()
			return nil, err
		}
		a.slot = true
	}
	if l.process != nil {
		if err := l.converse(a, r); err != nil {
			a.Close()
			return nil, err
		}
		a.clock.settle()
		return a, nil
	}
	err := l.exchange(a, r)
	if err != nil && r.Safe && fault.From(err).Code == fault.ConnectionLost && a.ctx.Err() == nil && len(a.ids) == 0 {
		err = l.exchange(a, r)
	}
	if err != nil {
		l.giveUp(ctx, a, r)
		a.Close()
		return nil, err
	}
	a.clock.settle()
	return a, nil
}

func (l *Link) exchange(a *Answer, r *Request) error {
	u := l.Upstream
	h := head{params: r.Params, trace: r.Traceparent, fence: r.Fence}
	var live *wireSession
	if l.session != nil {
		if r.Level != "" {
			if err := l.session.ensureLevel(a.ctx, r.Level); err != nil {
				return err
			}
		}
		live = l.session.current()
		h.session, h.version = live.id, live.version()
	} else {
		h.version, h.method, h.name = mcp.LatestModern.String(), r.Method, r.Name
	}
	resp, err := a.post(r.Body, &h)
	if err != nil {
		return err
	}
	if resp.status == http.StatusNotFound && live != nil && live.id != "" {
		drain(resp.body)
		a.settle(nil)
		if live, err = l.session.heal(a.ctx, live); err != nil {
			return err
		}
		h.session, h.version = live.id, live.version()
		if resp, err = a.post(r.Body, &h); err != nil {
			return err
		}
	}
	if live == nil && resp.session != "" {
		u.issues.Store(true)
	}
	status := resp.status
	if err = a.receive(l, r, resp, &h); err != nil || status != http.StatusBadRequest || live == nil || live.id == "" || !a.lostSession() {
		return err
	}
	// Some servers say 400 where the protocol says 404; nothing ran either way.
	if live, err = l.session.heal(a.ctx, live); err != nil {
		return err
	}
	h.session, h.version = live.id, live.version()
	if resp, err = a.post(r.Body, &h); err != nil {
		return err
	}
	return a.receive(l, r, resp, &h)
}

// receive reads the answer and gives the breaker its verdict, unless the answer
// goes on streaming.
func (a *Answer) receive(l *Link, r *Request, resp *hopResponse, h *head) error {
	err := a.read(l, r, resp, h)
	if err != nil || a.Rest == nil {
		a.settle(lost(err))
	}
	return err
}

// lost keeps what an upstream answered from the breaker: after the head of a
// response only a stream that broke or fell silent counts.
func lost(err error) error {
	if err == nil {
		return nil
	}
	switch fault.From(err).Code {
	case fault.ConnectionLost, fault.UpstreamTimeout:
		return err
	}
	return nil
}

// lostSession reports whether an error answer says that the session is not
// known. This is the one place that reads an upstream's words.
func (a *Answer) lostSession() bool {
	if !a.Scan.Error.Ok() {
		return false
	}
	code := fault.Code(a.Scan.ErrorCode)
	return (code == fault.SessionNotFound || code == -32000) &&
		strings.Contains(strings.ToLower(text(a.Scan.ErrorMessage.Of(a.Whole))), "session")
}

// post sends one POST under the breaker, which is owed a verdict once there is
// a response.
func (a *Answer) post(body []byte, h *head) (*hopResponse, error) {
	u := a.u
	done, err := u.breaker.allow()
	if err != nil {
		u.wake()
		return nil, u.refusing(err)
	}
	a.verdict = done
	resp, err := u.message(a.ctx, http.MethodPost, body, h)
	switch {
	case err != nil:
		a.settle(err)
	case resp.status == http.StatusBadGateway, resp.status == http.StatusServiceUnavailable, resp.status == http.StatusGatewayTimeout:
		a.verdict = nil
		done(errBadGateway)
	}
	return resp, err
}

func (u *Upstream) refusing(err error) error {
	return fault.Wrap(err, fault.UpstreamUnavailable, "upstream %q is failing and is not called for now", u.o.Key).
		WithHint("nothing ran; try again in a few seconds")
}

// guarded sends one POST of which only the acceptance matters, under the breaker.
func (u *Upstream) guarded(ctx context.Context, body []byte, h *head) (*hopResponse, error) {
	done, err := u.breaker.allow()
	if err != nil {
		u.wake()
		return nil, u.refusing(err)
	}
	resp, err := u.message(ctx, http.MethodPost, body, h)
	switch {
	case err != nil && ctx.Err() != nil && !errors.Is(context.Cause(ctx), errDeadline):
		done(nil) // the caller went away; that says nothing of the upstream
	case err != nil:
		done(transportOnly(err))
		if u.breaker.open() {
			u.wake()
		}
	case resp.status == http.StatusBadGateway, resp.status == http.StatusServiceUnavailable, resp.status == http.StatusGatewayTimeout:
		done(errBadGateway)
	default:
		done(nil)
	}
	return resp, err
}

// giveUp tells a legacy upstream that nobody waits for a call any more: there
// a closed stream is not a cancellation (checklist 135).
func (l *Link) giveUp(ctx context.Context, a *Answer, r *Request) {
	if l.session == nil || r.ID == nil || a.ctx.Err() == nil || r.Method == mcp.Initialize {
		return
	}
	u := l.Upstream
	id := append([]byte(nil), r.ID...)
	live := l.session.current()
	caused := ctx
	u.background(func() {
		ctx, cancel := context.WithTimeout(borrowed{u.ctx, caused}, 5*time.Second)
		defer cancel()
		resp, err := u.message(ctx, http.MethodPost, cancellation(id), &head{session: live.id, version: live.version()})
		if err != nil {
			u.o.Log.Debug("cancel not delivered", "upstream", u.o.Key, "error", err)
			return
		}
		drain(resp.body)
	})
}

// Notify sends a notification and waits for its acceptance, within 10 seconds.
func (l *Link) Notify(ctx context.Context, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	p := l.process
	if l.key != nil {
		if p = l.Upstream.child.privates.of(*l.key); p == nil {
			return nil // it has heard nothing that this could change
		}
	}
	if p != nil {
		if _, err := p.write(ctx, body); err != nil {
			return l.Upstream.unsent(err)
		}
		return nil
	}
	h := head{version: mcp.LatestModern.String()}
	if l.session != nil {
		live := l.session.current()
		h.session, h.version = live.id, live.version()
	}
	resp, err := l.Upstream.guarded(ctx, body, &h)
	if err != nil {
		return err
	}
	drain(resp.body)
	return nil
}
