package engine_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/penstock-mcp/penstock/internal/store"
	"github.com/penstock-mcp/penstock/internal/store/engine"
	"github.com/penstock-mcp/penstock/internal/store/pgtest"
)

// A caller that submits to two instances at once gets one task, and one of the
// two dispatches it.
func TestOneSubmissionToTwoInstancesIsDispatchedOnce(t *testing.T) {
	p := twoInstances(t)
	both := []store.Routes{p.a.Routes(), p.b.Routes()}
	for round := range 10 {
		var begun, dispatched atomic.Int64
		var ids sync.Map
		var wg sync.WaitGroup
		for by := range 16 {
			wg.Go(func() {
				r := both[by%2]
				mine := durableRoute(fmt.Sprint(round, ".", by), "p", fmt.Sprint(round))
				is, created, err := r.Begin(t.Context(), mine, begins(mine), p.now(), store.RouteBounds{Max: 10, MaxPerCaller: 10})
				if err != nil {
					t.Error(err)
					return
				}
				if created {
					begun.Add(1)
				}
				ids.Store(is.ID, true)
				if is.Phase != "prepared" {
					return
				}
				next, e := moves(is, "dispatching")
				e.Actor = fmt.Sprint("instance ", by%2)
				switch err := r.Update(t.Context(), next, e); {
				case err == nil:
					dispatched.Add(1)
				case !errors.Is(err, store.ErrConflict):
					t.Error(err)
				}
			})
		}
		wg.Wait()
		n := 0
		for id := range ids.Range {
			n++
			is, err := both[round%2].Get(t.Context(), id.(string))
			if err != nil {
				t.Fatal(err)
			}
			tellsTruth(t, both[1-round%2], is)
		}
		if n != 1 || begun.Load() != 1 || dispatched.Load() != 1 {
			t.Errorf("%d ids, begun %d times, dispatched %d times", n, begun.Load(), dispatched.Load())
		}
	}
}

func TestInstancesKnowEachOthersLife(t *testing.T) {
	p := twoInstances(t)
	alive := func(when, instance string, want bool) {
		t.Helper()
		for i, r := range []store.Routes{p.a.Routes(), p.b.Routes()} {
			if is, err := r.Alive(t.Context(), instance); err != nil || is != want {
				t.Errorf("%s: %d takes %s to be alive: %v, error %v", when, i, instance, is, err)
			}
		}
	}
	beat := func(r store.Routes, instance string, validity time.Duration) {
		t.Helper()
		if err := r.Beat(t.Context(), instance, validity); err != nil {
			t.Fatal(err)
		}
	}
	alive("before", "one", false)
	beat(p.a.Routes(), "one", time.Minute)
	beat(p.b.Routes(), "two", 200*time.Millisecond)
	p.advance(time.Hour) // no clock of an instance counts
	alive("after a beat", "one", true)
	time.Sleep(250 * time.Millisecond)
	alive("after its time", "two", false)
	beat(p.b.Routes(), "two", time.Minute)
	alive("after another beat", "two", true)
	// It outlives the process, whose connections say nothing.
	if err := p.a.Close(); err != nil {
		t.Fatal(err)
	}
	if is, err := p.b.Routes().Alive(t.Context(), "one"); err != nil || !is {
		t.Errorf("alive %v, error %v", is, err)
	}
	c, err := pgx.Connect(t.Context(), p.address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	if _, err := c.Exec(t.Context(), `UPDATE route_instances SET until = until - 100000000 WHERE instance = 'one'`); err != nil {
		t.Fatal(err)
	}
	beat(p.b.Routes(), "three", time.Minute)
	var n int64
	if err := c.QueryRow(t.Context(), `SELECT COUNT(*) FROM route_instances`).Scan(&n); err != nil || n != 2 {
		t.Errorf("%d instances are remembered, error %v", n, err)
	}
}

// Instances begin, move on, replace and expire the same submissions, and put and
// delete the same leases, beside each other. Neither bound, count nor journal
// suffers, and no two of their transactions wait for each other in a circle.
func TestInstancesShareRoutesAndLeases(t *testing.T) {
	address := pgtest.Database(t)
	var all []*engine.Store
	for range 3 {
		all = append(all, open(t, engine.Options{URL: address}))
	}
	now := time.Date(2026, 7, 28, 13, 0, 0, 0, time.UTC)
	routeBounds, leaseBounds := store.RouteBounds{Max: 60, MaxPerCaller: 12}, store.LeaseBounds{Max: 60, MaxPerCaller: 12}
	var wg sync.WaitGroup
	for w := range 24 {
		wg.Go(func() {
			s := all[w%3]
			for i := range 60 {
				caller, n := fmt.Sprint("p", w%6), (w*11+i*5)%40
				expires := now.Add(time.Hour)
				if i%4 == 0 {
					expires = now
				}
				err := func() error {
					switch (w + i) % 8 {
					case 0:
						_, err := s.Routes().Expire(t.Context(), now, 7)
						return err
					case 1, 2:
						is, err := s.Routes().Find(t.Context(), caller, "tenant", fmt.Sprint(n))
						if err != nil {
							return err
						}
						next, e := moves(is, "cancel_requested")
						_, _, err = s.Routes().Intend(t.Context(), &store.RouteUpdate{Route: is.ID, Digest: fmt.Sprint(i % 5), At: now}, 3)
						return errors.Join(s.Routes().Update(t.Context(), next, e), err)
					case 3:
						_, err := s.Leases().Expire(t.Context(), now, 7)
						return err
					case 4:
						l := &store.Lease{ID: fmt.Sprint(n), Principal: caller, Expires: expires}
						return s.Leases().Put(t.Context(), l, now, leaseBounds)
					case 5:
						return s.Leases().Delete(t.Context(), fmt.Sprint(n))
					default:
						r := durableRoute(fmt.Sprint(w, ".", i), caller, fmt.Sprint(n))
						r.Expires = expires
						_, _, err := s.Routes().Begin(t.Context(), r, begins(r), now, routeBounds)
						return err
					}
				}()
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
	c, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	for what, query := range map[string]string{
		"deadlocks": `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`,
		"seats of routes that are wrongly counted": `SELECT COUNT(*) FROM seats WHERE kind = 'route'
			AND n <> (SELECT COUNT(*) FROM routes WHERE routes.seat = seats.seat)`,
		"seats of leases that are wrongly counted": `SELECT COUNT(*) FROM seats WHERE kind = 'lease'
			AND n <> (SELECT COUNT(*) FROM leases WHERE leases.seat = seats.seat)`,
		"routes above the bound": `SELECT GREATEST(COUNT(*) - 60, 0) FROM routes`,
		"leases above the bound": `SELECT GREATEST(COUNT(*) - 60, 0) FROM leases`,
		"callers above theirs":   `SELECT COUNT(*) FROM (SELECT 1 FROM routes WHERE expires > 1785243600000 GROUP BY principal, tenant HAVING COUNT(*) > 12) AS over`,
		"events of no route":     `SELECT COUNT(*) FROM route_events WHERE route NOT IN (SELECT id FROM routes)`,
		"updates of no route":    `SELECT COUNT(*) FROM route_updates WHERE route NOT IN (SELECT id FROM routes)`,
		"miscounted intents":     `SELECT COUNT(*) FROM routes WHERE intents <> (SELECT COUNT(*) FROM route_updates WHERE route = id)`,
	} {
		var n int64
		if err := c.QueryRow(t.Context(), query).Scan(&n); err != nil || n != 0 {
			t.Errorf("%d %s, error %v", n, what, err)
		}
	}
	var list []*store.Route
	if list, err = all[0].Routes().List(t.Context(), store.RouteFilter{}, 1000); err != nil || len(list) < 20 {
		t.Fatalf("%d routes, error %v: nothing was tested", len(list), err)
	}
	for _, is := range list {
		tellsTruth(t, all[1].Routes(), is)
	}
}
