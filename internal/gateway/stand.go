package gateway

import (
	"context"

	"github.com/penstock-mcp/penstock/internal/north"
)

// Stand implements north.Gateway.
func (g *Gateway) Stand(ctx context.Context, x *north.Exchange) error { return x.Wait(ctx, nil) }
