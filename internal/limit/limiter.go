package limit

import (
	"sync"
	"time"
)

// Scopes of a refusal, for logs and metrics.
const (
	ScopePrincipal = "principal"
	ScopeGlobal    = "global"
)

// Options configure a Limiter.
type Options struct {
	Global       Rate // all callers together
	PerPrincipal Rate // each of them
	Burst        int  // of both; 0: a tenth of a minute's worth of each, and one at least
}

const (
	shards = 32
	// sweepEach is how many principals a shard holds before it looks for those
	// that have been idle for long enough to be as good as new.
	sweepEach = 512
)

// Limiter limits the requests of each principal, and those of all together. It is
// safe for concurrent use; a nil Limiter admits everything.
type Limiter struct {
	o      Options
	global *Bucket
	shards [shards]shard
}

type shard struct {
	mu    sync.Mutex // guards what follows
	by    map[[32]byte]*Bucket
	sweep int // size at which it is swept next
}

// New returns a limiter, or nil where nothing is limited.
func New(o Options) *Limiter {
	if o.Global.None() && o.PerPrincipal.None() {
		return nil
	}
	return &Limiter{o: o, global: NewBucket(o.Global, o.Burst)}
}

// Admit takes one request of a principal: of its own, and then of all, so that who
// is over its own limit uses up nothing of the others'. A refused request takes
// nothing. wait is never zero for one; scope says whose limit it met.
func (l *Limiter) Admit(principal *[32]byte, now time.Time) (wait time.Duration, scope string) {
	if l == nil {
		return 0, ""
	}
	own := l.bucket(principal, now)
	if wait, ok := own.Take(now); !ok {
		return wait, ScopePrincipal
	}
	if wait, ok := l.global.Take(now); !ok {
		own.giveBack(now)
		return wait, ScopeGlobal
	}
	return 0, ""
}

func (l *Limiter) bucket(principal *[32]byte, now time.Time) *Bucket {
	if l.o.PerPrincipal.None() {
		return nil
	}
	sh := &l.shards[principal[0]%shards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if b := sh.by[*principal]; b != nil {
		return b
	}
	if len(sh.by) >= max(sh.sweep, sweepEach) {
		for key, b := range sh.by {
			if b.full(now) {
				delete(sh.by, key) // it has nothing to remember
			}
		}
		sh.sweep = 2 * len(sh.by) // so that a sweep is paid for by what came since
	}
	if sh.by == nil {
		sh.by = map[[32]byte]*Bucket{}
	}
	b := NewBucket(l.o.PerPrincipal, l.o.Burst)
	sh.by[*principal] = b
	return b
}

// Same reports whether another limiter would limit as this one does, so that a
// reload can keep what was counted.
func (l *Limiter) Same(o Options) bool { return l != nil && l.o == o }
