package grant

import (
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
)

// renewEvery is how often a key may be renewed ahead at most, and how often anew
// because the upstream refused its token.
const renewEvery = time.Second

// slot is what is known under one key. The zero value is ready; it is safe for
// concurrent use.
type slot struct {
	now     atomic.Pointer[held]    // the current token; nil: none. Written with mu held
	failed  atomic.Pointer[setback] // the last failure; nil: none since the last token
	flights singleflight.Group      // of one key, ""
	ahead   atomic.Int64            // Unix nanoseconds before which no renewal begins

	mu     sync.Mutex // guards what follows, and the writing of now
	again  bool       // the next request comes of a refusal by the upstream
	forced time.Time  // when the last such request was made
}

// setback is a failure that is answered from memory for a while.
type setback struct {
	err   error
	until time.Time
}

// setBack returns the failure that still stands.
func (s *slot) setBack(now time.Time) error {
	if f := s.failed.Load(); f != nil && now.Before(f.until) {
		return f.err
	}
	return nil
}

// good returns the token that can be used now.
func (s *slot) good(now time.Time) *held {
	if h := s.now.Load(); h != nil && now.Before(h.until) {
		return h
	}
	return nil
}

// mayRenew allows one renewal ahead; not again for a while.
func (s *slot) mayRenew(now time.Time) bool {
	at, n := s.ahead.Load(), now.UnixNano()
	return n >= at && s.setBack(now) == nil && s.ahead.CompareAndSwap(at, n+int64(renewEvery))
}

// mayAsk allows one request. When the token before was refused by the upstream
// and so was, a moment ago, the one before that, it tells how long to wait.
func (s *slot) mayAsk(now time.Time) (wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.again {
		return 0
	}
	if wait = s.forced.Add(renewEvery).Sub(now); wait > 0 {
		return wait
	}
	s.again, s.forced = false, now
	return 0
}

// keep puts a new token in place, unless it is for one use only.
func (s *slot) keep(h *held, now time.Time) {
	s.failed.Store(nil)
	if !now.Before(h.until) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.Store(h)
	s.again = false
}

// refused forgets the token if it is still the current one: a late refusal of an
// old token leaves the newer one alone.
func (s *slot) refused(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.now.Load(); h != nil && h.token == token {
		s.now.Store(nil)
		s.again = true
	}
}

// drop forgets the token.
func (s *slot) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.Store(nil)
}
