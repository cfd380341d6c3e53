package gateway

import (
	"context"
	"log/slog"
	"sync"
)

// engine runs what a room does behind requests, from the first start until it is
// stopped. It may outlive the gateway that made it, when the successor keeps the
// room.
type engine struct {
	name string
	run  func(context.Context) error
	log  *slog.Logger

	mu   sync.Mutex // guards what follows
	stop context.CancelFunc
	done chan struct{} // nil: not started
	over bool
}

func newEngine(name string, log *slog.Logger, run func(context.Context) error) *engine {
	return &engine{name: name, run: run, log: log}
}

// start begins, unless that happened before. It may be called on nil.
func (e *engine) start() {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.done != nil || e.over {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	e.stop, e.done = stop, done
	go func() {
		defer close(done)
		if err := e.run(ctx); err != nil && ctx.Err() == nil {
			e.log.Error(e.name+" ended", "error", err)
		}
	}()
}

// end stops, and waits as long as ctx allows. It may be called on nil, and again.
func (e *engine) end(ctx context.Context) {
	if e == nil {
		return
	}
	e.mu.Lock()
	stop, done := e.stop, e.done
	e.over = true
	e.mu.Unlock()
	if done == nil {
		return
	}
	stop()
	select {
	case <-done:
	case <-ctx.Done():
	}
}
