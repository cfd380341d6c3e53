package north

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/penstock-mcp/penstock/internal/store"
)

// standing is the standing stream of a legacy session, while it is open here.
type standing struct {
	claim  store.Claim
	stored bool // the claim is in the store, and not in this process alone
	end    context.CancelCauseFunc
	done   chan struct{} // closed once nothing more is written to it
}

// localClaim is a claim that only this process knows of.
func (g *Ongoing) localClaim(session string) store.Claim {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.generation++
	return store.Claim{Session: session, Generation: g.generation}
}

// hold makes s the standing stream of its session and returns the one that was,
// which is for the caller to end. It is not newest when a later claim was
// quicker.
func (g *Ongoing) hold(s *standing) (older *standing, newest bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	older = g.standing[s.claim.Session]
	if older != nil && older.claim.Generation > s.claim.Generation {
		return nil, false
	}
	g.standing[s.claim.Session] = s
	return older, true
}

// letGo takes s out again, unless another has its place.
func (g *Ongoing) letGo(s *standing) {
	close(s.done)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.standing[s.claim.Session] == s {
		delete(g.standing, s.claim.Session)
	}
}

// claims are those in the store that this process holds.
func (g *Ongoing) claims() []store.Claim {
	g.mu.Lock()
	defer g.mu.Unlock()
	var held []store.Claim
	for _, s := range g.standing {
		if s.stored {
			held = append(held, s.claim)
		}
	}
	return held
}

// endClaim ends the standing stream that has this claim.
func (g *Ongoing) endClaim(c store.Claim, why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.standing[c.Session]; s != nil && s.claim == c {
		s.end(why)
	}
}

// endStanding ends the standing stream of a session.
func (g *Ongoing) endStanding(session string, why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.standing[session]; s != nil {
		s.end(why)
	}
}

// use is a session that is in use for as long as a stream of it is open.
type use struct {
	h       *Handler
	session string
	over    context.CancelCauseFunc // told when the session is gone; nil: nobody is

	mu      sync.Mutex // guards what follows
	timer   *time.Timer
	stopped bool
}

// inUse keeps a session from idling out until stop is called, and ends the
// stream when the session is over all the same, as by another instance.
func (h *Handler) inUse(session string, over context.CancelCauseFunc) *use {
	u := &use{h: h, session: session, over: over}
	if h.o.Idle > 0 {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.timer = time.AfterFunc(h.o.Idle/4, u.touch)
	}
	return u
}

func (u *use) touch() {
	ctx, cancel := context.WithTimeout(context.Background(), storeGrace)
	defer cancel()
	_, err := u.h.sessions.Get(ctx, u.session)
	if errors.Is(err, store.ErrNotFound) && u.over != nil {
		u.over(errSessionOver)
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.stopped {
		u.timer.Reset(u.h.o.Idle / 4)
	}
}

func (u *use) stop() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stopped = true
	if u.timer != nil {
		u.timer.Stop()
	}
}
