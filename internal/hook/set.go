package hook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Set is the hooks of one document (DESIGN section 11). It is immutable and
// safe for concurrent use. A nil Set wants nothing.
type Set struct {
	all   []*asker
	by    [numEvents][]*asker // in the document's order
	holds [numEvents]int64
	o     Options
}

// New checks the hooks. It connects to nothing; Close ends what Run opens.
func New(hooks []Hook, o Options) (*Set, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Outcome == nil {
		o.Outcome = func(string, Event, string, time.Duration) {}
	}
	s := &Set{o: o}
	known := map[string]bool{}
	for i := range hooks {
		h := &hooks[i]
		if err := h.check(); err != nil {
			return nil, err
		}
		if known[h.ID] {
			return nil, fmt.Errorf("hook %q is there twice", h.ID)
		}
		known[h.ID] = true
		a, err := newAsker(h, o.Log)
		if err != nil {
			return nil, err
		}
		s.all = append(s.all, a)
		for e := range numEvents {
			if a.wants[e] {
				s.by[e] = append(s.by[e], a)
				s.holds[e] = max(s.holds[e], a.maxBytes)
			}
		}
	}
	return s, nil
}

// Wants reports whether any hook is to be asked at e. It allocates nothing.
func (s *Set) Wants(e Event) bool { return len(s.of(e)) > 0 }

// Holds is the largest max_bytes among the hooks of e, in bytes: a result has to
// be held up to this length to be shown. Of a longer one no hook is shown
// anything, and Refuse tells what that means. It is 0 where no hook wants e.
func (s *Set) Holds(e Event) int64 {
	if s == nil || e >= numEvents {
		return 0
	}
	return s.holds[e]
}

// Run asks the hooks of c.Event, in the document's order, each seeing what the
// one before rewrote. What they rewrite replaces c.Arguments or c.Result, never
// the bytes that these held; rewrote reports that it differs from what was
// there. The new bytes are one strict JSON object without duplicate names, with
// white space as the hook wrote it, and belong to the caller.
//
// The error is a *fault.Error: HookRefused with the hook's message, or
// HookFailed; for after events both tell that the call ran. When ctx ends, it is
// ctx's cause. After an error c may hold what earlier hooks rewrote. Run returns
// when ctx ends or the hooks' timeouts are over, whatever the hooks do.
func (s *Set) Run(ctx context.Context, c *Call) (rewrote bool, err error) {
	var seen soundness
	for _, a := range s.of(c.Event) {
		if ctx.Err() != nil {
			return rewrote, context.Cause(ctx)
		}
		changed, err := s.run(ctx, a, c, &seen)
		rewrote = rewrote || changed
		if err != nil {
			return rewrote, err
		}
	}
	return rewrote, nil
}

// run asks one hook and does what it says.
func (s *Set) run(ctx context.Context, a *asker, c *Call, seen *soundness) (changed bool, err error) {
	begun := time.Now()
	v, err := a.decide(ctx, c, seen)
	switch {
	case errors.Is(err, errGone):
		return false, context.Cause(ctx)
	case err != nil:
		return false, s.fail(a, c.Event, err, time.Since(begun))
	case v.Deny:
		s.o.Outcome(a.id, c.Event, "deny", time.Since(begun))
		return false, refused(a.id, c.Event, v.Message)
	}
	outcome := "allow"
	if changed = c.apply(&v); changed {
		outcome = "rewrite"
	}
	s.o.Outcome(a.id, c.Event, outcome, time.Since(begun))
	return changed, nil
}

// Refuse is Run for an after event whose result is longer than Holds, so that no
// hook can be shown it: on_error of each hook decides. It returns nil when all
// allow that, else a *fault.Error of HookFailed. The bytes are for the log; a
// result whose length is not known has less than 1.
func (s *Set) Refuse(_ context.Context, e Event, bytes int64) error {
	for _, a := range s.of(e) {
		f := &failure{kind: tooLarge}
		if bytes > 0 {
			f.err = fmt.Errorf("%d bytes, of which at most %d are shown", bytes, a.maxBytes)
		}
		if err := s.fail(a, e, f, 0); err != nil {
			return err
		}
	}
	return nil
}

// fail does what on_error says: it logs and counts the failure, and returns nil
// when that goes on, else what the caller is told.
func (s *Set) fail(a *asker, e Event, err error, d time.Duration) error {
	f := asFailure(err)
	onError, suffix := "deny", "_denied"
	if a.allowOnError {
		onError, suffix = "allow", "_allowed"
	}
	outcome := "error"
	if f.kind == tooLarge {
		outcome = "too_large"
	}
	s.o.Outcome(a.id, e, outcome+suffix, d)
	a.said.Say(s.o.Log, slog.LevelWarn, string(f.kind), "hook", a.id, "event", e.String(), "on_error", onError, "err", f)
	if a.allowOnError {
		return nil
	}
	return failed(a.id, e, f)
}

// Close lets go of idle connections. Calls that still run end by themselves and
// keep none. It may be called more than once.
func (s *Set) Close() {
	if s == nil {
		return
	}
	for _, a := range s.all {
		a.close()
	}
}

func (s *Set) of(e Event) []*asker {
	if s == nil || e >= numEvents {
		return nil
	}
	return s.by[e]
}
