package conformance

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-mcp/penstock/internal/store"
)

// Routes holds an engine to the contract of store.Routes. open returns an empty
// repository that knows the given clock; what it opens ends with t.
func Routes(t *testing.T, open func(t *testing.T, now func() time.Time) store.Routes) {
	for name, test := range map[string]func(*testing.T, *routes){
		"a begun route reads back equal and unshared":               routeReadsBack,
		"names may be any bytes and ids are only ours":              routeOddNames,
		"a key names one unexpired route of its caller":             routeKeys,
		"an id is taken once":                                       routeIDs,
		"an expired route gives its key, its journal and its place": routeReplaces,
		"a known key is found where nothing more fits":              routeFoundWhenFull,
		"the bounds refuse one more and nothing else":               routeBounds,
		"a bound can be filled to the last":                         routeFills,
		"a bound that was lowered holds once there is room":         routeLowered,
		"expired rows count among all and not for their caller":     routeExpiredCount,
		"an event tells of its own transition":                      routeEvents,
		"update takes only the version before":                      routeUpdates,
		"what Begin fixed stays":                                    routeStays,
		"an upstream task is set once":                              routeTaskOnce,
		"only the six phases and no time before the epoch":          routeChecks,
		"what is due comes oldest first and unexpired":              routeDue,
		"routes come in pages, newest first":                        routePages,
		"a filter shows what matches":                               routeFilters,
		"phases are counted":                                        routeCounts,
		"expire removes whole routes, the earliest first":           routeExpires,
		"an intent stands once and in order":                        routeIntents,
		"an intent moves from the state it is in":                   routeResolves,
		"an instance lives as long as it said":                      routeBeats,
		"of many who submit the same at once one begins it":         routeKeyRaces,
		"of many who take over an expired key one does":             routeReplaceRaces,
		"of many who use one id one gets it":                        routeIDRaces,
		"one of many updates of a version wins":                     routeUpdateRaces,
		"one of many upstream tasks is set":                         routeTaskRaces,
		"submissions beside each other keep both bounds":            routeBoundsRace,
		"one key at the last place is begun once":                   routeLastPlaceRaces,
		"intents beside each other keep order and bound":            routeIntentsRace,
		"rows, journals and counts agree after everything at once":  routeEverythingRaces,
	} {
		t.Run(name, func(t *testing.T) {
			test(t, &routes{open: open, clock: newClock()})
		})
	}
}

type routes struct {
	open  func(*testing.T, func() time.Time) store.Routes
	clock *clock
}

func (s *routes) repository(t *testing.T) store.Routes {
	t.Helper()
	return s.open(t, s.clock.now)
}

// manyRoutes is a bound that no test reaches by accident.
var manyRoutes = store.RouteBounds{Max: 10_000, MaxPerCaller: 1000}

// route is a record as its caller makes it.
func route(id, caller, key string) *store.Route {
	return &store.Route{
		ID: id, Principal: caller, Tenant: "tenant", Key: key, RequestDigest: "sha256:request", Server: "default", Upstream: "worker",
		Phase: "prepared", Created: noon, Updated: noon, Expires: noon.Add(time.Hour), Integrity: "sha256:of " + id, Document: []byte(`{"id":"` + id + `"}`),
	}
}

// first is the event with which a route begins.
func first(r *store.Route) *store.RouteEvent {
	return &store.RouteEvent{Route: r.ID, To: r.Phase, Reason: "submitted", Actor: "one", At: r.Created, Digest: r.ID + " 0"}
}

// following is a route one transition later, and the event of that.
func following(r *store.Route, phase string) (*store.Route, *store.RouteEvent) {
	next := *r
	next.Version++
	next.Phase = phase
	next.Updated = r.Updated.Add(time.Second)
	next.Document = fmt.Appendf(nil, `{"id":%q,"version":%d}`, r.ID, next.Version)
	return &next, &store.RouteEvent{
		Route: r.ID, Version: next.Version, From: r.Phase, To: phase, Reason: "because", Actor: "one", At: next.Updated,
		Previous: fmt.Sprint(r.ID, " ", r.Version), Digest: fmt.Sprint(r.ID, " ", next.Version),
	}
}

func begin(t *testing.T, r store.Routes, is *store.Route) *store.Route {
	t.Helper()
	stored, created, err := r.Begin(t.Context(), is, first(is), noon, manyRoutes)
	if err != nil || !created {
		t.Fatalf("begin %s: created %v, error %v", is.ID, created, err)
	}
	return stored
}

func update(t *testing.T, r store.Routes, is *store.Route, phase string) *store.Route {
	t.Helper()
	next, e := following(is, phase)
	if err := r.Update(t.Context(), next, e); err != nil {
		t.Fatalf("update %s: %v", is.ID, err)
	}
	return next
}

func sameRoute(t *testing.T, what string, want, got *store.Route) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s: %s", what, d)
	}
}

// standsRoute checks what is stored of a route, by its id and by its key.
func standsRoute(t *testing.T, r store.Routes, want *store.Route) {
	t.Helper()
	got, err := r.Get(t.Context(), want.ID)
	if err != nil {
		t.Fatalf("get %s: %v", want.ID, err)
	}
	sameRoute(t, "got", want, got)
	if got, err = r.Find(t.Context(), want.Principal, want.Tenant, want.Key); err != nil {
		t.Fatalf("find %s: %v", want.ID, err)
	}
	sameRoute(t, "found", want, got)
}

func noRoute(t *testing.T, r store.Routes, id string) {
	t.Helper()
	if got, err := r.Get(t.Context(), id); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("get %s: %+v, %v; want ErrNotFound", id, got, err)
	}
	if got, err := r.Journal(t.Context(), id); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("journal of %s: %v, %v; want ErrNotFound", id, got, err)
	}
}

// everyRoute lists all routes in pages, and checks that the journal of each says
// what its row says, and that they are as many as are counted.
func everyRoute(t *testing.T, r store.Routes) (all []*store.Route) {
	t.Helper()
	for f := (store.RouteFilter{}); ; {
		page, err := r.List(t.Context(), f, 50)
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		all = append(all, page...)
		if len(page) < 50 {
			break
		}
		f.Before, f.BeforeID = page[49].Created, page[49].ID
	}
	want := map[string]int{}
	for _, is := range all {
		want[is.Phase]++
		agrees(t, r, is)
	}
	got, err := r.Count(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("counted otherwise: %s", d)
	}
	return all
}

// agrees checks that the journal of a route tells how it came to be what it is.
func agrees(t *testing.T, r store.Routes, is *store.Route) {
	t.Helper()
	events, err := r.Journal(t.Context(), is.ID)
	if err != nil {
		t.Fatalf("journal of %s: %v", is.ID, err)
	}
	phase, digest := "", ""
	for i, e := range events {
		if e.Route != is.ID || e.Version != uint64(i) || e.From != phase || e.Previous != digest {
			t.Errorf("event %d of %s: %+v", i, is.ID, e)
		}
		phase, digest = e.To, e.Digest
	}
	if uint64(len(events)) != is.Version+1 || phase != is.Phase {
		t.Errorf("%s is %q at version %d and its %d events end with %q", is.ID, is.Phase, is.Version, len(events), phase)
	}
}

func routeReadsBack(t *testing.T, s *routes) {
	r := s.repository(t)
	is := route("a", "p", "k")
	is.Created, is.Due = noon.Add(1500*time.Microsecond), noon.Add(time.Minute)
	want := *is
	want.Created = noon.Add(time.Millisecond)
	want.Document = []byte(string(is.Document))
	stored := begin(t, r, is)
	is.Phase, is.Document[0] = "changed", 'X'
	sameRoute(t, "stored", &want, stored)
	standsRoute(t, r, &want)
	events, err := r.Journal(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	e := *first(&want)
	e.At = want.Created
	if d := cmp.Diff([]store.RouteEvent{e}, events); d != "" {
		t.Error(d)
	}
	next := update(t, r, &want, "dispatching")
	standsRoute(t, r, next)
	everyRoute(t, r)
	noRoute(t, r, "b")
	if _, err := r.Find(t.Context(), "p", "tenant", "another"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("find: %v", err)
	}
}

func routeOddNames(t *testing.T, s *routes) {
	r := s.repository(t)
	odd := "nul\x00 and \xff\xfe"
	is := route("a", "p"+odd, "k"+odd)
	is.Tenant = "t" + odd
	e := first(is)
	e.Reason = "r" + odd
	if _, _, err := r.Begin(t.Context(), is, e, noon, manyRoutes); err != nil {
		t.Fatal(err)
	}
	standsRoute(t, r, is)
	update(t, r, is, "dispatching")
	is, err := r.Get(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	next, e := following(is, "routed")
	next.UpstreamTask = "u" + odd
	if err := r.Update(t.Context(), next, e); err != nil {
		t.Fatal(err)
	}
	standsRoute(t, r, next)
	if events, err := r.Journal(t.Context(), "a"); err != nil || events[0].Reason != "r"+odd {
		t.Errorf("journal: %+v, %v", events, err)
	}
	for _, id := range []string{"", odd, "a\x00", "A", "a "} {
		noRoute(t, r, id)
	}
}

func routeKeys(t *testing.T, s *routes) {
	r := s.repository(t)
	is := begin(t, r, route("a", "p", "k"))
	again := route("b", "p", "k")
	again.RequestDigest = "sha256:another" // is the caller's to compare
	for range 2 {
		stands, created, err := r.Begin(t.Context(), again, first(again), noon.Add(time.Hour-time.Millisecond), manyRoutes)
		if err != nil || created {
			t.Fatalf("begin: created %v, error %v", created, err)
		}
		sameRoute(t, "stands", is, stands)
		is = update(t, r, is, map[string]string{"prepared": "dispatching", "dispatching": "terminal"}[is.Phase])
	}
	noRoute(t, r, "b")
	other := route("c", "p", "k")
	other.Tenant = "other"
	for _, fresh := range []*store.Route{other, route("d", "q", "k"), route("e", "p", "l"), route("f", "pt", "k")} {
		begin(t, r, fresh)
	}
	standsRoute(t, r, is)
	if n := len(everyRoute(t, r)); n != 5 {
		t.Errorf("%d routes", n)
	}
}

func routeIDs(t *testing.T, s *routes) {
	r := s.repository(t)
	is := begin(t, r, route("a", "p", "k"))
	thief := route("a", "q", "l")
	if stands, created, err := r.Begin(t.Context(), thief, first(thief), noon.Add(2*time.Hour), manyRoutes); !errors.Is(err, store.ErrConflict) || created || stands != nil {
		t.Errorf("begin: %+v, created %v, %v; want ErrConflict", stands, created, err)
	}
	standsRoute(t, r, is)
	everyRoute(t, r)
}

func routeReplaces(t *testing.T, s *routes) {
	r := s.repository(t)
	is := begin(t, r, route("a", "p", "k"))
	is = update(t, r, is, "dispatching")
	if _, _, err := r.Intend(t.Context(), &store.RouteUpdate{Route: "a", Digest: "x", At: noon}, 1); err != nil {
		t.Fatal(err)
	}
	next := route("b", "p", "k")
	next.Created, next.Updated, next.Expires = is.Expires, is.Expires, is.Expires.Add(time.Hour)
	// The one place that there is, is the expired one's.
	stored, created, err := r.Begin(t.Context(), next, first(next), is.Expires, store.RouteBounds{Max: 1, MaxPerCaller: 1})
	if err != nil || !created {
		t.Fatalf("begin: created %v, error %v", created, err)
	}
	sameRoute(t, "stored", next, stored)
	standsRoute(t, r, next)
	noRoute(t, r, "a")
	if err := r.Resolve(t.Context(), "a", "x", store.UpdatePrepared, store.UpdateSent, noon); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("resolve: %v", err)
	}
	// Also under the same id.
	again := route("b", "p", "k")
	again.Expires = noon.Add(9 * time.Hour)
	if _, created, err := r.Begin(t.Context(), again, first(again), next.Expires, store.RouteBounds{Max: 1, MaxPerCaller: 1}); err != nil || !created {
		t.Fatalf("begin: created %v, error %v", created, err)
	}
	if n := len(everyRoute(t, r)); n != 1 {
		t.Errorf("%d routes", n)
	}
}
