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

	mu     sync.Mutex   // guards what follows; nothing waits under it
	conns  []*plainConn // the longest idle first
	timer  *time.Timer  // nil until the first connection came; runs reap
	armed  bool         // the timer is going to fire
	closed bool         // closeAll was the last to come; put closes
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

// put keeps a connection for later use, or closes it when there is no room.
func (p *idleConns) put(c *plainConn) {
	c.reset()
	if !p.keep(c) {
		c.close()
	}
}

func (p *idleConns) keep(c *plainConn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.conns) >= p.max {
		return false
	}
	c.idle = time.Now()
	p.conns = append(p.conns, c)
	if !p.armed {
		p.armed = true
		if p.timer == nil {
			p.timer = time.AfterFunc(p.timeout, p.reap)
		} else {
			p.timer.Reset(p.timeout)
		}
	}
	return true
}

// expired tells whether a connection was idle for too long.
func (p *idleConns) expired(c *plainConn) bool { return time.Since(c.idle) >= p.timeout }

// reap closes what was idle for too long and comes again while anything is left.
func (p *idleConns) reap() {
	p.mu.Lock()
	n := 0
	for n < len(p.conns) && p.expired(p.conns[n]) {
		n++
	}
	old := append([]*plainConn(nil), p.conns[:n]...)
	left := copy(p.conns, p.conns[n:])
	clear(p.conns[left:])
	p.conns = p.conns[:left]
	p.armed = left > 0
	if p.armed {
		p.timer.Reset(p.timeout - time.Since(p.conns[0].idle))
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
	p.conns, p.closed = nil, true
	if p.armed && p.timer.Stop() {
		p.armed = false
	}
	p.mu.Unlock()
	for _, c := range old {
		c.close()
	}
}
