package task

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// Where an id without a record leads.
var (
	// ErrAmbiguous is an id that two upstreams claim.
	ErrAmbiguous = errors.New("task: two upstreams claim the id")
	// ErrUnsure is an id that may be that of an upstream which gave no answer. One that
	// claims it meanwhile does not get it: it may be waiting for that.
	ErrUnsure = errors.New("task: not every upstream that may have the id answered")
	// ErrTooOften is a principal that has looked for too many ids.
	ErrTooOften = errors.New("task: the principal looks for too many ids")
)

// TooOften is an ErrTooOften with the time until the next search.
type TooOften struct{ Wait time.Duration }

// Error implements error.
func (t *TooOften) Error() string { return ErrTooOften.Error() }

// Is implements the test of errors.Is.
func (t *TooOften) Is(target error) bool { return target == ErrTooOften } //nolint:errorlint // as errors.Is asks

// Verdict is what one upstream says of an id.
type Verdict uint8

// The verdicts.
const (
	NotMine Verdict = iota
	Mine
	NoAnswer
)

// Search is one look for a task without a record.
type Search struct {
	ID        string
	Principal [32]byte
	// Foreign says that somebody else has a record of it. It is then looked for in
	// appearance alone: no upstream hears of it, and limits, time and outcome are
	// those of a real search.
	Foreign bool
	Among   []string // keys of the upstreams that are asked
	// Ask asks one of them, with a read. It must return soon after ctx ends.
	Ask func(ctx context.Context, upstream string) Verdict
}

// Locator finds the owners of tasks that nobody has a record of: from another
// gateway's time, or minted behind its back. It is safe for concurrent use.
type Locator struct {
	o LocatorOptions

	mu     sync.Mutex // guards all below; not held while asking
	misses map[key]time.Time
	flying map[key]*looking
	past   map[string]past // by the upstreams that were asked
	last   past            // of any
}

// LocatorOptions configure a Locator.
type LocatorOptions struct {
	Within  time.Duration // one search
	MissTTL time.Duration // how long a miss is remembered
	// Admit takes one search of a principal, or says how long to wait. It is asked
	// for foreign ids as well.
	Admit func(principal *[32]byte, now time.Time) (wait time.Duration, ok bool)
	Now   func() time.Time // nil: time.Now
}

// NewLocator returns a locator that has not looked for anything.
func NewLocator(o LocatorOptions) *Locator {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Locator{o: o, misses: map[key]time.Time{}, flying: map[key]*looking{}, past: map[string]past{}, last: past{err: ErrUnknown}}
}

// looking is one search under way.
type looking struct {
	done     chan struct{}
	upstream string
	err      error
}

// maxMisses bounds the misses that are remembered.
const maxMisses = 50_000

// Locate returns the one upstream that claims an id while all others say that they
// do not have it. Errors: ErrUnknown, also for a miss that is remembered;
// ErrAmbiguous; ErrUnsure; TooOften; that of ctx.
func (l *Locator) Locate(ctx context.Context, s *Search) (upstream string, err error) {
	k := key{Hash(s.ID), s.Principal}
	now := l.o.Now()
	l.mu.Lock()
	if until, missed := l.misses[k]; missed && now.Before(until) {
		l.mu.Unlock()
		return "", ErrUnknown
	}
	fl := l.flying[k]
	if fl == nil {
		if wait, ok := l.o.Admit(&s.Principal, now); !ok {
			l.mu.Unlock()
			return "", &TooOften{wait}
		}
		fl = &looking{done: make(chan struct{})}
		l.flying[k] = fl
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.o.Within)
		go func() {
			defer cancel()
			l.look(within, k, fl, s)
		}()
	}
	l.mu.Unlock()
	select {
	case <-fl.done:
		return fl.upstream, fl.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

func (l *Locator) look(ctx context.Context, k key, fl *looking, s *Search) {
	switch {
	case len(s.Among) == 0:
		fl.err = ErrUnknown
	case s.Foreign:
		fl.err = l.pretend(ctx, s)
	default:
		began := time.Now()
		fl.upstream, fl.err = s.ask(ctx)
		if fl.err != nil {
			took := time.Since(began)
			l.remember(s, took, fl.err)
			blur(ctx, onGrid(took)-took)
		}
	}
	l.mu.Lock()
	delete(l.flying, k)
	if errors.Is(fl.err, ErrUnknown) {
		l.missLocked(k)
	}
	l.mu.Unlock()
	close(fl.done)
}

// past is how the last real search ended that found nothing.
type past struct {
	took time.Duration
	err  error
}

// maxPast bounds the sets of upstreams whose last search is remembered.
const maxPast = 256

// among names a set of upstreams: who may reach others waits for others.
func (s *Search) among() string { return strings.Join(s.Among, "\x00") }

func (l *Locator) remember(s *Search, took time.Duration, err error) {
	if errors.Is(err, ErrAmbiguous) {
		err = ErrUnknown // that is true of one id only
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.past) >= maxPast {
		clear(l.past)
	}
	l.last = past{took, err}
	l.past[s.among()] = l.last
}

// pretend takes the time of the last real search among the same upstreams, and ends
// like it.
func (l *Locator) pretend(ctx context.Context, s *Search) error {
	l.mu.Lock()
	last, ok := l.past[s.among()]
	if !ok {
		last = l.last
	}
	l.mu.Unlock()
	blur(ctx, onGrid(last.took))
	return last.err
}

// grid is what the times of searches that find nothing are rounded up to, and the
// most that chance adds, those of real ones as well. How late a timer wakes, and how
// warm the machine is after a real search, does not show in that.
const grid = 5 * time.Millisecond

func onGrid(d time.Duration) time.Duration { return (d + grid - 1) / grid * grid }

// blur waits for a time and a little more by chance, or until ctx ends.
func blur(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d + rand.N(grid))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func (l *Locator) missLocked(k key) {
	now := l.o.Now()
	if len(l.misses) >= maxMisses {
		for old, until := range l.misses {
			if !now.Before(until) {
				delete(l.misses, old)
			}
		}
		if len(l.misses) >= maxMisses {
			clear(l.misses)
		}
	}
	l.misses[k] = now.Add(l.o.MissTTL)
}

// ask asks all upstreams at once. It does not wait for the rest once two claim.
func (s *Search) ask(ctx context.Context) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type said struct {
		upstream string
		verdict  Verdict
	}
	heard := make(chan said, len(s.Among))
	gate := make(chan struct{}, maxAsked)
	for _, u := range s.Among {
		go func() {
			gate <- struct{}{}
			defer func() { <-gate }()
			v := NoAnswer
			if ctx.Err() == nil {
				v = s.Ask(ctx, u)
			}
			heard <- said{u, v}
		}()
	}
	owner, unsure := "", false
	for range s.Among {
		h := <-heard
		switch h.verdict {
		case Mine:
			if owner != "" {
				return "", ErrAmbiguous
			}
			owner = h.upstream
		case NoAnswer:
			unsure = true
		}
	}
	switch {
	case unsure:
		return "", ErrUnsure
	case owner != "":
		return owner, nil
	}
	return "", ErrUnknown
}

// maxAsked is how many upstreams are asked at once.
const maxAsked = 16
