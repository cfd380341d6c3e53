package durable

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/penstock-mcp/penstock/internal/store"
)

// Options are what a Coordinator needs. Routes, Leases, Sources and Instance
// have no default.
type Options struct {
	Routes  store.Routes
	Leases  store.Leases
	Sources Sources
	// Instance names this process among those that share the store.
	Instance string
	Log      *slog.Logger     // nil: nothing is logged
	Now      func() time.Time // nil: time.Now
	// On is told of every transition after it is committed. It does not block.
	On func(*Route, store.RouteEvent)

	MaxRoutes          int           // 0: 4096
	MaxRoutesPerCaller int           // 0: 256
	MaxRuntime         time.Duration // ceiling of limits.maxRuntimeMs; 0: 30 s
	MaxRetention       time.Duration // ceiling of retentionMs and of the deadline; 0: 1 h
	Watchdog           bool
	PersistUpdates     bool
	RequireLease       bool
}

// Submit is a submission as its caller made it.
type Submit struct {
	Caller    Caller
	Spelling  Spelling // the caller's
	Target    Target
	LeaseID   string
	Arguments json.RawMessage // of the tool; an object
	Task      json.RawMessage // the submission document
}

// Grant asks for a lease.
type Grant struct {
	Caller      Caller
	Spelling    Spelling
	Targets     []Target
	TTL         json.RawMessage // ttlMs as sent; nil: the default
	SideEffects json.RawMessage // sideEffects as sent; nil: the default
}

// Coordinator keeps the routes of durable tasks. It is safe for concurrent use.
// Run must be running for it to work.
type Coordinator struct {
	o Options
}

// New makes a Coordinator. It does nothing until it is called.
func New(o Options) *Coordinator { return &Coordinator{o: o} }

// Run says that this instance lives, sweeps what has expired and, where it is
// on, is the watchdog. It returns when ctx ends.
func (c *Coordinator) Run(ctx context.Context) {}

// Submit begins a durable task, or finds the one that the caller's key names,
// and returns the result object for the caller: a CreateTaskResult. The error is
// a *Refusal.
func (c *Coordinator) Submit(ctx context.Context, s *Submit) (json.RawMessage, error) {
	return nil, nil
}

// Get is tasks/get: the result object with what is known of a task. The error is
// a *Refusal; ErrNoTask for an id that is not this caller's.
func (c *Coordinator) Get(ctx context.Context, who Caller, id string) (json.RawMessage, error) {
	return nil, nil
}

// Cancel is tasks/cancel. Success says that the intent is durable, not that
// anything was prevented.
func (c *Coordinator) Cancel(ctx context.Context, who Caller, id string) (json.RawMessage, error) {
	return nil, nil
}

// Update is tasks/update, with params as sent.
func (c *Coordinator) Update(ctx context.Context, who Caller, id string, params json.RawMessage) (json.RawMessage, error) {
	return nil, nil
}

// Origin is the tool that a task came from, for policy to judge before anything
// is told of the task. ErrNoTask for an id that is not this caller's.
func (c *Coordinator) Origin(ctx context.Context, who Caller, id string) (Target, error) {
	return Target{}, nil
}

// Lease issues a lease and returns the structured content for the caller.
func (c *Coordinator) Lease(ctx context.Context, g *Grant) (json.RawMessage, error) { return nil, nil }

// Release ends a lease.
func (c *Coordinator) Release(ctx context.Context, who Caller, s Spelling, id string) (json.RawMessage, error) {
	return nil, nil
}

// Authorize tells whether a lease covers a call of the target with its
// descriptive effect (the invoke tool). The error is a *Refusal.
func (c *Coordinator) Authorize(ctx context.Context, who Caller, s Spelling, id string, t *Target) error {
	return nil
}
