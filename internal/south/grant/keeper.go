package grant

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
)

// maxAhead is how many requests may be under way when a renewal ahead begins.
// Beyond it the token is used until its end, and fetched by who needs it then.
const maxAhead = 16

// idle is how long a slot is kept beyond the requests made for it.
const idle = 30 * time.Second

// keeper fills the slots of one upstream. It owns every request under way, and
// close ends them.
type keeper struct {
	e       *endpoint
	timeout time.Duration
	now     func() time.Time
	outcome func(kind, outcome string, d time.Duration)
	log     *slog.Logger
	said    fault.Seldom

	ctx    context.Context // ends with close
	cancel context.CancelFunc
	flying atomic.Int32

	mu      sync.Mutex // guards closed, and that nothing begins after it
	closed  bool
	flights sync.WaitGroup
}

func newKeeper(kind string, o Options) (*keeper, error) {
	u, err := o.ready()
	if err != nil {
		return nil, err
	}
	k := &keeper{e: newEndpoint(kind, u, &o), timeout: o.Timeout, now: o.Now, outcome: o.Outcome, log: o.Log}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	return k, nil
}

// want is what a request is made for.
type want struct {
	subject string    // the caller's token, for an exchange
	ends    time.Time // when that token does; zero: not known
	// stay, when set, has the slot kept for at least so long.
	stay func(time.Duration)
}

// held is called with a token from memory, which it hands out.
func (k *keeper) held(h *held) string {
	if k.outcome != nil {
		k.outcome(k.e.kind, outcomeCached, 0)
	}
	return h.token
}

// fetch returns a token when the slot holds none that is good.
func (k *keeper) fetch(ctx context.Context, s *slot, w want, now time.Time) (string, error) {
	if err := s.setBack(now); err != nil {
		return "", err
	}
	if ctx.Err() != nil {
		return "", k.left(ctx)
	}
	done := s.flights.DoChan("", func() (any, error) { return k.fly(s, nil, w) })
	select {
	case r := <-done:
		if r.Err != nil {
			return "", r.Err
		}
		return r.Val.(*held).token, nil
	case <-ctx.Done():
		return "", k.left(ctx)
	}
}

// renew fetches the next token while the current one, old, still serves.
func (k *keeper) renew(s *slot, old *held, w want) {
	s.flights.DoChan("", func() (any, error) {
		h, err := k.fly(s, old, w)
		if err != nil {
			k.said.Say(k.log, slog.LevelWarn, "a token was not renewed ahead of its end", "upstream", k.e.upstream, "error", err)
		}
		return h, err
	})
}

// crowded says whether renewals had better wait.
func (k *keeper) crowded() bool { return k.flying.Load() >= maxAhead }

// fly makes one request for a slot, unless the slot holds a good token other than
// old, which is to be replaced. One flight at a time runs for a slot.
func (k *keeper) fly(s *slot, old *held, w want) (*held, error) {
	if !k.begin() {
		return nil, k.replaced()
	}
	defer k.end()
	asked := k.now()
	// Another flight may have ended since the caller looked.
	if h := s.good(asked); h != nil && h != old {
		return h, nil
	}
	if err := s.setBack(asked); err != nil {
		return nil, err
	}
	if wait := s.mayAsk(asked); wait > 0 {
		return nil, fault.New(fault.CredentialFailed, "upstream %q refused the token that the identity provider had issued just before", k.e.upstream).
			WithHint("ask the operator to check audience and scopes of this upstream").WithRetryAfter(wait)
	}
	k.stay(s, w, asked)
	ctx, cancel := context.WithTimeout(k.ctx, k.timeout)
	defer cancel()
	a, f := k.e.ask(ctx, w.subject)
	now := k.now()
	if f != nil && k.ctx.Err() != nil {
		return nil, k.replaced() // whatever it looked like, close cut it short
	}
	if f != nil {
		k.count(f.outcome, now.Sub(asked))
		s.failed.Store(&setback{f.err, now.Add(f.remember)})
		return nil, f.err
	}
	k.count(outcomeOK, now.Sub(asked))
	if a.odd {
		k.said.Say(k.log, slog.LevelWarn, "the identity provider's expires_in is no positive number, so its tokens are used once", "upstream", k.e.upstream)
	}
	h := hold(a, asked, w.ends)
	s.keep(h, now)
	k.stay(s, w, now)
	return h, nil
}

// stay has the slot kept as long as there is a use for it.
func (k *keeper) stay(s *slot, w want, now time.Time) {
	if w.stay == nil {
		return
	}
	d := k.timeout + idle
	if h := s.now.Load(); h != nil {
		d = max(d, h.until.Sub(now)+idle)
	}
	w.stay(d)
}

func (k *keeper) count(outcome string, d time.Duration) {
	if k.outcome != nil {
		k.outcome(k.e.kind, outcome, d)
	}
}

// replaced is the error after close.
func (k *keeper) replaced() error {
	return fault.New(fault.CredentialFailed, "upstream %q: its credentials are being replaced", k.e.upstream).
		WithHint("try again").WithRetryAfter(time.Second)
}

// left is the error of a caller that waits no longer.
func (k *keeper) left(ctx context.Context) error {
	return fault.Wrap(context.Cause(ctx), fault.CredentialFailed, "upstream %q: the call ended before the identity provider had answered", k.e.upstream)
}

func (k *keeper) format(f fmt.State) {
	_, _ = fmt.Fprintf(f, "[%s of upstream %q]", k.e.kind, k.e.upstream)
}

func (k *keeper) begin() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return false
	}
	k.flights.Add(1)
	k.flying.Add(1)
	return true
}

func (k *keeper) end() {
	k.flying.Add(-1)
	k.flights.Done()
}

// close ends what is under way and waits for it. Nothing begins afterwards.
func (k *keeper) close() {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.cancel()
	k.flights.Wait()
}
