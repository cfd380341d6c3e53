package north

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
)

// usualRetry is when a client whose stream broke may come back.
const usualRetry = time.Second

// keptReply answers a client of 2025-11-25, who can come back for the rest of an
// event stream by GET (checklist 93, 94, 134). Every event is kept before it is
// written, so once the stream has begun it does not matter whether the client is
// there. An answer that is no event stream is framed as for anybody.
//
// An answer of unknown length is written through and not kept: a connection that
// breaks within one is a call whose answer is lost. One that begins while the
// client is away is held whole, within the bound on what is kept.
type keptReply struct {
	*httpReply
	talk    *talk
	session string
	limit   int
	kept    *keptStream // nil until the stream is open
	alone   bool        // the standing stream, which ends with its connection
	reader  uint64      // of the standing stream, this connection
	away    bool        // nobody is there to write to
	through bool        // an answer is being written that is not kept
	held    *heldAnswer // an answer of unknown length to a client that is away
}

func (a *keptReply) begun() bool {
	if a.kept == nil {
		return a.httpReply.begun()
	}
	// What went out so far are whole events; but no response goes on a standing
	// stream (checklist 95), so one that fails is cut.
	return a.through || a.alone
}

func (a *keptReply) broken() bool {
	if a.kept == nil {
		return a.httpReply.broken()
	}
	return a.through || a.alone
}

func (a *keptReply) beat() error {
	a.prime(usualRetry)
	return a.keepAlive()
}

// abort leaves a stream of whole events as it is: its client can come back.
func (a *keptReply) abort() {
	if !a.away && (a.kept == nil || a.through || a.alone) {
		a.httpReply.abort()
	}
}

// prime opens the stream with an event that has an id and says nothing.
func (a *keptReply) prime(retry time.Duration) {
	if a.kept == nil {
		a.kept = a.talk.newStream(a.session, ofCall, a.limit)
	}
	if a.events {
		return
	}
	a.open()
	a.missed(a.writePriming(a.kept.eventID(0), retry))
}

func (a *keptReply) writePriming(id string, retry time.Duration) error {
	b := append([]byte("id: "), id...)
	b = append(b, "\nretry: "...)
	b = strconv.AppendInt(b, retry.Milliseconds(), 10)
	b = append(b, "\ndata: \n\n"...)
	_, err := a.w.Write(b)
	return err
}

// missed notes a client that could not be written to.
func (a *keptReply) missed(err error) {
	if err != nil {
		a.away = true
	}
}

// present reports whether the call's own connection is where its events go. One
// that the client has replaced by a GET is closed.
func (a *keptReply) present() bool {
	if a.away {
		return false
	}
	if !a.alone && !a.talk.isReader(a.kept, 0) {
		a.away = a.hangUp()
		return false
	}
	return true
}

func (a *keptReply) event(msg []byte) (bool, error) {
	if !a.takesEvents() {
		return false, nil
	}
	a.prime(usualRetry)
	return true, a.put(bytes.Clone(msg), false)
}

// put keeps an event and writes it to the client, if it is there.
func (a *keptReply) put(msg []byte, final bool) error {
	position := a.talk.add(a.kept, msg, final)
	if !a.present() {
		return nil
	}
	err := a.writeEvent(a.kept.eventID(position), msg)
	if a.alone {
		return err
	}
	a.missed(err)
	return nil
}

func (a *keptReply) whole(status int, parts ...[]byte) error {
	if !a.events && (a.json || status != http.StatusOK) {
		return a.httpReply.whole(status, parts...)
	}
	safe, err := lineSafe(parts)
	if err != nil {
		return err
	}
	a.prime(usualRetry)
	msg := bytes.Join(safe, nil)
	if len(msg)+eventWeight > maxKeptBytes && !a.present() {
		return tooLargeToKeep()
	}
	return a.put(msg, true)
}

func (a *keptReply) keepAlive() error {
	if a.kept == nil || !a.present() {
		return nil
	}
	err := a.httpReply.keepAlive()
	if a.alone {
		return err
	}
	a.missed(err)
	return nil
}

func (a *keptReply) begin() (io.Writer, error) {
	if a.kept == nil && !a.framed() {
		return a.httpReply.begin()
	}
	a.prime(usualRetry)
	if !a.present() {
		a.held = &heldAnswer{}
		return a.held, nil
	}
	a.through = true
	a.talk.cannotKeep(a.kept)
	return a.httpReply.begin()
}

func (a *keptReply) end() error {
	if a.held == nil {
		return a.httpReply.end()
	}
	msg := a.held.b.Bytes()
	a.held = nil
	return a.put(msg, true)
}

// suspend closes the client's connection, after it was told when to come back.
func (a *keptReply) suspend(retry time.Duration) error {
	if !a.takesEvents() || a.away || a.through {
		return nil
	}
	primed := a.events
	a.prime(retry)
	if primed {
		_, err := a.w.Write(append(strconv.AppendInt([]byte("retry: "), retry.Milliseconds(), 10), "\n\n"...))
		a.missed(err)
	}
	a.missed(a.flush())
	if !a.away && !a.hangUp() {
		return errCannotHangUp
	}
	a.away = true
	return nil
}

// finish ends the stream, if there is one, however its call ended.
func (a *keptReply) finish() {
	switch {
	case a.kept == nil:
	case a.alone:
		a.talk.leave(a.kept, a.reader)
	default:
		a.talk.finish(a.kept)
	}
}

// heldAnswer is an answer for a client that is away, within the bound.
type heldAnswer struct{ b bytes.Buffer }

// Write implements io.Writer.
func (h *heldAnswer) Write(p []byte) (int, error) {
	if h.b.Len()+len(p)+eventWeight > maxKeptBytes {
		return 0, tooLargeToKeep()
	}
	return h.b.Write(p)
}

func tooLargeToKeep() error {
	return fault.New(fault.TooLarge, "the answer is too large to be kept for a client that is away").
		WithHint("the call ran; ask for less, or stay connected")
}
