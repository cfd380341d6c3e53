package auth

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// The pace of reading key sets.
const (
	hourly    = time.Hour
	soonest   = 500 * time.Millisecond // after a failure, doubling
	latest    = time.Minute
	seldom    = 30 * time.Second // between two readings for unknown key ids
	patience  = 5 * time.Second  // of a request for a reading
	maxParked = 4096             // requests that wait for one set

	readTimeout = 2 * fetchTimeout // of a reading, with all places where it may be
)

// keySet is the keys of one issuer as they were last read. One goroutine, run,
// reads them; requests look at the last reading behind an atomic pointer.
//
// A reading that fails changes nothing, however long the issuer is away.
type keySet struct {
	issuer  string
	address string // "": discovered
	client  *http.Client
	log     *slog.Logger

	now     atomic.Pointer[keys] // nil: never read
	first   chan struct{}        // closed when keys are there
	ended   chan struct{}        // closed when run has ended: nobody reads any more
	poke    chan struct{}        // capacity 1: read now
	failing atomic.Bool          // the last reading failed
	parked  atomic.Int32

	mu       sync.Mutex    // guards what follows; nothing waits under it
	underway chan struct{} // closed when the reading under way or asked for has ended; nil: none
	asked    time.Time     // when an unknown key id last had the set read
	there    bool          // first is closed

	found string // by discovery; run's own
}

func newKeySet(issuer, address string, client *http.Client, log *slog.Logger) *keySet {
	return &keySet{
		issuer: issuer, address: address, client: client, log: log,
		first: make(chan struct{}), ended: make(chan struct{}), poke: make(chan struct{}, 1),
	}
}

// lookup returns the keys that fit a token, and of which reading they are. It waits where that may help: for the
// first reading, and for one on behalf of an unknown key id. Of these there is one
// in a while; between them unknown ids are refused at once, so that a flood of
// them neither reaches the issuer nor piles up here.
func (s *keySet) lookup(id, alg string) (fit []*signingKey, under *keys, refused *Refusal) {
	if s.now.Load() == nil && !s.park(s.first) {
		return nil, nil, refusedUnavailable
	}
	under = s.now.Load()
	if fit = under.find(id, alg); len(fit) == 0 {
		refused = s.reread()
		under = s.now.Load()
		if fit = under.find(id, alg); len(fit) == 0 {
			return nil, under, refused
		}
	}
	if id == "" && len(fit) > 1 {
		// To try them all would make it dear to refuse.
		return nil, under, refusedNameless
	}
	return fit, under, nil
}

// reread has the set read again if it is time for that, waits for it, and returns
// how to refuse a token whose key is not there even so. While the issuer does not
// answer, nobody can say that the token is bad.
func (s *keySet) reread() *Refusal {
	if wait := s.ask(); wait != nil && !s.park(wait) || s.failing.Load() {
		return refusedUnavailable
	}
	return refusedUnknown
}

// ask returns what to wait for, or nil when no reading is due.
func (s *keySet) ask() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.underway != nil {
		return s.underway
	}
	if !s.asked.IsZero() && time.Since(s.asked) < seldom {
		return nil
	}
	s.asked = time.Now()
	s.underway = make(chan struct{})
	s.poke <- struct{}{} // empty: it is filled with underway only, and emptied before
	return s.underway
}

// park waits for c, not for long and not with too many. It is false when c did
// not come.
func (s *keySet) park(c <-chan struct{}) bool {
	if s.parked.Add(1) > maxParked {
		s.parked.Add(-1)
		return false
	}
	defer s.parked.Add(-1)
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-c:
		return true
	case <-t.C:
		return false
	case <-s.ended:
		return false
	}
}

// run reads the set at once, then hourly, when poked, and after failures more and
// more seldom. It ends with ctx.
func (s *keySet) run(ctx context.Context) {
	defer close(s.ended)
	pause := &backoff.ExponentialBackOff{
		InitialInterval: soonest, MaxInterval: latest, Multiplier: 2, RandomizationFactor: 0.3,
	}
	pause.Reset()
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		case <-s.poke:
		}
		if err := s.read(ctx); err != nil {
			if ctx.Err() != nil {
				return
			}
			wait := pause.NextBackOff()
			s.log.Warn("the keys of an issuer cannot be read; those that are known stay in use",
				"issuer", s.issuer, "known", s.now.Load() != nil, "retry", wait, "error", err)
			next.Reset(wait)
			continue
		}
		pause.Reset()
		// Not all instances of a fleet in the same second.
		next.Reset(hourly - rand.N(hourly/10))
	}
}

// read reads the set once, and lets go those who wait for it.
func (s *keySet) read(ctx context.Context) error {
	s.mu.Lock()
	select {
	case <-s.poke: // for this very reading
	default:
	}
	if s.underway == nil {
		s.underway = make(chan struct{})
	}
	s.mu.Unlock()

	set, err := s.fetch(ctx)
	if failed := s.failing.Swap(err != nil); err == nil {
		if failed {
			s.log.Info("the keys of an issuer can be read again", "issuer", s.issuer)
		}
		s.adopt(set)
	}
	s.mu.Lock()
	close(s.underway)
	s.underway = nil
	s.mu.Unlock()
	return err
}

func (s *keySet) fetch(ctx context.Context) (*keys, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	address := s.address
	if address == "" {
		if s.found == "" {
			found, err := discover(ctx, s.client, s.issuer)
			if err != nil {
				return nil, fmt.Errorf("discover the keys: %w", err)
			}
			s.found = found
		}
		address = s.found
	}
	raw, err := get(ctx, s.client, address)
	if err != nil {
		s.found = "" // they may have moved
		return nil, err
	}
	set, skipped, err := parseKeys(raw)
	if err != nil {
		s.found = ""
		return nil, fmt.Errorf("%q: %w", address, err)
	}
	if len(set.all) == 0 {
		s.log.Warn("an issuer publishes no usable key; none of its tokens is accepted", "issuer", s.issuer, "unusable", skipped)
	}
	return set, nil
}

// adopt puts a reading into use. Keys that it no longer holds end what was
// verified with them.
func (s *keySet) adopt(set *keys) {
	was := s.now.Load()
	gone := set.succeed(was)
	if was == nil || len(gone) > 0 || len(set.all) != len(was.all) {
		s.log.Info("the keys of an issuer are others now", "issuer", s.issuer, "keys", len(set.all), "withdrawn", len(gone))
	}
	s.now.Store(set)
	for _, k := range gone {
		k.withdrawn.Store(true)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.there {
		s.there = true
		close(s.first)
	}
}

// inherit takes over what an earlier set of the same issuer knows, unless this
// one knows something already.
func (s *keySet) inherit(from *keySet) {
	known := from.now.Load()
	if known == nil || !s.now.CompareAndSwap(nil, known) {
		return
	}
	from.mu.Lock()
	asked := from.asked
	from.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = asked
	if !s.there {
		s.there = true
		close(s.first)
	}
}
