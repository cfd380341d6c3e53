// Package engine opens the store that an address names, whichever engine that
// takes (DESIGN section 12).
package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/penstock-mcp/penstock/internal/store"
	"github.com/penstock-mcp/penstock/internal/store/memory"
	"github.com/penstock-mcp/penstock/internal/store/postgres"
	"github.com/penstock-mcp/penstock/internal/store/sqlite"
	"github.com/penstock-mcp/penstock/internal/store/tables"
)

// Options say which store to open, and its bounds. A bound of zero is the
// default of the configuration document.
type Options struct {
	URL      string           // sqlite:PATH, postgres://… or memory:
	Log      *slog.Logger     // nil: nothing is logged
	Now      func() time.Time // nil: time.Now
	Instance string           // names this process among those that share the store; "": a random name

	Sessions             int
	SessionsPerPrincipal int
	IdleSession          time.Duration
	Souths               int // southbound sessions; 0: four for each northern one
	Tasks                int // owned tasks
	TasksPerPrincipal    int
}

// What runs in the background, and how often.
const (
	flushEvery  = time.Second
	sweepEvery  = time.Minute
	sweepBatch  = 200
	closingTime = 5 * time.Second // for the last uses to be written
	cachedRows  = 1 << 16
	cachedTasks = 1 << 17 // a hundred thousand, however unevenly they fall into shards
)

// Store is an open store. Its methods and repositories are safe for concurrent
// use. Close ends it.
type Store struct {
	o        Options
	db       database
	sessions store.Sessions
	rows     *tables.Sessions // nil in memory, where sessions are no rows
	keys     *tables.Keys
	souths   *tables.Souths
	claims   *tables.Claims
	tasks    store.Tasks
	routes   *tables.Routes
	leases   *tables.Leases
}

// database is what the engines have in common.
type database interface {
	tables.DB
	Health(ctx context.Context) error
	Close() error
}

// Open opens the store, creates or migrates its schema, and leaves the rest to
// Run. Errors name the address without a password, and are store.ErrInUse,
// ErrNewer, ErrCorrupt or ErrUnavailable where one of them is the reason.
func Open(ctx context.Context, o Options) (*Store, error) {
	o = o.complete()
	s := &Store{o: o}
	var err error
	path, isFile := strings.CutPrefix(o.URL, "sqlite:")
	switch {
	case o.URL == "memory:":
		s.db, err = sqlite.Open(ctx, sqlite.Memory)
	case isFile && path != "" && path != sqlite.Memory:
		s.db, err = sqlite.Open(ctx, path)
	case strings.HasPrefix(o.URL, "postgres://"), strings.HasPrefix(o.URL, "postgresql://"):
		s.db, err = postgres.Open(ctx, o.URL)
	default:
		err = errors.New("the address names no store: want memory:, sqlite:PATH or postgres://HOST/DATABASE")
	}
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	s.keys = tables.NewKeys(s.db, o.Now)
	s.souths = tables.NewSouths(s.db, o.Souths, o.Now)
	s.claims = tables.NewClaims(s.db)
	s.routes = tables.NewRoutes(s.db, o.Now)
	s.leases = tables.NewLeases(s.db)
	if o.URL == "memory:" {
		s.sessions = &inMemory{memory.NewSessions(o.Sessions, o.SessionsPerPrincipal, o.IdleSession, o.Now), s.claims}
		s.tasks = memory.NewTasks(o.Tasks, o.TasksPerPrincipal, o.Now)
		return s, nil
	}
	s.rows = tables.NewSessions(s.db, o.Instance, tables.SessionBounds{
		Max: o.Sessions, MaxFor: o.SessionsPerPrincipal, Idle: o.IdleSession, Cached: min(o.Sessions, cachedRows),
	}, o.Now)
	s.sessions = s.rows
	s.tasks = tables.NewTasks(s.db, tables.TaskBounds{Max: o.Tasks, MaxFor: o.TasksPerPrincipal, Cached: cachedTasks}, o.Now)
	return s, nil
}

func (o Options) complete() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Instance == "" {
		o.Instance = rand.Text()
	}
	if o.Sessions == 0 {
		o.Sessions = 50_000
	}
	if o.SessionsPerPrincipal == 0 {
		o.SessionsPerPrincipal = 1000
	}
	if o.IdleSession == 0 {
		o.IdleSession = 30 * time.Minute
	}
	if o.Souths == 0 {
		o.Souths = 4 * o.Sessions
	}
	if o.Tasks == 0 {
		o.Tasks = 1_000_000
	}
	if o.TasksPerPrincipal == 0 {
		o.TasksPerPrincipal = 10_000
	}
	return o
}

// Instance names this process among those that share the store.
func (s *Store) Instance() string { return s.o.Instance }

// Durable tells whether what is stored survives the process.
func (s *Store) Durable() bool { return s.rows != nil }

// Commits is how many commits SQLite has put on the disk; 0 for another engine.
func (s *Store) Commits() int64 {
	if d, ok := s.db.(*sqlite.DB); ok {
		return d.Commits()
	}
	return 0
}

// Sessions is the repository of northern legacy sessions. Its owner calls
// Expire: Run does not, for somebody has to clean up after what is gone.
func (s *Store) Sessions() store.Sessions { return s.sessions }

// Keys is the repository of sealing keys.
func (s *Store) Keys() store.Keys { return s.keys }

// South is the repository of southbound sessions. Run expires what was not used
// for twice the idle time of northern ones.
func (s *Store) South() store.Souths { return s.souths }

// Claims is the repository of claims on GET streams.
func (s *Store) Claims() store.Claims { return s.claims }

// Tasks is the repository of who owns which task. Its owner calls Expire: Run
// does not, for how long records are kept is not the store's to know.
func (s *Store) Tasks() store.Tasks { return s.tasks }

// Routes is the repository of durable submissions. Its owner calls Expire. Where
// the store is not Durable it keeps no promise beyond the process: whoever offers
// durable submissions asks first.
func (s *Store) Routes() store.Routes { return s.routes }

// Leases is the repository of leases. Its owner calls Expire.
func (s *Store) Leases() store.Leases { return s.leases }

// Health tells whether the store can be read and written. It waits a few
// seconds at most.
func (s *Store) Health(ctx context.Context) error { return s.db.Health(ctx) }

// Run writes what need not be written at once and removes what has expired,
// until ctx ends; then it returns nil. A failure is logged and tried again.
func (s *Store) Run(ctx context.Context) error {
	flush := time.NewTicker(flushEvery)
	defer flush.Stop()
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	failing := false
	report := func(what string, err error) {
		switch {
		case ctx.Err() != nil:
		case err == nil && failing:
			failing = false
			s.o.Log.Info("the store works again")
		case err != nil && !failing: // once, not every second of an outage
			failing = true
			s.o.Log.Warn("the store failed; trying again", "doing", what, "error", err)
		}
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-flush.C:
			report("write last uses", s.Flush(ctx))
		case <-sweep.C:
			report("remove expired records", s.Sweep(ctx))
		}
	}
}

// Flush writes those last uses of sessions that have moved by enough. Run calls
// it every second.
func (s *Store) Flush(ctx context.Context) error {
	if s.rows == nil {
		return nil
	}
	return s.rows.Flush(ctx)
}

// Sweep removes expired records of the repositories without an owner of their
// own, in bounded transactions. Run calls it every minute.
func (s *Store) Sweep(ctx context.Context) error {
	before := s.o.Now().Add(-2 * s.o.IdleSession)
	for {
		gone, err := s.souths.Expire(ctx, before, sweepBatch)
		if err != nil {
			return err
		}
		if len(gone) < sweepBatch {
			return s.souths.ForgetEmptyCounts(ctx)
		}
	}
}

// Close writes the last uses of sessions and closes the store. Operations after
// it return store.ErrClosed.
func (s *Store) Close() error {
	var flushed error
	if s.rows != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closingTime)
		defer cancel()
		flushed = s.rows.FlushAll(ctx)
		if errors.Is(flushed, store.ErrClosed) {
			flushed = nil // closed before
		}
	}
	return errors.Join(flushed, s.db.Close())
}

// inMemory ends the claim on a session with the session, which is no row beside
// it.
type inMemory struct {
	*memory.Sessions
	claims *tables.Claims
}

// Create implements store.Sessions.
func (m *inMemory) Create(ctx context.Context, r *store.Session) (*store.Session, error) {
	evicted, err := m.Sessions.Create(ctx, r)
	if evicted != nil {
		err = errors.Join(err, m.claims.End(ctx, evicted.ID))
	}
	return evicted, err
}

// Delete implements store.Sessions.
func (m *inMemory) Delete(ctx context.Context, id string) error {
	if err := m.Sessions.Delete(ctx, id); err != nil {
		return err
	}
	return m.claims.End(ctx, id)
}

// Expire implements store.Sessions.
func (m *inMemory) Expire(ctx context.Context, t time.Time) ([]*store.Session, error) {
	gone, err := m.Sessions.Expire(ctx, t)
	for _, s := range gone {
		err = errors.Join(err, m.claims.End(ctx, s.ID))
	}
	return gone, err
}
