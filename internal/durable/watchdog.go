package durable

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Run says that this instance lives, sweeps what has expired and, where it is
// on, is the watchdog. It returns when ctx ends.
func (c *Coordinator) Run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	if c.o.Shared {
		all.Go(func() { c.every(ctx, beatEvery, func() { c.note(c.beat(ctx), "heartbeat not written") }) })
	}
	if c.o.Watchdog {
		all.Go(func() { c.every(ctx, watchEvery, func() { c.watch(ctx) }) })
	}
	c.every(ctx, sweepEvery, func() { c.sweep(ctx) })
}

func (c *Coordinator) every(ctx context.Context, d time.Duration, do func()) {
	t := time.NewTicker(d)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			do()
		}
	}
}

func (c *Coordinator) note(err error, what string) {
	if err != nil {
		c.o.Log.Warn("durable tasks: "+what, "error", err)
	}
}

// beat tells the other instances that this one lives.
func (c *Coordinator) beat(ctx context.Context) error {
	c.beats.Lock()
	defer c.beats.Unlock()
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, lifecycleTime)
	defer cancel()
	if err := c.o.Routes.Beat(ctx, c.o.Instance, beatValid); err != nil {
		return err
	}
	c.beaten.Store(began.Add(beatValid).UnixNano())
	return nil
}

// safe tells whether others take this instance for alive, and will a while yet.
func (c *Coordinator) safe() bool {
	return !c.o.Shared || time.Now().Add(beatMargin).UnixNano() < c.beaten.Load()
}

// alive sees to it that safe holds before something is claimed.
func (c *Coordinator) alive(ctx context.Context) error {
	if c.safe() {
		return nil
	}
	if err := c.beat(ctx); err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	return nil
}

// sweep removes what has expired, in bounded bites.
func (c *Coordinator) sweep(ctx context.Context) {
	now, err := c.clock()
	if err != nil {
		c.note(err, "nothing swept")
		return
	}
	for ctx.Err() == nil {
		n, err := c.o.Routes.Expire(ctx, now, purgeBatch)
		if err != nil {
			c.note(err, "expired routes not removed")
			break
		}
		if n < purgeBatch {
			break
		}
	}
	for ctx.Err() == nil {
		n, err := c.o.Leases.Expire(ctx, now.Add(-keptLease), purgeBatch)
		if err != nil {
			c.note(err, "expired leases not removed")
			break
		}
		if n < purgeBatch {
			break
		}
	}
}

// due is when the watchdog looks at a route: at its cutoff, and while a
// cancellation is under way with growing pauses.
func (c *Coordinator) due(r *Route) int64 {
	switch r.Phase {
	case Terminal:
		return 0
	case CancelRequested:
		if r.UpstreamTask == "" {
			return 0
		}
		return r.Updated + min(int64(1000)<<min(r.Cancels, 5), 30_000)
	case Reconciliation:
		if r.UpstreamTask == "" {
			return 0
		}
	}
	return max(r.Cutoff, r.Updated)
}

// watch looks at the routes whose time has come, as a poll of their caller would.
func (c *Coordinator) watch(ctx context.Context) {
	now, err := c.clock()
	if err != nil {
		c.note(err, "no route watched")
		return
	}
	rows, err := c.o.Routes.Due(ctx, now, watchBatch)
	if err != nil {
		c.note(err, "due routes not read")
		return
	}
	var all sync.WaitGroup
	defer all.Wait()
	slots := make(chan struct{}, 8)
	for _, row := range rows {
		r, err := readRoute(row)
		if err != nil {
			c.note(err, "a due route is not usable")
			continue
		}
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			c.note(c.attend(ctx, r), "a due route not attended to")
		})
	}
}

// attend does for one due route what a poll would do, and says when to look
// again.
func (c *Coordinator) attend(ctx context.Context, r *Route) error {
	ctx, cancel := context.WithTimeout(ctx, 4*lifecycleTime)
	defer cancel()
	unlock, err := c.locks.lock(ctx, r.ID)
	if err != nil {
		return err
	}
	defer unlock()
	row, err := c.o.Routes.Get(ctx, r.ID)
	if err != nil {
		return err
	}
	if r, err = readRoute(row); err != nil {
		return err
	}
	now := c.o.Now()
	if r.Due == 0 || r.Due > now.UnixMilli() {
		return nil
	}
	before := r.Version
	if r, _, _, err = c.advance(ctx, r, now); err != nil {
		return err
	}
	switch {
	case r.Version != before || r.Phase == Terminal:
		return nil
	case r.Phase == CancelRequested:
		_, err = c.change(ctx, r, func(next *Route) bool {
			if next.Phase != CancelRequested {
				return false
			}
			next.Cancels++
			return true
		})
	case r.Phase == Reconciliation:
		// Its time is over and it cannot be reached: the wish to end it is durable,
		// and tried again.
		_, err = c.intend(ctx, r, "TASK_RUNTIME_BOUND_REACHED")
	}
	return err
}
