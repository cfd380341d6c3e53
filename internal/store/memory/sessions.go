// Package memory keeps records in the process. Nothing of it survives a restart.
package memory

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-mcp/penstock/internal/store"
)

// shards keep one session's request from waiting for another's.
const shards = 64

// Sessions implements store.Sessions.
type Sessions struct {
	seed   maphash.Seed
	now    func() time.Time
	idle   time.Duration
	max    int
	maxFor int
	total  atomic.Int64
	shard  [shards]shard

	mu   sync.Mutex // guards each
	each map[[32]byte]int
}

type shard struct {
	mu   sync.RWMutex // guards byID
	byID map[string]*entry
}

type entry struct {
	record   atomic.Pointer[store.Session]
	lastUsed atomic.Int64 // Unix nanoseconds
}

// NewSessions returns an empty repository that holds at most max records,
// maxFor of one principal, each until it was idle for the given time.
func NewSessions(max, maxFor int, idle time.Duration, now func() time.Time) *Sessions {
	s := &Sessions{seed: maphash.MakeSeed(), now: now, idle: idle, max: max, maxFor: maxFor, each: map[[32]byte]int{}}
	for i := range s.shard {
		s.shard[i].byID = map[string]*entry{}
	}
	return s
}

func (s *Sessions) of(id string) *shard {
	return &s.shard[maphash.String(s.seed, id)%shards]
}

// Create implements store.Sessions.
func (s *Sessions) Create(_ context.Context, r *store.Session) error {
	if s.total.Add(1) > int64(s.max) {
		s.total.Add(-1)
		return store.ErrFull
	}
	s.mu.Lock()
	if s.each[r.Principal] >= s.maxFor {
		s.mu.Unlock()
		s.total.Add(-1)
		return store.ErrFullFor
	}
	s.each[r.Principal]++
	s.mu.Unlock()
	e := &entry{}
	c := *r
	e.record.Store(&c)
	e.lastUsed.Store(s.now().UnixNano())
	h := s.of(r.ID)
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, taken := h.byID[r.ID]; taken {
		s.uncount(r.Principal)
		return store.ErrConflict
	}
	h.byID[r.ID] = e
	return nil
}

func (s *Sessions) uncount(p [32]byte) {
	s.total.Add(-1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.each[p]--; s.each[p] <= 0 {
		delete(s.each, p)
	}
}

func (s *Sessions) find(id string) *entry {
	h := s.of(id)
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.byID[id]
}

// Get implements store.Sessions.
func (s *Sessions) Get(_ context.Context, id string) (*store.Session, error) {
	e := s.find(id)
	now := s.now().UnixNano()
	if e == nil || now-e.lastUsed.Load() > int64(s.idle) {
		return nil, store.ErrNotFound
	}
	e.lastUsed.Store(now)
	return e.record.Load(), nil
}

// Update implements store.Sessions.
func (s *Sessions) Update(_ context.Context, r *store.Session) (*store.Session, error) {
	e := s.find(r.ID)
	if e == nil {
		return nil, store.ErrNotFound
	}
	old := e.record.Load()
	if old.Generation != r.Generation {
		return nil, store.ErrConflict
	}
	c := *r
	c.Generation++
	if !e.record.CompareAndSwap(old, &c) {
		return nil, store.ErrConflict
	}
	return &c, nil
}

// Delete implements store.Sessions.
func (s *Sessions) Delete(_ context.Context, id string) error {
	h := s.of(id)
	h.mu.Lock()
	e := h.byID[id]
	delete(h.byID, id)
	h.mu.Unlock()
	if e == nil {
		return store.ErrNotFound
	}
	s.uncount(e.record.Load().Principal)
	return nil
}

// Expire implements store.Sessions.
func (s *Sessions) Expire(ctx context.Context, t time.Time) ([]*store.Session, error) {
	limit := t.UnixNano()
	var gone []*store.Session
	for i := range s.shard {
		h := &s.shard[i]
		h.mu.Lock()
		for id, e := range h.byID {
			if e.lastUsed.Load() < limit {
				delete(h.byID, id)
				gone = append(gone, e.record.Load())
			}
		}
		h.mu.Unlock()
	}
	for _, r := range gone {
		s.uncount(r.Principal)
	}
	return gone, ctx.Err()
}

// Len implements store.Sessions.
func (s *Sessions) Len(context.Context) (int, error) { return int(s.total.Load()), nil }
