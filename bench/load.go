package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// crowd is a number of clients of one endpoint that work at the same time.
type crowd []*client

// gather connects n clients, one after the other. The caller closes the crowd.
func gather(ctx context.Context, n int, endpoint string, e era) (crowd, error) {
	all := make(crowd, 0, n)
	for range n {
		c, err := connect(ctx, endpoint, e)
		if err != nil {
			all.close()
			return nil, fmt.Errorf("client %d: %w", len(all)+1, err)
		}
		all = append(all, c)
	}
	return all, nil
}

func (all crowd) close() {
	for _, c := range all {
		c.close()
	}
}

// each runs do for every client at the same time and returns every failure.
func (all crowd) each(do func(i int, c *client) error) error {
	errs := make([]error, len(all))
	var done sync.WaitGroup
	for i, c := range all {
		done.Go(func() { errs[i] = do(i, c) })
	}
	done.Wait()
	return errors.Join(errs...)
}

// share lets the clients do n operations between them, as fast as each gets its
// answers, and returns how long each operation took, shortest first. It ends
// early when one fails or ctx ends.
func (all crowd) share(ctx context.Context, n int, do func(*client) error) ([]time.Duration, error) {
	var left atomic.Int64
	var failed atomic.Bool
	left.Store(int64(n))
	took := make([][]time.Duration, len(all))
	err := all.each(func(i int, c *client) error {
		for !failed.Load() && left.Add(-1) >= 0 {
			begin := time.Now()
			err := do(c)
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				failed.Store(true)
				return err
			}
			took[i] = append(took[i], time.Since(begin))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	sorted := slices.Concat(took...)
	slices.Sort(sorted)
	return sorted, nil
}

// quantile returns the value below which the share q of sorted lies; sorted
// must not be empty.
func quantile(sorted []time.Duration, q float64) time.Duration {
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}
