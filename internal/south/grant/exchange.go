package grant

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
)

// Exchange gets, for one upstream, a token in exchange for each caller's own
// (RFC 8693). It is safe for concurrent use; Close ends it.
type Exchange struct {
	k     *keeper
	slots *otter.Cache[[32]byte, *slot] // by Subject.Hash
	clock *slotClock
}

// NewExchange reports every fault of the options; nothing is asked for yet.
func NewExchange(o Options) (*Exchange, error) {
	k, err := newKeeper(kindExchange, o)
	if err != nil {
		return nil, err
	}
	if o.Entries <= 0 {
		o.Entries = defaultEntries
	}
	clock := &slotClock{}
	clock.told(k.now())
	slots, err := otter.New(&otter.Options[[32]byte, *slot]{
		MaximumSize:      o.Entries,
		ExpiryCalculator: otter.ExpiryCreating[[32]byte, *slot](k.timeout + idle),
		Clock:            clock,
	})
	if err != nil {
		return nil, fmt.Errorf("upstream %q: the cache of tokens: %w", o.Upstream, err)
	}
	return &Exchange{k: k, slots: slots, clock: clock}, nil
}

// Token returns a token for the upstream on behalf of s that is good for a
// request now. With one in memory it neither waits nor allocates. Otherwise it
// waits for the token endpoint, at most until ctx ends or Options.Timeout is
// over. The error is a *fault.Error of fault.CredentialFailed; its RetryAfter is
// set when trying again soon may help. s is only read, and not kept.
func (x *Exchange) Token(ctx context.Context, s *Subject) (string, error) {
	now := x.k.now()
	if err := s.check(x.k.e.upstream, now); err != nil {
		return "", err
	}
	x.clock.told(now)
	sl, ok := x.slots.GetIfPresent(s.Hash)
	if !ok {
		sl, _ = x.slots.ComputeIfAbsent(s.Hash, func() (*slot, bool) { return &slot{}, false })
	}
	h := sl.good(now)
	if h == nil {
		return x.k.fetch(ctx, sl, x.want(s), now)
	}
	if !now.Before(h.renew) && !x.k.crowded() && sl.mayRenew(now) {
		x.k.renew(sl, h, x.want(s))
	}
	return x.k.held(h), nil
}

// want copies what a request needs of s, which may outlive the call of Token.
func (x *Exchange) want(s *Subject) want {
	hash := s.Hash
	return want{subject: s.Token, ends: s.Expires, stay: func(d time.Duration) { x.slots.SetExpiresAfter(hash, d) }}
}

// Refused tells that the upstream answered 401 to a request with the token. It is
// forgotten if it is still the current one of s. The next Token asks for another,
// but at most one a second is got so.
func (x *Exchange) Refused(s *Subject, token string) {
	if s == nil {
		return
	}
	if sl, ok := x.slots.GetIfPresent(s.Hash); ok {
		sl.refused(token)
	}
}

// Forget forgets everything that is kept for the subject with this hash. What is
// under way for it goes to those who wait for it, and is not kept.
func (x *Exchange) Forget(hash [32]byte) {
	x.slots.Invalidate(hash)
}

// Close gives up what is under way, waits for its end and forgets all tokens.
// Token fails afterwards. It may be called more than once.
func (x *Exchange) Close() {
	x.k.close()
	x.slots.InvalidateAll()
	x.slots.StopAllGoroutines()
}

// Format writes which upstream's it is, and nothing of what it holds.
func (x *Exchange) Format(f fmt.State, _ rune) { x.k.format(f) }

// slotClock is the time of the cache, by which it drops slots that nobody needs.
// It is told by those who ask and exact to a second; that spares each look-up a
// second reading of the time, and the cache a goroutine.
type slotClock struct{ nano atomic.Int64 }

func (c *slotClock) told(now time.Time) {
	if n := now.UnixNano(); n-c.nano.Load() > int64(time.Second) {
		c.nano.Store(n)
	}
}

// NowNano is the last time told.
func (c *slotClock) NowNano() int64 { return c.nano.Load() }

// Tick never ticks: slots are dropped while others are used.
func (*slotClock) Tick(time.Duration) <-chan time.Time { return nil }
