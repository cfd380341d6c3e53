package north

import (
	"sync"
	"sync/atomic"
	"weak"
)

// Principal is who calls. There may be several values for one principal, such as
// one for each of its tokens; what is counted for it is counted once, in Tally.
type Principal struct {
	Key  [32]byte
	Name string // for logs
	// Who is what the rooms behind know of the caller. It is theirs alone.
	Who any
	// Tally counts for this principal in the whole process (Ongoing.Tally); nil:
	// this value counts for itself.
	Tally *Tally

	own Tally
}

// Tally counts what one principal has under way.
type Tally struct {
	inFlight atomic.Int64
	parked   atomic.Int64 // questions that are open
}

func (p *Principal) tally() *Tally {
	if p.Tally != nil {
		return p.Tally
	}
	return &p.own
}

func (p *Principal) release() { p.tally().inFlight.Add(-1) }

// tallies finds the one tally of each principal. It keeps none alive: who is not
// known any more has nothing under way.
type tallies struct {
	mu    sync.Mutex // guards what follows
	by    map[[32]byte]weak.Pointer[Tally]
	sweep int // size at which those that are gone are taken out
}

// sweepTallies is how many tallies are kept before the first sweep.
const sweepTallies = 1024

// Tally returns the tally of a principal.
func (g *Ongoing) Tally(key [32]byte) *Tally {
	ts := &g.tallies
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.by[key].Value(); t != nil {
		return t
	}
	if ts.by == nil {
		ts.by = map[[32]byte]weak.Pointer[Tally]{}
	}
	if len(ts.by) >= max(ts.sweep, sweepTallies) {
		for k, p := range ts.by {
			if p.Value() == nil {
				delete(ts.by, k)
			}
		}
		ts.sweep = 2 * len(ts.by)
	}
	t := new(Tally)
	ts.by[key] = weak.Make(t)
	return t
}
