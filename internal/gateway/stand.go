package gateway

import (
	"context"

	"github.com/penstock-mcp/penstock/internal/north"
)

// Stand implements north.Gateway.
func (g *Gateway) Stand(ctx context.Context, x *north.Exchange) error { return x.Wait(ctx, nil) }

// CheckClaims closes the standing streams that another instance has taken over.
// It is called once a second.
func (g *Gateway) CheckClaims(ctx context.Context) {
	if err := g.handler.CheckClaims(ctx); err != nil && ctx.Err() == nil {
		g.log.Debug("claims on streams not checked", "error", err) // an outage is told of by the store
	}
}
