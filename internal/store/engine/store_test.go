package engine_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/store"
	"github.com/penstock-mcp/penstock/internal/store/engine"
)

func TestAnAddressThatNamesNoStoreIsRefused(t *testing.T) {
	for _, address := range []string{"", "memory", "sqlite:", "sqlite::memory:", "mysql://u:hunter2@h/d", "penstock.db"} {
		_, err := engine.Open(t.Context(), engine.Options{URL: address})
		if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "sqlite:PATH") {
			t.Errorf("%q: %v", address, err)
		}
	}
}

func TestAClosedStoreRefusesEverything(t *testing.T) {
	each(t, func(t *testing.T, fresh func(testing.TB) string) {
		s := open(t, engine.Options{URL: fresh(t)})
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		for what, do := range map[string]func(context.Context) error{
			"ring":   func(ctx context.Context) error { _, err := s.Keys().Ring(ctx); return err },
			"claim":  func(ctx context.Context) error { _, err := s.Claims().Take(ctx, "a", "one"); return err },
			"south":  func(ctx context.Context) error { _, err := s.South().Put(ctx, &store.South{}); return err },
			"route":  func(ctx context.Context) error { _, err := s.Routes().Get(ctx, "a"); return err },
			"lease":  func(ctx context.Context) error { return s.Leases().Delete(ctx, "a") },
			"health": s.Health,
			"sweep":  s.Sweep,
		} {
			if err := do(t.Context()); !errors.Is(err, store.ErrClosed) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Errorf("second close: %v", err)
		}
	})
}

func TestOnlyMemoryIsNotDurable(t *testing.T) {
	each(t, func(t *testing.T, fresh func(testing.TB) string) {
		address := fresh(t)
		if s := open(t, engine.Options{URL: address}); s.Durable() != (address != "memory:") {
			t.Errorf("durable: %v", s.Durable())
		}
	})
}

func TestAStoreThatReopensHasWhatWasStored(t *testing.T) {
	durable(t, func(t *testing.T, fresh func(testing.TB) string) {
		clock := newClock()
		o := engine.Options{URL: fresh(t), Now: clock.now, IdleSession: idle}
		s := open(t, o)
		if !s.Durable() {
			t.Error("it says that it is not durable")
		}
		created(t, s.Sessions(), "a")
		south, err := s.South().Put(t.Context(), &store.South{Key: [32]byte{1}, North: "a", ID: "upstream's"})
		if err != nil {
			t.Fatal(err)
		}
		claim, err := s.Claims().Take(t.Context(), "a", s.Instance())
		if err != nil {
			t.Fatal(err)
		}
		clock.advance(idle - time.Second)
		has(t, s.Sessions(), "a")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		clock.advance(idle - time.Second) // idle for less, thanks to the use before the close
		s = open(t, o)
		has(t, s.Sessions(), "a")
		if is, err := s.South().Get(t.Context(), south.Key); err != nil || is.ID != "upstream's" {
			t.Errorf("south: %+v, %v", is, err)
		}
		if is, err := s.Claims().Get(t.Context(), "a"); err != nil || is != claim {
			t.Errorf("claim: %+v, %v; want %+v", is, err, claim)
		}
	})
}

func TestSweepRemovesSouthernSessionsThatNobodyUses(t *testing.T) {
	each(t, func(t *testing.T, fresh func(testing.TB) string) {
		clock := newClock()
		s := open(t, engine.Options{URL: fresh(t), Now: clock.now, IdleSession: idle})
		put := func(n int) {
			t.Helper()
			for i := range n {
				if _, err := s.South().Put(t.Context(), &store.South{Key: [32]byte{byte(i), byte(n)}}); err != nil {
					t.Fatal(err)
				}
			}
		}
		put(250) // more than one batch
		clock.advance(idle)
		put(3)
		clock.advance(idle + time.Second)
		if err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n, err := s.South().Len(t.Context()); err != nil || n != 3 {
			t.Errorf("%d are left, error %v; want 3", n, err)
		}
	})
}

// run runs a store in the background until the returned function is called.
func run(t *testing.T, s *engine.Store) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	}
}

func TestRunWritesLastUsesForOtherInstancesToSee(t *testing.T) {
	p := twoInstances(t)
	defer run(t, p.a)()
	created(t, p.one, "a")
	p.advance(idle / 2)
	has(t, p.one, "a")
	p.advance(idle/2 + idle/10 + 10*time.Second) // too long since it was created
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if _, err := p.two.Get(t.Context(), "a"); err == nil {
			return
		} else if time.Now().After(deadline) {
			t.Fatalf("the use never arrived: %v", err)
		}
	}
}

func TestAClosedStoreLeavesNoGoroutine(t *testing.T) {
	each(t, func(t *testing.T, fresh func(testing.TB) string) {
		address := fresh(t)
		before := runtime.NumGoroutine()
		s, err := engine.Open(t.Context(), engine.Options{URL: address})
		if err != nil {
			t.Fatal(err)
		}
		stop := run(t, s)
		created(t, s.Sessions(), "a")
		stop()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				buf := make([]byte, 1<<16)
				t.Fatalf("%d goroutines before and %d after:\n%s", before, runtime.NumGoroutine(), buf[:runtime.Stack(buf, true)])
			}
		}
	})
}
