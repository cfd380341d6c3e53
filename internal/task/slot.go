package task

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/penstock-mcp/penstock/internal/store"
)

// Why no task is offered to an upstream.
var (
	// ErrNoSlot is a bound on records that is reached.
	ErrNoSlot = errors.New("task: no more tasks can be remembered")
	// ErrNoStore is a store that cannot commit now, or could not a moment ago.
	ErrNoStore = errors.New("task: the store cannot remember a task now")
)

// Limits are the bounds on records. They bind within a process and within the
// store; slots of calls under way count in the process.
type Limits struct{ All, PerPrincipal int }

// Slot is the room for one task that a call may mint. Release is called once,
// after the mint or the end of the call.
type Slot struct {
	x         *Index
	principal [32]byte
	once      sync.Once
}

// Reserve makes room for one task of a principal, or returns ErrNoSlot or
// ErrNoStore. It does not write.
func (x *Index) Reserve(ctx context.Context, principal [32]byte, l Limits) (*Slot, error) {
	if x.o.Now().UnixNano() < x.broken.Load() {
		return nil, ErrNoStore
	}
	own, all, err := x.counts.of(ctx, x.o.Store, principal, x.o.Now())
	if err != nil {
		x.noteBroken(err)
		return nil, fmt.Errorf("%w: %w", ErrNoStore, err)
	}
	x.reserve.Lock()
	defer x.reserve.Unlock()
	if own+x.slots[principal] >= l.PerPrincipal || all+x.all >= l.All {
		return nil, ErrNoSlot
	}
	x.slots[principal]++
	x.all++
	return &Slot{x: x, principal: principal}, nil
}

// Release gives the room back. It may be called on nil, and again.
func (s *Slot) Release() {
	if s == nil {
		return
	}
	s.once.Do(func() {
		x := s.x
		x.reserve.Lock()
		defer x.reserve.Unlock()
		x.all--
		if x.slots[s.principal]--; x.slots[s.principal] == 0 {
			delete(x.slots, s.principal)
		}
	})
}

// noteBroken keeps tasks from being offered for a moment.
func (x *Index) noteBroken(err error) {
	if !errors.Is(err, context.Canceled) {
		x.broken.Store(x.o.Now().Add(brokenFor).UnixNano())
	}
}

const (
	countsFor  = time.Second // how long a count is good
	maxCounted = 4096        // principals
)

// counts remembers how many records there are, so that a call does not ask.
type counts struct {
	mu sync.Mutex // guards by; not held while asking
	by map[[32]byte]count
}

type count struct {
	own, all int
	until    time.Time
}

func (c *counts) of(ctx context.Context, s store.Tasks, principal [32]byte, now time.Time) (own, all int, err error) {
	c.mu.Lock()
	n, ok := c.by[principal]
	c.mu.Unlock()
	if ok && now.Before(n.until) {
		return n.own, n.all, nil
	}
	if own, all, err = s.Count(ctx, principal); err != nil {
		return 0, 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil || len(c.by) >= maxCounted {
		c.by = map[[32]byte]count{}
	}
	c.by[principal] = count{own, all, now.Add(countsFor)}
	return own, all, nil
}

// minted counts a record that was just made.
func (c *counts) minted(principal [32]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n, ok := c.by[principal]; ok {
		n.own++
		n.all++
		c.by[principal] = n
	}
}
