package conformance

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-mcp/penstock/internal/store"
)

func intend(t *testing.T, r store.Routes, digest string, limit int) (stored store.RouteUpdate, created bool) {
	t.Helper()
	stored, created, err := r.Intend(t.Context(), &store.RouteUpdate{Route: "a", Digest: digest, Seq: 99, State: store.UpdateAcked, At: noon}, limit)
	if err != nil {
		t.Fatalf("intend: %v", err)
	}
	return stored, created
}

func routeIntents(t *testing.T, s *routes) {
	r := s.repository(t)
	if _, _, err := r.Intend(t.Context(), &store.RouteUpdate{Route: "a", Digest: "x", At: noon}, 3); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("of no route: %v", err)
	}
	is := begin(t, r, route("a", "p", "k"))
	begin(t, r, route("b", "p", "l"))
	for i := range 3 {
		digest := fmt.Sprint("x", i)
		want := store.RouteUpdate{Route: "a", Digest: digest, Seq: uint64(i + 1), State: store.UpdatePrepared, At: noon}
		for _, wantCreated := range []bool{true, false} {
			got, created := intend(t, r, digest, 3)
			if d := cmp.Diff(want, got); d != "" || created != wantCreated {
				t.Errorf("created %v: %s", created, d)
			}
		}
		is = update(t, r, is, [3]string{"dispatching", "reconciliation_required", "cancel_requested"}[i]) // counts nothing anew
	}
	if _, _, err := r.Intend(t.Context(), &store.RouteUpdate{Route: "a", Digest: "more", At: noon}, 3); !errors.Is(err, store.ErrFull) {
		t.Errorf("one more: %v", err)
	}
	if got, created := intend(t, r, "x0", 3); created || got.Seq != 1 {
		t.Errorf("the first, at the bound: %+v, created %v", got, created)
	}
	if got, created, err := r.Intend(t.Context(), &store.RouteUpdate{Route: "b", Digest: "x0", At: noon}, 3); err != nil || !created || got.Seq != 1 {
		t.Errorf("of another route: %+v, created %v, error %v", got, created, err)
	}
	standsRoute(t, r, is)
}

func routeResolves(t *testing.T, s *routes) {
	r := s.repository(t)
	begin(t, r, route("a", "p", "k"))
	intend(t, r, "x", 3)
	later := noon.Add(time.Second)
	resolve := func(digest, from, to string) error { return r.Resolve(t.Context(), "a", digest, from, to, later) }
	if err := resolve("x", store.UpdateSent, store.UpdateAcked); !errors.Is(err, store.ErrConflict) {
		t.Errorf("from a state it is not in: %v", err)
	}
	if err := resolve("y", store.UpdatePrepared, store.UpdateSent); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("of nothing: %v", err)
	}
	if err := resolve("x", store.UpdatePrepared, "sending"); err == nil {
		t.Error("to a state that there is not")
	}
	for _, step := range [][2]string{{store.UpdatePrepared, store.UpdateSent}, {store.UpdateSent, store.UpdateUnknown}, {store.UpdateUnknown, store.UpdateAcked}} {
		if err := resolve("x", step[0], step[1]); err != nil {
			t.Errorf("%v: %v", step, err)
		}
		if err := resolve("x", step[0], step[1]); !errors.Is(err, store.ErrConflict) {
			t.Errorf("%v again: %v", step, err)
		}
		if got, created := intend(t, r, "x", 3); created || got.State != step[1] || !got.At.Equal(later) || got.Seq != 1 {
			t.Errorf("%v: %+v, created %v", step, got, created)
		}
	}
}

func routeBeats(t *testing.T, s *routes) {
	r := s.open(t, time.Now) // where the clock is the database's, nobody moves it
	alive := func(instance string, want bool) {
		t.Helper()
		if is, err := r.Alive(t.Context(), instance); err != nil || is != want {
			t.Errorf("%q: alive %v, error %v; want %v", instance, is, err, want)
		}
	}
	beat := func(instance string, validity time.Duration) {
		t.Helper()
		if err := r.Beat(t.Context(), instance, validity); err != nil {
			t.Fatal(err)
		}
	}
	alive("one", false)
	beat("one", time.Minute)
	beat("two", time.Hour)
	alive("one", true)
	alive("two", true)
	alive("three", false)
	beat("one", 100*time.Millisecond) // which is sooner
	time.Sleep(150 * time.Millisecond)
	alive("one", false)
	beat("one", time.Minute)
	alive("one", true)
	beat("one", 0)
	alive("one", false)
	alive("two", true)
}
