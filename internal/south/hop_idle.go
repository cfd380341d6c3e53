package south

import (
	"sync"
	"time"
)

// idleConns holds the connections that wait for use. The one used last is
// taken first, so that those which are not needed grow old and are closed.
type idleConns struct {
	max     int
	timeout time.Duration

	mu     sync.Mutex // guards what follows; nothing waits under it
	conns  []*plainConn
	timer  *time.Timer // nil until the first connection came; runs reap
	due    time.Time   // when the timer fires; zero: it does not
	closed bool        // closeAll was the last to come; put closes
}

// take returns the most recently used connection to host, or nil. It does not
// look whether the peer has closed it.
func (p *idleConns) take(host string) *plainConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = false
	for i := len(p.conns) - 1; i >= 0; i-- {
		c := p.conns[i]
		if c.host != host {
			continue
		}
		last := len(p.conns) - 1
		copy(p.conns[i:], p.conns[i+1:])
		p.conns[last] = nil
		p.conns = p.conns[:last]
		return c
	}
	return nil
}

// put keeps a connection for later use, or closes it when there is no room. The
// time that the peer said it keeps it, or a negative one, bounds how long.
func (p *idleConns) put(c *plainConn, peer time.Duration) {
	c.reset()
	keep := p.timeout
	if peer >= 0 {
		// A request that crosses the peer's close is lost, so ours comes first.
		keep = min(keep, peer*3/4)
	}
	if keep <= 0 || !p.keep(c, keep) {
		c.close()
	}
}

func (p *idleConns) keep(c *plainConn, keep time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.conns) >= p.max {
		return false
	}
	c.until = time.Now().Add(keep)
	p.conns = append(p.conns, c)
	if p.due.IsZero() || c.until.Before(p.due) {
		p.arm(c.until, keep)
	}
	return true
}

func (p *idleConns) arm(due time.Time, after time.Duration) {
	p.due = due
	if p.timer == nil {
		p.timer = time.AfterFunc(after, p.reap)
	} else {
		p.timer.Reset(after)
	}
}

// reap closes what was idle for too long and comes again while anything is left.
func (p *idleConns) reap() {
	p.mu.Lock()
	var old []*plainConn
	var next time.Time
	left := p.conns[:0]
	for _, c := range p.conns {
		if c.expired() {
			old = append(old, c)
			continue
		}
		left = append(left, c)
		if next.IsZero() || c.until.Before(next) {
			next = c.until
		}
	}
	clear(p.conns[len(left):])
	p.conns = left
	if p.due = next; !next.IsZero() {
		p.arm(next, time.Until(next))
	}
	p.mu.Unlock()
	for _, c := range old {
		c.close()
	}
}

// closeAll closes every idle connection, and those that come back before the
// next one is taken.
func (p *idleConns) closeAll() {
	p.mu.Lock()
	old := p.conns
	p.conns, p.closed, p.due = nil, true, time.Time{}
	if p.timer != nil {
		p.timer.Stop()
	}
	p.mu.Unlock()
	for _, c := range old {
		c.close()
	}
}
