package south

import (
	"context"
	"errors"
	"io"
	"time"
)

const (
	// smallRest is what is read on from a body that was closed before its end,
	// to keep its connection, if it is here already.
	smallRest = 4 << 10
	// sendGrace is how long the end of a response waits for the end of the
	// request's body, which a well-behaved upstream has read by then.
	sendGrace = 50 * time.Millisecond
)

// bodyKind is how a body ends.
type bodyKind uint8

const (
	bodyNone bodyKind = iota
	bodyLength
	bodyChunked
	bodyUntilClose
)

// plainBody is the body of one response and owns its connection until the body
// ends, fails or is closed. See hopResponse.body for what a caller must keep to.
type plainBody struct {
	pool  *idleConns
	c     *plainConn // nil: given back
	ctx   context.Context
	call  *callContext // is ctx, armed with the interruption; or nil
	stop  func() bool  // disarms it otherwise; nil: ctx never ends
	sent  chan error   // the rest of the request; nil: it was sent whole
	kind  bodyKind
	reuse bool          // the connection outlives this response
	keep  time.Duration // as in framing
	left  int64
	k     chunks
	err   error // what every further read returns
}

// Read returns io.EOF together with the last bytes where it can, and the
// connection is free for the next request from then on.
func (b *plainBody) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	if len(p) == 0 {
		return 0, nil
	}
	if err := b.ctx.Err(); err != nil {
		return 0, b.fail(err)
	}
	n, err := b.read(p)
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, io.EOF):
		b.err = io.EOF
		b.finish(b.reuse)
		return n, io.EOF
	default:
		return n, b.fail(err)
	}
}

func (b *plainBody) read(p []byte) (n int, err error) {
	switch b.kind {
	case bodyLength:
		if b.left > 0 {
			n, err = b.c.read(p[:min(int64(len(p)), b.left)], false)
			b.left -= int64(n)
		}
		if b.left == 0 {
			return n, io.EOF
		}
		return n, unexpected(err)
	case bodyChunked:
		return b.k.read(b.c, p)
	case bodyUntilClose:
		return b.c.read(p, false)
	default:
		return 0, io.EOF
	}
}

func (b *plainBody) fail(err error) error {
	b.err = gaveUp(b.ctx, "reading the response", err)
	b.finish(false)
	return b.err
}

// Close gives the connection back, or closes it when more of the body is to
// come: so an upstream learns at once that nobody waits for it any more.
func (b *plainBody) Close() error {
	if b.c == nil {
		return nil
	}
	whole := b.reuse && b.sent == nil && b.ctx.Err() == nil && b.skipRest()
	b.err = errBodyClosed
	b.finish(whole)
	return nil
}

// skipRest reads the rest of the body if it is small and here.
func (b *plainBody) skipRest() bool {
	if b.kind == bodyLength && b.left > smallRest || b.kind == bodyUntilClose {
		return false
	}
	b.c.polling = true
	p := make([]byte, 512)
	for n := 0; n <= smallRest; {
		m, err := b.read(p)
		n += m
		if err != nil {
			return errors.Is(err, io.EOF)
		}
	}
	return false
}

// finish ends the exchange. The connection goes back to the pool if reuse says
// so and nothing else has happened to it.
func (b *plainBody) finish(reuse bool) {
	c := b.c
	if c == nil {
		return
	}
	b.c = nil
	if reuse && b.sent != nil {
		reuse = b.awaitSent()
	}
	if b.call != nil && !b.call.disarm() || b.stop != nil && !b.stop() {
		reuse = false // interrupted: it is closed, or is being closed
	}
	if reuse && c.r == c.w {
		b.pool.put(c, b.keep)
		return
	}
	c.close()
	if b.sent != nil {
		<-b.sent //nolint:errcheck // at once, for the connection is closed; its error is that
	}
}

// awaitSent tells whether the request's body was sent to its end in time.
func (b *plainBody) awaitSent() bool {
	t := time.NewTimer(sendGrace)
	defer t.Stop()
	select {
	case err := <-b.sent:
		b.sent = nil
		return err == nil
	case <-t.C:
		return false
	}
}
