package conformance

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-mcp/penstock/internal/store"
)

// Leases holds an engine to the contract of store.Leases. open returns an empty
// repository; what it opens ends with t.
func Leases(t *testing.T, open func(t *testing.T) store.Leases) {
	for name, test := range map[string]func(*testing.T, store.Leases){
		"a lease reads back equal and unshared":             leaseReadsBack,
		"an id is taken once":                               leaseTakenOnce,
		"delete removes exactly one":                        leaseDeletes,
		"the bounds refuse one more and nothing else":       leaseBounds,
		"a bound can be filled to the last":                 leaseFills,
		"expire removes the earliest first":                 leaseExpires,
		"one of many who use an id gets it":                 leaseIDRaces,
		"leases beside each other keep both bounds":         leaseBoundsRace,
		"counts are exact after everything at once":         leaseEverythingRaces,
		"one of many who delete a lease finds it":           leaseDeleteRaces,
		"no lease is before the epoch and names may be odd": leaseOdd,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

func lease(id, caller string) *store.Lease {
	return &store.Lease{ID: id, Principal: caller, Tenant: "tenant", Expires: noon.Add(time.Minute), Digest: "sha256:manifest", Document: []byte(`{"id":"` + id + `"}`)}
}

var manyLeases = store.LeaseBounds{Max: 10_000, MaxPerCaller: 1000}

func putLease(t *testing.T, r store.Leases, l *store.Lease) {
	t.Helper()
	if err := r.Put(t.Context(), l, noon, manyLeases); err != nil {
		t.Fatalf("put %s: %v", l.ID, err)
	}
}

func standsLease(t *testing.T, r store.Leases, want *store.Lease) {
	t.Helper()
	got, err := r.Get(t.Context(), want.ID)
	if err != nil {
		t.Fatalf("get %s: %v", want.ID, err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func noLease(t *testing.T, r store.Leases, id string) {
	t.Helper()
	if got, err := r.Get(t.Context(), id); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("get %q: %+v, %v; want ErrNotFound", id, got, err)
	}
}

func leaseReadsBack(t *testing.T, r store.Leases) {
	l := lease("a", "p")
	l.Expires = noon.Add(1500 * time.Microsecond)
	putLease(t, r, l)
	l.Document[0] = 'X'
	want := lease("a", "p")
	want.Expires = noon.Add(time.Millisecond)
	standsLease(t, r, want) // also expired
	noLease(t, r, "b")
}

func leaseTakenOnce(t *testing.T, r store.Leases) {
	putLease(t, r, lease("a", "p"))
	for _, now := range []time.Time{noon, noon.Add(time.Hour)} {
		if err := r.Put(t.Context(), lease("a", "q"), now, manyLeases); !errors.Is(err, store.ErrConflict) {
			t.Errorf("again: %v", err)
		}
	}
	standsLease(t, r, lease("a", "p"))
}

func leaseDeletes(t *testing.T, r store.Leases) {
	putLease(t, r, lease("a", "p"))
	putLease(t, r, lease("b", "p"))
	if err := r.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", "c", "", "\xff", "\x00"} {
		noLease(t, r, id)
		if err := r.Delete(t.Context(), id); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("delete of %q: %v", id, err)
		}
	}
	standsLease(t, r, lease("b", "p"))
	putLease(t, r, lease("a", "q"))
	standsLease(t, r, lease("a", "q"))
}

func leaseBounds(t *testing.T, r store.Leases) {
	b := store.LeaseBounds{Max: 3, MaxPerCaller: 2}
	put := func(id, caller string, now time.Time) error {
		l := lease(id, caller)
		l.Expires = now.Add(time.Minute)
		return r.Put(t.Context(), l, now, b)
	}
	if err := r.Put(t.Context(), lease("a", "p"), noon, store.LeaseBounds{}); err == nil {
		t.Error("a bound of nothing let one in")
	}
	if err := errors.Join(put("a", "p", noon), put("b", "p", noon)); err != nil {
		t.Fatal(err)
	}
	if err := put("c", "p", noon); !errors.Is(err, store.ErrFullFor) {
		t.Errorf("at the caller's bound: %v", err)
	}
	other := lease("c", "p")
	other.Tenant = "another"
	if err := r.Put(t.Context(), other, noon, b); err != nil {
		t.Errorf("of another tenant: %v", err)
	}
	if err := put("d", "q", noon); !errors.Is(err, store.ErrFull) {
		t.Errorf("at the whole bound: %v", err)
	}
	noLease(t, r, "d")
	// Expired ones are in nobody's way, removed or not.
	late := noon.Add(time.Minute)
	if err := errors.Join(put("d", "p", late), put("e", "p", late), put("f", "q", late)); err != nil {
		t.Errorf("behind expired ones: %v", err)
	}
	if err := put("g", "r", late); !errors.Is(err, store.ErrFull) {
		t.Errorf("at the whole bound: %v", err)
	}
	if err := r.Delete(t.Context(), "f"); err != nil {
		t.Fatal(err)
	}
	if err := put("g", "r", late); err != nil {
		t.Errorf("in the place of a deleted one: %v", err)
	}
}

func leaseFills(t *testing.T, r store.Leases) {
	const bound = 45
	b := store.LeaseBounds{Max: bound + 10, MaxPerCaller: bound}
	for round := range 3 {
		now := noon.Add(time.Duration(round) * time.Hour)
		put := func(id, caller string) error {
			l := lease(id, caller)
			l.Expires = now.Add(time.Minute)
			return r.Put(t.Context(), l, now, b)
		}
		for i := range bound {
			if err := put(fmt.Sprint("p", round, ".", i), "p"); err != nil {
				t.Fatalf("round %d, the %dth: %v", round, i, err)
			}
		}
		if err := put("more", "p"); !errors.Is(err, store.ErrFullFor) {
			t.Errorf("one more of the caller: %v", err)
		}
		for i := range 10 {
			if err := put(fmt.Sprint("q", round, ".", i), "q"); err != nil {
				t.Fatalf("round %d, the %dth: %v", round, i, err)
			}
		}
		if err := put("more", "q"); !errors.Is(err, store.ErrFull) {
			t.Errorf("one more of all: %v", err)
		}
		if round == 1 { // else the next round makes room by itself
			if n, err := r.Expire(t.Context(), now.Add(time.Minute), 1000); err != nil || n < bound+10 {
				t.Errorf("%d expired, error %v", n, err)
			}
		}
	}
}

func leaseExpires(t *testing.T, r store.Leases) {
	for i, minute := range []time.Duration{5, 3, 3, 8} {
		l := lease(fmt.Sprint("l", i), "p")
		l.Expires = noon.Add(minute * time.Minute)
		putLease(t, r, l)
	}
	for _, step := range []struct {
		minute      time.Duration
		limit, gone int
		left        string
	}{
		{2, 10, 0, "0123"},
		{5, 0, 0, "0123"},
		{5, 1, 1, "023"},
		{5, 10, 2, "3"}, // at its very time
		{9, 10, 1, ""},
	} {
		n, err := r.Expire(t.Context(), noon.Add(step.minute*time.Minute), step.limit)
		left := ""
		for i := range 4 {
			if _, err := r.Get(t.Context(), fmt.Sprint("l", i)); err == nil {
				left += fmt.Sprint(i)
			}
		}
		if err != nil || n != step.gone || left != step.left {
			t.Errorf("at %d min: %d gone, %s left, error %v; want %d, %s", step.minute, n, left, err, step.gone, step.left)
		}
	}
}

func leaseIDRaces(t *testing.T, r store.Leases) {
	for i := range 10 {
		id := fmt.Sprint(i)
		won := southContest(t, func(by int) error {
			return r.Put(t.Context(), lease(id, fmt.Sprint("p", by)), noon, manyLeases)
		})
		standsLease(t, r, lease(id, fmt.Sprint("p", won)))
	}
}

func leaseDeleteRaces(t *testing.T, r store.Leases) {
	for i := range 10 {
		putLease(t, r, lease(fmt.Sprint(i), "p"))
		var found atomic.Int64
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				switch err := r.Delete(t.Context(), fmt.Sprint(i)); {
				case err == nil:
					found.Add(1)
				case !errors.Is(err, store.ErrNotFound):
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if found.Load() != 1 {
			t.Errorf("%d found it", found.Load())
		}
	}
	exactly(t, r, 0, 5)
}

// exactly checks that n leases are counted: as many as make up a bound still fit.
func exactly(t *testing.T, r store.Leases, n, bound int) {
	t.Helper()
	b := store.LeaseBounds{Max: bound, MaxPerCaller: 1}
	for i := range bound - n {
		if err := r.Put(t.Context(), lease(fmt.Sprint("rest", i), fmt.Sprint("rest", i)), noon, b); err != nil {
			t.Fatalf("the %dth after %d: %v", i+1, n, err)
		}
	}
	if err := r.Put(t.Context(), lease("more", "more"), noon, b); !errors.Is(err, store.ErrFull) {
		t.Errorf("one more than %d: %v", bound, err)
	}
}

func leaseBoundsRace(t *testing.T, r store.Leases) {
	b := store.LeaseBounds{Max: 30, MaxPerCaller: 4}
	var kept [10]atomic.Int64
	var wg sync.WaitGroup
	for p := range kept {
		for i := range 10 {
			wg.Go(func() {
				switch err := r.Put(t.Context(), lease(fmt.Sprint(p, ".", i), fmt.Sprint("p", p)), noon, b); {
				case err == nil:
					kept[p].Add(1)
				case !errors.Is(err, store.ErrFull) && !errors.Is(err, store.ErrFullFor):
					t.Errorf("put: %v", err)
				}
			})
		}
	}
	wg.Wait()
	total := int64(0)
	for p := range kept {
		if n := kept[p].Load(); n > 4 {
			t.Errorf("caller %d has %d", p, n)
		}
		total += kept[p].Load()
	}
	if total != 30 {
		t.Errorf("%d were let in; want 30", total)
	}
}

func leaseEverythingRaces(t *testing.T, r store.Leases) {
	b := store.LeaseBounds{Max: 35, MaxPerCaller: 12}
	var wg sync.WaitGroup
	for w := range 12 {
		wg.Go(func() {
			for i := range 40 {
				l := lease(fmt.Sprint((w*7+i*3)%60), fmt.Sprint("p", w%4))
				if i%3 == 0 {
					l.Expires = noon
				}
				var err error
				switch (w + i) % 6 {
				case 0:
					_, err = r.Expire(t.Context(), noon, 5)
				case 1, 2:
					err = r.Delete(t.Context(), l.ID)
				default:
					err = r.Put(t.Context(), l, noon, b)
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
	if _, err := r.Expire(t.Context(), noon, 1000); err != nil {
		t.Fatal(err)
	}
	n := 0
	for i := range 60 {
		if _, err := r.Get(t.Context(), fmt.Sprint(i)); err == nil {
			n++
		}
	}
	exactly(t, r, n, 40)
}

func leaseOdd(t *testing.T, r store.Leases) {
	l := lease("a", "nul\x00 and \xff")
	l.Tenant = "\xfe"
	putLease(t, r, l)
	standsLease(t, r, l)
	l = lease("b", "p")
	l.Expires = time.Unix(-1, 0)
	if err := r.Put(t.Context(), l, noon, manyLeases); err == nil {
		t.Error("one that ended before the epoch")
	}
}
