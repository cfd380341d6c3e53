package engine_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/penstock-mcp/penstock/internal/store"
	"github.com/penstock-mcp/penstock/internal/store/engine"
	"github.com/penstock-mcp/penstock/internal/store/pgtest"
)

// clock is moved by hand. It is safe for concurrent use.
type clock struct{ ns atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.ns.Store(time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC).UnixNano())
	return c
}

func (c *clock) now() time.Time           { return time.Unix(0, c.ns.Load()) }
func (c *clock) advance(by time.Duration) { c.ns.Add(int64(by)) }

// pair is two instances on one database.
type pair struct {
	*clock
	address  string
	a, b     *engine.Store
	one, two store.Sessions
}

const idle = 30 * time.Minute

func twoInstances(t *testing.T) *pair {
	t.Helper()
	p := &pair{clock: newClock(), address: pgtest.Database(t)}
	o := engine.Options{URL: p.address, Now: p.now, IdleSession: idle, SessionsPerPrincipal: 3}
	o.Instance = "one"
	p.a = open(t, o)
	o.Instance = "two"
	p.b = open(t, o)
	p.one, p.two = p.a.Sessions(), p.b.Sessions()
	return p
}

// lastUsed is what the database knows.
func (p *pair) lastUsed(t *testing.T, id string) (at int64) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), p.address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	if err := c.QueryRow(t.Context(), `SELECT last_used FROM sessions WHERE id = $1`, id).Scan(&at); err != nil {
		t.Fatal(err)
	}
	return at
}

// flush has what Run does every second done now.
func flush(t *testing.T, s *engine.Store) {
	t.Helper()
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func created(t *testing.T, r store.Sessions, id string) {
	t.Helper()
	if evicted, err := r.Create(t.Context(), session(id, 1)); err != nil || evicted != nil {
		t.Fatalf("create %s: evicted %v, error %v", id, evicted, err)
	}
}

func has(t *testing.T, r store.Sessions, id string) *store.Session {
	t.Helper()
	is, err := r.Get(t.Context(), id)
	if err != nil {
		t.Fatalf("get %s: %v", id, err)
	}
	return is
}

func lacks(t *testing.T, r store.Sessions, id string) {
	t.Helper()
	if is, err := r.Get(t.Context(), id); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("get %s: %v, %v; want ErrNotFound", id, is, err)
	}
}

func TestAnotherInstancePicksASessionUp(t *testing.T) {
	p := twoInstances(t)
	created(t, p.one, "a")
	if d := cmp.Diff(has(t, p.one, "a"), has(t, p.two, "a")); d != "" {
		t.Error(d)
	}
}

func TestAChangeByAnotherInstanceIsSeenWithin2s(t *testing.T) {
	p := twoInstances(t)
	created(t, p.one, "deleted")
	created(t, p.one, "updated")
	has(t, p.two, "deleted")
	next := *has(t, p.two, "updated")
	next.LogLevel = "debug"
	if _, err := p.one.Update(t.Context(), &next); err != nil {
		t.Fatal(err)
	}
	if err := p.one.Delete(t.Context(), "deleted"); err != nil {
		t.Fatal(err)
	}
	lacks(t, p.one, "deleted") // at once, where it was done
	if is := has(t, p.one, "updated"); is.LogLevel != "debug" {
		t.Errorf("where it was updated: %+v", is)
	}
	p.advance(2*time.Second + time.Nanosecond)
	lacks(t, p.two, "deleted")
	if is := has(t, p.two, "updated"); is.LogLevel != "debug" {
		t.Errorf("2 s later: %+v", is)
	}
}

func TestACacheDoesNotMakeAnUpdateFailTwice(t *testing.T) {
	p := twoInstances(t)
	created(t, p.one, "a")
	stale := *has(t, p.two, "a")
	next := stale
	next.LogLevel = "debug"
	if _, err := p.one.Update(t.Context(), &next); err != nil {
		t.Fatal(err)
	}
	stale.LogLevel = "error"
	if _, err := p.two.Update(t.Context(), &stale); !errors.Is(err, store.ErrConflict) {
		t.Fatalf("a late update: %v", err)
	}
	again := *has(t, p.two, "a") // the loser re-reads, and the clock stands still
	again.LogLevel = "error"
	if _, err := p.two.Update(t.Context(), &again); err != nil {
		t.Errorf("after reading again: %v", err)
	}
}

// A session whose requests all went to one instance for long must not be
// expired by the other, which has not seen it since.
func TestASessionInUseElsewhereDoesNotExpire(t *testing.T) {
	p := twoInstances(t)
	created(t, p.one, "a")
	start := p.now()
	for p.now().Before(start.Add(3 * idle)) {
		p.advance(time.Minute)
		has(t, p.two, "a")
		flush(t, p.b)
		gone, err := p.one.Expire(t.Context(), p.now().Add(-idle))
		if err != nil || len(gone) > 0 {
			t.Fatalf("after %s: expired %v, %v", p.now().Sub(start), gone, err)
		}
	}
	has(t, p.one, "a")
	// What nobody uses goes, from wherever it is swept, a little later at most.
	p.advance(idle + idle/10 + 10*time.Second)
	lacks(t, p.one, "a")
	lacks(t, p.two, "a")
	gone, err := p.one.Expire(t.Context(), p.now().Add(-idle))
	if err != nil || len(gone) != 1 {
		t.Errorf("expired %v, %v", gone, err)
	}
	if gone, err = p.two.Expire(t.Context(), p.now().Add(-idle)); err != nil || len(gone) != 0 {
		t.Errorf("expired twice: %v, %v", gone, err)
	}
}

// What the other uses of a session are is not written exactly, so a sweep allows
// for it, also where the sweeper made the session.
func TestASweepAllowsForUsesThatAnotherInstanceHasNotWrittenYet(t *testing.T) {
	p := twoInstances(t)
	created(t, p.one, "a")
	p.advance(time.Minute)
	has(t, p.two, "a")
	flush(t, p.b)
	if is := p.lastUsed(t, "a"); is != p.ns.Load() {
		t.Errorf("the first use by another instance was not written: %d instead of %d", is, p.ns.Load())
	}
	p.advance(idle / 20)
	has(t, p.two, "a")
	flush(t, p.b)
	if is := p.lastUsed(t, "a"); is == p.ns.Load() {
		t.Error("a use was written too soon")
	}
	p.advance(idle - idle/20 + time.Second)
	if gone, err := p.one.Expire(t.Context(), p.now().Add(-idle)); err != nil || len(gone) > 0 {
		t.Errorf("expired %v, %v, which was in use", gone, err)
	}
	has(t, p.two, "a")
}

func TestInstancesThatSweepBesideEachOtherReturnEachSessionOnce(t *testing.T) {
	clock := newClock()
	o := engine.Options{URL: pgtest.Database(t), Now: clock.now, IdleSession: idle}
	all := []store.Sessions{open(t, o).Sessions(), open(t, o).Sessions(), open(t, o).Sessions()}
	const n = 500
	var wg sync.WaitGroup
	for w := range 10 {
		wg.Go(func() {
			for i := range n / 10 {
				if _, err := all[0].Create(t.Context(), session(fmt.Sprint(w, ".", i), byte(i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	clock.advance(2 * idle)
	var mu sync.Mutex // guards seen
	seen := map[string]int{}
	for _, r := range all {
		wg.Go(func() {
			gone, err := r.Expire(t.Context(), clock.now().Add(-idle))
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, is := range gone {
				seen[is.ID]++
			}
		})
	}
	wg.Wait()
	for id, times := range seen {
		if times != 1 {
			t.Errorf("%s was returned %d times", id, times)
		}
	}
	if left, err := all[1].Len(t.Context()); err != nil || left != 0 || len(seen) != n {
		t.Errorf("%d returned and %d left of %d, error %v", len(seen), left, n, err)
	}
}

func TestBoundsHoldOverAllInstances(t *testing.T) {
	o := engine.Options{URL: pgtest.Database(t), Sessions: 30, SessionsPerPrincipal: 4}
	all := []store.Sessions{open(t, o).Sessions(), open(t, o).Sessions()}
	var kept [10]atomic.Int64
	var wg sync.WaitGroup
	for p := range kept {
		for i := range 10 {
			wg.Go(func() {
				_, err := all[i%2].Create(t.Context(), session(fmt.Sprint(p, ".", i), byte(p)))
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
	total := int64(0)
	for p := range kept {
		if n := kept[p].Load(); n > 4 {
			t.Errorf("principal %d has %d records", p, n)
		}
		total += kept[p].Load()
	}
	if n, err := all[0].Len(t.Context()); err != nil || total != 30 || n != 30 {
		t.Errorf("%d created, %d counted, error %v; want 30", total, n, err)
	}
}

func TestInstancesMayStartAtOnceOnAnEmptyDatabase(t *testing.T) {
	address := pgtest.Database(t)
	rings := make([][][]byte, 6)
	var wg sync.WaitGroup
	for i := range rings {
		wg.Go(func() {
			s, err := engine.Open(t.Context(), engine.Options{URL: address})
			if err != nil {
				t.Errorf("open: %v", err)
				return
			}
			if rings[i], err = s.Keys().Ring(t.Context()); err != nil {
				t.Errorf("ring: %v", err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, ring := range rings[1:] {
		if d := cmp.Diff(rings[0], ring); d != "" {
			t.Error("two instances have different keys")
		}
	}
}
