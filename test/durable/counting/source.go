package counting

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/penstock-mcp/penstock/internal/durable"
)

// Source is a worker as durable tasks see it, under the key "counting".
type Source struct {
	w *Worker

	mu      sync.Mutex // guards current
	current *connection
}

// Source reaches the worker in this process.
func (w *Worker) Source() *Source { return &Source{w: w} }

// Source implements durable.Sources.
func (s *Source) Source(key string) (durable.Source, bool) { return s, key == s.Key() }

// Key implements durable.Source.
func (s *Source) Key() string { return "counting" }

// Settings implements durable.Source.
func (s *Source) Settings() durable.Settings { return durable.Settings{Echo: true} }

// Connect implements durable.Source.
func (s *Source) Connect(context.Context) (durable.Connection, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		s.current = &connection{source: s, session: durable.NewSessionID(durable.Penstock)}
	}
	return s.current, nil
}

// Reconnect has the next Connect return another connection.
func (s *Source) Reconnect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = nil
}

// Target is the worker's tool.
func (s *Source) Target() durable.Target {
	return durable.Target{
		Alias: "counting__run", Upstream: s.Key(), Tool: "run", Server: "default", Effect: durable.NonIdempotentWrite,
		Capability: durable.Capability{
			Source: s.Key(), Kind: "tool", NativeIdentity: durable.NativeIdentity("run"), Schema: durable.Sum([]byte(Tool)),
			Revision: "2026-07-28", Configuration: configuration,
		},
	}
}

var (
	configuration = durable.Sum([]byte("configuration"))
	snapshot      = durable.Sum([]byte("snapshot"))
)

type connection struct {
	source  *Source
	session string
}

func (c *connection) Session() string               { return c.session }
func (c *connection) Stateless() bool               { return false }
func (c *connection) Endpoint() durable.Digest      { return durable.Digest{} }
func (c *connection) Snapshot() durable.Digest      { return snapshot }
func (c *connection) Configuration() durable.Digest { return configuration }

func (c *connection) Tool(name string) (json.RawMessage, bool) {
	return json.RawMessage(Tool), name == "run"
}

var errLost = errors.New("the connection was lost")

func (c *connection) Send(ctx context.Context, method, _ string, params json.RawMessage, fence func() error) durable.Reply {
	if fence != nil {
		if err := fence(); err != nil {
			return durable.Reply{Fault: err, Unsent: true}
		}
	}
	f := c.source.w.next(method)
	if f == LostBefore {
		return durable.Reply{Fault: errLost}
	}
	a := c.source.w.serve(method, params, f)
	switch f {
	case LostAfter:
		return durable.Reply{Fault: errLost}
	case Late:
		<-ctx.Done()
		return durable.Reply{Fault: ctx.Err()}
	case Reconnect:
		c.source.Reconnect()
	}
	return durable.Reply{Result: a.result, Error: a.err}
}
