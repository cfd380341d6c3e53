package gateway

import (
	"context"
	"errors"

	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/north"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// ask relays a request of a legacy upstream to the legacy client whose call it
// belongs to, and returns the client's response (checklist 7.7). Nil is the
// answer of a client that cannot be asked: it did not declare that it can, or
// there is no stream to ask it on.
func (o *outbound) ask(ctx context.Context, s *wire.Answer) ([]byte, error) {
	method, err := wire.String(s.Method.Of(s.Raw))
	if err != nil {
		return nil, nil //nolint:nilerr // a request without a name is refused like any that is not known
	}
	caps, err := mcp.ParseClientCaps(o.x.Session.Capabilities)
	if err != nil {
		return nil, nil //nolint:nilerr // what cannot be read declares nothing
	}
	mode, _ := wire.String(at(s.Params.Of(s.Raw), modePath))
	if !caps.CanBeAsked(method, mode) {
		return nil, nil
	}
	response, err := o.x.Ask(ctx, s.Raw, s.ID)
	switch {
	case err == nil:
		return response, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, north.ErrCannotAsk):
		return nil, nil
	}
	return nil, err
}

var modePath = []string{"mode"}
