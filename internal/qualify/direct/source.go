package direct

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"

	"github.com/penstock-mcp/penstock/internal/durable"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

// Source is a pinned child as durable tasks see it, and the only one of its
// Sources.
type Source struct {
	key        string
	child      *Child
	settings   durable.Settings
	pin        durable.Digest
	connection *connection
	checked    atomic.Bool // the offer was found once more as it was pinned
}

// Pin makes a source of a child that was discovered. What the child offers from
// then on must be the offer.
func Pin(key string, u *Child, o *durable.Offer, s durable.Settings) (*Source, error) {
	pin, err := o.Manifest()
	if err != nil {
		return nil, err
	}
	c := &connection{child: u, tools: map[string]json.RawMessage{}, session: durable.NewSessionID(s.Spelling)}
	if c.snapshot, err = o.Snapshot(); err != nil {
		return nil, err
	}
	configuration, err := json.Marshal(map[string]any{"key": key, "pin": pin, "spelling": s.Spelling.String(), "echo": s.Echo})
	if err != nil {
		return nil, err
	}
	if c.configuration, err = durable.SumJSON(configuration); err != nil {
		return nil, err
	}
	for _, t := range o.Tools {
		name, err := durable.ToolName(t)
		if err != nil {
			return nil, err
		}
		c.tools[name] = t
	}
	return &Source{key: key, child: u, settings: s, pin: pin, connection: c}, nil
}

// Source implements durable.Sources.
func (s *Source) Source(key string) (durable.Source, bool) { return s, key == s.key }

// Key implements durable.Source.
func (s *Source) Key() string { return s.key }

// Settings implements durable.Source.
func (s *Source) Settings() durable.Settings { return s.settings }

// Connect implements durable.Source. The first one asks the child once more what
// it offers.
func (s *Source) Connect(ctx context.Context) (durable.Connection, error) {
	if err := s.child.alive(); err != nil {
		return nil, err
	}
	if !s.checked.Load() {
		now, err := s.child.Discover(ctx)
		if err != nil {
			return nil, err
		}
		if m, err := now.Manifest(); err != nil || m != s.pin {
			return nil, durable.ErrChanged
		}
		s.checked.Store(true)
	}
	return s.connection, nil
}

// Target is a tool of the source, under the name that a namespace gives it.
func (s *Source) Target(tool string) (durable.Target, error) {
	object, ok := s.connection.Tool(tool)
	if !ok {
		return durable.Target{}, fmt.Errorf("%s has no tool %q", s.key, tool)
	}
	schema, err := durable.SumJSON(object)
	if err != nil {
		return durable.Target{}, err
	}
	return durable.Target{
		Alias: s.key + "__" + tool, Upstream: s.key, Tool: tool, Server: "default", Effect: durable.EffectOf(object),
		Capability: durable.Capability{
			Source: s.key, Kind: "tool", NativeIdentity: durable.NativeIdentity(tool), Schema: schema,
			Revision: mcp.LatestModern.String(), Configuration: s.connection.configuration,
		},
	}, nil
}

// connection is the one of a child.
type connection struct {
	child         *Child
	tools         map[string]json.RawMessage
	session       string
	snapshot      durable.Digest
	configuration durable.Digest
}

func (c *connection) Session() string               { return c.session }
func (c *connection) Stateless() bool               { return false }
func (c *connection) Endpoint() durable.Digest      { return durable.Digest{} }
func (c *connection) Snapshot() durable.Digest      { return c.snapshot }
func (c *connection) Configuration() durable.Digest { return c.configuration }

func (c *connection) Tool(name string) (json.RawMessage, bool) {
	t, ok := c.tools[name]
	return t, ok
}

func (c *connection) Send(ctx context.Context, method, _ string, params json.RawMessage, fence func() error) durable.Reply {
	whole, err := ownParams(params)
	if err != nil {
		return durable.Reply{Fault: err, Unsent: true}
	}
	return c.child.send(ctx, method, whole, fence)
}
