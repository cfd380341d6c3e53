package gateway

import (
	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/limit"
	"github.com/penstock-mcp/penstock/internal/north"
)

// Admit implements north.Gateway: step 3 of a request's way, before anything has
// been read. What cannot be recorded, where the document says so, is not done.
func (g *Gateway) Admit(x *north.Exchange) error {
	if err := g.audit.log.Check(); err != nil {
		return err
	}
	wait, scope := g.limiter.Admit(&x.Principal.Key, x.Trail.Began)
	if scope == "" {
		return nil
	}
	g.metrics.Limited(scope)
	if scope == limit.ScopeGlobal {
		return fault.New(fault.RateLimited, "the gateway has as many requests as it may take").
			WithHint("try again later").WithRetryAfter(wait)
	}
	return fault.New(fault.RateLimited, "this caller sends more requests than it may").
		WithHint("slow down").WithRetryAfter(wait)
}

// admitUpstream takes one call of an upstream's rate.
func (g *Gateway) admitUpstream(x *north.Exchange, m *member) error {
	wait, ok := m.rate.Take(x.Trail.Began)
	if ok {
		return nil
	}
	g.metrics.Limited("upstream")
	return fault.New(fault.RateLimited, "upstream %q has as many calls as it may take", m.key).
		WithHint("nothing ran; try again later").WithRetryAfter(wait)
}
