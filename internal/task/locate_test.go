package task

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func always(*[32]byte, time.Time) (time.Duration, bool) { return 0, true }

// asked is a Search whose upstreams answer from a table, after some time.
func asked(id string, principal [32]byte, takes time.Duration, says map[string]Verdict, calls *atomic.Int32) *Search {
	s := &Search{ID: id, Principal: principal}
	for u := range says {
		s.Among = append(s.Among, u)
	}
	s.Ask = func(ctx context.Context, u string) Verdict {
		calls.Add(1)
		select {
		case <-time.After(takes):
			return says[u]
		case <-ctx.Done():
			return NoAnswer
		}
	}
	return s
}

func TestExactlyOneUpstreamMustClaimAnId(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			says map[string]Verdict
			want string
			err  error
		}{
			"one":               {map[string]Verdict{"a": NotMine, "b": Mine}, "b", nil},
			"one and no answer": {map[string]Verdict{"a": NoAnswer, "b": Mine}, "", ErrUnsure},
			"two":               {map[string]Verdict{"a": Mine, "b": Mine}, "", ErrAmbiguous},
			"none":              {map[string]Verdict{"a": NotMine, "b": NotMine}, "", ErrUnknown},
			"none for sure":     {map[string]Verdict{"a": NotMine, "b": NoAnswer}, "", ErrUnsure},
			"nobody":            {nil, "", ErrUnknown},
		} {
			l := NewLocator(LocatorOptions{Within: time.Second, MissTTL: time.Second, Admit: always})
			var calls atomic.Int32
			got, err := l.Locate(t.Context(), asked(name, ann, time.Millisecond, c.says, &calls))
			if got != c.want || !errors.Is(err, c.err) {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		}
	})
}

func TestAMissIsRememberedAndAnOutageIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLocator(LocatorOptions{Within: time.Second, MissTTL: 5 * time.Second, Admit: always})
		var calls atomic.Int32
		for range 1000 {
			if _, err := l.Locate(t.Context(), asked("id", ann, 0, map[string]Verdict{"a": NotMine}, &calls)); !errors.Is(err, ErrUnknown) {
				t.Fatal(err)
			}
		}
		if calls.Load() != 1 {
			t.Errorf("%d calls", calls.Load())
		}
		time.Sleep(6 * time.Second)
		_, _ = l.Locate(t.Context(), asked("id", ann, 0, map[string]Verdict{"a": NoAnswer}, &calls))
		_, _ = l.Locate(t.Context(), asked("id", ann, 0, map[string]Verdict{"a": NoAnswer}, &calls))
		if calls.Load() != 3 {
			t.Errorf("%d calls", calls.Load())
		}
	})
}

func TestConcurrentLooksForOneIdAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLocator(LocatorOptions{Within: time.Second, MissTTL: time.Second, Admit: always})
		var calls atomic.Int32
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if got, err := l.Locate(t.Context(), asked("id", ann, 100*time.Millisecond, map[string]Verdict{"a": Mine}, &calls)); got != "a" || err != nil {
					t.Errorf("%q %v", got, err)
				}
			})
		}
		wg.Wait()
		if calls.Load() != 1 {
			t.Errorf("%d calls", calls.Load())
		}
	})
}

func TestASearchEndsWithItsTimeAndALookerWithItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLocator(LocatorOptions{Within: time.Second, MissTTL: time.Second, Admit: always})
		var calls atomic.Int32
		began := time.Now()
		_, err := l.Locate(t.Context(), asked("id", ann, time.Hour, map[string]Verdict{"a": Mine}, &calls))
		if !errors.Is(err, ErrUnsure) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, err := l.Locate(ctx, asked("id2", ann, time.Hour, map[string]Verdict{"a": Mine}, &calls)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		time.Sleep(2 * time.Second) // the search itself ends, too
	})
}

// about is a time that is blurred.
func about(took, want time.Duration) bool { return took >= want && took <= want+grid }

func TestASearchIsPretendedAmongTheSameUpstreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLocator(LocatorOptions{Within: time.Second, MissTTL: time.Minute, Admit: always})
		var calls atomic.Int32
		_, _ = l.Locate(t.Context(), asked("1", ann, 200*time.Millisecond, map[string]Verdict{"slow": NotMine}, &calls))
		_, _ = l.Locate(t.Context(), asked("2", bob, 11*time.Millisecond, map[string]Verdict{"fast": NoAnswer}, &calls))
		for name, c := range map[string]struct {
			says map[string]Verdict
			want time.Duration
			err  error
		}{
			"slow":   {map[string]Verdict{"slow": NotMine}, 200 * time.Millisecond, ErrUnknown},
			"fast":   {map[string]Verdict{"fast": NotMine}, 15 * time.Millisecond, ErrUnsure},
			"none":   {nil, 0, ErrUnknown},
			"others": {map[string]Verdict{"fast": NotMine, "slow": NotMine}, 15 * time.Millisecond, ErrUnsure},
		} {
			s := asked("foreign-"+name, bob, time.Hour, c.says, &calls)
			s.Foreign = true
			began := time.Now()
			if _, err := l.Locate(t.Context(), s); !errors.Is(err, c.err) || !about(time.Since(began), c.want) {
				t.Errorf("%s: %v after %s", name, err, time.Since(began))
			}
		}
		if calls.Load() != 2 {
			t.Errorf("%d calls", calls.Load())
		}
	})
}

// A foreign id takes limit, time and outcome of a real search, and reaches nobody.
func TestAForeignIdIsLookedForInAppearanceAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := 3
		l := NewLocator(LocatorOptions{Within: time.Second, MissTTL: time.Minute, Admit: func(*[32]byte, time.Time) (time.Duration, bool) {
			left--
			return time.Second, left >= 0
		}})
		var calls atomic.Int32
		says := map[string]Verdict{"a": NotMine}
		_, _ = l.Locate(t.Context(), asked("unknown", bob, 70*time.Millisecond, says, &calls))
		foreign := asked("foreign", bob, 70*time.Millisecond, says, &calls)
		foreign.Foreign = true
		began := time.Now()
		if _, err := l.Locate(t.Context(), foreign); !errors.Is(err, ErrUnknown) || !about(time.Since(began), 70*time.Millisecond) {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		began = time.Now()
		if _, err := l.Locate(t.Context(), foreign); !errors.Is(err, ErrUnknown) || time.Since(began) != 0 {
			t.Errorf("again: %v after %v", err, time.Since(began))
		}
		if calls.Load() != 1 {
			t.Errorf("%d calls reached an upstream", calls.Load())
		}
		_, _ = l.Locate(t.Context(), asked("unsure", bob, 0, map[string]Verdict{"a": NoAnswer}, &calls))
		other := asked("foreign2", bob, 0, says, &calls)
		other.Foreign = true
		var often *TooOften
		if _, err := l.Locate(t.Context(), other); !errors.As(err, &often) || often.Wait != time.Second || !errors.Is(err, ErrTooOften) {
			t.Errorf("beyond the rate: %v", err)
		}
	})
}

func TestIdenticalPollsAreOneAndNobodyJoinsOneThatAChangeHasOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f Flights
		var calls atomic.Int32
		ask := func(context.Context) (any, error) {
			n := calls.Add(1)
			time.Sleep(100 * time.Millisecond)
			return n, nil
		}
		k := FlightKey{Hash: [32]byte{1}, Principal: ann, Method: "tasks/get"}
		var wg sync.WaitGroup
		for range 200 {
			wg.Go(func() {
				if got, _, err := f.Do(t.Context(), k, ask); got != int32(1) || err != nil {
					t.Errorf("%v %v", got, err)
				}
			})
		}
		time.Sleep(50 * time.Millisecond)
		f.Close(k.Hash)
		if got, shared, _ := f.Do(t.Context(), k, ask); got != int32(2) || shared {
			t.Errorf("joined an older poll: %v", got)
		}
		wg.Wait()
		other := k
		other.Principal = bob
		if got, _, _ := f.Do(t.Context(), other, ask); got != int32(3) {
			t.Errorf("shared by two principals: %v", got)
		}
	})
}

func TestAPollThatNobodyWaitsForAnyMoreEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f Flights
		ended := make(chan error, 1)
		ctx, leave := context.WithCancel(t.Context())
		go func() {
			time.Sleep(10 * time.Millisecond)
			leave()
		}()
		_, _, err := f.Do(ctx, FlightKey{}, func(ctx context.Context) (any, error) {
			<-ctx.Done()
			ended <- ctx.Err()
			return nil, ctx.Err()
		})
		if !errors.Is(err, context.Canceled) || <-ended == nil {
			t.Errorf("%v", err)
		}
	})
}

// The one that makes a call leaves, or fails on the way: those who wait make another, once.
func TestThoseWhoWaitAskThemselvesWhenTheOneWhoAskedHasLeft(t *testing.T) {
	for _, how := range []string{"leaves", "panics"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var f Flights
				var calls atomic.Int32
				ctx, leave := context.WithCancel(t.Context())
				go func() {
					defer func() { _ = recover() }()
					_, _, _ = f.Do(ctx, FlightKey{}, func(ctx context.Context) (any, error) {
						calls.Add(1)
						<-ctx.Done()
						if how == "panics" {
							panic("ask")
						}
						return nil, ctx.Err()
					})
				}()
				synctest.Wait()
				var wg sync.WaitGroup
				for range 20 {
					wg.Go(func() {
						got, _, err := f.Do(t.Context(), FlightKey{}, func(context.Context) (any, error) {
							time.Sleep(10 * time.Millisecond)
							return calls.Add(1), nil
						})
						if got != int32(2) || err != nil {
							t.Errorf("%v %v", got, err)
						}
					})
				}
				synctest.Wait()
				leave()
				wg.Wait()
				if n := calls.Load(); n != 2 {
					t.Errorf("%d calls", n)
				}
				// An error of the call itself is everybody's.
				fails := errors.New("no")
				if _, _, err := f.Do(t.Context(), FlightKey{}, func(context.Context) (any, error) { return nil, fails }); !errors.Is(err, fails) {
					t.Error(err)
				}
			})
		})
	}
}
