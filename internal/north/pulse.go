package north

import (
	"sync"
	"time"
)

// pulse keeps the connection of a call alive that has nothing to say for long.
type pulse struct {
	every time.Duration
	out   reply

	mu    sync.Mutex // held while anything is written before the answer; guards what follows
	timer *time.Timer
	over  bool // the answer is at hand, or the call has ended
}

// StayAlive has comments written every Options.KeepAlive from now on, until the
// answer is at hand, so that nobody on the way takes a long call for a dead one.
// A client that takes event streams gets one after the first interval, whatever
// the answer will be (checklist T61); for others it does nothing. Rest must be
// called before Serve returns.
func (x *Exchange) StayAlive() {
	if x.handler == nil || x.Headerless || !x.out.takesEvents() {
		return
	}
	x.Rest()
	p := &pulse{every: x.handler.o.KeepAlive, out: x.out}
	p.mu.Lock()
	p.timer = time.AfterFunc(p.every, p.beat)
	p.mu.Unlock()
	x.pulse = p
}

// Rest ends StayAlive: nothing is written any more but by the exchange's owner.
func (x *Exchange) Rest() {
	p := x.pulse
	if p == nil {
		return
	}
	x.pulse = nil
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	p.timer.Stop()
}

func (p *pulse) beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over || p.out.beat() != nil {
		return // whoever writes next finds the client gone
	}
	p.timer.Reset(p.every)
}

// alone runs f while the pulse writes nothing.
func (x *Exchange) alone(f func() error) error {
	if p := x.pulse; p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
	}
	return f()
}
