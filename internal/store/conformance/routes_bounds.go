package conformance

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/store"
)

// beginIn begins a route within bounds at a time.
func beginIn(t *testing.T, r store.Routes, is *store.Route, now time.Time, max, maxPerCaller int) error {
	t.Helper()
	_, created, err := r.Begin(t.Context(), is, first(is), now, store.RouteBounds{Max: max, MaxPerCaller: maxPerCaller})
	if created != (err == nil) {
		t.Errorf("begin %s: created %v, error %v", is.ID, created, err)
	}
	return err
}

func routeBounds(t *testing.T, s *routes) {
	r := s.repository(t)
	if err := beginIn(t, r, route("a", "p", "k"), noon, 0, 0); err == nil {
		t.Error("a bound of nothing let one in")
	}
	for i := range 2 {
		begin(t, r, route(fmt.Sprint("a", i), "p", fmt.Sprint(i)))
	}
	if err := beginIn(t, r, route("b", "p", "k"), noon, 3, 2); !errors.Is(err, store.ErrFullFor) {
		t.Errorf("at the caller's bound: %v", err)
	}
	other := route("b", "p", "k")
	other.Tenant = "another"
	if err := beginIn(t, r, other, noon, 3, 2); err != nil {
		t.Errorf("of another tenant: %v", err)
	}
	if err := beginIn(t, r, route("c", "q", "k"), noon, 3, 2); !errors.Is(err, store.ErrFull) {
		t.Errorf("at the whole bound: %v", err)
	}
	noRoute(t, r, "c")
	if n := len(everyRoute(t, r)); n != 3 {
		t.Errorf("%d routes", n)
	}
}

// Where counts are spread, some of their seats fill up before others.
func routeFills(t *testing.T, s *routes) {
	const bound = 45
	r := s.repository(t)
	for round := range 2 {
		now := noon.Add(time.Duration(round) * 2 * time.Hour)
		fill := func(caller string, n int) {
			t.Helper()
			for i := range n {
				is := route(fmt.Sprint(caller, round, ".", i), caller, fmt.Sprint("k", i))
				is.Expires = now.Add(time.Hour)
				if err := beginIn(t, r, is, now, bound+10, bound); err != nil {
					t.Fatalf("round %d, %d of %d: %v", round, i, n, err)
				}
			}
		}
		fill("p", bound)
		if err := beginIn(t, r, route("more", "p", "more"), now, bound+10, bound); !errors.Is(err, store.ErrFullFor) {
			t.Errorf("one more of the caller: %v", err)
		}
		fill("q", 10)
		if err := beginIn(t, r, route("more", "q", "more"), now, bound+10, bound); !errors.Is(err, store.ErrFull) {
			t.Errorf("one more of all: %v", err)
		}
		if n := len(everyRoute(t, r)); n != bound+10 {
			t.Errorf("%d routes", n)
		}
		if round == 0 {
			continue // the next one takes over every key
		}
		if n, err := r.Expire(t.Context(), now.Add(time.Hour), 1000); err != nil || n != bound+10 {
			t.Errorf("%d expired, error %v", n, err)
		}
		fill("r", bound)
	}
}

func routeLowered(t *testing.T, s *routes) {
	r := s.repository(t)
	for i := range 20 {
		is := route(fmt.Sprint("a", i), "p", fmt.Sprint(i))
		is.Expires = noon.Add(time.Duration(i+1) * time.Minute)
		begin(t, r, is)
	}
	for i := range 11 {
		now := noon.Add(time.Duration(i) * time.Minute)
		if err := beginIn(t, r, route("b", "p", "b"), now, 100, 10); !errors.Is(err, store.ErrFullFor) {
			t.Errorf("with %d of the caller: %v", 20-i, err)
		}
		if err := beginIn(t, r, route("b", "q", "b"), now, 10, 10); !errors.Is(err, store.ErrFull) {
			t.Errorf("with %d of all: %v", 20-i, err)
		}
		if n, err := r.Expire(t.Context(), now.Add(time.Minute), 100); err != nil || n != 1 {
			t.Fatalf("%d expired, error %v", n, err)
		}
	}
	now := noon.Add(11 * time.Minute)
	for _, want := range []error{nil, store.ErrFull} { // the tenth and one more
		is := route(fmt.Sprint("b", want), "p", fmt.Sprint(want))
		if err := beginIn(t, r, is, now, 10, 11); !errors.Is(err, want) {
			t.Errorf("%v; want %v", err, want)
		}
	}
	everyRoute(t, r)
}

func routeExpiredCount(t *testing.T, s *routes) {
	r := s.repository(t)
	for i := range 3 {
		begin(t, r, route(fmt.Sprint("a", i), "p", fmt.Sprint(i)))
	}
	late := noon.Add(time.Hour)
	fresh := func(id string) *store.Route {
		is := route(id, "p", id)
		is.Created, is.Updated, is.Expires = late, late, late.Add(time.Hour)
		return is
	}
	if err := beginIn(t, r, fresh("b"), late, 3, 1); !errors.Is(err, store.ErrFull) {
		t.Errorf("expired rows do not count among all: %v", err)
	}
	if err := beginIn(t, r, fresh("b"), late, 4, 1); err != nil {
		t.Errorf("expired rows count for their caller: %v", err)
	}
	if err := beginIn(t, r, fresh("c"), late, 10, 1); !errors.Is(err, store.ErrFullFor) {
		t.Errorf("at the caller's bound: %v", err)
	}
	if n, err := r.Expire(t.Context(), late, 2); err != nil || n != 2 {
		t.Errorf("%d expired, error %v", n, err)
	}
	if err := beginIn(t, r, fresh("c"), late, 3, 2); err != nil {
		t.Errorf("what was removed still counts: %v", err)
	}
	if err := beginIn(t, r, fresh("d"), late, 3, 3); !errors.Is(err, store.ErrFull) {
		t.Errorf("at the whole bound: %v", err)
	}
	everyRoute(t, r)
}

// What stands is found, whatever the bounds are.
func routeFoundWhenFull(t *testing.T, s *routes) {
	r := s.repository(t)
	is := begin(t, r, route("a", "p", "k"))
	stands, created, err := r.Begin(t.Context(), route("b", "p", "k"), first(route("b", "p", "k")), noon, store.RouteBounds{})
	if err != nil || created {
		t.Fatalf("begin: created %v, error %v", created, err)
	}
	sameRoute(t, "stands", is, stands)
}
