package gateway

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-mcp/penstock/internal/durable"
)

const (
	// sourceEvery is how often what is not eligible is looked at again.
	sourceEvery = 5 * time.Second
	// sourceTime bounds one look.
	sourceTime = 20 * time.Second
)

// sources finds the upstreams that the document pins for durable tasks, and keeps
// them looked at. It is shared with predecessor and successor.
type sources struct {
	now  atomic.Pointer[Gateway] // whose document holds
	kick chan struct{}           // capacity 1: asks run for a look now

	mu sync.Mutex // guards by
	by map[string]*source
}

func newSources() *sources { return &sources{kick: make(chan struct{}, 1), by: map[string]*source{}} }

var _ durable.Sources = (*sources)(nil)

// Source implements durable.Sources.
func (s *sources) Source(key string) (durable.Source, bool) {
	src := s.of(s.now.Load(), key)
	if src == nil || src.excluded() && !src.eligible() {
		return nil, false
	}
	return src, true
}

// of is the source of a key under one document, nil when it has none. Only the
// document that holds makes one; under another there may be that of an upstream
// which both have. What is bound to an upstream that another took the place of is
// over.
func (s *sources) of(g *Gateway, key string) *source {
	if g == nil {
		return nil
	}
	c, u := g.doc.Upstreams[key], g.upstreams[key]
	if c == nil || c.Durable == nil || u == nil || g.doc.Durable.Enabled == "off" {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	src := s.by[key]
	if src != nil && src.u == u {
		return src
	}
	if g != s.now.Load() {
		return nil
	}
	if src != nil {
		src.end()
	}
	src, err := g.newSource(c, u, s.wake)
	if err != nil {
		g.log.Error("upstream gets no durable tasks", "upstream", key, "error", err)
		return nil
	}
	s.by[key] = src
	return src
}

// rebind has the document of another gateway hold from now on. What that does not
// have is over.
func (s *sources) rebind(g *Gateway) {
	s.now.Store(g)
	s.mu.Lock()
	for key, src := range s.by {
		if g.upstreams[key] != src.u {
			src.end()
			delete(s.by, key)
		}
	}
	s.mu.Unlock()
	s.wake()
}

// changed is told that an upstream is another, or is back.
func (s *sources) changed(key string) {
	s.mu.Lock()
	src := s.by[key]
	s.mu.Unlock()
	if src != nil {
		src.anew()
	}
	s.wake()
}

// doubt is told that an upstream says its lists have changed.
func (s *sources) doubt(key string) {
	s.mu.Lock()
	src := s.by[key]
	s.mu.Unlock()
	if src != nil {
		src.doubt()
		s.wake()
	}
}

func (s *sources) wake() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// run looks at every upstream that is pinned and not eligible, soon after something
// changed and every few seconds, until ctx ends.
func (s *sources) run(ctx context.Context) error {
	t := time.NewTicker(sourceEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.kick:
		case <-t.C:
		}
		if g := s.now.Load(); g != nil {
			s.lookAll(ctx, g)
		}
	}
}

// lookAll tells listeners where a look changed what is offered.
func (s *sources) lookAll(ctx context.Context, g *Gateway) {
	var wg sync.WaitGroup
	for _, key := range g.doc.UpstreamKeys() {
		src := s.of(g, key)
		if src == nil {
			continue
		}
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, sourceTime)
			defer cancel()
			if _, err := src.connect(ctx); err != nil {
				g.log.Debug("upstream is not ready for durable tasks", "upstream", key, "error", err)
			}
			if now := src.eligible(); src.shown.Swap(now) != now {
				g.board.Recheck(key)
			}
		})
	}
	wg.Wait()
}
