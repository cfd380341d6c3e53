package durable

import (
	"context"
	"sync"
)

// routeLocks let one lifecycle request of a route be under way at a time in this
// process. They save work, and keep a poll from racing a cancel; what is true is
// decided by the store.
type routeLocks struct {
	mu   sync.Mutex // guards held
	held map[string]*routeLock
}

type routeLock struct {
	turn    chan struct{} // holds one token while nobody has the lock
	waiting int           // who has it or waits for it; guarded by routeLocks.mu
}

// lock waits for the route, and returns what gives it free.
func (l *routeLocks) lock(ctx context.Context, id string) (unlock func(), err error) {
	l.mu.Lock()
	if l.held == nil {
		l.held = make(map[string]*routeLock)
	}
	one := l.held[id]
	if one == nil {
		one = &routeLock{turn: make(chan struct{}, 1)}
		one.turn <- struct{}{}
		l.held[id] = one
	}
	one.waiting++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if one.waiting--; one.waiting == 0 {
			delete(l.held, id)
		}
	}
	select {
	case <-one.turn:
		return func() { one.turn <- struct{}{}; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
