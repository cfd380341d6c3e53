package south

import (
	"context"
	"errors"
	"os"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

// linkFor is the way for a caller that can be asked. Only a legacy child needs
// more for that than the process that all share: a modern one does not ask, it
// answers that it needs input.
//
// This is where it is decided who gets a process of its own: a key that declares
// capabilities, and of its requests only those whose caller takes questions (see
// Send). A list, a watch, and whatever else nobody can be asked during, goes to
// the shared process, and starts none: lists are shared by more callers than a
// session has.
func (c *child) linkFor(ctx context.Context, key SessionKey) (*Link, error) {
	l, err := c.link(ctx) // it tells what the child speaks, too
	if err != nil || l.Era == mcp.Modern {
		return l, err
	}
	own := *l
	own.key = &key
	return &own, nil
}

// consult sends a request whose caller can be asked to the private process of the
// link's key. It has to wait for its turn, and its own time begins with that.
func (l *Link) consult(a *Answer, r *Request) error {
	u := l.Upstream
	if u.breaker.open() {
		u.wake()
		return u.refusing(errors.New("the breaker is open"))
	}
	s := u.child.privates
	p, err := s.join(*l.key)
	if err != nil {
		return err
	}
	defer s.leave(p)
	select {
	case p.turn <- struct{}{}:
	case <-a.ctx.Done():
		return fault.Wrap(a.ctx.Err(), fault.AtCapacity, "upstream %q runs one call at a time for a client that it can ask", u.o.Key).
			WithHint("nothing ran; answer the question that is open, or try again later")
	}
	defer func() { <-p.turn }()
	if err := p.settle(a.ctx); err != nil {
		return err
	}
	live, err := p.up(a.ctx, s)
	if err != nil {
		return err
	}
	a.clock.alive()
	if !r.Aside {
		if err := u.acquire(a.ctx); err != nil {
			return err
		}
		a.slot = true
	}
	return live.link.converse(a, r)
}

// settle waits until the call that was given up before is over.
func (p *private) settle(ctx context.Context) error {
	live := p.child.current()
	if live == nil || live.settled == nil {
		return nil
	}
	select {
	case <-live.settled:
		live.settled = nil
		return nil
	case <-ctx.Done():
		return fault.Wrap(ctx.Err(), fault.AtCapacity, "upstream %q is still at a call that was given up", live.u.o.Key).WithHint("nothing ran; try again")
	}
}

// settling is called before a private process is told to stop at a call; what it
// returns, after that. A process that answers a ping then has read that it is to
// stop, and what it asks from then on is taken for the next call's: one that goes on
// all the same can mislead its own client, and nobody else. One that does not
// answer is ended: the next call starts another.
func (p *process) settling() (told func()) {
	if p.child.caps == "" {
		return func() {}
	}
	settled := make(chan struct{})
	p.settled = settled
	return func() {
		defer close(settled)
		if err := p.ping(p.u.ctx); err != nil && p.u.ctx.Err() == nil {
			p.abandon(errors.Join(errors.New("it goes on with a call that was given up"), err))
		}
	}
}

// starting is one start of a process. It outlives the call that needed it, for
// the next one will need it, too.
type starting struct {
	done chan struct{} // closed when it ended
	err  error         // read after done
}

// begin starts a child's process in the background. Once the children are shut
// there is none.
func (s *privates) begin(c *child) (*starting, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fault.Wrap(os.ErrClosed, fault.UpstreamUnavailable, "upstream %q is being closed", c.u.o.Key)
	}
	b := &starting{done: make(chan struct{})}
	c.u.work.Go(func() {
		defer close(b.done)
		b.err = c.start(c.u.ctx)
	})
	return b, nil
}

// up returns the running process, started if it does not run. Its caller has the
// turn.
func (p *private) up(ctx context.Context, s *privates) (*process, error) {
	c := p.child
	if b := p.starting; b != nil {
		select {
		case <-b.done:
			p.starting = nil // how it ended is yesterday's news
		default:
		}
	}
	for range 2 {
		if live := c.current(); live != nil {
			return live, nil
		}
		if c.over() {
			break
		}
		if p.starting == nil {
			if err := c.pausing(); err != nil {
				return nil, err
			}
			b, err := s.begin(c)
			if err != nil {
				return nil, err
			}
			p.starting = b
		}
		select {
		case <-p.starting.done:
			err := p.starting.err
			p.starting = nil
			if err != nil {
				return nil, nothingRan(err)
			}
		case <-ctx.Done():
			return nil, fault.Wrap(ctx.Err(), fault.UpstreamUnavailable, "upstream %q has not started yet", c.u.o.Key).WithHint("nothing ran; try again")
		}
	}
	return nil, fault.New(fault.UpstreamUnavailable, "upstream %q ended again", c.u.o.Key).WithHint("nothing ran; try again in a few seconds")
}
