package task

import (
	"container/list"
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"time"
)

// VigilKey says whose task a Vigil is of.
type VigilKey struct {
	Server          string // virtual server
	Hash, Principal [32]byte
}

// VigilOptions are what Vigils needs of its surroundings.
type VigilOptions struct {
	// Stir has the listeners of a task look at it. False: there are none any more.
	Stir func(k FollowKey, id string) bool
}

// Bounds on what is kept of tasks of legacy upstreams.
const (
	maxVigils  = 8192
	maxWaits   = 1024 // tasks whose result is waited for, of all principals
	maxWaitsOf = 128  // of one
	maxKept    = 32 << 20
)

// Vigils holds what this process keeps of the tasks of legacy upstreams that modern
// clients have. It outlives the document that it was made under. It is bounded; what
// makes way is asked for again. It is safe for concurrent use.
type Vigils struct {
	o VigilOptions

	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup // waits, and what they lead to

	mu      sync.Mutex // guards what follows, and all of Vigil; nothing waits under it
	by      map[VigilKey]*list.Element
	order   *list.List // of *Vigil; the last used is first
	kept    int        // bytes
	waits   int
	waitsOf map[[32]byte]int
	closed  bool
}

// NewVigils returns an empty one.
func NewVigils(o VigilOptions) *Vigils {
	s := &Vigils{o: o, by: map[VigilKey]*list.Element{}, order: list.New(), waitsOf: map[[32]byte]int{}}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// Of returns what is kept of a task.
func (s *Vigils) Of(k VigilKey) *Vigil {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.by[k]; e != nil {
		s.order.MoveToFront(e)
		return e.Value.(*Vigil)
	}
	v := &Vigil{s: s, key: k, short: "q" + strings.ToLower(rand.Text()[:8]), changed: make(chan struct{})}
	s.by[k] = s.order.PushFront(v)
	for e := s.order.Back(); len(s.by) > maxVigils && e != nil; {
		before := e.Prev()
		if old := e.Value.(*Vigil); old.waiting == nil && old != v {
			s.forget(old)
		}
		e = before
	}
	return v
}

// Forget ends what is kept of a task.
func (s *Vigils) Forget(v *Vigil) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(v)
}

// forget is Forget with mu held.
func (s *Vigils) forget(v *Vigil) {
	if v.gone {
		return
	}
	v.close(func(*posed) bool { return true })
	v.gone = true
	if v.waiting != nil {
		v.waiting()
	}
	s.kept -= v.size
	v.size = 0
	if e := s.by[v.key]; e != nil && e.Value == v {
		s.order.Remove(e)
		delete(s.by, v.key)
	}
}

// weigh counts what a Vigil keeps, and has others let go where that is too much. mu is
// held.
func (s *Vigils) weigh(v *Vigil) {
	s.kept -= v.size
	v.size = len(v.outcome) + len(v.ended)
	s.kept += v.size
	for e := s.order.Back(); s.kept > maxKept && e != nil; e = e.Prev() {
		old := e.Value.(*Vigil)
		s.kept -= old.size
		old.size, old.outcome, old.ended = 0, nil, nil
	}
}

// EndFor ends the waits at upstreams that match.
func (s *Vigils) EndFor(match func(upstream any) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.by {
		if v := e.Value.(*Vigil); v.waiting != nil && match(v.upstream) {
			v.waiting()
			v.fails, v.again = 0, time.Time{}
		}
	}
}

// Close ends every wait, and returns when nothing runs any more.
func (s *Vigils) Close() {
	s.mu.Lock()
	s.closed = true
	for _, e := range s.by {
		for _, p := range e.Value.(*Vigil).open {
			p.over.Stop()
		}
	}
	s.stop()
	s.mu.Unlock()
	s.work.Wait()
}

// State tells of how many tasks something is kept, and how many are waited for.
func (s *Vigils) State() (kept, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.by), s.waits
}
