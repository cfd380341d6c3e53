package penstock

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/penstock-mcp/penstock/config"
	"github.com/penstock-mcp/penstock/internal/gateway"
	"github.com/penstock-mcp/penstock/internal/store/engine"
)

// Store is where a gateway keeps what must survive it: the sessions of legacy
// clients, those it holds at upstreams for them, who owns which task, what was
// submitted durably, and the keys that seal. It is safe for concurrent use. Close it after the gateways that use it.
type Store struct {
	e      *engine.Store
	ring   [][]byte
	shared bool // other processes may use it at the same time
}

// OpenStore opens the store that a document's state names, and brings its
// tables up to this version.
func OpenStore(ctx context.Context, doc *config.Document, log *slog.Logger) (*Store, error) {
	e, err := engine.Open(ctx, engine.Options{
		URL: doc.State.Reveal(), Log: log,
		Sessions: doc.Limits.Sessions, SessionsPerPrincipal: doc.Limits.SessionsPerPrincipal,
		IdleSession: time.Duration(doc.Limits.IdleSession),
		Tasks:       doc.Tasks.Max, TasksPerPrincipal: doc.Tasks.MaxPerPrincipal,
	})
	if err != nil {
		return nil, fmt.Errorf("state %s: %w", doc.State, err)
	}
	ring, err := e.Keys().Ring(ctx)
	if err != nil {
		_ = e.Close()
		return nil, fmt.Errorf("state %s: sealing keys: %w", doc.State, err)
	}
	return &Store{e: e, ring: ring, shared: doc.State.Engine() == config.EnginePostgres}, nil
}

// Durable reports whether what is stored survives this process.
func (s *Store) Durable() bool { return s.e.Durable() }

// Run sweeps expired records until ctx ends.
func (s *Store) Run(ctx context.Context) error { return s.e.Run(ctx) }

// Close writes what is outstanding and closes the store.
func (s *Store) Close() error { return s.e.Close() }

// storage is the store as the pipeline uses it.
func (s *Store) storage() gateway.Storage {
	st := gateway.Storage{Sessions: s.e.Sessions(), Tasks: s.e.Tasks(), Ring: s.ring, Instance: s.e.Instance(), Health: s.e.Health}
	if s.e.Durable() {
		st.Souths, st.Claims = s.e.South(), s.e.Claims()
		st.Routes, st.Leases, st.Shared = s.e.Routes(), s.e.Leases(), s.shared
	}
	return st
}

// WithStore keeps the gateway's state in s. Without it state is kept in memory,
// whatever the document says, and ends with the process.
func WithStore(s *Store) Option { return func(o *options) { o.store = s } }
