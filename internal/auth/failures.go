package auth

import (
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
	"golang.org/x/time/rate"
)

const (
	maxSources    = 10_000
	failuresBurst = 20
	turnPatience  = time.Second
	maxTurns      = 1024 // that wait; one takes some 0.1 ms, so all of them come within turnPatience
)

// failures bounds the work that forged tokens cause (DESIGN section 2, step 2).
//
// Only a signature that was checked and did not hold counts: that is what costs
// processor time, everything before it is cheap. A source that used up its
// failures is not refused, for behind one address there may be a whole office, and
// one who floods must not lock out the others. Instead its tokens are verified one
// at a time, in one queue for all such sources, so that together they never take
// more than one processor. Tokens that are remembered do not come here at all.
type failures struct {
	sources *otter.Cache[string, *rate.Limiter]
	turn    chan struct{} // capacity 1: whose turn it is
	waiting atomic.Int32
}

func newFailures() *failures {
	return &failures{sources: bounded[string, *rate.Limiter](maxSources), turn: make(chan struct{}, 1)}
}

// enter lets a source check a signature. Unless ok is false, leave must be called
// after the check with the same queued.
func (f *failures) enter(source string) (queued, ok bool) {
	l, known := f.sources.GetIfPresent(household(source))
	if !known || l.Tokens() >= 1 {
		return false, true
	}
	if f.waiting.Add(1) > maxTurns {
		f.waiting.Add(-1)
		return false, false
	}
	defer f.waiting.Add(-1)
	t := time.NewTimer(turnPatience)
	defer t.Stop()
	select {
	case f.turn <- struct{}{}:
		return true, true
	case <-t.C:
		return false, false
	}
}

// leave ends a check; failed counts it.
func (f *failures) leave(source string, queued, failed bool) {
	if queued {
		<-f.turn
	}
	if !failed {
		return
	}
	source = household(source)
	l, known := f.sources.GetIfPresent(source)
	if !known {
		// Of several at once, one is put in, and all take that.
		l, _ = f.sources.SetIfAbsent(source, rate.NewLimiter(1, failuresBurst))
	}
	l.Allow()
}

// household is what counts as one source: an IPv4 address, or the /64 that one
// customer has of IPv6 addresses.
func household(source string) string {
	ip, err := netip.ParseAddr(source)
	if err != nil {
		return source
	}
	if ip = ip.Unmap(); ip.Is4() {
		return ip.String()
	}
	p, err := ip.WithZone("").Prefix(64)
	if err != nil {
		return source
	}
	return p.String()
}
