package durable

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-mcp/penstock/internal/store"
)

// Options are what a Coordinator needs. Routes, Leases, Sources and Instance
// have no default.
type Options struct {
	Routes  store.Routes
	Leases  store.Leases
	Sources Sources
	// Instance names this process among those that share the store, and no
	// process before it: of the form of NewInstanceID.
	Instance string
	// Shared: other instances may use the store at the same time (PostgreSQL). They
	// tell by a heartbeat whether this one lives.
	Shared bool
	Log    *slog.Logger     // nil: nothing is logged
	Now    func() time.Time // nil: time.Now
	// On is told of every transition after it is committed. It does not block.
	On func(*Route, store.RouteEvent)

	MaxRoutes          int           // 0: 4096
	MaxRoutesPerCaller int           // 0: 256
	MaxRuntime         time.Duration // ceiling of limits.maxRuntimeMs; 0: 30 s
	MaxRetention       time.Duration // ceiling of retentionMs and of the deadline; 0: 1 h
	Watchdog           bool
	PersistUpdates     bool
	LeaseOptional      bool // a new submission needs no lease
}

// Times and bounds that no configuration changes.
const (
	dispatchTime       = 30 * time.Second // for a call that nobody bounds more tightly
	lifecycleTime      = 5 * time.Second  // for a poll, a cancel, an update
	purgeBatch         = 128
	sweepEvery         = time.Minute
	watchEvery         = time.Second
	watchBatch         = 64
	beatEvery          = 5 * time.Second
	beatValid          = 20 * time.Second
	beatMargin         = 5 * time.Second  // before the end of which nothing is dispatched any more
	keepTime           = 20 * time.Second // for what came of a call, while the store is away
	writeTime          = 10 * time.Second
	maxLeases          = 16384
	maxLeasesPerCaller = 256
	maxIntents         = 64
	keptLease          = time.Minute // an expired lease is called expired for so long, then unknown
	attempts           = 4           // of a transition that others forestall
	pollIntervalMs     = 100
)

// Coordinator keeps the routes of durable tasks. It is safe for concurrent use.
// While it is used, Run must be running.
type Coordinator struct {
	o     Options
	locks routeLocks
	// beaten is until when others take this instance for alive, in Unix
	// nanoseconds of the process's own clock.
	beaten atomic.Int64
	beats  sync.Mutex // guards that one heartbeat is written at a time
}

// New makes a Coordinator. It does nothing until it is called.
func New(o Options) *Coordinator {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.On == nil {
		o.On = func(*Route, store.RouteEvent) {}
	}
	if o.MaxRoutes == 0 {
		o.MaxRoutes = 4096
	}
	if o.MaxRoutesPerCaller == 0 {
		o.MaxRoutesPerCaller = 256
	}
	if o.MaxRuntime == 0 {
		o.MaxRuntime = 30 * time.Second
	}
	if o.MaxRetention == 0 {
		o.MaxRetention = time.Hour
	}
	return &Coordinator{o: o}
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

var (
	errClock = errors.New("the clock is before 1970")
	// errStale: others forestalled a transition again and again.
	errStale = errors.New("durable: the route changed too often at the same time")
)

func (c *Coordinator) clock() (time.Time, error) {
	now := c.o.Now()
	if now.UnixMilli() < 0 {
		return now, errClock
	}
	return now, nil
}

// load reads a caller's route that has not expired.
func (c *Coordinator) load(ctx context.Context, who *Caller, id string, now time.Time) (*Route, error) {
	row, err := c.o.Routes.Get(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, ErrNoTask
	case err != nil:
		return nil, err
	case row.Principal != who.Principal || row.Tenant != who.Tenant || now.UnixMilli() >= row.Expires.UnixMilli():
		return nil, ErrNoTask
	}
	return readRoute(row)
}

// take is load for a request about a task that nobody else in this process works
// on until unlock. The error is a *Refusal, ErrNoTask, or the end of ctx.
func (c *Coordinator) take(ctx context.Context, who *Caller, id string) (r *Route, now time.Time, unlock func(), err error) {
	if unlock, err = c.locks.lock(ctx, id); err != nil {
		return nil, now, nil, err
	}
	if now, err = c.clock(); err == nil {
		r, err = c.load(ctx, who, id, now)
	}
	if err != nil {
		unlock()
		return nil, now, nil, storage(err, wordsOf(id), "STORAGE_READ")
	}
	return r, now, unlock, nil
}

// storage is the refusal for a store that failed.
func storage(err error, s Spelling, code string) error {
	switch {
	case errors.Is(err, ErrNoTask):
		return ErrNoTask
	case errors.Is(err, errIntegrity):
		return because(err, s, Failure, "STORAGE_TASK_ROUTE_INTEGRITY")
	case errors.Is(err, errColumns):
		return because(err, s, Failure, "STORAGE_TASK_ROUTE:"+s.Code("TASK_ROUTE_COLUMN_MISMATCH"))
	case errors.Is(err, errInvariant):
		return because(err, s, Failure, "STORAGE_TASK_ROUTE:"+s.Code("TASK_ROUTE_INVARIANT"))
	case errors.Is(err, errClock):
		return because(err, s, Failure, "CLOCK_INVALID")
	case errors.Is(err, errStale):
		return because(err, s, InvalidParams, "TASK_STALE_TRANSITION")
	}
	return because(err, s, Failure, code)
}

// step is a transition that somebody wants to make of the route as it stands:
// it changes next, a copy, and returns false where there is nothing to do.
type step func(next *Route) bool

// change makes a transition, against whoever else makes one, and returns the
// route as it stands then. What step decides is decided anew for every state
// that it meets. A transition that is not legal is a fault of this package, and
// refused.
func (c *Coordinator) change(ctx context.Context, r *Route, s step) (*Route, error) {
	for range attempts {
		next := *r
		if !s(&next) {
			return r, nil
		}
		done, err := c.put(ctx, r, &next)
		if !errors.Is(err, store.ErrConflict) {
			return done, err
		}
		row, err := c.o.Routes.Get(ctx, r.ID)
		if err != nil {
			return r, err
		}
		if r, err = readRoute(row); err != nil {
			return r, err
		}
	}
	return r, errStale
}

// put commits one transition from r to next.
func (c *Coordinator) put(ctx context.Context, r, next *Route) (*Route, error) {
	if !r.Phase.may(next.Phase) || r.UpstreamTask != "" && next.UpstreamTask != r.UpstreamTask {
		return r, errors.New("durable: no transition from " + string(r.Phase) + " to " + string(next.Phase))
	}
	now, err := c.clock()
	if err != nil {
		return r, err
	}
	next.Version++
	next.Updated = max(now.UnixMilli(), r.Updated)
	if next.Phase != Dispatching {
		next.Owner = ""
	}
	next.Due = c.due(next)
	e, err := next.event(r.Phase, c.o.Instance)
	if err != nil {
		return r, err
	}
	next.Journal = e.Digest
	row, err := next.record()
	if err != nil {
		return r, err
	}
	// The world has moved already: what is known of it is written down, also for a
	// caller who has gone.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTime)
	defer cancel()
	if err := c.o.Routes.Update(ctx, row, e); err != nil {
		return r, err
	}
	c.o.On(next, *e)
	return next, nil
}

// end makes a route terminal.
func end(next *Route, reason, execution string, cached json.RawMessage) bool {
	next.Phase, next.Reason, next.Execution, next.Cached = Terminal, reason, execution, cached
	return true
}
