package direct

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/penstock-mcp/penstock/internal/durable"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

// Offer is what an upstream was found to offer.
type Offer struct {
	Server string // its name
	Tasks  bool   // it speaks 2026-07-28 with tasks
	Tools  []Tool // in its own order
	Pin    durable.Digest
}

// Tool is one tool and the whole object that the upstream lists.
type Tool struct {
	Name   string
	Object json.RawMessage
}

// errPaged is a list that goes on: what this package reaches has few tools.
var errPaged = errors.New("the list of tools has a second page")

// Discover asks an upstream what it offers.
func (u *Child) Discover(ctx context.Context) (*Offer, error) {
	var d struct {
		Versions     []string        `json:"supportedVersions"`
		Capabilities json.RawMessage `json:"capabilities"`
		Meta         struct {
			Server struct {
				Name string `json:"name"`
			} `json:"io.modelcontextprotocol/serverInfo"`
		} `json:"_meta"`
	}
	if err := u.ask(ctx, mcp.Discover, &d); err != nil {
		return nil, err
	}
	var capabilities struct {
		Extensions map[string]json.RawMessage `json:"extensions"`
	}
	if err := json.Unmarshal(d.Capabilities, &capabilities); err != nil {
		return nil, fmt.Errorf("%s: capabilities: %w", mcp.Discover, err)
	}
	o := &Offer{Server: d.Meta.Server.Name}
	for _, v := range d.Versions {
		if v == mcp.LatestModern.String() {
			_, o.Tasks = capabilities.Extensions[mcp.ExtensionTasks]
		}
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
	for _, t := range l.Tools {
		var named struct {
			Name string `json:"name"`
		}
		if err := json.Unmarshal(t, &named); err != nil {
			return nil, fmt.Errorf("%s: %w", mcp.ToolsList, err)
		}
		o.Tools = append(o.Tools, Tool{named.Name, t})
	}
	var err error
	o.Pin, err = digest(map[string]any{
		"protocolRevision": mcp.LatestModern.String(), "serverInfo": map[string]string{"name": o.Server}, "capabilities": d.Capabilities,
		"tools": l.Tools, "resources": []string{}, "resourceTemplates": []string{}, "prompts": []string{},
	})
	return o, err
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

// digest is that of the canonical form of a value.
func digest(v any) (durable.Digest, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return durable.Digest{}, err
	}
	return durable.SumJSON(raw)
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
