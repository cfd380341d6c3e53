package engine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-mcp/penstock/internal/store"
	"github.com/penstock-mcp/penstock/internal/store/engine"
)

// submitterEnv is victimEnv for a process that submits durable tasks.
const submitterEnv = "PENSTOCK_TEST_SUBMITTER"

// submitter begins routes, moves them on, and puts and deletes leases, and says
// on stdout, one line each, what it was told is done: "+id caller key version",
// "l+id" and "l-id".
func submitter(address string) {
	ctx := context.Background()
	s, err := engine.Open(ctx, engine.Options{URL: address})
	if err != nil {
		fmt.Println("!", err)
		os.Exit(1)
	}
	var out sync.Mutex // guards stdout
	say := func(format string, args ...any) {
		out.Lock()
		defer out.Unlock()
		fmt.Printf(format+"\n", args...)
	}
	work := func(w, i int) error {
		caller, name := fmt.Sprint("p", w), fmt.Sprint(os.Getpid(), ".", w, ".", i)
		r := durableRoute(name, caller, "k"+name)
		if _, _, err := s.Routes().Begin(ctx, r, begins(r), time.Now(), manyRoutes); err != nil {
			return err
		}
		say("+%s %s %s 0", r.ID, caller, r.Key)
		for _, phase := range []string{"dispatching", "routed", "terminal"}[:i%4] {
			next, e := moves(r, phase)
			if phase == "routed" {
				next.UpstreamTask = "job " + name
			}
			if err := s.Routes().Update(ctx, next, e); err != nil {
				return err
			}
			r = next
			say("+%s %s %s %d", r.ID, caller, r.Key, r.Version)
		}
		l := &store.Lease{ID: name, Principal: caller, Expires: r.Expires}
		if err := s.Leases().Put(ctx, l, time.Now(), store.LeaseBounds{Max: 1 << 30, MaxPerCaller: 1 << 30}); err != nil {
			return err
		}
		say("l+%s", name)
		if i%3 > 0 {
			return nil
		}
		say("l?%s", name) // between these two lines nobody knows
		if err := s.Leases().Delete(ctx, name); err != nil {
			return err
		}
		say("l-%s", name)
		return nil
	}
	for w := range 8 {
		go func() {
			for i := 0; ; i++ {
				if err := work(w, i); err != nil {
					say("! %v", err)
					return
				}
			}
		}()
	}
	select {} // until it is killed
}

var manyRoutes = store.RouteBounds{Max: 1 << 30, MaxPerCaller: 1 << 30}

// durableRoute is a route as it begins.
func durableRoute(id, caller, key string) *store.Route {
	created := time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)
	return &store.Route{
		ID: id, Principal: caller, Tenant: "tenant", Key: key, RequestDigest: "sha256:request", Server: "default", Upstream: "worker",
		Phase: "prepared", Created: created, Updated: created, Expires: time.Date(2099, 7, 28, 12, 0, 0, 0, time.UTC), Due: created.Add(time.Minute),
		Integrity: "sha256:document", Document: make([]byte, 2500),
	}
}

func begins(r *store.Route) *store.RouteEvent {
	return &store.RouteEvent{Route: r.ID, To: r.Phase, Actor: "one", At: r.Created, Digest: r.ID + " 0"}
}

// moves is a route one transition later, and the event of that.
func moves(r *store.Route, phase string) (*store.Route, *store.RouteEvent) {
	next := *r
	next.Version++
	next.Phase = phase
	return &next, &store.RouteEvent{
		Route: r.ID, Version: next.Version, From: r.Phase, To: phase, Actor: "one", At: r.Updated,
		Previous: fmt.Sprint(r.ID, " ", r.Version), Digest: fmt.Sprint(r.ID, " ", next.Version),
	}
}

// tellsTruth checks that the journal of a route ends in what the route is.
func tellsTruth(t *testing.T, r store.Routes, is *store.Route) {
	t.Helper()
	events, err := r.Journal(t.Context(), is.ID)
	if err != nil {
		t.Fatal(err)
	}
	phase, digest := "", ""
	for i, e := range events {
		if e.Version != uint64(i) || e.From != phase || e.Previous != digest {
			t.Errorf("event %d of %s: %+v", i, is.ID, e)
		}
		phase, digest = e.To, e.Digest
	}
	if uint64(len(events)) != is.Version+1 || phase != is.Phase {
		t.Errorf("%s is %q at version %d and its %d events end with %q", is.ID, is.Phase, is.Version, len(events), phase)
	}
}

// A submission that was told is stored is there after a crash, at the version
// that was told or one on, with a journal that says the same.
func TestSIGKILLLosesNoSubmission(t *testing.T) {
	durable(t, func(t *testing.T, fresh func(testing.TB) string) {
		address := fresh(t)
		type said struct {
			id, caller, key string
			version         uint64
		}
		routes := map[string]said{}
		leases := map[string]bool{} // absent: unknown
		rounds := 5
		if testing.Short() {
			rounds = 2
		}
		for range rounds {
			for _, line := range strings.Split(killed(t, submitterEnv, address), "\n") {
				switch {
				case strings.HasPrefix(line, "!"):
					t.Fatal(line)
				case strings.HasPrefix(line, "+"):
					var is said
					if _, err := fmt.Sscan(line[1:], &is.id, &is.caller, &is.key, &is.version); err != nil {
						t.Fatal(line, err)
					}
					routes[is.id] = is
				case strings.HasPrefix(line, "l+"):
					leases[line[2:]] = true
				case strings.HasPrefix(line, "l?"):
					delete(leases, line[2:])
				case strings.HasPrefix(line, "l-"):
					leases[line[2:]] = false
				}
			}
			s, err := engine.Open(t.Context(), engine.Options{URL: address})
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range routes {
				// The caller whose answer was lost submits again, under another id.
				again := durableRoute("another", want.caller, want.key)
				is, created, err := s.Routes().Begin(t.Context(), again, begins(again), time.Now(), manyRoutes)
				if err != nil || created || is.ID != want.id || is.Version < want.version || is.Version > want.version+1 {
					t.Fatalf("%+v: %+v, created %v, error %v", want, is, created, err)
				}
				if (is.UpstreamTask != "") != (is.Version >= 2) {
					t.Errorf("%s at version %d has upstream task %q", is.ID, is.Version, is.UpstreamTask)
				}
				tellsTruth(t, s.Routes(), is)
			}
			for id, want := range leases {
				if _, err := s.Leases().Get(t.Context(), id); want && err != nil || !want && !errors.Is(err, store.ErrNotFound) {
					t.Errorf("lease %s: %v; want it there: %v", id, err, want)
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		if len(routes) < 5*rounds || len(leases) < rounds {
			t.Errorf("%d routes and %d leases in %d rounds: nothing was tested", len(routes), len(leases), rounds)
		}
		// What is counted is what is there, also after all of this.
		s := open(t, engine.Options{URL: address})
		n := countRoutes(t, s.Routes())
		full := durableRoute("full", "new", "k")
		if _, _, err := s.Routes().Begin(t.Context(), full, begins(full), time.Now(), store.RouteBounds{Max: n, MaxPerCaller: n}); !errors.Is(err, store.ErrFull) {
			t.Errorf("one more than %d: %v", n, err)
		}
		if _, _, err := s.Routes().Begin(t.Context(), full, begins(full), time.Now(), store.RouteBounds{Max: n + 1, MaxPerCaller: n + 1}); err != nil {
			t.Errorf("the one behind %d: %v", n, err)
		}
		late := time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
		if gone, err := s.Routes().Expire(t.Context(), late, 1<<30); err != nil || gone != n+1 {
			t.Errorf("%d were there and %d removed, error %v", n+1, gone, err)
		}
		if n := countRoutes(t, s.Routes()); n != 0 {
			t.Errorf("%d are left", n)
		}
	})
}

func countRoutes(t *testing.T, r store.Routes) (n int) {
	t.Helper()
	phases, err := r.Count(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range phases {
		n += of
	}
	return n
}

func TestAStoreThatReopensHasItsRoutes(t *testing.T) {
	durable(t, func(t *testing.T, fresh func(testing.TB) string) {
		o := engine.Options{URL: fresh(t)}
		s := open(t, o)
		r := durableRoute("a", "p", "k")
		if _, _, err := s.Routes().Begin(t.Context(), r, begins(r), time.Now(), manyRoutes); err != nil {
			t.Fatal(err)
		}
		next, e := moves(r, "dispatching")
		_, _, err := s.Routes().Intend(t.Context(), &store.RouteUpdate{Route: "a", Digest: "x", At: r.Created}, 1)
		l := &store.Lease{ID: "l", Principal: "p", Expires: r.Expires, Document: []byte("{}")}
		if err := errors.Join(err, s.Routes().Update(t.Context(), next, e), s.Routes().Resolve(t.Context(), "a", "x", store.UpdatePrepared, store.UpdateSent, r.Created),
			s.Leases().Put(t.Context(), l, time.Now(), store.LeaseBounds{Max: 1, MaxPerCaller: 1})); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = open(t, o)
		is, err := s.Routes().Get(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(next, is); d != "" {
			t.Error(d)
		}
		tellsTruth(t, s.Routes(), is)
		if u, created, err := s.Routes().Intend(t.Context(), &store.RouteUpdate{Route: "a", Digest: "x", At: r.Created}, 1); err != nil || created || u.State != store.UpdateSent {
			t.Errorf("intent: %+v, created %v, error %v", u, created, err)
		}
		got, err := s.Leases().Get(t.Context(), "l")
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(l, got); d != "" {
			t.Error(d)
		}
	})
}

// A process that has an SQLite file for itself is the only one that can live: an
// earlier one of the same name said for how long, and yet has ended.
func TestAnInstanceEndsWithItsProcessWhereThereIsOne(t *testing.T) {
	o := engine.Options{URL: engines["sqlite"](t)}
	s := open(t, o)
	if err := s.Routes().Beat(t.Context(), "one", time.Hour); err != nil {
		t.Fatal(err)
	}
	if alive, err := s.Routes().Alive(t.Context(), "one"); err != nil || !alive {
		t.Errorf("alive %v, error %v", alive, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if alive, err := open(t, o).Routes().Alive(t.Context(), "one"); err != nil || alive {
		t.Errorf("alive %v, error %v", alive, err)
	}
}
