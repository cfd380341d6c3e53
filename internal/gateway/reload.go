package gateway

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/penstock-mcp/penstock/config"
)

// keeps reports whether the upstream of a key goes on unchanged under another
// document. It may be called on nil, which keeps nothing.
func (g *Gateway) keeps(doc *config.Document, key string) bool {
	if g == nil || g.upstreams[key] == nil {
		return false
	}
	was, is := g.doc.Limits, doc.Limits
	return reflect.DeepEqual(g.doc.Upstreams[key], doc.Upstreams[key]) &&
		was.CallTimeout == is.CallTimeout && was.CallTimeoutMax == is.CallTimeoutMax &&
		was.ListTimeout == is.ListTimeout && was.ResponseBytes == is.ResponseBytes
}

// Await returns when every upstream was tried once, or when ctx ends.
func (g *Gateway) Await(ctx context.Context) {
	var wg sync.WaitGroup
	for _, u := range g.upstreams {
		wg.Go(func() { u.Wait(ctx) })
	}
	wg.Wait()
}

// retirePoll is how often a replaced gateway looks whether its requests ended.
const retirePoll = 100 * time.Millisecond

// Retire ends a gateway that another has replaced, once the requests it still
// serves have ended or ctx has: its lists, and the upstreams that its successor
// did not take over.
func (g *Gateway) Retire(ctx context.Context, successor *Gateway) {
	// A request that took this gateway before the swap may not be counted yet.
	t := time.NewTicker(retirePoll)
	defer t.Stop()
	for quiet := 0; quiet < 5; {
		select {
		case <-ctx.Done():
			quiet = 5
		case <-t.C:
			if quiet++; g.handler.Serving() > 0 {
				quiet = 0
			}
		}
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	g.parks.EndFor(end, func(u any) bool { return !successor.uses(u) })
	g.vigils.EndFor(func(u any) bool { return !successor.uses(u) })
	g.cut(end)
	g.closeExcept(end, successor)
	g.hooks.Close()
	g.durable.end(end, successor.durable)
	g.identity.end(end)
	if successor.tracer != g.tracer {
		g.endTraces(end)
	}
	if successor.audit != g.audit {
		g.audit.engine.end(end)
	}
}

// uses reports whether an upstream is one of this gateway's. It may be called on
// nil, which has none.
func (g *Gateway) uses(u any) bool {
	if g == nil {
		return false
	}
	for _, mine := range g.upstreams {
		if mine == u {
			return true
		}
	}
	return false
}

// cut ends the requests that are still being served and waits, at most a second,
// until they have told their upstreams.
func (g *Gateway) cut(ctx context.Context) {
	g.handler.Cut()
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for g.handler.Serving() > 0 && ctx.Err() == nil {
		time.Sleep(5 * time.Millisecond)
	}
}

// closeExcept closes catalogs and upstreams, but for the upstreams that another
// gateway uses.
func (g *Gateway) closeExcept(ctx context.Context, other *Gateway) {
	for _, s := range g.servers {
		s.catalog.Close()
	}
	var wg sync.WaitGroup
	for key, u := range g.upstreams {
		if other == nil || other.upstreams[key] != u {
			wg.Go(func() {
				if other != nil && !renamed(other.doc, key) {
					u.Abandon(ctx)
				}
				u.Close(ctx)
				if end := g.ends[key]; end != nil {
					end()
				}
			})
		}
	}
	wg.Wait()
}

// renamed reports whether an upstream goes on under another key, which finds its
// sessions in the store.
func renamed(doc *config.Document, key string) bool {
	for _, u := range doc.Upstreams {
		if slices.Contains(u.Formerly, key) {
			return true
		}
	}
	return false
}

// Change is what a reload did to the upstreams.
type Change struct{ Added, Removed, Replaced, Kept []string }

// Changes compares the upstreams of two gateways, by key.
func Changes(before, after *Gateway) Change {
	var c Change
	for _, key := range after.doc.UpstreamKeys() {
		var was upstream
		if before != nil {
			was = before.upstreams[key]
		}
		switch was {
		case nil:
			c.Added = append(c.Added, key)
		case after.upstreams[key]:
			c.Kept = append(c.Kept, key)
		default:
			c.Replaced = append(c.Replaced, key)
		}
	}
	if before != nil {
		for _, key := range before.doc.UpstreamKeys() {
			if after.upstreams[key] == nil {
				c.Removed = append(c.Removed, key)
			}
		}
	}
	return c
}
