package direct

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/penstock-mcp/penstock/internal/durable"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

// errPaged is a list that goes on: what this package reaches has few tools.
var errPaged = errors.New("the list of tools has a second page")

// Discover asks an upstream what it offers. It takes an upstream of tools alone.
func (u *Child) Discover(ctx context.Context) (*durable.Offer, error) {
	var d struct {
		Versions     []string                   `json:"supportedVersions"`
		Capabilities json.RawMessage            `json:"capabilities"`
		Meta         map[string]json.RawMessage `json:"_meta"`
	}
	if err := u.ask(ctx, mcp.Discover, &d); err != nil {
		return nil, err
	}
	if !slices.Contains(d.Versions, mcp.LatestModern.String()) {
		return nil, fmt.Errorf("the upstream does not speak %s", mcp.LatestModern)
	}
	var l struct {
		Tools  []json.RawMessage `json:"tools"`
		Cursor string            `json:"nextCursor"`
	}
	if err := u.ask(ctx, mcp.ToolsList, &l); err != nil {
		return nil, err
	}
	if l.Cursor != "" {
		return nil, errPaged
	}
	return &durable.Offer{
		Revision: mcp.LatestModern.String(), ServerInfo: d.Meta[mcp.MetaServerInfo], Capabilities: d.Capabilities, Tools: l.Tools,
	}, nil
}

func (u *Child) ask(ctx context.Context, method string, into any) error {
	params, err := ownParams(nil)
	if err != nil {
		return err
	}
	r := u.send(ctx, method, params, nil)
	switch {
	case r.Fault != nil:
		return fmt.Errorf("%s: %w: %s", method, r.Fault, u.stderr)
	case r.Error != nil:
		return fmt.Errorf("%s: %d %s", method, r.Error.Code, r.Error.Message)
	}
	if err := json.Unmarshal(r.Result, into); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	return nil
}

// ownParams puts into params what this hop says of itself, and changes no other
// member.
func ownParams(params json.RawMessage) (json.RawMessage, error) {
	p := map[string]json.RawMessage{}
	if params != nil {
		if err := json.Unmarshal(params, &p); err != nil {
			return nil, fmt.Errorf("params: %w", err)
		}
	}
	meta := map[string]json.RawMessage{}
	if raw := p["_meta"]; raw != nil {
		if err := json.Unmarshal(raw, &meta); err != nil {
			return nil, fmt.Errorf("params._meta: %w", err)
		}
	}
	meta[mcp.MetaProtocolVersion] = json.RawMessage(`"` + mcp.LatestModern.String() + `"`)
	meta[mcp.MetaClientInfo] = json.RawMessage(`{"name":"penstock","version":"1"}`)
	meta[mcp.MetaClientCapabilities] = json.RawMessage(`{"extensions":{"` + mcp.ExtensionTasks + `":{}}}`)
	raw, err := json.Marshal(meta)
	if err != nil {
		return nil, err
	}
	p["_meta"] = raw
	return json.Marshal(p)
}
