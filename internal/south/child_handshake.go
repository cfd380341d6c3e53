package south

import (
	"context"
	"errors"
	"fmt"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// slowStart is how many probe timeouts a child has for its handshake: it may
// have to be unpacked and compiled first.
const slowStart = 10

// ask sends a request of the gateway's own and returns its answer, of either
// kind.
func (p *process) ask(ctx context.Context, id, body []byte) (*wire.Answer, error) {
	w, err := p.expect(id, false)
	if err != nil {
		return nil, err
	}
	defer p.leave(w)
	if _, err := p.write(ctx, body); err != nil {
		return nil, err
	}
	return w.answer(ctx)
}

// answer waits for the answer and passes over events.
func (w *waiting) answer(ctx context.Context) (*wire.Answer, error) {
	for {
		a, err := w.next(ctx)
		if err != nil {
			return nil, err
		}
		if a.answer {
			return &a.scan, nil // its window is left to the collector
		}
	}
}

// ping asks for a sign of life, whatever it is.
func (p *process) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.u.o.ProbeTimeout)
	defer cancel()
	id := p.u.nextID(nil)
	body := p.u.discoverBody(id)
	if p.init.Era == mcp.Legacy {
		body = fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":"ping"}`, id)
	}
	_, err := p.ask(ctx, id, body)
	return err
}

// handshake starts a process and finds out what it speaks (checklist 113, T8).
// A child that answers server/discover with anything but a DiscoverResult, or
// not in time, is legacy if it takes initialize. One that ended on the unknown
// message is started again and initialized at once. A process that is not
// returned is being ended.
func (c *child) handshake(ctx context.Context) (*process, error) {
	u := c.u
	c.mu.Lock()
	era := c.hint
	c.mu.Unlock()
	if u.o.Era != mcp.EraUnknown {
		era = u.o.Era
	}
	p, err := c.spawn(ctx)
	if err != nil {
		return nil, err
	}
	var late *waiting // server/discover, unanswered
	if era != mcp.Legacy {
		id := u.nextID(nil)
		if late, err = p.expect(id, false); err == nil {
			_, err = p.write(ctx, u.discoverBody(id))
		}
		var modern bool
		if err == nil {
			modern, err = p.discovered(ctx, late, u.o.Era == mcp.Modern)
		}
		if modern {
			p.leave(late)
			return p, nil
		}
		if u.o.Era == mcp.Modern || errors.Is(err, errContradiction) || ctx.Err() != nil {
			p.abandon(err)
			return nil, u.startFault(ctx, err)
		}
		if p.lostErr() != nil {
			if p, err = c.spawn(ctx); err != nil {
				return nil, err
			}
			late = nil
		}
	}
	err = p.initialize(ctx)
	if err != nil && late != nil {
		// A slow start looks like silence. A modern answer that arrived meanwhile
		// is certain, where initialize failed.
		over, cancel := context.WithCancel(ctx)
		cancel()
		if modern, _ := p.discovered(over, late, true); modern {
			err = nil
		}
	}
	if late != nil {
		p.leave(late)
	}
	if err != nil {
		c.mu.Lock()
		if c.caps == "" {
			c.hint = mcp.EraUnknown
		}
		c.mu.Unlock()
		p.abandon(err)
		return nil, u.startFault(ctx, err)
	}
	return p, nil
}

// startFault is a handshake that failed.
func (u *Upstream) startFault(ctx context.Context, err error) error {
	var f *fault.Error
	switch {
	case errors.As(err, &f):
		return err
	case ctx.Err() != nil:
		return fault.Wrap(err, fault.UpstreamUnavailable, "upstream %q is being closed", u.o.Key)
	case errors.Is(err, context.DeadlineExceeded):
		return fault.Wrap(err, fault.UpstreamUnavailable, "upstream %q did not complete its handshake in time", u.o.Key).
			WithHint("nothing ran; the operator must check its command")
	}
	return fault.Wrap(err, fault.UpstreamUnavailable, "upstream %q ended during its handshake", u.o.Key).
		WithHint("nothing ran; the operator must check its command and log")
}

// errContradiction is a child that lists our version and refuses it.
var errContradiction = errors.New("it lists " + mcp.LatestModern.String() + " and refuses it")

// discovered waits for the answer to server/discover and, when it is a
// DiscoverResult that lists our version, takes it over. patient waits as long
// as a slow start may take.
func (p *process) discovered(ctx context.Context, w *waiting, patient bool) (modern bool, err error) {
	timeout := p.u.o.ProbeTimeout
	if patient {
		timeout *= slowStart
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	s, err := w.answer(ctx)
	if err != nil {
		return false, err
	}
	if s.Error.Ok() {
		if fault.Code(s.ErrorCode) == fault.UnsupportedVersion && listsModern(supported(s.ErrorData.Of(s.Raw))) {
			return false, fault.Wrap(errContradiction, fault.InvalidAnswer, "upstream %q lists %s and refuses it", p.u.o.Key, mcp.LatestModern)
		}
		return false, fault.New(fault.InvalidAnswer, "upstream %q does not know server/discover (code %d)", p.u.o.Key, s.ErrorCode)
	}
	i := modernInfo(s)
	if i == nil {
		return false, fault.New(fault.InvalidAnswer, "upstream %q does not list %s", p.u.o.Key, mcp.LatestModern).WithHint("set its era to auto or legacy")
	}
	p.speaks(i)
	return true, nil
}

// supported returns data.supported of an error.
func supported(data []byte) (list []byte) {
	if len(data) == 0 || data[0] != '{' {
		return nil
	}
	if err := wire.Members(data, func(n, v []byte) bool {
		if string(n) == "supported" {
			list = v
		}
		return true
	}); err != nil {
		return nil
	}
	return list
}

// speaks stores what the child is.
func (p *process) speaks(i *Info) {
	p.era.Store(uint32(i.Era))
	p.init = *i
	p.link.Era, p.link.Revision = i.Era, i.Revision
}

// initialize makes the one legacy handshake of a process (checklist 130 to 132).
func (p *process) initialize(ctx context.Context) error {
	u := p.u
	ctx, cancel := context.WithTimeout(ctx, slowStart*u.o.ProbeTimeout)
	defer cancel()
	id := u.nextID(nil)
	s, err := p.ask(ctx, id, u.initializeBody(id, p.child.caps))
	if err != nil {
		return err
	}
	i, err := u.legacyInfo(s)
	if err != nil {
		return err
	}
	p.speaks(i)
	if _, err := p.write(ctx, []byte(initializedBody)); err != nil {
		return err
	}
	return nil
}
