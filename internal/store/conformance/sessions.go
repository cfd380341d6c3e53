// Package conformance holds the suites that every engine of a repository
// passes (DESIGN section 12).
package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/store"
)

// Bounds are what a repository is opened with.
type Bounds struct {
	Max, MaxFor int
	Idle        time.Duration
	Now         func() time.Time
}

// roomy is a bound that no test reaches by accident.
var roomy = Bounds{Max: 1000, MaxFor: 100, Idle: time.Minute}

// clock is moved by hand. It is safe for concurrent use.
type clock struct{ ns atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.ns.Store(time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC).UnixNano())
	return c
}

func (c *clock) now() time.Time           { return time.Unix(0, c.ns.Load()) }
func (c *clock) advance(by time.Duration) { c.ns.Add(int64(by)) }

// Sessions holds an engine to the contract of store.Sessions. open returns an
// empty repository with those bounds; what it opens ends with t.
func Sessions(t *testing.T, open func(t *testing.T, b Bounds) store.Sessions) {
	for name, test := range map[string]func(*testing.T, *sessions){
		"a created record reads back equal and unshared":          readsBack,
		"an id is taken once":                                     takenOnce,
		"update replaces by generation":                           updatesByGeneration,
		"delete removes exactly one":                              deletesOne,
		"a record idle for too long is not found":                 idleIsGone,
		"a use keeps a record alive":                              useKeepsAlive,
		"expire removes and returns what was idle":                expires,
		"the whole bound refuses a stranger":                      fullRefuses,
		"a principal's bound makes its least recently used go":    evictsOldest,
		"a principal's busy sessions do not make room":            busyStays,
		"one principal's bound costs no other":                    boundIsPerPrincipal,
		"one of many updates of a generation wins":                updatesRace,
		"one of many deletes finds the record":                    deletesRace,
		"creates beside each other keep both bounds":              createsRace,
		"a refused create leaves nothing behind":                  refusedLeavesNothing,
		"uses, updates, deletes and expiry run beside each other": everythingRaces,
	} {
		t.Run(name, func(t *testing.T) {
			test(t, &sessions{open: open, clock: newClock()})
		})
	}
}

// sessions is what one test works with.
type sessions struct {
	open  func(*testing.T, Bounds) store.Sessions
	clock *clock
}

func (s *sessions) with(t *testing.T, b Bounds) store.Sessions {
	t.Helper()
	b.Now = s.clock.now
	return s.open(t, b)
}

func record(id string, principal byte) *store.Session {
	return &store.Session{
		ID: id, Server: "default", Principal: [32]byte{principal}, Revision: mcp.V20250618,
		Capabilities: []byte(`{"roots":{}}`), ClientInfo: []byte(`{"name":"c"}`),
		Created: time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC),
	}
}

func create(t *testing.T, r store.Sessions, s *store.Session) {
	t.Helper()
	if evicted, err := r.Create(t.Context(), s); err != nil || evicted != nil {
		t.Fatalf("create %s: evicted %v, error %v", s.ID, evicted, err)
	}
}

func length(t *testing.T, r store.Sessions, want int) {
	t.Helper()
	if n, err := r.Len(t.Context()); err != nil || n != want {
		t.Errorf("%d records, error %v; want %d", n, err, want)
	}
}

func found(t *testing.T, r store.Sessions, id string) *store.Session {
	t.Helper()
	s, err := r.Get(t.Context(), id)
	if err != nil {
		t.Fatalf("get %s: %v", id, err)
	}
	return s
}

func missing(t *testing.T, r store.Sessions, id string) {
	t.Helper()
	if s, err := r.Get(t.Context(), id); !errors.Is(err, store.ErrNotFound) || s != nil {
		t.Errorf("get %s: %v, %v; want ErrNotFound", id, s, err)
	}
}

func readsBack(t *testing.T, s *sessions) {
	r := s.with(t, roomy)
	in := record("a", 1)
	create(t, r, in)
	want := *in
	in.LogLevel, in.Server = "debug", "other" // the caller's own copy, later changed
	if d := cmp.Diff(&want, found(t, r, "a")); d != "" {
		t.Error(d)
	}
	missing(t, r, "A")
	missing(t, r, "")
	length(t, r, 1)
}

func takenOnce(t *testing.T, s *sessions) {
	r := s.with(t, roomy)
	create(t, r, record("a", 1))
	if _, err := r.Create(t.Context(), record("a", 2)); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a second record of one id: %v", err)
	}
	if got := found(t, r, "a"); got.Principal != [32]byte{1} {
		t.Errorf("the record now belongs to %v", got.Principal[0])
	}
	length(t, r, 1)
}

func updatesByGeneration(t *testing.T, s *sessions) {
	r := s.with(t, roomy)
	create(t, r, record("a", 1))
	first := found(t, r, "a")
	next := *first
	next.LogLevel = "info"
	next.Subscriptions = []string{"file:///b", "a\n\"ü"}
	stored, err := r.Update(t.Context(), &next)
	if err != nil || stored.LogLevel != "info" || len(stored.Subscriptions) != 2 || stored.Generation <= first.Generation {
		t.Fatalf("update: %+v, %v", stored, err)
	}
	if d := cmp.Diff(stored, found(t, r, "a")); d != "" {
		t.Error(d)
	}
	if first.LogLevel != "" {
		t.Error("a record that was handed out changed")
	}
	late := *first
	late.LogLevel = "error"
	if _, err := r.Update(t.Context(), &late); !errors.Is(err, store.ErrConflict) {
		t.Errorf("update of an old generation: %v", err)
	}
	got := found(t, r, "a")
	if got.LogLevel != "info" {
		t.Errorf("the late update won: %+v", got)
	}
	last := *got
	last.Subscriptions = nil
	if stored, err = r.Update(t.Context(), &last); err != nil || stored.Subscriptions != nil {
		t.Errorf("update to no subscriptions: %+v, %v", stored, err)
	}
	if _, err := r.Update(t.Context(), record("none", 1)); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("update of nothing: %v", err)
	}
	length(t, r, 1)
}

func deletesOne(t *testing.T, s *sessions) {
	r := s.with(t, roomy)
	create(t, r, record("a", 1))
	create(t, r, record("b", 1))
	if err := r.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	missing(t, r, "a")
	found(t, r, "b")
	if err := r.Delete(t.Context(), "a"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("second delete: %v", err)
	}
	if _, err := r.Update(t.Context(), record("a", 1)); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("update after delete: %v", err)
	}
	length(t, r, 1)
	create(t, r, record("a", 2)) // the id is free again
}

func idleIsGone(t *testing.T, s *sessions) {
	r := s.with(t, roomy)
	create(t, r, record("a", 1))
	s.clock.advance(roomy.Idle + time.Millisecond)
	missing(t, r, "a")
	missing(t, r, "a") // looking for it was no use of it
}

func useKeepsAlive(t *testing.T, s *sessions) {
	r := s.with(t, roomy)
	create(t, r, record("a", 1))
	for range 3 {
		s.clock.advance(roomy.Idle - time.Second)
		found(t, r, "a")
	}
}

func expires(t *testing.T, s *sessions) {
	r := s.with(t, roomy)
	create(t, r, record("old", 1))
	create(t, r, record("used", 1))
	s.clock.advance(roomy.Idle / 2)
	create(t, r, record("new", 2))
	found(t, r, "used")
	s.clock.advance(roomy.Idle/2 + time.Second)
	gone, err := r.Expire(t.Context(), s.clock.now().Add(-roomy.Idle))
	if err != nil || len(gone) != 1 || gone[0].ID != "old" {
		t.Fatalf("expired %+v, %v", gone, err)
	}
	length(t, r, 2)
	missing(t, r, "old")
	found(t, r, "used")
	found(t, r, "new")
	if gone, err = r.Expire(t.Context(), s.clock.now().Add(-roomy.Idle)); err != nil || len(gone) != 0 {
		t.Errorf("expired again: %+v, %v", gone, err)
	}
}

func fullRefuses(t *testing.T, s *sessions) {
	r := s.with(t, Bounds{Max: 3, MaxFor: 3, Idle: time.Hour})
	for i := range 3 {
		create(t, r, record(fmt.Sprint(i), byte(i)))
	}
	s.clock.advance(time.Minute)
	if evicted, err := r.Create(t.Context(), record("x", 9)); !errors.Is(err, store.ErrFull) || evicted != nil {
		t.Errorf("beyond the bound: evicted %v, error %v", evicted, err)
	}
	length(t, r, 3)
	if err := r.Delete(t.Context(), "1"); err != nil {
		t.Fatal(err)
	}
	create(t, r, record("x", 9))
}

func evictsOldest(t *testing.T, s *sessions) {
	r := s.with(t, Bounds{Max: 100, MaxFor: 3, Idle: time.Hour})
	for _, id := range []string{"a", "b", "c"} {
		create(t, r, record(id, 1))
		s.clock.advance(time.Minute)
	}
	found(t, r, "a") // so b is the least recently used
	s.clock.advance(time.Minute)
	evicted, err := r.Create(t.Context(), record("d", 1))
	if err != nil || evicted == nil || evicted.ID != "b" {
		t.Fatalf("evicted %+v, error %v; want b", evicted, err)
	}
	missing(t, r, "b")
	for _, id := range []string{"a", "c", "d"} {
		found(t, r, id)
	}
	length(t, r, 3)
}

func busyStays(t *testing.T, s *sessions) {
	r := s.with(t, Bounds{Max: 100, MaxFor: 2, Idle: time.Hour})
	create(t, r, record("a", 1))
	create(t, r, record("b", 1))
	if evicted, err := r.Create(t.Context(), record("c", 1)); !errors.Is(err, store.ErrFullFor) || evicted != nil {
		t.Errorf("evicted %+v, error %v; want ErrFullFor", evicted, err)
	}
	found(t, r, "a")
	found(t, r, "b")
	length(t, r, 2)
}

func boundIsPerPrincipal(t *testing.T, s *sessions) {
	r := s.with(t, Bounds{Max: 100, MaxFor: 1, Idle: time.Hour})
	create(t, r, record("a", 1))
	create(t, r, record("b", 2))
	s.clock.advance(time.Minute)
	if evicted, err := r.Create(t.Context(), record("c", 2)); err != nil || evicted == nil || evicted.ID != "b" {
		t.Errorf("evicted %+v, error %v; want b", evicted, err)
	}
	found(t, r, "a")
	if err := r.Delete(t.Context(), "c"); err != nil {
		t.Fatal(err)
	}
	create(t, r, record("d", 2)) // the place of a deleted record is free
}

func updatesRace(t *testing.T, s *sessions) {
	r := s.with(t, roomy)
	create(t, r, record("a", 1))
	const rounds, writers = 20, 8
	for range rounds {
		base := *found(t, r, "a")
		var won atomic.Int32
		var wg sync.WaitGroup
		for range writers {
			wg.Go(func() {
				next := base
				switch _, err := r.Update(t.Context(), &next); {
				case err == nil:
					won.Add(1)
				case !errors.Is(err, store.ErrConflict):
					t.Errorf("update: %v", err)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 {
			t.Fatalf("%d updates of one generation won", won.Load())
		}
	}
}

func deletesRace(t *testing.T, s *sessions) {
	r := s.with(t, roomy)
	for i := range 20 {
		id := fmt.Sprint(i)
		create(t, r, record(id, 1))
		var won atomic.Int32
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				switch err := r.Delete(t.Context(), id); {
				case err == nil:
					won.Add(1)
				case !errors.Is(err, store.ErrNotFound):
					t.Errorf("delete: %v", err)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 {
			t.Fatalf("%d deletes of one record succeeded", won.Load())
		}
	}
	length(t, r, 0)
}

func createsRace(t *testing.T, s *sessions) {
	const max, maxFor = 20, 5
	r := s.with(t, Bounds{Max: max, MaxFor: maxFor, Idle: time.Hour})
	var kept [8]atomic.Int32
	var wg sync.WaitGroup
	for p := range kept {
		for i := range 10 {
			wg.Go(func() {
				_, err := r.Create(t.Context(), record(fmt.Sprint(p, "-", i), byte(p)))
				switch {
				case err == nil:
					kept[p].Add(1)
				case !errors.Is(err, store.ErrFull) && !errors.Is(err, store.ErrFullFor):
					t.Errorf("create: %v", err)
				}
			})
		}
	}
	wg.Wait()
	total := 0
	for p := range kept {
		n := int(kept[p].Load())
		total += n
		if n > maxFor {
			t.Errorf("principal %d got %d records, its bound is %d", p, n, maxFor)
		}
	}
	if total != max {
		t.Errorf("%d records were taken, the bound is %d", total, max)
	}
	length(t, r, total)
}

func refusedLeavesNothing(t *testing.T, s *sessions) {
	r := s.with(t, Bounds{Max: 2, MaxFor: 1, Idle: time.Hour})
	create(t, r, record("a", 1))
	if _, err := r.Create(t.Context(), record("b", 1)); !errors.Is(err, store.ErrFullFor) {
		t.Fatalf("create: %v", err)
	}
	missing(t, r, "b")
	create(t, r, record("b", 2))
	if _, err := r.Create(t.Context(), record("c", 3)); !errors.Is(err, store.ErrFull) {
		t.Fatalf("create: %v", err)
	}
	missing(t, r, "c")
	if err := r.Delete(t.Context(), "c"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("delete of a refused record: %v", err)
	}
	length(t, r, 2)
}

// everythingRaces has value with the race detector: it counts as well that
// every record ends in exactly one way.
func everythingRaces(t *testing.T, s *sessions) {
	const workers, each = 8, 25
	r := s.with(t, Bounds{Max: 10000, MaxFor: 10000, Idle: time.Hour})
	var ended atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var sweeper sync.WaitGroup
	sweeper.Go(func() {
		for ctx.Err() == nil {
			s.clock.advance(time.Millisecond)
			gone, err := r.Expire(context.WithoutCancel(ctx), s.clock.now().Add(-time.Second))
			if err != nil {
				t.Errorf("expire: %v", err)
			}
			ended.Add(int64(len(gone)))
		}
	})
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				id := fmt.Sprint(w, ".", i)
				if _, err := r.Create(t.Context(), record(id, byte(w))); err != nil {
					t.Errorf("create: %v", err)
				}
				if got, err := r.Get(t.Context(), id); err == nil {
					if _, err = r.Update(t.Context(), got); err != nil && !errors.Is(err, store.ErrNotFound) {
						t.Errorf("update: %v", err)
					}
				}
				if i%2 == 0 {
					if err := r.Delete(t.Context(), id); err == nil {
						ended.Add(1)
					}
				}
			}
		})
	}
	wg.Wait()
	stop()
	sweeper.Wait()
	left, err := r.Len(t.Context())
	if err != nil || int64(left)+ended.Load() != workers*each {
		t.Errorf("%d records left and %d ended of %d, error %v", left, ended.Load(), workers*each, err)
	}
}
