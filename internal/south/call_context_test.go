package south

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

type callContextKey struct{}

func begun(parent context.Context) *callContext {
	c := new(callContext)
	c.begin(parent)
	return c
}

// wantEnd asks for an end everywhere where one can be seen.
func wantEnd(t *testing.T, c context.Context, err, cause error) {
	t.Helper()
	select {
	case <-c.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the context does not end")
	}
	if !errors.Is(c.Err(), err) {
		t.Errorf("Err is %v, want %v", c.Err(), err)
	}
	if got := context.Cause(c); !errors.Is(got, cause) {
		t.Errorf("the cause is %v, want %v", got, cause)
	}
}

func TestACallEndsOnceAndForTheFirstCause(t *testing.T) {
	own, theirs := errors.New("own"), errors.New("theirs")
	passed, stop := context.WithDeadline(context.Background(), time.Now().Add(-time.Second))
	defer stop()
	for name, tc := range map[string]struct {
		act        func(c *callContext, cut context.CancelCauseFunc)
		err, cause error
	}{
		"its end":                {func(c *callContext, _ context.CancelCauseFunc) { c.end(own) }, context.Canceled, own},
		"an end without cause":   {func(c *callContext, _ context.CancelCauseFunc) { c.end(nil) }, context.Canceled, context.Canceled},
		"its clock":              {func(c *callContext, _ context.CancelCauseFunc) { c.late() }, context.Canceled, errDeadline},
		"its parent":             {func(_ *callContext, cut context.CancelCauseFunc) { cut(theirs) }, context.Canceled, theirs},
		"clock, then parent":     {func(c *callContext, cut context.CancelCauseFunc) { c.late(); cut(theirs) }, context.Canceled, errDeadline},
		"an end, then its clock": {func(c *callContext, _ context.CancelCauseFunc) { c.end(own); c.late() }, context.Canceled, own},
	} {
		// Whoever looks before the end and whoever looks only after it see the same.
		for _, early := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				parent, cut := context.WithCancelCause(context.Background())
				defer cut(nil)
				c := begun(parent)
				if c.Err() != nil || context.Cause(c) != nil {
					t.Fatal("ended before its end")
				}
				var derived context.Context
				after := make(chan struct{})
				if early {
					d, stop := context.WithCancel(c)
					defer stop()
					derived = d
					context.AfterFunc(c, func() { close(after) })
				}
				tc.act(c, cut)
				if !early { // nor does anybody wait
					for c.Err() == nil {
						time.Sleep(time.Millisecond)
					}
					if got := context.Cause(c); !errors.Is(got, tc.cause) {
						t.Errorf("the cause is %v, want %v", got, tc.cause)
					}
				}
				wantEnd(t, c, tc.err, tc.cause)
				if !early {
					d, stop := context.WithTimeout(c, time.Hour)
					defer stop()
					derived = d
					context.AfterFunc(c, func() { close(after) })
				}
				wantEnd(t, derived, tc.err, tc.cause)
				select {
				case <-after:
				case <-time.After(10 * time.Second):
					t.Error("what was to run after the end does not")
				}
			})
		}
	}
	t.Run("a parent that has ended", func(t *testing.T) {
		c := begun(passed)
		wantEnd(t, c, context.DeadlineExceeded, context.DeadlineExceeded)
		cancelled, cut := context.WithCancelCause(context.Background())
		cut(theirs)
		wantEnd(t, begun(cancelled), context.Canceled, theirs)
	})
}

// What is derived from a call ends alone when it is ended alone.
func TestWhatIsDerivedFromACallDoesNotEndIt(t *testing.T) {
	c := begun(context.Background())
	defer c.end(nil)
	d, stop := context.WithCancel(c)
	stop()
	wantEnd(t, d, context.Canceled, context.Canceled)
	if c.Err() != nil {
		t.Errorf("the call ended with it: %v", c.Err())
	}
}

func TestACallKnowsTheValuesAndTheDeadlineOfItsParent(t *testing.T) {
	parent, stop := context.WithTimeout(context.WithValue(context.Background(), callContextKey{}, "of the parent"), time.Hour)
	defer stop()
	c := begun(parent)
	look := func(when string) {
		t.Helper()
		if got := c.Value(callContextKey{}); got != "of the parent" {
			t.Errorf("%s: the value is %v", when, got)
		}
		d, stop := context.WithCancel(c)
		defer stop()
		if got := d.Value(callContextKey{}); got != "of the parent" {
			t.Errorf("%s: the value seen from below is %v", when, got)
		}
	}
	want, _ := parent.Deadline()
	if got, ok := c.Deadline(); !ok || !got.Equal(want) {
		t.Errorf("the deadline is %v, %v", got, ok)
	}
	look("open")
	c.end(nil)
	look("ended")
}

// A call that ended is no longer held by its parent: one that lives for days has
// seen millions.
func TestACallThatEndedLeavesItsParent(t *testing.T) {
	parent := &countingContext{Context: context.Background()}
	for range 100 {
		c := begun(parent)
		c.end(nil)
	}
	if n := parent.held.Load(); n != 0 {
		t.Errorf("the parent still holds %d of 100 calls", n)
	}
}

// countingContext counts who waits for its end, which never comes.
type countingContext struct {
	context.Context
	held atomic.Int64
}

func (*countingContext) Done() <-chan struct{} { return make(chan struct{}) }

func (c *countingContext) AfterFunc(func()) func() bool {
	c.held.Add(1)
	return sync.OnceValue(func() bool { c.held.Add(-1); return true })
}

func TestTheConnectionOfACallIsInterruptedAtItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hits atomic.Int64
		hit := func() { hits.Add(1) }
		want := func(n int64) {
			t.Helper()
			synctest.Wait()
			if got := hits.Load(); got != n {
				t.Errorf("interrupted %d times, want %d", got, n)
			}
		}

		c := begun(context.Background())
		if !c.arm(hit) {
			t.Fatal("no place for the first connection")
		}
		if c.arm(func() { t.Error("the second was taken") }) {
			t.Error("place for two")
		}
		if !c.disarm() {
			t.Error("disarmed too late, before the end")
		}
		if !c.arm(hit) {
			t.Error("the place stays taken")
		}
		want(0)
		c.end(nil)
		want(1)
		c.end(nil)
		c.late()
		want(1)
		if c.disarm() {
			t.Error("disarmed in time, after the end")
		}
		if !c.arm(hit) {
			t.Error("an ended call refuses a connection instead of interrupting it")
		}
		want(2)

		// A disarmed connection serves the next call, which this end must not touch.
		c = begun(context.Background())
		c.arm(hit)
		c.disarm()
		c.end(nil)
		want(2)
	})
}

// Either the connection is interrupted or it is given back, never both and never
// neither, whoever is first.
func TestInterruptionAndReturnOfAConnectionExcludeEachOther(t *testing.T) {
	for range 2000 {
		parent, cut := context.WithCancel(context.Background())
		c := begun(parent)
		interrupted := make(chan struct{})
		c.arm(func() { close(interrupted) })
		var all sync.WaitGroup
		all.Go(cut)
		all.Go(c.late)
		all.Go(func() { _ = context.Cause(c) })
		all.Go(func() {
			d, stop := context.WithCancel(c)
			defer stop()
			<-d.Done()
		})
		back := c.disarm()
		all.Wait()
		if back {
			select {
			case <-interrupted:
				t.Fatal("a connection that was given back is interrupted")
			default:
			}
			continue
		}
		select {
		case <-interrupted:
		case <-time.After(10 * time.Second):
			t.Fatal("neither given back nor interrupted")
		}
	}
}

// A connection that a call gave back serves the next one: the end of the call, which
// comes after that, does not reach it.
func TestTheEndOfACallLeavesTheConnectionItGaveBack(t *testing.T) {
	bothHops(t, func(t *testing.T, h hop) {
		u, conns, _ := countedServer(t, echo)
		for i := range 50 {
			c := begun(t.Context())
			resp, err := h.do(c, post(u, "x"))
			if err != nil {
				t.Fatalf("call %d: %v", i, err)
			}
			if _, err := io.ReadAll(resp.body); err != nil {
				t.Fatalf("call %d: %v", i, err)
			}
			_ = resp.body.Close()
			c.end(nil)
			time.Sleep(time.Millisecond) // what it interrupts, it interrupts from elsewhere
		}
		if n := conns.Load(); n != 1 {
			t.Errorf("%d connections for 50 calls in a row", n)
		}
	})
}

// A call that ends while its response is read ends the reading, and its connection.
func TestTheEndOfACallEndsItsResponse(t *testing.T) {
	bothHops(t, func(t *testing.T, h hop) {
		u, conns, _ := countedServer(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Slow") == "" {
				echo(w, r)
				return
			}
			_, _ = io.WriteString(w, "a")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
			case <-time.After(5 * time.Second):
			}
		})
		for name, end := range map[string]func(c *callContext){"end": func(c *callContext) { c.end(nil) }, "late": (*callContext).late} {
			c := begun(t.Context())
			r := post(u, "x")
			r.fields = append(r.fields, field{"X-Slow", "1"})
			resp, err := h.do(c, r)
			if err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(20*time.Millisecond, func() { end(c) })
			if _, err := io.ReadAll(resp.body); err == nil {
				t.Errorf("%s: the response goes on", name)
			}
			_ = resp.body.Close()
			fetch(t, h, post(u, "y"))
		}
		if n := conns.Load(); n < 2 {
			t.Errorf("%d connections: one whose response was cut is used again", n)
		}
	})
}
