package task

import (
	"context"
	"sync"
	"time"
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
	done    chan struct{}
	answer  any
	err     error
	waiting int
	cancel  context.CancelFunc
}

// Do returns what ask returns, asked once for all who come while it is under way.
// The call ends when all of them have left, or after the given time; each leaves
// when its own ctx ends. shared tells whether others got the same.
func (f *Flights) Do(ctx context.Context, k FlightKey, most time.Duration, ask func(ctx context.Context) (any, error)) (answer any, shared bool, err error) {
	f.mu.Lock()
	fl := f.flying[k]
	mine := fl == nil
	if mine {
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), most)
		fl = &flight{done: make(chan struct{}), cancel: cancel}
		if f.flying == nil {
			f.flying = map[FlightKey]*flight{}
		}
		f.flying[k] = fl
		go f.fly(within, k, fl, ask)
	}
	fl.waiting++
	f.mu.Unlock()
	select {
	case <-fl.done:
		return fl.answer, !mine, fl.err
	case <-ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl.waiting--; fl.waiting == 0 {
		fl.cancel()
		f.closeLocked(k, fl)
	}
	return nil, false, context.Cause(ctx)
}

func (f *Flights) fly(ctx context.Context, k FlightKey, fl *flight, ask func(context.Context) (any, error)) {
	defer fl.cancel()
	fl.answer, fl.err = ask(ctx)
	f.mu.Lock()
	f.closeLocked(k, fl)
	f.mu.Unlock()
	close(fl.done)
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
