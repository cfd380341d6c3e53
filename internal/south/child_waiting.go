package south

import (
	"context"
	"sync"
	"time"

	"github.com/penstock-mcp/penstock/internal/wire"
)

const (
	// eventsHeld is how many messages may wait for one caller.
	eventsHeld = 32
	// eventPatience is how long the reader waits for a caller whose queue is
	// full, before that caller's request is given up for the sake of the others.
	eventPatience = 5 * time.Second
)

// waiting is one request that a child has not answered.
type waiting struct {
	id     string        // raw JSON
	events bool          // its caller takes log messages
	in     chan arrival  // nil for a standing one
	left   chan struct{} // closed when the caller is gone
	cut    chan struct{} // closed when nothing more will come
	once   sync.Once
	err    error // why; read after cut

	standing standing // hears what comes for it; nil for a call
}

// arrival is one message for a request: an event, or the answer, which is last.
type arrival struct {
	scan   wire.Answer
	window *[]byte // pooled memory behind the message, or nil
	answer bool
}

// fail ends the wait. Only the first reason counts.
func (w *waiting) fail(why error) {
	w.once.Do(func() {
		w.err = why
		close(w.cut)
		if w.standing != nil {
			w.standing.over(why)
		}
	})
}

// next returns what arrives, in order.
func (w *waiting) next(ctx context.Context) (arrival, error) {
	select {
	case a := <-w.in:
		return a, nil
	default:
	}
	select {
	case a := <-w.in:
		return a, nil
	case <-w.cut:
		select { // what arrived before the end still counts
		case a := <-w.in:
			return a, nil
		default:
			return arrival{}, w.err
		}
	case <-ctx.Done():
		return arrival{}, ctx.Err()
	}
}

// expect registers a request before it is sent, so that nothing can overtake it.
func (p *process) expect(id []byte, events bool) (*waiting, error) {
	return p.enter(&waiting{
		id: string(id), events: events,
		in: make(chan arrival, eventsHeld), left: make(chan struct{}), cut: make(chan struct{}),
	})
}

func (p *process) enter(w *waiting) (*waiting, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lost != nil {
		return nil, p.lost
	}
	p.waiting[w.id] = w
	return w, nil
}

// leave ends the caller's interest. It reports whether the request was still
// unanswered, and is called once.
func (p *process) leave(w *waiting) (unanswered bool) {
	p.mu.Lock()
	if p.waiting[w.id] == w {
		delete(p.waiting, w.id)
		unanswered = true
	}
	p.mu.Unlock()
	close(w.left)
	return unanswered
}

// waitingFor returns the request of an id.
func (p *process) waitingFor(id []byte) *waiting {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting[string(id)]
}

// answered is waitingFor for an answer: the request waits no more.
func (p *process) answered(id []byte) *waiting {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.waiting[string(id)]
	delete(p.waiting, string(id))
	return w
}

// only returns the one request in flight, or nil when there is none or several.
// One that stands is none of them.
func (p *process) only() (one *waiting) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.waiting {
		switch {
		case w.standing != nil:
		case one != nil:
			return nil
		default:
			one = w
		}
	}
	return one
}

// all returns the requests in flight.
func (p *process) all() []*waiting {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]*waiting, 0, len(p.waiting))
	for _, w := range p.waiting {
		out = append(out, w)
	}
	return out
}

// drop fails one request.
func (p *process) drop(w *waiting, why error) {
	p.mu.Lock()
	if p.waiting[w.id] == w {
		delete(p.waiting, w.id)
	}
	p.mu.Unlock()
	w.fail(why)
}

// deliver hands a message to its caller. The reader waits for one whose queue
// is full, for that pushes back on the child, but not for ever, and not at all
// while the caller waits for its user: that may take half an hour, in which only
// the queue's bound counts.
func (p *process) deliver(w *waiting, a arrival) {
	select {
	case w.in <- a:
		return
	default:
	}
	asking, opened := p.asking(w)
	if asking {
		putWindow(a.window)
		p.drop(w, errSlowCaller)
		return
	}
	t := time.NewTimer(eventPatience)
	defer t.Stop()
	select {
	case w.in <- a:
	case <-w.left:
		putWindow(a.window)
	case <-w.cut:
		putWindow(a.window)
	case <-opened:
		putWindow(a.window)
		p.drop(w, errSlowCaller)
	case <-t.C:
		putWindow(a.window)
		p.drop(w, errSlowCaller)
	}
}
