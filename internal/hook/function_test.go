package hook

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
)

func TestAFunctionGetsACallOfItsOwn(t *testing.T) {
	var kept *Call
	b := newBench(t, Hook{Func: func(_ context.Context, c *Call) (Verdict, error) {
		kept = c
		c.Name, c.Event, c.Principal.Subject, c.Principal.Scopes[0] = "other", ToolBefore, "other", "admin"
		for i := range c.Arguments {
			c.Arguments[i] = 'x'
		}
		for i := range c.Result {
			c.Result[i] = 'x'
		}
		return Verdict{}, nil
	}})
	c, want := call(ToolAfter), call(ToolAfter)
	rewrote, err := b.Run(t.Context(), c)
	if err != nil || rewrote {
		t.Fatal(rewrote, err)
	}
	if kept == c || c.Name != want.Name || c.Event != want.Event || c.Principal.Subject != want.Principal.Subject || c.Principal.Scopes[0] != "mcp" ||
		!bytes.Equal(c.Arguments, want.Arguments) || !bytes.Equal(c.Result, want.Result) {
		t.Errorf("the function changed the call to %+v", c)
	}
}

func TestAFunctionSeesWhatAnEndpointWouldSee(t *testing.T) {
	var got Call
	b := newBench(t, Hook{Func: func(_ context.Context, c *Call) (Verdict, error) {
		got = *c
		return Verdict{}, nil
	}})
	if _, err := b.Run(t.Context(), &Call{Event: ResourceBefore, Name: "file:///a", Result: []byte(`{"early":1}`)}); err != nil {
		t.Fatal(err)
	}
	if string(got.Arguments) != `{}` || got.Result != nil || got.Name != "file:///a" {
		t.Errorf("%+v", got)
	}
}

func TestWhatAFunctionAnswersIsCopied(t *testing.T) {
	shared := []byte(` {"a":1} `)
	b := newBench(t, Hook{Func: deciding(Verdict{Arguments: shared}, nil)})
	c := call(ToolBefore)
	rewrote, err := b.Run(t.Context(), c)
	if err != nil || !rewrote || string(c.Arguments) != `{"a":1}` {
		t.Fatal(rewrote, err, string(c.Arguments))
	}
	shared[3] = 'b'
	if string(c.Arguments) != `{"a":1}` {
		t.Errorf("the function can still write: %s", c.Arguments)
	}
}

func TestAFunctionThatGivesNoDecisionFails(t *testing.T) {
	for name, c := range map[string]struct {
		f    Func
		kind kind
	}{
		"error":               {deciding(Verdict{}, errors.New("no")), funcError},
		"error and denial":    {deciding(Verdict{Deny: true}, errors.New("no")), funcError},
		"deadline of its own": {deciding(Verdict{}, context.DeadlineExceeded), funcError},
		"panic":               {func(context.Context, *Call) (Verdict, error) { panic("boom") }, panicked},
		"nil panic":           {func(context.Context, *Call) (Verdict, error) { panic(nil) }, panicked}, //nolint:govet // meant
		"goexit":              {func(context.Context, *Call) (Verdict, error) { runtime.Goexit(); return Verdict{}, nil }, funcError},
		"no JSON":             {deciding(Verdict{Arguments: []byte(`{"a":`)}, nil), badAnswer},
		"nothing":             {deciding(Verdict{Arguments: []byte{}}, nil), badAnswer},
		"trailing":            {deciding(Verdict{Arguments: []byte(`{} {}`)}, nil), badAnswer},
		"twice":               {deciding(Verdict{Arguments: []byte(`{"a":1,"a":2}`)}, nil), badAnswer},
		"no UTF-8":            {deciding(Verdict{Arguments: []byte("{\"a\":\"\xff\"}")}, nil), badAnswer},
		"a list":              {deciding(Verdict{Arguments: []byte(`[]`)}, nil), badAnswer},
		"a result before":     {deciding(Verdict{Result: []byte(`{}`)}, nil), badAnswer},
		"deny and rewrite":    {deciding(Verdict{Deny: true, Arguments: []byte(`{}`)}, nil), badAnswer},
		"too long":            {deciding(Verdict{Arguments: []byte(`{"a":"` + strings.Repeat("x", 1<<20+answerExtra) + `"}`)}, nil), tooLong},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, Hook{ID: "f", Func: c.f})
			cc := call(ToolBefore)
			_, err := b.Run(t.Context(), cc)
			var why *failure
			if code(err) != fault.HookFailed || !errors.As(err, &why) || why.kind != c.kind || b.told() != "f tool.before error_denied" {
				t.Errorf("%v, want %q", err, c.kind)
			}
			if !bytes.Equal(cc.Arguments, call(ToolBefore).Arguments) {
				t.Errorf("rewritten to %s", cc.Arguments)
			}
			if name == "panic" && (!strings.Contains(b.log.String(), "boom") || !strings.Contains(b.log.String(), "function_test.go")) {
				t.Errorf("the log has no stack: %s", b.log)
			}
			lenient := newBench(t, Hook{ID: "f", Func: c.f, AllowOnError: true})
			if _, err := lenient.Run(t.Context(), call(ToolBefore)); err != nil || lenient.told() != "f tool.before error_allowed" {
				t.Error(err)
			}
		})
	}
}

func TestAFunctionIsToldItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Hook{Timeout: 3 * time.Second, Func: func(ctx context.Context, _ *Call) (Verdict, error) {
			<-ctx.Done()
			return Verdict{}, ctx.Err()
		}})
		begun := time.Now()
		_, err := b.Run(t.Context(), call(ToolBefore))
		var why *failure
		if code(err) != fault.HookFailed || !errors.As(err, &why) || why.kind != late {
			t.Error(err)
		}
		if took := time.Since(begun); took != 3*time.Second {
			t.Errorf("it took %s", took)
		}
		synctest.Wait()
	})
}

func TestAFunctionThatIgnoresItsDeadlineIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running atomic.Int32
		release := make(chan struct{})
		b := newBench(t, Hook{ID: "f", Timeout: time.Second, Func: func(context.Context, *Call) (Verdict, error) {
			running.Add(1)
			defer running.Add(-1)
			<-release
			return Verdict{Deny: true}, nil
		}})
		f := b.all[0].way.(*function)
		const callers = 3 * mostRuns
		begun := time.Now()
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				if _, err := b.Run(t.Context(), call(ToolBefore)); code(err) != fault.HookFailed {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if took := time.Since(begun); took != time.Second {
			t.Errorf("the callers waited %s", took)
		}
		if n := running.Load(); n != mostRuns || f.deserted.Load() != mostRuns {
			t.Errorf("%d runs, %d of them deserted", n, f.deserted.Load())
		}
		b.told()
		b.all[0].breaker = newBreaker("f", aloneFor)
		begun = time.Now()
		_, err := b.Run(t.Context(), call(ToolBefore))
		var why *failure
		if !errors.As(err, &why) || why.kind != stragglers || time.Since(begun) != 0 {
			t.Errorf("%v after %s", err, time.Since(begun))
		}
		close(release)
		synctest.Wait()
		if n := running.Load(); n != 0 || f.deserted.Load() != 0 || len(f.places) != 0 {
			t.Errorf("%d run, %d are deserted, %d places are taken", n, f.deserted.Load(), len(f.places))
		}
		if _, err := b.Run(t.Context(), call(ToolBefore)); code(err) != fault.HookRefused {
			t.Errorf("it is not asked again: %v", err)
		}
	})
}

func TestAPanicAfterTheDeadlineHarmsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Hook{Timeout: time.Second, Func: func(context.Context, *Call) (Verdict, error) {
			time.Sleep(time.Minute)
			panic("late boom")
		}})
		if _, err := b.Run(t.Context(), call(ToolBefore)); code(err) != fault.HookFailed {
			t.Error(err)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if !strings.Contains(b.log.String(), "late boom") {
			t.Error(b.log)
		}
	})
}

func TestWhoeverComesWhenAllPlacesAreTakenWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Hook{Timeout: time.Minute, Func: func(context.Context, *Call) (Verdict, error) {
			time.Sleep(time.Second)
			return Verdict{}, nil
		}})
		begun := time.Now()
		var wg sync.WaitGroup
		for range 2 * mostRuns {
			wg.Go(func() {
				if _, err := b.Run(t.Context(), call(ToolBefore)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if took := time.Since(begun); took != 2*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

func TestACallerThatGoesAwayIsNoFailureOfAFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		b := newBench(t, Hook{Func: func(ctx context.Context, _ *Call) (Verdict, error) {
			asked.Add(1)
			<-ctx.Done()
			return Verdict{}, ctx.Err()
		}})
		cause := errors.New("gone")
		for range 2 * failuresInARow {
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, cause)
			if _, err := b.Run(ctx, call(ToolBefore)); !errors.Is(err, cause) || code(err) != 1 {
				t.Error(err)
			}
			cancel()
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		if _, err := b.Run(ctx, call(ToolBefore)); !errors.Is(err, cause) {
			t.Errorf("one that is gone already: %v", err)
		}
		synctest.Wait()
		if n := asked.Load(); n != 2*failuresInARow {
			t.Errorf("it was asked %d times", n)
		}
		if told, log := b.told(), b.log.String(); told != "" || log != "" {
			t.Errorf("told %q, logged %q", told, log)
		}
	})
}
