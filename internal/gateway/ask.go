package gateway

import (
	"bytes"
	"context"
	"errors"

	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/north"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// ask relays a request of a legacy upstream to the legacy client whose call it
// belongs to, in the shape of the client's revision, and returns the client's
// response as it is, related-task and all (checklist 7.7, T63). Nil is the answer
// of a client that cannot be asked: it did not declare that it can, its revision
// has no way to put the question, or there is no stream to ask it on.
func (o *outbound) ask(ctx context.Context, s *wire.Answer) ([]byte, error) {
	method, err := wire.String(s.Method.Of(s.Raw))
	if err != nil {
		return nil, nil //nolint:nilerr // a request without a name is refused like any that is not known
	}
	caps, err := mcp.ParseClientCaps(o.x.Session.Capabilities)
	if err != nil {
		return nil, nil //nolint:nilerr // what cannot be read declares nothing
	}
	params := s.Params.Of(s.Raw)
	q, ok := mcp.ProjectQuestion(method, caps, o.x.Revision, params)
	if !ok {
		return nil, nil
	}
	raw, id := s.Raw, s.ID
	if !bytes.Equal(q.Params, params) {
		raw = wire.Splice(nil, s.Raw, wire.Edit{Span: s.Params, With: q.Params})
		if id.Start > s.Params.Start {
			id.Start += len(raw) - len(s.Raw)
			id.End += len(raw) - len(s.Raw)
		}
	}
	if id, err := wire.String(at(q.Params, elicitationPath)); err == nil && method == "elicitation/create" {
		if o.elicited == nil {
			o.elicited = map[string]bool{}
		}
		o.elicited[id] = true // its completion is this client's to hear of, even before it answers
	}
	response, err := o.x.Ask(ctx, raw, id)
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
