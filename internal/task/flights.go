package task

import (
	"context"
	"errors"
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

// errAbandoned is what others get of a call whose asker panicked.
var errAbandoned = errors.New("task: the call that this one waited for was abandoned")

// Do returns what ask returns, asked once for all who come while it is under way.
// The call ends when all of them have left, or after the given time. shared tells
// whether others got the same.
//
// Who comes first makes the call, on its own goroutine: a poll that nobody joins,
// as nearly all are, costs no other. When its ctx ends while others wait it
// stays for their sake until the call has its end; each of those leaves when its
// own ctx ends.
func (f *Flights) Do(ctx context.Context, k FlightKey, most time.Duration, ask func(ctx context.Context) (any, error)) (answer any, shared bool, err error) {
	f.mu.Lock()
	if fl := f.flying[k]; fl != nil {
		fl.waiting++
		f.mu.Unlock()
		select {
		case <-fl.done:
			return fl.answer, true, fl.err
		case <-ctx.Done():
			f.leave(k, fl)
			return nil, false, context.Cause(ctx)
		}
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), most)
	fl := &flight{done: make(chan struct{}), cancel: cancel, waiting: 1, err: errAbandoned}
	if f.flying == nil {
		f.flying = map[FlightKey]*flight{}
	}
	f.flying[k] = fl
	f.mu.Unlock()
	defer context.AfterFunc(ctx, func() { f.leave(k, fl) })()
	f.fly(within, k, fl, ask)
	if ctx.Err() != nil {
		return nil, false, context.Cause(ctx)
	}
	return fl.answer, false, fl.err
}

// leave is one less that waits; without any the call ends.
func (f *Flights) leave(k FlightKey, fl *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl.waiting--; fl.waiting == 0 {
		fl.cancel()
		f.closeLocked(k, fl)
	}
}

func (f *Flights) fly(ctx context.Context, k FlightKey, fl *flight, ask func(context.Context) (any, error)) {
	defer func() {
		fl.cancel()
		f.mu.Lock()
		f.closeLocked(k, fl)
		f.mu.Unlock()
		close(fl.done)
	}()
	fl.answer, fl.err = ask(ctx)
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
