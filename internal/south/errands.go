package south

import (
	"context"
	"sync"
	"time"
)

// settleTime bounds how long the end of sessions waits for errands: a cancellation
// that is on its way should arrive, and before the end of its session.
const settleTime = time.Second

// errands are short works on goroutines of their own. Unlike a [sync.WaitGroup]
// they can be waited for while new ones begin, as when an upstream leaves the
// configuration with calls in flight. The zero value is ready.
type errands struct {
	mu     sync.Mutex    // guards what follows
	n      int           // under way
	none   chan struct{} // closed when n comes to 0; nil while n is 0
	closed bool
}

// begin runs f; after close, not at all, and it reports false.
func (e *errands) begin(f func()) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return false
	}
	if e.n++; e.n == 1 {
		e.none = make(chan struct{})
	}
	go func() {
		defer e.end()
		f()
	}()
	return true
}

func (e *errands) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.n--; e.n == 0 {
		close(e.none)
		e.none = nil
	}
}

func (e *errands) pending() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.none
}

// settle returns when for a moment no errand is under way, or after within, or
// when ctx ends.
func (e *errands) settle(ctx context.Context, within time.Duration) {
	none := e.pending()
	if none == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	select {
	case <-none:
	case <-ctx.Done():
	}
}

// close lets no errand begin any more and waits for those under way.
func (e *errands) close() {
	e.mu.Lock()
	e.closed = true
	none := e.none
	e.mu.Unlock()
	if none != nil {
		<-none
	}
}

// background runs a short errand in a goroutine that Close lets come to its end;
// after Close, not at all, and it reports false.
func (u *Upstream) background(f func()) bool { return u.errands.begin(f) }
