package north

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/penstock-mcp/penstock/internal/wire"
)

var (
	jsonType   = []string{"application/json"}
	streamType = []string{"text/event-stream"}
	noCache    = []string{"no-cache"}
	noBuffer   = []string{"no"}
	eventHead  = []byte("event: message\ndata: ")
	eventTail  = []byte("\n\n")
	eventName  = []byte("event: message\nid: ")
	eventData  = []byte("\ndata: ")
	lastChunk  = []byte("0\r\n\r\n")
	comment    = []byte(": waiting\n\n")
)

// httpReply answers one HTTP request, as JSON or as an event stream.
type httpReply struct {
	w        http.ResponseWriter
	rc       *http.ResponseController
	json     bool // the client takes application/json
	stream   bool // the client takes text/event-stream
	events   bool // the stream has begun
	started  bool
	through  bool  // a message of unknown length is being written, or none may come
	major    uint8 // of the HTTP version
	minor    uint8
	written  int64 // bytes of messages
	deadline time.Duration
}

func (a *httpReply) sent() int64       { return a.written }
func (a *httpReply) framed() bool      { return a.events || !a.json }
func (a *httpReply) begun() bool       { return a.started }
func (a *httpReply) broken() bool      { return a.through || a.started && !a.events }
func (a *httpReply) takesEvents() bool { return a.stream && (a.events || !a.started) }

// push moves the write deadline: a client that reads nothing is cut off.
func (a *httpReply) push() {
	if a.deadline > 0 {
		_ = a.rc.SetWriteDeadline(time.Now().Add(a.deadline))
	}
}

func (a *httpReply) open() {
	if a.events {
		return
	}
	a.events, a.started = true, true
	h := a.w.Header()
	h["Content-Type"], h["Cache-Control"], h["X-Accel-Buffering"] = streamType, noCache, noBuffer
	a.push()
	a.w.WriteHeader(http.StatusOK)
}

func (a *httpReply) whole(status int, parts ...[]byte) error {
	if a.events || (!a.json && status == http.StatusOK) {
		return a.wholeEvent(parts)
	}
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	h := a.w.Header()
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(n)}
	a.push()
	a.started = true
	a.written += int64(n)
	a.w.WriteHeader(status)
	for _, p := range parts {
		if _, err := a.w.Write(p); err != nil {
			return &gone{err}
		}
	}
	return nil
}

func (a *httpReply) wholeEvent(parts [][]byte) error {
	safe, err := lineSafe(parts)
	if err != nil {
		return err
	}
	a.open()
	a.push()
	if _, err := a.w.Write(eventHead); err != nil {
		return &gone{err}
	}
	for _, p := range safe {
		a.written += int64(len(p))
		if _, err := a.w.Write(p); err != nil {
			return &gone{err}
		}
	}
	return a.finishEvent()
}

// lineSafe makes a message given in parts fit for line framing. A part may end
// within a value, so they are joined when there is anything to change.
func lineSafe(parts [][]byte) ([][]byte, error) {
	for _, p := range parts {
		if bytes.IndexByte(p, '\n') >= 0 || bytes.IndexByte(p, '\r') >= 0 {
			out, err := wire.LineSafe(nil, bytes.Join(parts, nil))
			return [][]byte{out}, err
		}
	}
	return parts, nil
}

func (a *httpReply) finishEvent() error {
	if _, err := a.w.Write(eventTail); err != nil {
		return &gone{err}
	}
	return a.flush()
}

// flush sends what was written, and lets the write deadline go: it bounds a
// write, and over HTTP/2 would end a stream that has nothing to say for long.
func (a *httpReply) flush() error {
	if err := a.rc.Flush(); err != nil {
		return &gone{err}
	}
	if a.deadline > 0 {
		_ = a.rc.SetWriteDeadline(time.Time{})
	}
	return nil
}

func (a *httpReply) event(msg []byte) (bool, error) {
	if !a.takesEvents() {
		return false, nil
	}
	a.open()
	a.push()
	a.written += int64(len(msg))
	for _, p := range [...][]byte{eventHead, msg} {
		if _, err := a.w.Write(p); err != nil {
			return false, &gone{err}
		}
	}
	return true, a.finishEvent()
}

// writeEvent writes a message as an event that has an id.
func (a *httpReply) writeEvent(id string, msg []byte) error {
	a.push()
	a.written += int64(len(msg))
	for _, p := range [...][]byte{eventName, []byte(id), eventData, msg} {
		if _, err := a.w.Write(p); err != nil {
			return &gone{err}
		}
	}
	return a.finishEvent()
}

// hangUp ends an event stream, of which everything was sent, while its handler
// goes on. It reports whether the server can do that. HTTP/2 knows no other end
// than a reset; clients take both for a stream to come back to.
func (a *httpReply) hangUp() bool {
	if a.major == 2 {
		return a.rc.SetWriteDeadline(time.Unix(1, 0)) == nil
	}
	c, _, err := a.rc.Hijack()
	if err != nil {
		return false
	}
	if a.minor > 0 { // the body is chunked
		_ = c.SetWriteDeadline(time.Now().Add(lastChunkGrace))
		_, _ = c.Write(lastChunk)
	}
	_ = c.Close()
	return true
}

// lastChunkGrace bounds the end of a connection that is closed early.
const lastChunkGrace = time.Second

func (a *httpReply) keepAlive() error {
	if !a.events {
		return nil
	}
	a.push()
	if _, err := a.w.Write(comment); err != nil {
		return &gone{err}
	}
	return a.flush()
}

func (a *httpReply) beat() error { return a.greet() }

// greet opens the stream before there is anything to say on it.
func (a *httpReply) greet() error {
	a.open()
	return a.keepAlive()
}

func (a *httpReply) begin() (io.Writer, error) {
	a.through = true
	if a.framed() {
		a.open()
		if _, err := a.w.Write(eventHead); err != nil {
			return nil, &gone{err}
		}
	} else {
		a.started = true
		a.w.Header()["Content-Type"] = jsonType
		a.push()
		a.w.WriteHeader(http.StatusOK)
	}
	return (*pushing)(a), nil
}

func (a *httpReply) end() error {
	a.through = false
	if a.events {
		return a.finishEvent()
	}
	return nil
}

// abort makes net/http cut the connection: a JSON body without its last chunk,
// an event stream without its final event (DESIGN section 3).
func (a *httpReply) abort() { panic(http.ErrAbortHandler) }

// pushing writes under a deadline that moves with every write.
type pushing httpReply

func (p *pushing) Write(b []byte) (int, error) {
	(*httpReply)(p).push()
	p.written += int64(len(b))
	n, err := p.w.Write(b)
	if err != nil {
		return n, &gone{err}
	}
	return n, nil
}

// gone is a client that cannot be written to any more.
type gone struct{ err error }

func (g *gone) Error() string { return "client gone: " + g.err.Error() }
func (g *gone) Unwrap() error { return g.err }

// IsGone reports whether err says that the client cannot be written to.
func IsGone(err error) bool {
	var g *gone
	return errors.As(err, &g)
}
