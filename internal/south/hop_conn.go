package south

import (
	"errors"
	"io"
	"net"
	"syscall"
	"time"
)

const (
	inSize     = 8 << 10 // read buffer of a connection
	inlineBody = 8 << 10 // a body up to this size is copied behind its head
)

var (
	errBufferFull = errors.New("read buffer is full")
	errNotReady   = errors.New("nothing to read yet")
)

// plainConn is one cleartext connection with its buffers. It belongs to one
// exchange at a time, or to the pool; nothing of it but interrupt may be used
// by another goroutine.
type plainConn struct {
	nc   net.Conn
	host string // as in the URLs that it serves
	in   []byte // bytes r to w were read and not yet consumed
	r, w int
	out  []byte // the request's head, and its body when small
	// until is when a connection in the pool becomes too old to be used.
	until time.Time

	// interrupt closes the connection from another goroutine. It is bound once,
	// so that arming it for an exchange allocates little.
	interrupt func()
	poller    poller
	polling   bool // reads return errNotReady instead of waiting
}

func newPlainConn(nc net.Conn, host string) *plainConn {
	c := &plainConn{nc: nc, host: host, in: make([]byte, inSize)}
	c.interrupt = c.close
	c.poller.init(nc)
	return c
}

func (c *plainConn) close() { _ = c.nc.Close() }

func (c *plainConn) expired() bool { return !time.Now().Before(c.until) }

// alive tells whether a connection from the pool can be used: its peer has
// neither closed it nor said something that nobody asked for.
func (c *plainConn) alive() bool {
	if c.r != c.w {
		return false
	}
	_, err := c.poller.poll(c.in[:1])
	return errors.Is(err, errNotReady)
}

// source reads from the network into p, past the buffer.
func (c *plainConn) source(p []byte) (int, error) {
	if c.polling {
		return c.poller.poll(p)
	}
	// A reader may return nothing at all, but not for ever.
	for range 100 {
		if n, err := c.nc.Read(p); n > 0 || err != nil {
			return n, err
		}
	}
	return 0, io.ErrNoProgress
}

// fill reads at least one more byte into the buffer.
func (c *plainConn) fill() error {
	if c.r > 0 && (c.r == c.w || c.w == len(c.in)) {
		c.w = copy(c.in, c.in[c.r:c.w])
		c.r = 0
	}
	if c.w == len(c.in) {
		return errBufferFull
	}
	n, err := c.source(c.in[c.w:])
	c.w += n
	if n > 0 {
		return nil // an error comes again
	}
	return err
}

// read takes what is buffered, or reads straight into p. With spare, a read
// smaller than the buffer goes through it, so that what follows comes along.
func (c *plainConn) read(p []byte, spare bool) (int, error) {
	if c.r == c.w {
		if !spare || len(p) >= len(c.in) {
			return c.source(p)
		}
		if err := c.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, c.in[c.r:c.w])
	c.r += n
	return n, nil
}

func (c *plainConn) buffered() []byte { return c.in[c.r:c.w] }

// reset makes the connection ready for the pool. Buffers that one large
// message made grow do not stay.
func (c *plainConn) reset() {
	c.r, c.w, c.polling = 0, 0, false
	if len(c.in) > inSize {
		c.in = make([]byte, inSize)
	}
	if cap(c.out) > 2*inlineBody {
		c.out = nil
	}
}

// poller reads from a connection without waiting.
type poller struct {
	nc  net.Conn
	raw syscall.RawConn // nil: the connection has no descriptor
	try func(fd uintptr) bool
	p   []byte
	n   int
	err error
}

func (q *poller) init(nc net.Conn) {
	q.nc = nc
	if sc, ok := nc.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			q.raw, q.try = raw, q.attempt
		}
	}
}

// poll reads what is there. errNotReady: nothing yet; io.EOF: the peer closed.
func (q *poller) poll(p []byte) (int, error) {
	if q.raw == nil || !canAttempt {
		return q.brief(p)
	}
	q.p = p
	err := q.raw.Read(q.try)
	q.p = nil
	if err != nil {
		return 0, err
	}
	return q.n, q.err
}

// brief reads under the shortest deadline that still lets the runtime look at
// the connection.
func (q *poller) brief(p []byte) (int, error) {
	if err := q.nc.SetReadDeadline(time.Now().Add(100 * time.Microsecond)); err != nil {
		return 0, err
	}
	n, err := q.nc.Read(p)
	if cerr := q.nc.SetReadDeadline(time.Time{}); cerr != nil {
		return n, cerr
	}
	var ne net.Error
	if n == 0 && errors.As(err, &ne) && ne.Timeout() {
		return 0, errNotReady
	}
	return n, err
}
