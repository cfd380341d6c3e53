package south

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"

	"github.com/penstock-mcp/penstock/internal/wire"
)

// maxQuestion bounds one request of a child's that is passed on.
const maxQuestion = 1 << 20

// calling is the call that a private process works at.
type calling struct {
	w        *waiting
	asking   atomic.Bool   // a question is open
	opened   chan struct{} // capacity 1: one was opened
	answered chan struct{} // closed when the answer is there
}

// begin makes a call the one that is asked.
func (p *process) begin(w *waiting) {
	if p.child.caps != "" {
		p.calling.Store(&calling{w: w, opened: make(chan struct{}, 1), answered: make(chan struct{})})
	}
}

// finish ends that. What the call has not come to is refused.
func (p *process) finish(w *waiting) {
	if p.child.caps == "" {
		return
	}
	p.calling.Store(nil)
	for {
		select {
		case a := <-w.in:
			if a.scan.ID.Ok() && !a.answer {
				p.refuse(&a.scan)
			}
			putWindow(a.window)
		default:
			return
		}
	}
}

// overtake notes that a call is answered. A child that did not wait for the user
// needs no answer from there.
func (p *process) overtake(w *waiting) {
	if c := p.calling.Load(); c != nil && c.w == w && p.calling.CompareAndSwap(c, nil) {
		close(c.answered)
	}
}

// asking reports whether a call waits for its user; opened tells when it begins to.
func (p *process) asking(w *waiting) (yes bool, opened <-chan struct{}) {
	c := p.calling.Load()
	if c == nil || c.w != w {
		return false, nil
	}
	select {
	case <-c.opened: // of an earlier question
	default:
	}
	return c.asking.Load(), c.opened
}

// asks takes a request of a private process: for the one call in flight, or for
// nobody (checklist 137, 7.3).
func (p *process) asks(s *wire.Answer) {
	c := p.calling.Load()
	if c == nil || len(s.Raw) > maxQuestion {
		p.refuse(s)
		return
	}
	a := arrival{scan: *s}
	a.scan.Raw = bytes.Clone(s.Raw)
	p.deliver(c.w, a)
}

// refuse answers a request that no call takes.
func (p *process) refuse(s *wire.Answer) {
	body := append([]byte(`{"jsonrpc":"2.0","id":`), s.ID.Of(s.Raw)...)
	p.answer(append(body, `,"error":{"code":-32602,"message":"this belongs to no call in flight, or is too large"}}`...))
}

// question has one request of the child answered by the call's client. It waits
// no longer than the call does: not when the child is lost, nor when it went on
// without the answer.
func (p *process) question(a *Answer, l *Link, r *Request, w *waiting, s *wire.Answer) error {
	c := p.calling.Load()
	if c == nil {
		p.refuse(s) // it was answered meanwhile
		return nil
	}
	c.asking.Store(true)
	select {
	case c.opened <- struct{}{}: // a reader that waits must not wait for the user
	default:
	}
	defer c.asking.Store(false)
	ctx, cancel := context.WithCancelCause(a.ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-w.cut:
			cancel(w.err)
		case <-c.answered:
			cancel(errOvertaken)
		case <-ctx.Done():
		}
	}()
	err := a.asked(ctx, l, r, s)
	cancel(nil)
	<-watched
	if err == nil {
		return nil
	}
	p.refuse(s)
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errOvertaken):
		return nil
	case w.isCut():
		return w.err
	}
	return errors.Join(errEvent, err)
}

// isCut reports whether the wait has failed.
func (w *waiting) isCut() bool {
	select {
	case <-w.cut:
		return true
	default:
		return false
	}
}

// errOvertaken ends a question whose call was answered without it.
var errOvertaken = errors.New("the upstream did not wait for the answer")
