package south

import (
	"context"
	"sync"
	"time"

	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// standing is what hears a child while calls come and go. Its methods are called
// on the goroutine that reads the child, but for the last, and must not block.
type standing interface {
	// heard takes a message: of a modern child one that names the standing request,
	// its answer included; of a legacy child a notification that belongs to no call.
	heard(s *wire.Answer)
	// over is called once, when nothing more will come but an answer that has.
	over(why error)
}

// stand registers a standing request, as expect does a call's. It is not counted
// among those that a log message may belong to.
func (p *process) stand(id []byte, s standing) (*waiting, error) {
	return p.enter(&waiting{id: string(id), standing: s, left: make(chan struct{}), cut: make(chan struct{})})
}

// overheard gives a notification that belongs to no call to those who listen.
func (p *process) overheard(s *wire.Answer, method string) {
	if len(s.Raw) > window {
		p.noise.log("upstream sent a notification that is too large", s.Raw[:edge])
		return
	}
	if p.spoken() == mcp.Modern {
		// It says for whom it is, or it is for nobody (checklist 121).
		id := subscription(s)
		if w := p.waitingFor([]byte(`"` + text(id) + `"`)); w != nil && w.standing != nil {
			w.standing.heard(s)
		}
		return
	}
	all, calls := p.listeners()
	if calls && method == mcp.LogMessage {
		return // it may be about one of them
	}
	for _, e := range all {
		e.heard(s)
	}
}

// listeners returns those who listen, and whether any call is in flight.
func (p *process) listeners() (all []standing, calls bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.waiting {
		if w.standing != nil {
			all = append(all, w.standing)
		} else {
			calls = true
		}
	}
	return all, calls
}

// partTime is how long a listen that another takes the place of may take to end.
const partTime = 250 * time.Millisecond

// overLine sends a listen as a line. It stays in flight until it is cancelled
// (checklist 36, 121).
func (g *listening) overLine(p *process) {
	g.close = func() {}
	entry, err := p.stand(g.id, g)
	if err != nil {
		g.finish(outcome{err: err})
		return
	}
	cancel := sync.OnceFunc(func() {
		ctx, cancel := g.w.goodbye()
		defer cancel()
		if _, err := p.write(ctx, cancellation(g.id)); err != nil {
			p.u.o.Log.Debug("cancel not delivered", "upstream", p.u.o.Key, "error", err)
		}
	})
	g.close = sync.OnceFunc(func() {
		if p.leave(entry) {
			cancel()
		}
	})
	g.part = func() {
		defer g.close()
		select {
		case <-g.ended:
			return // there is nothing to cancel
		default:
		}
		cancel()
		t := time.NewTimer(partTime)
		defer t.Stop()
		select {
		case <-g.ended:
		case <-t.C:
		case <-g.w.ctx.Done():
		}
	}
	ctx, stop := context.WithTimeout(g.w.ctx, p.u.o.ProbeTimeout)
	defer stop()
	if _, err := p.write(ctx, g.body()); err != nil {
		g.finish(outcome{err: err})
	}
}

// overhear hears what a legacy child says outside of calls.
func (w *Watch) overhear(l *Link) outcome {
	p := l.process
	e := &childEar{w: w, ear: ear{ended: make(chan struct{})}}
	entry, err := p.stand(l.NextID(nil), e) // the id is only its name here
	if err != nil {
		return outcome{err: err}
	}
	defer p.leave(entry)
	w.holdAt(l, nil, p.resources)
	return w.attune(l, &e.ear, func() bool { return true })
}

// childEar is an ear at a legacy child.
type childEar struct {
	w *Watch
	ear
}

func (e *childEar) heard(s *wire.Answer) { e.w.notice(s, true) }

func (e *childEar) over(why error) {
	e.out = outcome{err: why, opened: true}
	close(e.ended)
}
