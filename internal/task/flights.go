package task

import (
	"context"
	"sync"
)

// Flights makes one upstream call of concurrent identical polls. It is safe for
// concurrent use; the zero value is ready.
type Flights struct {
	mu     sync.Mutex // guards flying; not held while a poll runs
	flying map[FlightKey]*flight
}

// FlightKey says which polls are identical (DESIGN section 9).
type FlightKey struct {
	Hash, Principal [32]byte
	Server, Method  string
	Modern          bool
	As              any // who asks, where not all of a principal may see the same; comparable
}

type flight struct {
	done   chan struct{} // closed when the call has ended
	answer any
	err    error
	left   bool // who made the call left, and there is no answer
}

// Do returns what ask returns, asked once for all who come while it is under way.
// shared tells whether others got the same.
//
// Who comes first makes the call, under its own ctx and on its own goroutine: a
// poll that nobody joins, as nearly all are, costs nothing else. When it leaves, one
// of those who waited makes another; a poll may be made twice. Each leaves when its
// own ctx ends.
func (f *Flights) Do(ctx context.Context, k FlightKey, ask func(ctx context.Context) (any, error)) (answer any, shared bool, err error) {
	for {
		f.mu.Lock()
		fl := f.flying[k]
		if fl == nil {
			fl = &flight{done: make(chan struct{}), left: true}
			if f.flying == nil {
				f.flying = map[FlightKey]*flight{}
			}
			f.flying[k] = fl
			f.mu.Unlock()
			f.fly(ctx, k, fl, ask)
			return fl.answer, false, fl.err
		}
		f.mu.Unlock()
		select {
		case <-fl.done:
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		}
		if !fl.left {
			return fl.answer, true, fl.err
		}
	}
}

// fly makes the call. Also when ask panics the others are told to ask themselves.
func (f *Flights) fly(ctx context.Context, k FlightKey, fl *flight, ask func(context.Context) (any, error)) {
	defer func() {
		f.mu.Lock()
		f.closeLocked(k, fl)
		f.mu.Unlock()
		close(fl.done)
	}()
	fl.answer, fl.err = ask(ctx)
	fl.left = fl.err != nil && ctx.Err() != nil
}

func (f *Flights) closeLocked(k FlightKey, fl *flight) {
	if f.flying[k] == fl {
		delete(f.flying, k)
	}
}

// Close lets nobody join the flights of a task any more: what they bring is older
// than the change that is about to be made.
func (f *Flights) Close(hash [32]byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for k := range f.flying {
		if k.Hash == hash {
			delete(f.flying, k)
		}
	}
}
