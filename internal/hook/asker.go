package hook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/sony/gobreaker/v2"

	"github.com/penstock-mcp/penstock/internal/fault"
)

// How a hook that fails is spared, and those who wait for it.
const (
	failuresInARow = 5
	aloneFor       = 5 * time.Second
)

// errDeadline is the cause of a context that a hook's timeout ended.
var errDeadline = errors.New("the hook's timeout is over")

// way is how a hook is asked. ask returns when ctx ends. The verdict is checked
// by the asker.
type way interface {
	ask(ctx context.Context, c *Call) (Verdict, error)
	close()
}

// asker is one hook: it bounds, asks and judges what was answered. It is safe
// for concurrent use.
type asker struct {
	id           string
	wants        [numEvents]bool
	timeout      time.Duration
	maxBytes     int64
	allowOnError bool
	way          way
	breaker      *gobreaker.CircuitBreaker[Verdict]
	said         fault.Seldom
}

func newAsker(h *Hook, log *slog.Logger) (*asker, error) {
	a := &asker{
		id: h.ID, timeout: h.Timeout, maxBytes: h.MaxBytes, allowOnError: h.AllowOnError,
		breaker: newBreaker(h.ID, aloneFor),
	}
	if a.timeout == 0 {
		a.timeout = defaultTimeout
	}
	if a.maxBytes == 0 {
		a.maxBytes = defaultMaxBytes
	}
	for _, e := range h.Events {
		a.wants[e] = true
	}
	if h.Func != nil {
		a.way = newFunction(h.Func, func(p any, stack []byte) {
			a.said.Say(log, slog.LevelError, "hook function panicked", "hook", a.id, "panic", clean(fmt.Sprint(p), mostDetail), "stack", string(stack))
		})
		return a, nil
	}
	u, err := h.target()
	if err != nil {
		return nil, err
	}
	a.way = newEndpoint(a.id, u, a.timeout, a.mostAnswer())
	return a, nil
}

func newBreaker(id string, alone time.Duration) *gobreaker.CircuitBreaker[Verdict] {
	return gobreaker.NewCircuitBreaker[Verdict](gobreaker.Settings{
		Name:        id,
		MaxRequests: 1,
		Timeout:     alone,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= failuresInARow },
		IsExcluded:  func(err error) bool { return errors.Is(err, errGone) },
	})
}

// mostAnswer is how long an answer, and what it rewrites, may be.
func (a *asker) mostAnswer() int64 { return a.maxBytes + answerExtra }

// decide asks the hook about c. The error is errGone when the caller went away,
// and a *failure otherwise.
func (a *asker) decide(ctx context.Context, c *Call, seen *soundness) (Verdict, error) {
	if n := max(len(c.Arguments), len(c.result())); int64(n) > a.maxBytes {
		return Verdict{}, &failure{kind: tooLarge, err: fmt.Errorf("%d bytes, of which at most %d are shown", n, a.maxBytes)}
	}
	if err := seen.check(c); err != nil {
		return Verdict{}, &failure{kind: unsound, err: err}
	}
	v, err := a.breaker.Execute(func() (Verdict, error) {
		v, err := a.ask(ctx, c)
		if err != nil && ctx.Err() != nil {
			err = errGone
		}
		return v, err
	})
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		err = &failure{kind: leftAlone}
	}
	return v, err
}

// ask asks within the hook's timeout, and checks the verdict.
func (a *asker) ask(ctx context.Context, c *Call) (Verdict, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, a.timeout, errDeadline)
	defer cancel()
	v, err := a.way.ask(ctx, c)
	if err == nil {
		err = v.check(c.Event, a.mostAnswer())
	} else if errors.Is(context.Cause(ctx), errDeadline) {
		err = &failure{kind: late, err: fmt.Errorf("its timeout is %s", a.timeout)}
	}
	if err != nil {
		return Verdict{}, err
	}
	return v, nil
}

func (a *asker) close() { a.way.close() }

// soundness remembers, for the hooks of one Run, that a result was read
// strictly. What a hook rewrote was, too, so once is enough.
type soundness struct{ seen bool }

// check reports that the result does not read the same everywhere. An upstream
// must not be able to show a hook one thing and the client another, by a name
// that comes twice, say.
func (s *soundness) check(c *Call) error {
	raw := c.result()
	if s.seen || raw == nil {
		return nil
	}
	if err := strictObject(raw); err != nil {
		return err
	}
	s.seen = true
	return nil
}

// strictObject reports that raw is not one JSON object, with nothing around it
// but white space, without duplicate names, and in UTF-8.
func strictObject(raw []byte) error {
	v := jsontext.Value(raw)
	switch {
	case v.Kind() != '{':
		return errors.New("a JSON object is expected")
	case !v.IsValid():
		return errors.New("it is not valid JSON, not UTF-8, or has a name that comes twice")
	}
	return nil
}
