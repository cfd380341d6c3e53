package south

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

// SessionKey says whose messages may share a legacy session (DESIGN section 7).
type SessionKey struct {
	Server    string   // virtual server
	Principal [32]byte // principal key
	Caps      string   // declared client capabilities, raw JSON in normal form; "": none
	North     string   // the northern session, where the client is legacy
}

// pool holds an upstream's legacy sessions.
type pool struct {
	mu    sync.RWMutex // guards byKey; never held across I/O
	byKey map[SessionKey]*session
}

func (p *pool) len() int {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return len(p.byKey)
}

// session is the southbound legacy session of one key. The wire session
// within is replaced when the upstream forgets it.
type session struct {
	u        *Upstream
	key      SessionKey
	link     Link
	live     atomic.Pointer[wireSession]
	lastUsed atomic.Int64 // Unix nanoseconds
	watched  atomic.Int32 // watches that follow its stream, for which it is in use

	ready chan struct{} // closed when the first handshake ended
	err   error         // of that handshake; read after ready

	mu    sync.Mutex // serializes healing and level changes
	level string     // guarded by mu: the level set on live

	// resources are those that watches subscribed to on one wire session.
	resources struct {
		sync.Mutex // guards what follows
		of         *wireSession
		at         *subscriptions
	}
}

// wireSession is one handshake's outcome. It is immutable.
type wireSession struct {
	id         string // "" when the upstream keeps no sessions
	init       Info
	generation uint64 // in the Keep; 0: not kept
}

// version is the header value of later requests; the oldest revision has none.
func (w *wireSession) version() string {
	if w.init.Revision == mcp.V20250326 {
		return ""
	}
	return w.init.Revision.String()
}

func (s *session) current() *wireSession { return s.live.Load() }

// subscriptions are those of a wire session. A new one has none.
func (s *session) subscriptions(live *wireSession) *subscriptions {
	s.resources.Lock()
	defer s.resources.Unlock()
	if s.resources.of != live {
		s.resources.of, s.resources.at = live, newSubscriptions()
	}
	return s.resources.at
}

// session returns the session of a key, made on first use. Concurrent callers
// share one handshake.
func (u *Upstream) session(ctx context.Context, key SessionKey) (*session, error) {
	u.sessions.mu.RLock()
	s := u.sessions.byKey[key]
	u.sessions.mu.RUnlock()
	if s == nil {
		var mine bool
		if s, mine = u.claim(key); mine {
			first := func() { u.establish(context.WithoutCancel(ctx), key, s) }
			if !u.background(first) {
				first() // it is being closed, and says so
			}
		}
	}
	select {
	case <-s.ready:
	case <-ctx.Done():
		return nil, fault.Wrap(ctx.Err(), fault.UpstreamUnavailable, "upstream %q did not open a session in time", u.o.Key).WithHint("nothing ran; try again")
	}
	if s.err != nil {
		return nil, s.err
	}
	s.lastUsed.Store(time.Now().UnixNano())
	return s, nil
}

func (u *Upstream) claim(key SessionKey) (s *session, mine bool) {
	u.sessions.mu.Lock()
	defer u.sessions.mu.Unlock()
	if s = u.sessions.byKey[key]; s != nil {
		return s, false
	}
	s = &session{u: u, key: key, ready: make(chan struct{})}
	s.link = Link{Upstream: u, Era: mcp.Legacy, session: s}
	s.lastUsed.Store(time.Now().UnixNano())
	u.sessions.byKey[key] = s
	return s, true
}

// establish makes the first handshake of a session. It outlives the caller
// that asked, for others may be waiting for it, and ends with the upstream.
func (u *Upstream) establish(ctx context.Context, key SessionKey, s *session) {
	defer close(s.ready)
	if err := u.ctx.Err(); err != nil {
		s.err = fault.Wrap(err, fault.UpstreamUnavailable, "upstream %q is being closed", u.o.Key)
		u.forgetSession(key, s)
		return
	}
	w := u.kept(ctx, key)
	if w != nil {
		s.live.Store(w)
		s.link.Revision = w.init.Revision
		return
	}
	if key.Caps == "" {
		w = u.spare.Swap(nil) // the probe declared nothing, either
	}
	if w == nil {
		ctx, cancel := context.WithTimeout(ctx, u.o.Timeout)
		defer cancel()
		defer context.AfterFunc(u.ctx, cancel)()
		done, err := u.breaker.allow()
		if err != nil {
			u.wake()
			err = fault.Wrap(err, fault.UpstreamUnavailable, "upstream %q is failing and is not called for now", u.o.Key).WithHint("nothing ran; try again in a few seconds")
		} else {
			w, err = u.initialize(ctx, key.Caps)
			done(transportOnly(err))
		}
		if err != nil {
			s.err = nothingRan(err)
			u.forgetSession(key, s)
			return
		}
	}
	w = u.remember(ctx, key, w, 0)
	s.live.Store(w)
	s.link.Revision = w.init.Revision
}

// nothingRan turns a lost handshake into what it means for the call behind it.
func nothingRan(err error) error {
	f := fault.From(err)
	if f.Code == fault.ConnectionLost || f.Code == fault.UpstreamTimeout {
		return fault.Wrap(err, fault.UpstreamUnavailable, "%s", f.Message).WithHint("nothing ran; try again")
	}
	return err
}

// transportOnly keeps an upstream's own errors from the breaker.
func transportOnly(err error) error {
	var f *fault.Error
	if errors.Is(err, errAnswered) || fenced(err) {
		return nil
	}
	if errors.As(err, &f) && f.Code != fault.ConnectionLost && f.Code != fault.UpstreamTimeout && f.Code != fault.UpstreamUnavailable {
		return nil
	}
	return err
}

func (u *Upstream) forgetSession(key SessionKey, s *session) {
	u.sessions.mu.Lock()
	defer u.sessions.mu.Unlock()
	if u.sessions.byKey[key] == s {
		delete(u.sessions.byKey, key)
	}
}

// heal replaces a wire session that the upstream forgot. Of several callers
// one makes the handshake; the others get its outcome.
func (s *session) heal(ctx context.Context, old *wireSession) (*wireSession, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.current(); now != old {
		return now, nil
	}
	w, err := s.u.initialize(ctx, s.key.Caps)
	if err != nil {
		// That a caller hung up meanwhile says nothing of the upstream.
		if ctx.Err() == nil || errors.Is(context.Cause(ctx), errDeadline) {
			s.u.forgetEra()
		}
		return nil, nothingRan(err)
	}
	s.level = ""
	w = s.u.remember(ctx, s.key, w, old.generation)
	s.live.Store(w)
	s.u.o.Log.Info("session made anew after the upstream forgot it", "upstream", s.u.o.Key)
	s.u.watchers.news()
	return w, nil
}

// ensureLevel sets the session's log level when it differs and the upstream logs.
func (s *session) ensureLevel(ctx context.Context, level string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.level == level || !hasMember(s.current().init.Capabilities, "logging") {
		return nil
	}
	id := s.u.nextID(nil)
	body := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	body = append(body, `,"method":"logging/setLevel","params":{"level":"`+level+`"}}`...)
	live := s.current()
	a := newAnswer(ctx, s.u, s.u.o.ProbeTimeout)
	defer a.Close()
	h := head{session: live.id, version: live.version()}
	resp, err := s.u.message(a.ctx, http.MethodPost, body, &h)
	if err == nil {
		err = a.read(&s.link, &Request{Method: mcp.SetLevel, ID: id}, resp, &h)
	}
	if err != nil {
		s.u.o.Log.Warn("log level not set", "upstream", s.u.o.Key, "error", err)
		return nil // the call itself does not depend on it
	}
	s.level = level
	return nil
}

// EndSession ends the session of exactly one key, if there is one here or in
// the Keep, and tells the upstream in the background.
func (u *Upstream) EndSession(key SessionKey) {
	if u.child != nil {
		u.child.privates.end(key)
		return
	}
	u.sessions.mu.Lock()
	s := u.sessions.byKey[key]
	delete(u.sessions.byKey, key)
	u.sessions.mu.Unlock()
	if s == nil && u.o.Keep == nil {
		return
	}
	u.background(func() {
		ctx, cancel := context.WithTimeout(u.ctx, 5*time.Second)
		defer cancel()
		if s != nil {
			u.hangUp(ctx, s)
			return
		}
		ctx = u.onBehalf(ctx, &key)
		if w := u.kept(ctx, key); w != nil {
			u.delete(ctx, w)
			u.drop(ctx, key, w)
		}
	})
}

// endSessions ends every session that matches, at most 32 at a time.
func (u *Upstream) endSessions(ctx context.Context, match func(SessionKey) bool) {
	if u.child != nil {
		u.child.privates.endAll(match)
		return
	}
	var ended []*session
	u.sessions.mu.Lock()
	for k, s := range u.sessions.byKey {
		if match(k) {
			ended = append(ended, s)
			delete(u.sessions.byKey, k)
		}
	}
	u.sessions.mu.Unlock()
	if w := u.spare.Swap(nil); w != nil && ctx.Err() == nil {
		u.delete(ctx, w)
	}
	var wg sync.WaitGroup
	gate := make(chan struct{}, 32)
	for _, s := range ended {
		gate <- struct{}{}
		wg.Go(func() {
			defer func() { <-gate }()
			u.hangUp(ctx, s)
		})
	}
	wg.Wait()
}

func (u *Upstream) hangUp(ctx context.Context, s *session) {
	select {
	case <-s.ready:
	case <-ctx.Done():
		return
	}
	ctx = u.onBehalf(ctx, &s.key)
	if w := s.current(); w != nil {
		u.delete(ctx, w)
		u.drop(ctx, s.key, w)
	}
}

// delete tells the upstream that a session is over. It is a courtesy: an
// upstream that does not allow it answers 405 (checklist 132).
func (u *Upstream) delete(ctx context.Context, w *wireSession) {
	if w.id == "" {
		return
	}
	resp, err := u.message(ctx, http.MethodDelete, nil, &head{session: w.id, version: w.version()})
	if err != nil {
		u.o.Log.Debug("session not ended at the upstream", "upstream", u.o.Key, "error", err)
		return
	}
	drain(resp.body)
}

// sweep ends sessions that were not used for the idle time. One that is kept is
// only let go of here: another instance may be using it, and it ends when the
// Keep sees no use of it any more.
func (u *Upstream) sweep(now time.Time) {
	if u.child != nil {
		u.child.privates.sweep(now.Add(-u.o.IdleSession))
		return
	}
	limit := now.Add(-u.o.IdleSession).UnixNano()
	var idle []SessionKey
	u.sessions.mu.Lock()
	for k, s := range u.sessions.byKey {
		if s.watched.Load() > 0 {
			s.lastUsed.Store(now.UnixNano())
		}
		if s.lastUsed.Load() >= limit {
			continue
		}
		if w := s.current(); w != nil && w.generation > 0 {
			delete(u.sessions.byKey, k)
			continue
		}
		idle = append(idle, k)
	}
	u.sessions.mu.Unlock()
	for _, k := range idle {
		u.EndSession(k)
	}
}

// EndKept tells the upstream that a session is over which the Keep has given up.
func (u *Upstream) EndKept(id string, rev mcp.Revision) {
	u.background(func() {
		ctx, cancel := context.WithTimeout(u.ctx, 5*time.Second)
		defer cancel()
		u.delete(ctx, &wireSession{id: id, init: Info{Revision: rev}})
	})
}
