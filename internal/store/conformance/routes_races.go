package conformance

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/store"
)

// oneBegins has many submit the same with ids of their own, and returns the one
// route that all of them were given.
func oneBegins(t *testing.T, r store.Routes, now time.Time, b store.RouteBounds, of func(by int) *store.Route) *store.Route {
	t.Helper()
	var begun atomic.Int64
	var given sync.Map
	var wg sync.WaitGroup
	for by := range 32 {
		wg.Go(func() {
			is := of(by)
			stands, created, err := r.Begin(t.Context(), is, first(is), now, b)
			if err != nil {
				t.Errorf("begin: %v", err)
				return
			}
			if created {
				begun.Add(1)
			}
			given.Store(stands.ID, stands)
		})
	}
	wg.Wait()
	var all []*store.Route
	for _, is := range given.Range {
		all = append(all, is.(*store.Route))
	}
	if begun.Load() != 1 || len(all) != 1 {
		t.Fatalf("%d began it and %s were given", begun.Load(), ids(all))
	}
	standsRoute(t, r, all[0])
	return all[0]
}

func routeKeyRaces(t *testing.T, s *routes) {
	r := s.repository(t)
	for round := range 10 {
		oneBegins(t, r, noon, manyRoutes, func(by int) *store.Route {
			return route(fmt.Sprint(round, ".", by), "p", fmt.Sprint(round))
		})
	}
	if n := len(everyRoute(t, r)); n != 10 {
		t.Errorf("%d routes", n)
	}
}

func routeReplaceRaces(t *testing.T, s *routes) {
	r := s.repository(t)
	now := noon
	for round := range 10 {
		var wg sync.WaitGroup
		if round%2 == 1 { // beside who removes what expired
			wg.Go(func() {
				if _, err := r.Expire(t.Context(), now, 10); err != nil {
					t.Error(err)
				}
			})
		}
		oneBegins(t, r, now, store.RouteBounds{Max: 1, MaxPerCaller: 1}, func(by int) *store.Route {
			is := route(fmt.Sprint(round, ".", by), "p", "k")
			is.Expires = now.Add(time.Hour)
			return is
		})
		wg.Wait()
		now = now.Add(time.Hour)
		if n := len(everyRoute(t, r)); n != 1 {
			t.Errorf("%d routes", n)
		}
	}
}

func routeIDRaces(t *testing.T, s *routes) {
	r := s.repository(t)
	for round := range 10 {
		id := fmt.Sprint("r", round)
		won := southContest(t, func(by int) error {
			is := route(id, fmt.Sprint("p", by), "k"+id)
			_, _, err := r.Begin(t.Context(), is, first(is), noon, manyRoutes)
			return err
		})
		if is, err := r.Get(t.Context(), id); err != nil || is.Principal != fmt.Sprint("p", won) {
			t.Errorf("%d won and %+v is stored, error %v", won, is, err)
		}
	}
	if n := len(everyRoute(t, r)); n != 10 {
		t.Errorf("%d routes", n)
	}
	// What lost was not counted.
	if err := beginIn(t, r, route("more", "p", "more"), noon, 11, 1); err != nil {
		t.Error(err)
	}
}

func routeUpdateRaces(t *testing.T, s *routes) {
	r := s.repository(t)
	is := begin(t, r, route("a", "p", "k"))
	for range 20 {
		won := southContest(t, func(by int) error {
			next, e := following(is, "cancel_requested")
			next.Integrity = fmt.Sprint(by)
			return r.Update(t.Context(), next, e)
		})
		var err error
		version := is.Version
		if is, err = r.Get(t.Context(), "a"); err != nil || is.Integrity != fmt.Sprint(won) || is.Version != version+1 {
			t.Fatalf("%d won and %+v is stored, error %v", won, is, err)
		}
	}
	everyRoute(t, r)
}

// An upstream's answer, a cancel and a watchdog meet at one route. Each reads
// again when it lost, and the upstream task that was first is never another.
func routeTaskRaces(t *testing.T, s *routes) {
	r := s.repository(t)
	update(t, r, begin(t, r, route("a", "p", "k")), "dispatching")
	var set sync.Map
	var wg sync.WaitGroup
	for by := range 16 {
		wg.Go(func() {
			for {
				is, err := r.Get(t.Context(), "a")
				if err != nil {
					t.Error(err)
					return
				}
				next, e := following(is, "cancel_requested")
				next.UpstreamTask = fmt.Sprint("job-", by)
				err = r.Update(t.Context(), next, e)
				switch {
				case err == nil:
					set.Store(next.UpstreamTask, true)
					return
				case !errors.Is(err, store.ErrConflict):
					t.Error(err)
					return
				case is.UpstreamTask != "": // somebody else's
					return
				}
			}
		})
	}
	wg.Wait()
	is, err := r.Get(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for task := range set.Range {
		n++
		if task != is.UpstreamTask {
			t.Errorf("%v was set and %s is stored", task, is.UpstreamTask)
		}
	}
	if n != 1 {
		t.Errorf("%d tasks were set", n)
	}
	everyRoute(t, r)
}

func routeBoundsRace(t *testing.T, s *routes) {
	r := s.repository(t)
	b := store.RouteBounds{Max: 30, MaxPerCaller: 4}
	var kept [10]atomic.Int64
	var wg sync.WaitGroup
	for p := range kept {
		for i := range 10 {
			wg.Go(func() {
				is := route(fmt.Sprint(p, ".", i), fmt.Sprint("p", p), fmt.Sprint(i))
				_, created, err := r.Begin(t.Context(), is, first(is), noon, b)
				switch {
				case err == nil && created:
					kept[p].Add(1)
				case !errors.Is(err, store.ErrFull) && !errors.Is(err, store.ErrFullFor):
					t.Errorf("begin: created %v, error %v", created, err)
				}
			})
		}
	}
	wg.Wait()
	total := int64(0)
	for p := range kept {
		n := kept[p].Load()
		total += n
		all, err := r.List(t.Context(), store.RouteFilter{Principal: fmt.Sprint("p", p)}, 100)
		if err != nil || int64(len(all)) != n || n > 4 {
			t.Errorf("caller %d was told of %d and has %d, error %v", p, n, len(all), err)
		}
	}
	if total != 30 || len(everyRoute(t, r)) != 30 {
		t.Errorf("%d were let in; want 30", total)
	}
}

// The bound that is reached is never one's own submission.
func routeLastPlaceRaces(t *testing.T, s *routes) {
	r := s.repository(t)
	for round := range 10 {
		oneBegins(t, r, noon, store.RouteBounds{Max: round + 1, MaxPerCaller: 1}, func(by int) *store.Route {
			return route(fmt.Sprint(round, ".", by), fmt.Sprint("p", round), "k")
		})
	}
	if n := len(everyRoute(t, r)); n != 10 {
		t.Errorf("%d routes", n)
	}
}

func routeIntentsRace(t *testing.T, s *routes) {
	r := s.repository(t)
	begin(t, r, route("a", "p", "k"))
	const limit = 10
	var created, full [20]atomic.Int64
	var seqs sync.Map
	var wg sync.WaitGroup
	for by := range 80 {
		wg.Go(func() {
			which := by % len(created)
			got, is, err := r.Intend(t.Context(), &store.RouteUpdate{Route: "a", Digest: fmt.Sprint(which), At: noon}, limit)
			switch {
			case errors.Is(err, store.ErrFull):
				full[which].Add(1)
			case err != nil:
				t.Errorf("intend: %v", err)
			default:
				if is {
					created[which].Add(1)
				}
				if other, there := seqs.LoadOrStore(got.Seq, which); there && other != which {
					t.Errorf("%d is the place of two", got.Seq)
				}
			}
		})
	}
	wg.Wait()
	n := int64(0)
	for i := range created {
		if c := created[i].Load(); c > 1 || c == 1 && full[i].Load() > 0 {
			t.Errorf("created %d times, refused %d times", c, full[i].Load())
		}
		n += created[i].Load()
	}
	if n != limit {
		t.Errorf("%d intents", n)
	}
	for seq := range uint64(limit) {
		if _, there := seqs.Load(seq + 1); !there {
			t.Errorf("nobody is the %dth", seq+1)
		}
	}
}

func routeEverythingRaces(t *testing.T, s *routes) {
	r := s.repository(t)
	b := store.RouteBounds{Max: 40, MaxPerCaller: 12}
	var wg sync.WaitGroup
	for w := range 12 {
		wg.Go(func() {
			for i := range 40 {
				key := (w*7 + i*3) % 20
				caller := fmt.Sprint("p", w%4)
				var err error
				switch (w + i) % 6 {
				case 0:
					_, err = r.Expire(t.Context(), noon, 3)
				case 1, 2:
					var is *store.Route
					if is, err = r.Find(t.Context(), caller, "tenant", fmt.Sprint(key)); err == nil {
						next, e := following(is, "cancel_requested")
						err = r.Update(t.Context(), next, e)
					}
				case 3:
					var is *store.Route
					if is, err = r.Find(t.Context(), caller, "tenant", fmt.Sprint(key)); err == nil {
						_, _, err = r.Intend(t.Context(), &store.RouteUpdate{Route: is.ID, Digest: fmt.Sprint(i % 4), At: noon}, 3)
					}
				default:
					is := route(fmt.Sprint(w, ".", i), caller, fmt.Sprint(key))
					if i%3 == 0 {
						is.Expires = noon // and at once is in nobody's way
					}
					_, _, err = r.Begin(t.Context(), is, first(is), noon, b)
				}
				for _, fine := range []error{store.ErrNotFound, store.ErrConflict, store.ErrFull, store.ErrFullFor} {
					if errors.Is(err, fine) {
						err = nil
					}
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	all := everyRoute(t, r)
	if len(all) > b.Max {
		t.Errorf("%d routes", len(all))
	}
	// What is counted is what is there: exactly the rest still fits.
	for i := range b.Max - len(all) {
		if err := beginIn(t, r, route(fmt.Sprint("rest", i), fmt.Sprint("q", i), "k"), noon, b.Max, 1); err != nil {
			t.Fatalf("the %dth after %d: %v", i+1, len(all), err)
		}
	}
	if err := beginIn(t, r, route("more", "more", "k"), noon, b.Max, 1); !errors.Is(err, store.ErrFull) {
		t.Errorf("one more: %v", err)
	}
	if n, err := r.Expire(t.Context(), noon.Add(time.Hour), 1000); err != nil || n != b.Max {
		t.Errorf("%d expired, error %v", n, err)
	}
	if n := len(everyRoute(t, r)); n != 0 {
		t.Errorf("%d left", n)
	}
}
