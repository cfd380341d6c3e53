package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// sample is what one run of one cell over one hop measured. A figure that the
// cell does not have is absent.
type sample struct {
	Values map[figure]float64 `json:"values"` // times in ns, memory in bytes
	N      int                `json:"n"`      // operations
	P50    int64              `json:"p50_ns,omitzero"`
	P99    int64              `json:"p99_ns,omitzero"`
	Rate   float64            `json:"per_second,omitzero"`
	Others float64            `json:"other_cores"` // that processes outside this run kept busy meanwhile
}

// runner runs cells over hops in front of one upstream process.
type runner struct {
	upstream *child
	settle   time.Duration // how long memory is left alone before it is read
}

// run starts a fresh process of the hop, so that no run inherits the memory or
// the connections of another, and measures one cell over it.
func (r *runner) run(ctx context.Context, c *cell, h *hop) (s *sample, err error) {
	if r.upstream.ended() {
		return nil, r.upstream.stop()
	}
	argv, err := h.argv(c, r.upstream.base)
	if err != nil {
		return nil, err
	}
	if c.task == starts {
		return r.starts(ctx, c, h, argv)
	}
	process, err := start(ctx, h.name, argv...)
	if err != nil {
		return nil, err
	}
	defer func() {
		if stopped := process.stop(); stopped != nil {
			s, err = nil, errors.Join(err, stopped)
		}
	}()
	switch c.task {
	case sessions:
		s, err = r.sessions(ctx, c, h, process)
	case polls:
		s, err = r.polls(ctx, c, h, process)
	default:
		s, err = r.load(ctx, c, h, process)
	}
	if said := process.output.String(); err != nil && said != "" {
		err = fmt.Errorf("%w\n%s said: %s", err, h.name, said)
	}
	return s, err
}

// load measures many operations of a crowd.
func (r *runner) load(ctx context.Context, c *cell, h *hop, process *child) (*sample, error) {
	all, err := gather(ctx, c.clients, process.base+h.path(c), c.client)
	if err != nil {
		return nil, err
	}
	defer all.close()
	do := operation(c, h)
	// Warm: every client once, for the strict look at its first answer, then a
	// tenth of the load, for connections, buffers and caches.
	if err := all.each(func(_ int, client *client) error { return do(client) }); err != nil {
		return nil, err
	}
	if _, err := all.share(ctx, c.n/10, do); err != nil {
		return nil, err
	}
	m, err := newMeter(process.pid(), r.upstream.pid())
	if err != nil {
		return nil, err
	}
	took, err := all.share(ctx, c.n, do)
	if err != nil {
		return nil, err
	}
	used, passed, others, err := m.stop()
	if err != nil {
		return nil, err
	}
	most, err := memoryOf(process.pid(), "VmHWM")
	if err != nil {
		return nil, err
	}
	perOperation := cpu
	if c.task == lists {
		perOperation = walkCPU
	}
	return &sample{
		Values: map[figure]float64{perOperation: float64(used) / float64(len(took)), peak: float64(most)},
		N:      len(took), P50: int64(quantile(took, 0.5)), P99: int64(quantile(took, 0.99)),
		Rate: float64(len(took)) / passed.Seconds(), Others: others,
	}, nil
}

// operation is what a client of the cell does again and again.
func operation(c *cell, h *hop) func(*client) error {
	if c.task == lists {
		want := h.offered(c)
		return func(client *client) error { return client.list(want) }
	}
	name := h.tool(0, 0)
	return func(client *client) error { return client.call(name, c.form, c.size) }
}

// sessions measures what sessions that do nothing keep in memory.
func (r *runner) sessions(ctx context.Context, c *cell, h *hop, process *child) (*sample, error) {
	do := operation(c, h)
	m, err := newMeter(process.pid(), r.upstream.pid())
	if err != nil {
		return nil, err
	}
	// The first session pays for what is made once.
	open := func(n int) (crowd, int64, error) {
		all, err := gather(ctx, n, process.base+h.path(c), c.client)
		if err != nil {
			return nil, 0, err
		}
		for _, client := range all {
			if err := do(client); err != nil {
				return all, 0, err
			}
		}
		if err := pause(ctx, r.settle); err != nil {
			return all, 0, err
		}
		resident, err := memoryOf(process.pid(), "VmRSS")
		return all, resident, err
	}
	first, before, err := open(1)
	defer first.close()
	if err != nil {
		return nil, err
	}
	rest, after, err := open(c.clients)
	defer rest.close()
	if err != nil {
		return nil, err
	}
	_, _, others, err := m.stop()
	if err != nil {
		return nil, err
	}
	return &sample{
		Values: map[figure]float64{held: float64(after-before) / float64(len(rest))},
		N:      len(rest), Others: others,
	}, nil
}

// starts measures the time from the start of the process to the first answer
// that a client got from an upstream; the median of c.n starts.
func (r *runner) starts(ctx context.Context, c *cell, h *hop, argv []string) (*sample, error) {
	do := operation(c, h)
	var took []float64
	for range c.n {
		begin := time.Now()
		process, err := start(ctx, h.name, argv...)
		if err != nil {
			return nil, err
		}
		err = firstAnswer(ctx, process.base+h.path(c), c.client, do)
		took = append(took, float64(time.Since(begin)))
		if err = errors.Join(err, process.stop()); err != nil {
			return nil, err
		}
	}
	return &sample{Values: map[figure]float64{ready: median(took)}, N: len(took)}, nil
}

func firstAnswer(ctx context.Context, endpoint string, e era, do func(*client) error) error {
	c, err := connect(ctx, endpoint, e)
	if err != nil {
		return fmt.Errorf("first client: %w", err)
	}
	defer c.close()
	return do(c)
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
