package wire

import (
	"errors"
	"io"
	"sync"

	"github.com/penstock-mcp/penstock/internal/fault"
)

const (
	window  = 64 << 10     // what may be held back in one piece: a name or a URI
	roomFor = window + 512 // the buffer; larger, so that holding too much is found alike in whole bodies and streams
	large   = 16 << 10     // pieces of this size can be written without a copy
)

// rewriter is the sliding window of one Rewrite or Apply, and where its walk
// over the message stands.
//
// buf[:pos] has been passed, and of that buf[mark:pos] is still to go out as it
// is. hold, when not negative, is where something begins of which it is not
// known yet whether it goes out: the window keeps it. With discard, what is
// passed does not go out at all.
type rewriter struct {
	plan *Plan
	src  io.Reader // nil: buf is all there is
	dst  io.Writer // nil: out is the result

	buf     []byte // the head as it was given, later own[0]
	pos     int
	mark    int
	hold    int
	discard bool
	eol     bool // LineSafe, and the window has a CR or LF

	failed  error // of src, which came with bytes
	base    int64 // offset in the message of buf[0]
	out     []byte
	written int64

	own     [2][]byte // pooled buffers: window, output
	scratch []byte    // a decoded name or URI
	mapped  []byte    // what MapURI made

	walk walkState
}

var rewriters = sync.Pool{New: func() any { return new(rewriter) }}

func (r *rewriter) begin(head []byte) {
	r.buf, r.hold = head, -1
	r.eol = r.plan.LineSafe && hasEOL(head)
}

// release gives the rewriter back without anything of the message but its pooled room.
func (r *rewriter) release() {
	own, scratch, mapped := r.own, r.scratch, r.mapped
	if cap(scratch) > window {
		scratch = nil
	}
	if cap(mapped) > window {
		mapped = nil
	}
	r.walk.reset()
	r.plan, r.src, r.dst, r.buf, r.out = nil, nil, nil, nil, nil
	r.pos, r.mark, r.hold, r.base, r.written = 0, 0, 0, 0, 0
	r.discard, r.eol, r.failed = false, false, nil
	r.own, r.scratch, r.mapped = own, scratch, mapped
	rewriters.Put(r)
}

// more slides the window when all of it has been passed, and reads; false at
// the end of the message.
func (r *rewriter) more() (bool, error) {
	if r.src == nil {
		return false, nil
	}
	keep := r.pos
	if r.hold >= 0 {
		keep = r.hold
	}
	if err := r.emit(keep); err != nil {
		return false, err
	}
	if r.own[0] == nil {
		r.own[0] = make([]byte, 0, roomFor)
	}
	kept := r.buf[keep:]
	if len(kept) >= roomFor {
		return false, r.tooLong()
	}
	r.buf = r.own[0][:copy(r.own[0][:roomFor], kept)]
	r.base += int64(keep)
	r.pos -= keep
	r.mark = 0
	if r.hold >= 0 {
		r.hold = 0
	}
	r.eol = r.eol && hasEOL(r.buf)
	for range 101 { // readers may return nothing, but not forever
		if r.failed != nil {
			return false, r.ended()
		}
		n, err := r.src.Read(r.buf[len(r.buf):roomFor])
		if n > 0 {
			fresh := r.buf[len(r.buf) : len(r.buf)+n]
			r.buf = r.buf[:len(r.buf)+n]
			r.eol = r.eol || r.plan.LineSafe && hasEOL(fresh)
			r.failed = err
			return true, nil
		}
		r.failed = err
	}
	return false, &ReadError{io.ErrNoProgress}
}

// ended is nil where src came to its end, else what src failed with.
func (r *rewriter) ended() error {
	if errors.Is(r.failed, io.EOF) {
		return nil
	}
	return &ReadError{r.failed}
}

// emit lets buf[mark:to] go out, and moves the mark.
func (r *rewriter) emit(to int) error {
	b := r.buf[r.mark:to]
	r.mark = to
	switch {
	case r.discard || len(b) == 0:
		return nil
	case r.eol && hasEOL(b):
		r.out = spaces(r.out, b)
	case r.dst == nil || len(b) < large || len(r.out) > 0 && len(r.out)+len(b) <= window:
		r.out = append(r.out, b...)
	default:
		if err := r.flush(); err != nil {
			return err
		}
		return r.write(b)
	}
	if r.dst != nil && len(r.out) >= window {
		return r.flush()
	}
	return nil
}

// put lets a value of the plan go out, as safe for lines as the rest.
func (r *rewriter) put(value []byte) error {
	if r.plan.LineSafe {
		safe, err := LineSafe(nil, value)
		if err != nil {
			return err
		}
		value = safe
	}
	r.out = append(r.out, value...)
	return nil
}

func (r *rewriter) flush() error {
	b := r.out
	r.out = r.out[:0]
	return r.write(b)
}

func (r *rewriter) write(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	n, err := r.dst.Write(b)
	r.written += int64(n)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return &WriteError{err}
	}
	return nil
}

// next passes white space and returns the byte that follows, not passed.
func (r *rewriter) next() (byte, error) {
	for {
		if r.pos = skipSpace(r.buf, r.pos); r.pos < len(r.buf) {
			return r.buf[r.pos], nil
		}
		if err := r.must(); err != nil {
			return 0, err
		}
	}
}

// must is more where the message cannot end.
func (r *rewriter) must() error {
	ok, err := r.more()
	if err == nil && !ok {
		err = fault.New(fault.InvalidAnswer, "the message is cut short at byte %d", r.base+int64(r.pos))
	}
	return err
}

// quoted passes the string at pos, which hold keeps, and returns it with its
// quotes. It is valid until the window slides.
func (r *rewriter) quoted() ([]byte, error) {
	start := r.pos - r.hold
	r.pos++
	esc := false
	for {
		var ok bool
		r.pos, esc, ok = stringEnd(r.buf, r.pos, esc)
		if ok {
			break
		}
		if err := r.must(); err != nil {
			return nil, err
		}
	}
	if err := r.heldBack(); err != nil {
		return nil, err
	}
	return r.buf[r.hold+start : r.pos], nil
}

// heldBack finds, in whole bodies too, what a window could not hold.
func (r *rewriter) heldBack() error {
	if r.hold >= 0 && r.pos-r.hold > window {
		return r.tooLong()
	}
	return nil
}

// skip passes the value at pos.
func (r *rewriter) skip() error {
	c := r.buf[r.pos]
	if c != '"' && c != '{' && c != '[' {
		return r.skipScalar(c)
	}
	var k skipper
	k.begin(c == '"')
	r.pos++
	for {
		var done bool
		k.lines = r.eol
		r.pos, done = k.skip(r.buf, r.pos)
		switch {
		case k.bad:
			return errEOL()
		case done:
			return nil
		}
		if err := r.must(); err != nil {
			return err
		}
	}
}

func (r *rewriter) skipScalar(c byte) error {
	if !startsScalar(c) {
		return r.broken("a value is expected")
	}
	for {
		for r.pos < len(r.buf) {
			if endsScalar(r.buf[r.pos]) {
				return nil
			}
			r.pos++
		}
		if err := r.must(); err != nil {
			return err
		}
	}
}

func (r *rewriter) tooLong() error {
	return fault.New(fault.InvalidAnswer, "the message has a name or URI of over %d bytes before byte %d", window, r.base+int64(r.pos))
}

func (r *rewriter) broken(what string) error {
	return fault.New(fault.InvalidAnswer, "the message is not valid JSON at byte %d: %s", r.base+int64(r.pos), what)
}
