package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

const (
	minters = 64  // clients that make the tasks which are then polled
	few     = 10  // tasks of the hop that many are compared with
	grown   = 1.1 // what a poll among many may cost of one among few
	turns   = 40  // of each hop
)

// polls measures tasks/get among many live tasks and among few, each made through
// the hop before. Penstock is there twice, and the two are polled in short turns, so
// that whatever else the machine does falls on both. A proxy knows nothing of tasks.
func (r *runner) polls(ctx context.Context, c *cell, h *hop, process *child) (s *sample, err error) {
	many, err := r.gatherPollers(ctx, c, h, process)
	if err != nil {
		return nil, err
	}
	defer many.clients.close()
	hops := []*pollers{many}
	if h.name != plainName {
		less := *c
		less.name, less.live = c.name+"-few", few
		argv, err := h.argv(&less, r.upstream.base)
		if err != nil {
			return nil, err
		}
		second, err := start(ctx, h.name, argv...)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, second.stop()) }()
		p, err := r.gatherPollers(ctx, &less, h, second)
		if err != nil {
			return nil, err
		}
		defer p.clients.close()
		hops = append(hops, p)
	}
	for _, p := range hops { // warm
		if _, err := p.clients.share(ctx, max(len(p.clients), c.n/10), p.poll); err != nil {
			return nil, err
		}
	}
	for _, p := range hops {
		if p.meter, err = newMeter(p.process.pid(), r.upstream.pid()); err != nil {
			return nil, err
		}
	}
	for turn := range turns {
		for i := range hops {
			p := hops[(i+turn)%len(hops)]
			took, err := p.clients.share(ctx, max(1, c.n/turns), p.poll)
			if err != nil {
				return nil, err
			}
			p.took = append(p.took, took...)
		}
	}
	return summed(hops)
}

// summed ends the meters; the first hop is the one with many tasks.
func summed(hops []*pollers) (*sample, error) {
	s := &sample{Values: map[figure]float64{}}
	for i, p := range hops {
		used, passed, others, err := p.meter.stop()
		if err != nil {
			return nil, err
		}
		each := float64(used) / float64(len(p.took))
		s.Values[fewCPU] = each // where there is one hop only, its tasks make no difference
		if i > 0 {
			s.Others = max(0, s.Others-used.Seconds()/passed.Seconds()) // which are not this one
			continue
		}
		slices.Sort(p.took)
		s.Values[pollCPU] = each
		s.N, s.P50, s.P99 = len(p.took), int64(quantile(p.took, 0.5)), int64(quantile(p.took, 0.99))
		s.Rate, s.Others = float64(len(p.took)*len(hops))/passed.Seconds(), others
	}
	return s, nil
}

// pollers are clients of one process of a hop, and the tasks that each of them asks
// for. No two ask for one task: what is asked at once is one call upstream.
type pollers struct {
	process *child
	clients crowd
	own     map[*client][]live
	meter   *meter
	took    []time.Duration
}

// live is one task and whose it is.
type live struct {
	id, key  string
	upstream int
}

func (r *runner) gatherPollers(ctx context.Context, c *cell, h *hop, process *child) (*pollers, error) {
	endpoint := process.base + h.path(c)
	all, err := seed(ctx, c, h, endpoint)
	if err != nil {
		return nil, err
	}
	// Few tasks are at few upstreams. What connections to more of them cost is no
	// matter of tasks.
	all = slices.DeleteFunc(all, func(l live) bool { return l.upstream >= few })
	p := &pollers{process: process, own: map[*client][]live{}}
	if p.clients, err = gather(ctx, c.clients, endpoint, c.client); err != nil {
		return nil, err
	}
	for i, client := range p.clients {
		client.tasks = true
		for k := i; k < len(all); k += len(p.clients) {
			p.own[client] = append(p.own[client], all[k])
		}
	}
	return p, nil
}

func (p *pollers) poll(c *client) error {
	mine := p.own[c]
	one := mine[rand.IntN(len(mine))]
	c.key = one.key
	return c.poll(one.id)
}

// seed makes the live tasks of a cell: at its upstreams in turns, and of its callers
// in turns. A proxy needs few.
func seed(ctx context.Context, c *cell, h *hop, endpoint string) ([]live, error) {
	n := c.live
	if h.name == plainName {
		n = min(n, 1000)
	}
	clients, err := gather(ctx, min(minters, n), endpoint, c.client)
	if err != nil {
		return nil, err
	}
	defer clients.close()
	for _, client := range clients {
		client.tasks = true
	}
	var mu sync.Mutex // guards next and all
	var next int
	var all []live
	_, err = clients.share(ctx, n, func(client *client) error {
		mu.Lock()
		i := next
		next++
		mu.Unlock()
		client.key = callerKey(i % c.callers)
		id, err := client.mint(h.tool(i%c.upstreams, i%c.tools))
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, live{id, client.key, i % c.upstreams})
		return nil
	})
	return all, err
}
