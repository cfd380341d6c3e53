package relay

import (
	"time"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

// stayed is how long the listener of a legacy session is kept that has no stream,
// so that a client that comes back is told what it missed.
const stayed = time.Minute

// standing is the listener of a legacy session, which outlives the stream that
// serves it for a while.
type standing struct {
	l     *Listener
	users int
	timer *time.Timer // ends it; nil while it is used
}

// stop has it stay.
func (s *standing) stop() {
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
}

// Standing returns the listener of a legacy session, made at first use; it hears
// of every list. It is given back with Leave. resources are subscribed to where
// they are not yet.
func (b *Board) Standing(session string, v View, resources []Resource) *Listener {
	if l := b.use(session, nil); l != nil {
		l.Add(resources...)
		return l
	}
	fresh := b.Listen(v, mcp.Filter{Tools: true, Prompts: true, Resources: true}, resources)
	l := b.use(session, fresh)
	if l != fresh { // another was first
		fresh.Close()
		l.Add(resources...)
	}
	return l
}

// use counts one user more of a session's listener: the one that is there, else
// fresh.
func (b *Board) use(session string, fresh *Listener) *Listener {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.standing[session]
	if s == nil {
		if fresh == nil {
			return nil
		}
		s = &standing{l: fresh}
		b.standing[session] = s
	}
	s.users++
	s.stop()
	return s.l
}

// Leave gives back what Standing returned.
func (b *Board) Leave(session string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.standing[session]
	if s == nil {
		return
	}
	if s.users--; s.users == 0 && !b.closed {
		s.stop()
		s.timer = time.AfterFunc(stayed, func() { b.unused(session) })
	}
}

// unused ends the listener of a session that nobody came back for.
func (b *Board) unused(session string) {
	b.mu.Lock()
	s := b.standing[session]
	if s == nil || s.users > 0 {
		b.mu.Unlock()
		return
	}
	delete(b.standing, session)
	b.mu.Unlock()
	s.l.Close()
}

// Ended ends the listener of a session that is over.
func (b *Board) Ended(session string) {
	b.mu.Lock()
	s := b.standing[session]
	if s == nil {
		b.mu.Unlock()
		return
	}
	s.stop()
	delete(b.standing, session)
	b.mu.Unlock()
	s.l.Close()
}

// Unsubscribe ends a subscription of a legacy session, if its listener is here.
func (b *Board) Unsubscribe(session, exposed string) {
	b.mu.Lock()
	s := b.standing[session]
	b.mu.Unlock()
	if s != nil {
		s.l.Remove(exposed)
	}
}
