package north

import (
	"bytes"
	"io"
	"sync"
	"sync/atomic"
)

// lineWriter writes whole lines to a client, one at a time.
type lineWriter struct {
	mu      sync.Mutex // held while a line is written; guards what follows
	w       io.Writer
	scratch []byte
	err     error
	broken  func(error) // told of the first failure
}

// line writes one message, given in parts that are free of CR and LF.
func (l *lineWriter) line(parts [][]byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	l.scratch = l.scratch[:0]
	for _, p := range parts {
		l.scratch = append(l.scratch, p...)
	}
	l.scratch = append(l.scratch, '\n')
	if _, err := l.w.Write(l.scratch); err != nil {
		l.err = &gone{err}
		l.broken(l.err)
	}
	if cap(l.scratch) > 4*usual {
		l.scratch = nil
	}
	return l.err
}

// lineReply answers one request of a stdio client. An answer of unknown length
// is held until it is complete, for nothing else could be said meanwhile, and
// half a line could not be taken back.
type lineReply struct {
	w     *lineWriter
	muted *atomic.Bool // nil, or set when the client wants no answer any more
	held  bytes.Buffer

	written int64 // bytes of messages; of the goroutine that serves
}

func (a *lineReply) sent() int64      { return a.written }
func (a *lineReply) keepAlive() error { return nil }
func (a *lineReply) beat() error      { return nil }
func (a *lineReply) broken() bool     { return false }

func (a *lineReply) silent() bool { return a.muted != nil && a.muted.Load() }

func (a *lineReply) whole(_ int, parts ...[]byte) error {
	if a.silent() {
		return nil
	}
	safe, err := lineSafe(parts)
	if err != nil {
		return err
	}
	return a.line(safe)
}

func (a *lineReply) line(parts [][]byte) error {
	for _, p := range parts {
		a.written += int64(len(p))
	}
	return a.w.line(parts)
}

func (a *lineReply) begin() (io.Writer, error) {
	a.held.Reset()
	return &a.held, nil
}

func (a *lineReply) end() error {
	if a.silent() {
		return nil
	}
	return a.line([][]byte{a.held.Bytes()})
}

func (a *lineReply) event(msg []byte) (bool, error) {
	if a.silent() {
		return false, nil
	}
	if err := a.line([][]byte{msg}); err != nil {
		return false, err
	}
	return true, nil
}

func (a *lineReply) takesEvents() bool { return true }
func (a *lineReply) framed() bool      { return true }
func (a *lineReply) begun() bool       { return false }
func (a *lineReply) abort()            {}
