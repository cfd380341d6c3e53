package south

import (
	"context"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// sweepEvery is how often idle sessions are looked for.
const sweepEvery = time.Minute

// Start keeps the upstream known until Close; it may be called again.
func (u *Upstream) Start() {
	u.started.Do(func() {
		u.probing.Lock()
		defer u.probing.Unlock()
		if u.ctx.Err() == nil {
			u.work.Go(func() { u.Run(u.ctx) })
		}
	})
}

// Run keeps the upstream known: it probes at once, again with backoff while
// that fails or while the breaker is open, and ends idle sessions. It returns
// when ctx ends.
func (u *Upstream) Run(ctx context.Context) {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.Multiplier = 500*time.Millisecond, 5*time.Second, 2
	sweep := time.NewTicker(min(sweepEvery, max(u.o.IdleSession/4, time.Second)))
	defer sweep.Stop()
	swept := time.Now()
	again := time.NewTimer(0)
	defer again.Stop()
	due := true // again is set: the next look comes by itself
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-sweep.C:
			u.touch(ctx, swept)
			swept = now
			u.sweep(now)
			continue
		case <-u.kick:
			// However many calls ask for it, a failing upstream is looked at no more often.
			if due || !u.wanting() {
				continue
			}
		case <-again.C:
			due = false
		}
		if !u.wanting() {
			continue
		}
		if err := u.revive(ctx); err == nil {
			b.Reset()
			continue
		}
		due = true
		if u.child != nil {
			again.Reset(0) // a child paces its own starts
			continue
		}
		again.Reset(b.NextBackOff())
	}
}

// wanting reports whether the upstream is unknown or not called for its faults.
func (u *Upstream) wanting() bool { return !u.known() || u.breaker.open() }

// known reports whether the upstream has been reached and, for a child, runs.
func (u *Upstream) known() bool {
	return u.info.Load() != nil && (u.child == nil || u.child.current() != nil)
}

// wake asks Run to look at the upstream soon. It never blocks.
func (u *Upstream) wake() {
	select {
	case u.kick <- struct{}{}:
	default:
	}
}

func (u *Upstream) revive(ctx context.Context) error {
	if !u.known() {
		_, err := u.connect(ctx)
		if err != nil {
			u.oddities.Say(u.o.Log, slog.LevelWarn, "upstream not reached", "upstream", u.o.Key, "error", err)
		}
		return err
	}
	var err error
	if u.child != nil {
		err = u.child.check(ctx)
	} else {
		err = u.probe(ctx)
	}
	if err == nil {
		u.o.Log.Info("upstream is back", "upstream", u.o.Key)
	}
	return err
}
