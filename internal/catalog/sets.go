package catalog

import (
	"crypto/sha256"
	"sync"
)

// sets shares equal lists between principals and between fetches, and knows
// how many bytes all of them hold.
type sets struct {
	mu    sync.Mutex // guards all below
	held  map[[sha256.Size]byte]*heldSet
	bytes int64
}

type heldSet struct {
	set  *itemSet
	refs int
}

// find returns a set that somebody holds, or nil.
func (s *sets) find(digest [sha256.Size]byte) *itemSet {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.held[digest]; h != nil {
		return h.set
	}
	return nil
}

// swap counts one holder more of next and one less of old; either may be nil.
// It returns the set to hold instead of next, an equal one, and all bytes held.
func (s *sets) swap(old, next *itemSet) (*itemSet, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if next != nil {
		h := s.held[next.digest]
		if h == nil {
			h = &heldSet{set: next}
			if s.held == nil {
				s.held = make(map[[sha256.Size]byte]*heldSet)
			}
			s.held[next.digest] = h
			s.bytes += next.bytes
		}
		h.refs++
		next = h.set
	}
	if old != nil {
		if h := s.held[old.digest]; h != nil {
			if h.refs--; h.refs == 0 {
				delete(s.held, old.digest)
				s.bytes -= old.bytes
			}
		}
	}
	return next, s.bytes
}
