package task

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/store"
)

// MaxID bounds a task id, in bytes: it has to fit into a header.
const MaxID = 2048

// Hash is what a task id is known by.
func Hash(id string) [32]byte { return sha256.Sum256([]byte(id)) }

// ValidID reports whether an upstream's id can be a task's at all.
func ValidID(id string) bool { return id != "" && len(id) <= MaxID }

// Options configure an Index.
type Options struct {
	Store store.Tasks
	// Seal hides an id for the operator's commands; nil keeps none.
	Seal         func(id string) []byte
	Grace        time.Duration // how long a record is kept after its task has passed
	UnlimitedTTL time.Duration // how long one without an end is kept after its last use
	Log          *slog.Logger
	Now          func() time.Time // nil: time.Now
}

// Index is the memory of who owns which task. It is safe for concurrent use.
type Index struct {
	o      Options
	broken atomic.Int64 // Unix nanoseconds until which the store is taken for one that cannot commit
	counts counts

	mu      sync.Mutex // guards moved
	moved   map[key]store.TaskTouch
	reserve sync.Mutex // guards reserved
	slots   map[[32]byte]int
	all     int // of slots
}

type key struct{ hash, principal [32]byte }

// New returns an index over a store. It starts nothing; Run keeps it tidy.
func New(o Options) *Index {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Index{o: o, moved: map[key]store.TaskTouch{}, slots: map[[32]byte]int{}}
}

const (
	// brokenFor is how long no task is offered after the store could not commit.
	brokenFor = time.Second
	// touchEvery is how often moved lifetimes are written.
	touchEvery = 5 * time.Second
	// sweepEvery is how often records are looked for whose tasks have passed.
	sweepEvery = 30 * time.Second
	sweepBatch = 500
	// maxMoved bounds the lifetimes that wait to be written; beyond it they are
	// forgotten, and noted again at the next use.
	maxMoved = 10_000
	// noteEvery and a tenth of the lifetime are how far an expiry or a last use has
	// to move to be written.
	noteEvery = 10 * time.Minute
)

// Run writes moved lifetimes and sweeps, until ctx ends.
func (x *Index) Run(ctx context.Context) error {
	touch, sweep := time.NewTicker(touchEvery), time.NewTicker(sweepEvery)
	defer touch.Stop()
	defer sweep.Stop()
	for {
		select {
		case <-ctx.Done():
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
			x.flush(end)
			cancel()
			return nil
		case <-touch.C:
			x.flush(ctx)
		case <-sweep.C:
			x.sweep(ctx)
		}
	}
}

func (x *Index) flush(ctx context.Context) {
	x.mu.Lock()
	batch := make([]store.TaskTouch, 0, len(x.moved))
	for _, t := range x.moved {
		batch = append(batch, t)
	}
	clear(x.moved)
	x.mu.Unlock()
	if len(batch) == 0 {
		return
	}
	if err := x.o.Store.Touch(ctx, batch...); err != nil && ctx.Err() == nil {
		x.o.Log.Warn("lifetimes of tasks not written", "tasks", len(batch), "error", err)
	}
}

func (x *Index) sweep(ctx context.Context) {
	now := x.o.Now()
	for {
		n, err := x.o.Store.Expire(ctx, now.Add(-x.o.Grace), now.Add(-x.o.UnlimitedTTL), sweepBatch)
		if err != nil {
			if ctx.Err() == nil {
				x.o.Log.Warn("tasks that have passed not swept", "error", err)
			}
			return
		}
		if n < sweepBatch {
			return
		}
	}
}

// Find returns the record of an id that a principal owns, or ErrUnknown. known
// tells, then, whether somebody else has one. It costs the same for a foreign id
// and for one that nobody has.
func (x *Index) Find(ctx context.Context, id string, principal [32]byte) (t *store.Task, known bool, err error) {
	t, known, err = x.o.Store.Get(ctx, Hash(id), principal)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, known, ErrUnknown
	case err != nil:
		return nil, false, unavailable(err)
	case t.Mark == store.TaskWithheld, t.Mark == store.TaskRevoked:
		return nil, true, ErrUnknown
	}
	return t, true, nil
}

// ErrUnknown is an id that this principal owns no task of.
var ErrUnknown = errors.New("task: no such task of this principal")

func unavailable(err error) error {
	if errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrNoSpace) || errors.Is(err, store.ErrClosed) {
		return fault.Wrap(err, fault.StoreUnavailable, "who owns the task cannot be looked up now").WithHint("try again")
	}
	return fault.Wrap(err, fault.Internal, "who owns the task cannot be looked up")
}
