package hook

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
)

func TestAHookThatFailsIsLeftAloneForAWhile(t *testing.T) {
	for _, allow := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var asked atomic.Int32
			var up atomic.Bool
			b := newBench(t, Hook{ID: "f", Timeout: time.Second, AllowOnError: allow, Func: func(ctx context.Context, _ *Call) (Verdict, error) {
				asked.Add(1)
				if !up.Load() {
					<-ctx.Done()
				}
				return Verdict{}, ctx.Err()
			}})
			want := fault.HookFailed
			if allow {
				want = 0
			}
			run := func() time.Duration {
				begun := time.Now()
				if _, err := b.Run(t.Context(), call(ToolBefore)); code(err) != want {
					t.Error(err)
				}
				return time.Since(begun)
			}
			for range failuresInARow {
				if took := run(); took != time.Second {
					t.Errorf("it took %s", took)
				}
			}
			for range 100 {
				if took := run(); took != 0 {
					t.Errorf("left alone, it took %s", took)
				}
			}
			if n := asked.Load(); n != failuresInARow {
				t.Errorf("it was asked %d times", n)
			}
			time.Sleep(aloneFor + time.Millisecond)
			var wg sync.WaitGroup
			for range 100 { // one asks again, nobody else waits for that
				wg.Go(func() { run() })
			}
			wg.Wait()
			if n := asked.Load(); n != failuresInARow+1 || run() != 0 {
				t.Errorf("it was asked %d times", n)
			}
			if n := b.count(); n["error_denied"]+n["error_allowed"] != failuresInARow+201 || len(n) != 1 {
				t.Errorf("told %v", n)
			}
			time.Sleep(aloneFor + time.Millisecond)
			up.Store(true)
			want = 0
			for range 10 {
				run()
			}
			if n := asked.Load(); n != failuresInARow+11 {
				t.Errorf("it was asked %d times", n)
			}
		})
	}
}

// The one that asks again may be a caller who goes away; then the next one does.
func TestACallerThatGoesAwayLeavesTheNextToAskAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		var f atomic.Value
		f.Store(deciding(Verdict{}, errors.New("down")))
		b := newBench(t, Hook{Func: func(ctx context.Context, c *Call) (Verdict, error) {
			asked.Add(1)
			return f.Load().(Func)(ctx, c)
		}})
		for range failuresInARow {
			_, _ = b.Run(t.Context(), call(ToolBefore))
		}
		time.Sleep(aloneFor + time.Millisecond)
		f.Store(Func(func(ctx context.Context, _ *Call) (Verdict, error) {
			<-ctx.Done()
			return Verdict{}, ctx.Err()
		}))
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := b.Run(ctx, call(ToolBefore)); !errors.Is(err, context.DeadlineExceeded) || code(err) != 1 {
				t.Error(err)
			}
			cancel()
		}
		synctest.Wait()
		f.Store(deciding(Verdict{}, nil))
		if _, err := b.Run(t.Context(), call(ToolBefore)); err != nil || asked.Load() != failuresInARow+4 {
			t.Errorf("asked %d times, %v", asked.Load(), err)
		}
	})
}

func TestOneAnswerBetweenFailuresIsEnough(t *testing.T) {
	asked := 0
	b := newBench(t, Hook{Func: func(context.Context, *Call) (Verdict, error) {
		if asked++; asked%failuresInARow == 0 {
			return Verdict{Deny: true}, nil
		}
		return Verdict{}, errors.New("no")
	}})
	for range 50 {
		_, _ = b.Run(t.Context(), call(ToolBefore))
	}
	if asked != 50 {
		t.Errorf("it was asked %d times", asked)
	}
}

func TestAKindOfFailureIsLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Hook{ID: "one", Func: deciding(Verdict{}, errors.New("no")), AllowOnError: true}, Hook{ID: "two", Func: deciding(Verdict{}, errors.New("no"))})
		for range 100 {
			_, _ = b.Run(t.Context(), call(ToolBefore))
		}
		log := b.log.String()
		if strings.Count(log, "\n") != 4 || strings.Count(log, string(funcError)) != 4 || strings.Count(log, string(leftAlone)) != 4 {
			t.Errorf("logged\n%s", log)
		}
		if !strings.Contains(log, "level=WARN") || !strings.Contains(log, "hook=one") || !strings.Contains(log, "hook=two") || !strings.Contains(log, "on_error=allow") {
			t.Errorf("logged\n%s", log)
		}
	})
}
