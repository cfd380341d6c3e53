package south

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

// converse is exchange for a child: the request goes out as a line, and what
// comes back for it is told apart by its id.
func (l *Link) converse(a *Answer, r *Request) error {
	u, p := l.Upstream, l.process
	if r.Level != "" {
		p.ensureLevel(a.ctx, r.Level)
	}
	done, err := u.breaker.allow()
	if err != nil {
		u.wake()
		return fault.Wrap(err, fault.UpstreamUnavailable, "upstream %q is failing and is not called for now", u.o.Key).
			WithHint("nothing ran; try again in a few seconds")
	}
	err = p.exchange(a, l, r)
	switch {
	case err != nil && p.child.over():
		done(nil) // it was ended here, on purpose
	case err != nil && a.ctx.Err() != nil && !errors.Is(context.Cause(a.ctx), errDeadline):
		done(nil) // the caller went away; that says nothing of the upstream
	default:
		done(transportOnly(err))
	}
	if err != nil && u.breaker.open() {
		u.wake()
	}
	return err
}

func (p *process) exchange(a *Answer, l *Link, r *Request) error {
	w, err := p.expect(r.ID, r.OnEvent != nil)
	if err != nil {
		return p.u.unsent(err)
	}
	if !r.Beside {
		p.begin(w)
	}
	sent, err := p.writeBehind(a.ctx, r.Body, r.Fence)
	if err == nil {
		err = p.await(a, l, r, w)
	}
	unanswered := p.leave(w)
	if !r.Beside {
		p.finish(w)
	}
	switch {
	case err == nil:
		return nil
	case sent && (unanswered || errors.Is(err, errSlowCaller)):
		p.cancel(r.ID, r.Beside)
	}
	var f *fault.Error
	switch {
	case errors.As(err, &f), errors.Is(err, errEvent), fenced(err):
		return err
	case !sent && a.ctx.Err() == nil:
		return p.u.unsent(err)
	}
	return p.u.transportFault(a.ctx, err, sent)
}

// unsent is a request that the child cannot have seen.
func (u *Upstream) unsent(cause error) error {
	return u.fail(fault.Wrap(cause, fault.UpstreamUnavailable, "upstream %q is not running or does not read", u.o.Key).
		WithHint("nothing ran; try again"))
}

// errEvent marks an error of the caller's own OnEvent, which passes as it is.
var errEvent = errors.New("event not taken")

// await takes what arrives until the answer.
func (p *process) await(a *Answer, l *Link, r *Request, w *waiting) error {
	for {
		got, err := w.next(a.ctx)
		if err != nil {
			return err
		}
		if got.answer {
			a.Whole, a.Scan, a.bufs[0] = got.scan.Raw, got.scan, got.window
			return nil
		}
		if got.scan.ID.Ok() {
			if err := p.question(a, l, r, w, &got.scan); err != nil {
				return err
			}
			continue
		}
		if err := a.event(l, r, &got.scan); err != nil {
			return errors.Join(errEvent, err)
		}
	}
}

// cancel tells the child that nobody waits for a request any more; over stdio
// both eras do it so (checklist 120, 135). What ran beside the call in flight asks
// nobody, and so leaves nothing to be settled.
func (p *process) cancel(id []byte, beside bool) {
	body := cancellation(id)
	over := func() {}
	if !beside {
		over = p.settling()
	}
	begun := p.u.background(func() {
		defer over()
		ctx, cancel := context.WithTimeout(p.u.ctx, 5*time.Second)
		defer cancel()
		if _, err := p.write(ctx, body); err != nil {
			p.u.o.Log.Debug("cancel not delivered", "upstream", p.u.o.Key, "error", err)
		}
	})
	if !begun { // the end of the process will say it
		over()
	}
}

// ensureLevel makes a legacy child log at least from level on. The process is
// shared, so its level only ever falls; what a caller did not ask for is
// dropped where it is handed on. The call itself does not depend on it.
func (p *process) ensureLevel(ctx context.Context, level string) {
	rank := slices.Index(mcp.LogLevels, level)
	if rank < 0 || p.init.Era != mcp.Legacy || !hasMember(p.init.Capabilities, "logging") {
		return
	}
	select {
	case p.level <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-p.level }()
	if p.levels != 0 && p.levels-1 <= rank {
		return
	}
	id := p.u.nextID(nil)
	body := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	body = append(body, `,"method":"logging/setLevel","params":{"level":"`+level+`"}}`...)
	ctx, cancel := context.WithTimeout(ctx, p.u.o.ProbeTimeout)
	defer cancel()
	s, err := p.ask(ctx, id, body)
	if err == nil && s.Error.Ok() {
		err = fault.New(fault.InvalidAnswer, "logging/setLevel was refused with code %d", s.ErrorCode)
	}
	if err != nil {
		p.u.o.Log.Warn("log level not set", "upstream", p.u.o.Key, "error", err)
		return
	}
	p.levels = rank + 1
}
