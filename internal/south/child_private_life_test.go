package south

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// untilOver is a user who answers nothing, until the question is taken back.
func untilOver(why *atomic.Value) onRequest {
	return func(ctx context.Context, _ *wire.Answer) ([]byte, error) {
		<-ctx.Done()
		if why != nil {
			why.Store(context.Cause(ctx))
		}
		return nil, context.Cause(ctx)
	}
}

func TestAPrivateProcessThatEndsFailsItsCallAloneAndStartsAgainWhenNeeded(t *testing.T) {
	u, log := startChild(t, "legacy")
	common := mustCall(t, u, "pid", "")
	a, b := pidOf(t, u, "a"), pidOf(t, u, "b")
	_, err := toolCall{name: "ask-and-exit", key: keyOf("a"), onRequest: untilOver(nil)}.send(t.Context(), u)
	childFault(t, err, fault.ConnectionLost)
	if s := u.State(); s.State != "up" || s.Starts != 1 || s.Breaker != "closed" {
		t.Errorf("state %+v", s)
	}
	waitFor(t, log, "process for one client ended")
	eventually(t, 5*time.Second, "one process less", func() bool { return u.State().Sessions == 1 })
	time.Sleep(200 * time.Millisecond) // twice the longest backoff: nobody needs it
	if n := u.State().Sessions; n != 1 {
		t.Errorf("%d processes", n)
	}
	if again := pidOf(t, u, "a"); again == a || pidOf(t, u, "b") != b || mustCall(t, u, "pid", "") != common {
		t.Errorf("process %d after %d, or others did not go on", again, a)
	}
}

func TestAPrivateProcessThatCannotStartIsTriedWithBackoffAndHarmsNobody(t *testing.T) {
	u, _ := startChild(t, "legacy,dies-if-told", func(o *Options) { o.Command.Backoff, o.Command.MaxBackoff = time.Minute, time.Minute })
	mustCall(t, u, "echo", "")
	for range 2 {
		begun := time.Now()
		_, err := toolCall{name: "echo", key: keyOf("a"), onRequest: user("a")}.send(t.Context(), u)
		childFault(t, err, fault.UpstreamUnavailable)
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("failed after %v", took)
		}
	}
	if n := u.child.privates.byKey[keyOf("a")].child.failures; n != 1 {
		t.Errorf("%d starts within the backoff", n)
	}
	mustCall(t, u, "echo", "")
	if s := u.State(); s.State != "up" || s.Breaker != "closed" || s.Sessions != 0 {
		t.Errorf("state %+v", s)
	}
}

// A start goes on when its caller has left, for the next one.
func TestAStartOutlivesTheCallThatNeededIt(t *testing.T) {
	u, _ := startChild(t, "legacy,slow-if-told")
	mustCall(t, u, "echo", "")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		eventually(t, 5*time.Second, "the start", func() bool {
			u.child.privates.mu.Lock()
			defer u.child.privates.mu.Unlock()
			p := u.child.privates.byKey[keyOf("a")]
			return p != nil && p.child.youngest() != nil
		})
	}()
	if _, err := (toolCall{name: "echo", key: keyOf("a"), onRequest: user("a")}).send(ctx, u); err == nil {
		t.Error("a call that was given up was answered")
	}
	eventually(t, 5*time.Second, "the process", func() bool { return u.State().Sessions == 1 })
	first := u.child.privates.of(keyOf("a")).pid()
	if got := pidOf(t, u, "a"); got != first {
		t.Errorf("process %d, want %d", got, first)
	}
}

func TestAChildThatDoesNotWaitForTheUserEndsItsQuestion(t *testing.T) {
	u, _ := startChild(t, "legacy")
	var why atomic.Value
	if got := consult(t, u, "a", "ask-and-go", `{"text":"x"}`, untilOver(&why)); got != "went on" {
		t.Errorf("got %q", got)
	}
	if err, _ := why.Load().(error); !errors.Is(err, errOvertaken) {
		t.Errorf("the question ended with %v", err)
	}
	if got := consult(t, u, "a", "ask", `{"text":"y"}`, user("a")); got != "a<y/0>" {
		t.Errorf("the next call got %q", got)
	}
}

// While a question is open, the bound of the queue ends the call, and not time.
func TestWhatIsSaidDuringAQuestionWaitsWithinItsBound(t *testing.T) {
	u, _ := startChild(t, "legacy")
	pid := pidOf(t, u, "a")
	patient := func(ctx context.Context, s *wire.Answer) ([]byte, error) {
		select {
		case <-time.After(eventPatience + time.Second):
			return user("a")(ctx, s)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	for _, c := range []struct {
		times int
		fits  bool
	}{{eventsHeld, true}, {eventsHeld + 1, false}} {
		events, begun := 0, time.Now()
		got, err := toolCall{
			name: "ask-and-flood", args: fmt.Sprintf(`{"text":"x","times":%d}`, c.times), key: keyOf("a"), onRequest: patient,
			onEvent: func(*wire.Answer) error { events++; return nil },
		}.send(t.Context(), u)
		switch {
		case c.fits && (err != nil || got != "a<x>" || events != c.times):
			t.Errorf("%d messages: %q, %v, %d events", c.times, got, err, events)
		case !c.fits:
			childFault(t, err, fault.ConnectionLost)
			if took := time.Since(begun); took > eventPatience {
				t.Errorf("given up after %v", took)
			}
		}
	}
	if pidOf(t, u, "a") != pid {
		t.Error("the process was not kept")
	}
}

// A question of a call that was given up is not the next call's.
func TestAQuestionOfAGivenUpCallDoesNotReachTheNextOne(t *testing.T) {
	u, _ := startChild(t, "legacy", func(o *Options) { o.ProbeTimeout = time.Second })
	pid := pidOf(t, u, "a")
	for _, c := range []struct {
		args string
		kept bool
	}{
		{`{"text":"from the past"}`, true},
		{`{"text":"","times":1}`, false}, // and then answers no ping any more
	} {
		_, err := toolCall{name: "ask-when-cancelled", args: c.args, key: keyOf("a"), timeout: 100 * time.Millisecond, onRequest: user("a")}.send(t.Context(), u)
		childFault(t, err, fault.UpstreamTimeout)
		now := func(ctx context.Context, s *wire.Answer) ([]byte, error) {
			if got := questionOf(s); got != "now/0" {
				t.Errorf("the next call was asked %q", got)
			}
			return user("a")(ctx, s)
		}
		if got := consult(t, u, "a", "ask", `{"text":"now"}`, now); got != "a<now/0>" {
			t.Errorf("the next call got %q", got)
		}
		if now := pidOf(t, u, "a"); (now == pid) != c.kept {
			t.Errorf("process %d after %d", now, pid)
		}
	}
}

func TestPrivateProcessesAreBoundedAndTheIdleOneUsedLongestAgoMakesRoom(t *testing.T) {
	u, _ := startChild(t, "legacy")
	mustCall(t, u, "echo", "")
	before := childrenOf(t, os.Getpid())
	answer := make(chan struct{})
	var open, calls sync.WaitGroup
	for i := range maxPrivate {
		open.Add(1)
		calls.Go(func() {
			consult(t, u, fmt.Sprint(i), "ask", "", func(_ context.Context, s *wire.Answer) ([]byte, error) {
				open.Done()
				<-answer
				return reply(s, ""), nil
			})
		})
	}
	open.Wait()
	_, err := toolCall{name: "echo", key: keyOf("late"), onRequest: user("late")}.send(t.Context(), u)
	childFault(t, err, fault.AtCapacity)
	close(answer)
	calls.Wait()
	pids := map[int]int{}
	for i := range maxPrivate { // 0 is used longest ago
		pids[i] = pidOf(t, u, fmt.Sprint(i))
	}
	pidOf(t, u, "late")
	if n := u.State().Sessions; n != maxPrivate {
		t.Errorf("%d processes", n)
	}
	if alive(pids[0]) {
		t.Error("the one used longest ago still runs")
	}
	for i := 1; i < maxPrivate; i++ {
		if !alive(pids[i]) {
			t.Errorf("process %d was ended", i)
		}
	}
	if n := childrenOf(t, os.Getpid()) - before; n > 2*maxPrivate {
		t.Errorf("%d processes and guards", n)
	}
}

func TestPrivateProcessesEndWithTheirUse(t *testing.T) {
	o, _ := childOptions("legacy")
	o.IdleSession = 400 * time.Millisecond
	u := New(o)
	defer u.Close(t.Context())
	common := mustCall(t, u, "pid", "")
	gone := func(what string, pid int) {
		t.Helper()
		eventually(t, 5*time.Second, what, func() bool { return !alive(pid) })
	}
	a, b, c := pidOf(t, u, "a"), pidOf(t, u, "b"), pidOf(t, u, "c")
	u.EndSession(keyOf("a"))
	gone("the end of a session's own", a)
	u.sweep(time.Now())
	if !alive(b) || !alive(c) {
		t.Error("another was ended, too")
	}
	open, answer := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		consult(t, u, "b", "ask", "", func(_ context.Context, s *wire.Answer) ([]byte, error) {
			close(open)
			<-answer
			return reply(s, ""), nil
		})
	})
	<-open
	u.sweep(time.Now().Add(time.Second))
	gone("the end of an idle one", c)
	if !alive(b) {
		t.Error("one in use was ended as idle")
	}
	close(answer)
	wg.Wait()
	u.Abandon(t.Context())
	gone("the end with the upstream's configuration", b)
	if mustCall(t, u, "pid", "") != common {
		t.Error("the shared one was ended")
	}
	d := pidOf(t, u, "d")
	u.Close(t.Context())
	if alive(d) {
		t.Error("one outlives its upstream")
	}
	if _, err := (toolCall{name: "echo", key: keyOf("e"), onRequest: user("e")}).send(t.Context(), u); err == nil {
		t.Error("a closed upstream was called")
	}
}

func TestASessionThatEndsFailsItsOpenCallAndIsNoFaultOfTheUpstream(t *testing.T) {
	u, _ := startChild(t, "legacy", func(o *Options) { o.Failures = 1 })
	mustCall(t, u, "echo", "")
	ended := func(ctx context.Context, _ *wire.Answer) ([]byte, error) {
		u.EndSession(keyOf("a"))
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	_, err := toolCall{name: "ask", key: keyOf("a"), onRequest: ended}.send(t.Context(), u)
	childFault(t, err, fault.ConnectionLost)
	if s := u.State(); s.Breaker != "closed" || s.State != "up" {
		t.Errorf("state %+v", s)
	}
}
