package north

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// deadlineTick is how exactly the deadlines of client connections are kept.
const deadlineTick = time.Second

// patientListener gives out connections whose deadlines are kept by one sweep
// a second instead of a timer each. net/http and the handlers here move
// deadlines about seven times a request; for bounds of 10 seconds and more, a
// second is exact enough, and a deadline then costs one store.
type patientListener struct {
	net.Listener
	mu    sync.Mutex // guards conns
	conns map[*patientConn]struct{}
}

func newPatientListener(ln net.Listener) *patientListener {
	return &patientListener{Listener: ln, conns: map[*patientConn]struct{}{}}
}

// Accept implements net.Listener.
func (l *patientListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	p := &patientConn{Conn: c, owner: l}
	l.mu.Lock()
	l.conns[p] = struct{}{}
	l.mu.Unlock()
	return p, nil
}

// sweep enforces deadlines until ctx ends.
func (l *patientListener) sweep(ctx context.Context) {
	t := time.NewTicker(deadlineTick)
	defer t.Stop()
	var late []*patientConn
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-t.C:
			late = late[:0]
			n := now.UnixNano()
			l.mu.Lock()
			for c := range l.conns {
				if c.read.passed(n) || c.write.passed(n) {
					late = append(late, c)
				}
			}
			l.mu.Unlock()
			for _, c := range late {
				c.read.enforce(n, c.Conn.SetReadDeadline)
				c.write.enforce(n, c.Conn.SetWriteDeadline)
			}
		}
	}
}

// patientConn is one connection of a patientListener.
type patientConn struct {
	net.Conn
	owner       *patientListener
	read, write soft
}

// soft is a deadline that the sweep enforces.
type soft struct {
	at   atomic.Int64 // Unix nanoseconds; 0: none
	hard atomic.Bool  // the connection's own deadline is set
}

func (s *soft) passed(now int64) bool {
	at := s.at.Load()
	return at != 0 && at < now
}

func (s *soft) enforce(now int64, set func(time.Time) error) {
	if at := s.at.Load(); at != 0 && at < now && s.at.CompareAndSwap(at, 0) {
		s.hard.Store(true)
		_ = set(time.Unix(0, 1))
	}
}

// set stores t for the sweep. A time in the past takes effect at once: net/http
// ends its background read that way.
func (s *soft) set(t time.Time, set func(time.Time) error) error {
	if !t.IsZero() && time.Until(t) <= 0 {
		s.at.Store(0)
		s.hard.Store(true)
		return set(t)
	}
	if t.IsZero() {
		s.at.Store(0)
	} else {
		s.at.Store(t.UnixNano())
	}
	if s.hard.CompareAndSwap(true, false) {
		return set(time.Time{})
	}
	return nil
}

// SetReadDeadline implements net.Conn.
func (c *patientConn) SetReadDeadline(t time.Time) error {
	return c.read.set(t, c.Conn.SetReadDeadline)
}

// SetWriteDeadline implements net.Conn.
func (c *patientConn) SetWriteDeadline(t time.Time) error {
	return c.write.set(t, c.Conn.SetWriteDeadline)
}

// SetDeadline implements net.Conn.
func (c *patientConn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// Close implements net.Conn.
func (c *patientConn) Close() error {
	c.owner.mu.Lock()
	delete(c.owner.conns, c)
	c.owner.mu.Unlock()
	return c.Conn.Close()
}
