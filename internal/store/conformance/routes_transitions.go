package conformance

import (
	"errors"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/store"
)

func routeEvents(t *testing.T, s *routes) {
	r := s.repository(t)
	for what, spoil := range map[string]func(*store.RouteEvent){
		"another route":   func(e *store.RouteEvent) { e.Route = "b" },
		"another version": func(e *store.RouteEvent) { e.Version++ },
		"another phase":   func(e *store.RouteEvent) { e.To = "terminal" },
		"a phase before":  func(e *store.RouteEvent) { e.From = "prepared" },
	} {
		is := route("a", "p", "k")
		e := first(is)
		spoil(e)
		if _, _, err := r.Begin(t.Context(), is, e, noon, manyRoutes); err == nil {
			t.Errorf("%s: begun", what)
		}
	}
	noRoute(t, r, "a")
	is := begin(t, r, route("a", "p", "k"))
	for what, spoil := range map[string]func(*store.RouteEvent){
		"another route":            func(e *store.RouteEvent) { e.Route = "b" },
		"another version":          func(e *store.RouteEvent) { e.Version++ },
		"another phase":            func(e *store.RouteEvent) { e.To = "terminal" },
		"no phase before":          func(e *store.RouteEvent) { e.From = "" },
		"a phase it was never in":  func(e *store.RouteEvent) { e.From = "routed" },
		"the phase to which it is": func(e *store.RouteEvent) { e.From = "dispatching" },
	} {
		next, e := following(is, "dispatching")
		spoil(e)
		if err := r.Update(t.Context(), next, e); err == nil {
			t.Errorf("%s: updated", what)
		}
	}
	standsRoute(t, r, is)
	everyRoute(t, r)
}

func routeUpdates(t *testing.T, s *routes) {
	r := s.repository(t)
	is := begin(t, r, route("a", "p", "k"))
	other := begin(t, r, route("b", "p", "l"))
	if next, e := following(route("c", "p", "m"), "dispatching"); !errors.Is(r.Update(t.Context(), next, e), store.ErrNotFound) {
		t.Error("updated nothing")
	}
	next := update(t, r, is, "dispatching")
	for what, stale := range map[string]*store.Route{"again": is, "from the future": {ID: "a", Version: 7, Phase: "dispatching"}} {
		n, e := following(stale, "terminal")
		if err := r.Update(t.Context(), n, e); !errors.Is(err, store.ErrConflict) {
			t.Errorf("%s: %v; want ErrConflict", what, err)
		}
	}
	standsRoute(t, r, next)
	n, e := following(next, "cancel_requested")
	n.Due, n.Server, n.Upstream, n.Integrity, n.UpstreamTask = noon.Add(time.Minute), "s", "u", "i", "job-1"
	if err := r.Update(t.Context(), n, e); err != nil {
		t.Fatal(err)
	}
	standsRoute(t, r, n)
	n = update(t, r, n, "cancel_requested") // to itself
	n, e = following(n, "terminal")
	n.Due = time.Time{}
	if err := r.Update(t.Context(), n, e); err != nil {
		t.Fatal(err)
	}
	standsRoute(t, r, n)
	standsRoute(t, r, other)
	everyRoute(t, r)
}

func routeStays(t *testing.T, s *routes) {
	r := s.repository(t)
	is := begin(t, r, route("a", "p", "k"))
	next, e := following(is, "dispatching")
	want := *next
	next.Principal, next.Tenant, next.Key, next.RequestDigest = "q", "u", "l", "sha256:another"
	next.Created, next.Expires = noon.Add(time.Minute), noon.Add(9*time.Hour)
	if err := r.Update(t.Context(), next, e); err != nil {
		t.Fatal(err)
	}
	standsRoute(t, r, &want)
}

func routeTaskOnce(t *testing.T, s *routes) {
	r := s.repository(t)
	is := update(t, r, begin(t, r, route("a", "p", "k")), "dispatching")
	is.UpstreamTask = "job-1"
	is = update(t, r, is, "routed")
	for _, other := range []string{"", "job-2", "job-1 ", "JOB-1"} {
		next, e := following(is, "terminal")
		next.UpstreamTask = other
		if err := r.Update(t.Context(), next, e); !errors.Is(err, store.ErrConflict) {
			t.Errorf("to %q: %v; want ErrConflict", other, err)
		}
	}
	standsRoute(t, r, is)
	standsRoute(t, r, update(t, r, is, "terminal"))
	everyRoute(t, r)
}

func routeChecks(t *testing.T, s *routes) {
	r := s.repository(t)
	before := time.Unix(-1, 0)
	for what, spoil := range map[string]func(*store.Route){
		"no phase":         func(r *store.Route) { r.Phase = "" },
		"an unknown phase": func(r *store.Route) { r.Phase = "working" },
		"created":          func(r *store.Route) { r.Created = before },
		"updated":          func(r *store.Route) { r.Updated = before },
		"expires":          func(r *store.Route) { r.Expires = before },
		"due":              func(r *store.Route) { r.Due = before },
		"a version":        func(r *store.Route) { r.Version = 1 },
	} {
		is := route("a", "p", "k")
		spoil(is)
		if _, _, err := r.Begin(t.Context(), is, first(is), noon, manyRoutes); err == nil {
			t.Errorf("%s: begun", what)
		}
	}
	noRoute(t, r, "a")
	is := begin(t, r, route("a", "p", "k"))
	next, e := following(is, "working")
	if err := r.Update(t.Context(), next, e); err == nil {
		t.Error("updated to an unknown phase")
	}
	standsRoute(t, r, is)
	everyRoute(t, r)
}
