package conformance

import (
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

// Souths holds an engine to the contract of store.Souths. open returns an empty
// repository of at most max records; what it opens ends with t.
func Souths(t *testing.T, open func(t *testing.T, max int, now func() time.Time) store.Souths) {
	for name, test := range map[string]func(*testing.T, *souths){
		"a stored record reads back equal and unshared":        southReadsBack,
		"a record replaces only the generation it was read at": southCompares,
		"delete removes only the generation it names":          southDeletes,
		"the bound refuses one more":                           southFull,
		"a northern session's records come in pages":           southPages,
		"expire removes and returns what was not used":         southExpires,
		"expire keeps to its limit":                            southExpiresInBatches,
		"one of many first writers wins":                       southFirstRaces,
		"one of many writers of a generation wins":             southRaces,
	} {
		t.Run(name, func(t *testing.T) {
			test(t, &souths{open: open, clock: newClock()})
		})
	}
}

type souths struct {
	open  func(*testing.T, int, func() time.Time) store.Souths
	clock *clock
}

func (s *souths) with(t *testing.T, max int) store.Souths {
	t.Helper()
	return s.open(t, max, s.clock.now)
}

func south(key byte) *store.South {
	return &store.South{
		Key: [32]byte{key}, Server: "default", Upstream: "github", North: "n", ID: "id-\xff\x00-of-the-upstream",
		Revision: mcp.V20251125, Instance: "one", Created: time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC),
	}
}

func putSouth(t *testing.T, r store.Souths, s *store.South) *store.South {
	t.Helper()
	stored, err := r.Put(t.Context(), s)
	if err != nil {
		t.Fatalf("put %v: %v", s.Key[0], err)
	}
	return stored
}

func southLength(t *testing.T, r store.Souths, want int) {
	t.Helper()
	if n, err := r.Len(t.Context()); err != nil || n != want {
		t.Errorf("%d records, error %v; want %d", n, err, want)
	}
}

func southReadsBack(t *testing.T, s *souths) {
	r := s.with(t, 10)
	in := south(1)
	want := *in
	want.Generation = 1
	stored := putSouth(t, r, in)
	in.ID = "changed"
	got, err := r.Get(t.Context(), in.Key)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(&want, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(&want, stored); d != "" {
		t.Error(d)
	}
	if _, err := r.Get(t.Context(), [32]byte{2}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("get of nothing: %v", err)
	}
}

func southCompares(t *testing.T, s *souths) {
	r := s.with(t, 10)
	first := putSouth(t, r, south(1))
	if _, err := r.Put(t.Context(), south(1)); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a second first record: %v", err)
	}
	healed := *first
	healed.ID, healed.Instance = "healed", "two"
	second := putSouth(t, r, &healed)
	if second.Generation <= first.Generation || second.ID != "healed" {
		t.Errorf("stored %+v", second)
	}
	late := *first
	late.ID = "late"
	if _, err := r.Put(t.Context(), &late); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a write of an old generation: %v", err)
	}
	got, err := r.Get(t.Context(), first.Key)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(second, got); d != "" {
		t.Error(d)
	}
	gone := south(7)
	gone.Generation = 3
	if _, err := r.Put(t.Context(), gone); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a later generation of nothing: %v", err)
	}
	southLength(t, r, 1)
}

func southDeletes(t *testing.T, s *souths) {
	r := s.with(t, 10)
	first := putSouth(t, r, south(1))
	second := putSouth(t, r, first)
	if err := r.Delete(t.Context(), first.Key, first.Generation); !errors.Is(err, store.ErrConflict) {
		t.Errorf("delete of an old generation: %v", err)
	}
	southLength(t, r, 1)
	if err := r.Delete(t.Context(), first.Key, second.Generation); err != nil {
		t.Fatal(err)
	}
	if err := r.Delete(t.Context(), first.Key, second.Generation); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("second delete: %v", err)
	}
	if _, err := r.Get(t.Context(), first.Key); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("get after delete: %v", err)
	}
	southLength(t, r, 0)
	putSouth(t, r, south(1)) // the key is free again
}

func southFull(t *testing.T, s *souths) {
	r := s.with(t, 2)
	first := putSouth(t, r, south(1))
	putSouth(t, r, south(2))
	if _, err := r.Put(t.Context(), south(3)); !errors.Is(err, store.ErrFull) {
		t.Errorf("beyond the bound: %v", err)
	}
	if _, err := r.Get(t.Context(), [32]byte{3}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a refused record: %v", err)
	}
	putSouth(t, r, first) // replacing needs no room
	southLength(t, r, 2)
	if err := r.Delete(t.Context(), [32]byte{2}, 1); err != nil {
		t.Fatal(err)
	}
	putSouth(t, r, south(3))
}

func southPages(t *testing.T, s *souths) {
	r := s.with(t, 100)
	const mine = 7
	for i := range byte(mine) {
		putSouth(t, r, south(0xf0+i)) // beyond 0x7f, where a signed comparison would go wrong
		other := south(i + 1)
		other.North = "m"
		putSouth(t, r, other)
	}
	var keys []byte
	after := [32]byte{}
	for pages := 0; ; pages++ {
		page, err := r.OfNorth(t.Context(), "n", after, 3)
		if err != nil || len(page) > 3 || pages > mine {
			t.Fatalf("page %d: %d records, %v", pages, len(page), err)
		}
		if len(page) == 0 {
			break
		}
		for _, is := range page {
			keys = append(keys, is.Key[0])
			after = is.Key
		}
	}
	if want := []byte{0xf0, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6}; !cmp.Equal(keys, want) {
		t.Errorf("keys %x, want %x", keys, want)
	}
}

func southExpires(t *testing.T, s *souths) {
	r := s.with(t, 10)
	start := s.clock.now()
	old := putSouth(t, r, south(1))
	putSouth(t, r, south(2))
	third := putSouth(t, r, south(3))
	s.clock.advance(time.Hour)
	if err := r.Touch(t.Context(), [32]byte{2}, [32]byte{9}); err != nil {
		t.Fatal(err)
	}
	putSouth(t, r, third)
	gone, err := r.Expire(t.Context(), start.Add(time.Minute), 10)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]*store.South{old}, gone); d != "" {
		t.Error(d)
	}
	southLength(t, r, 2)
	if gone, err = r.Expire(t.Context(), start.Add(time.Minute), 10); err != nil || len(gone) != 0 {
		t.Errorf("expired again: %v, %v", gone, err)
	}
	if err := r.Touch(t.Context()); err != nil {
		t.Errorf("touch of nothing: %v", err)
	}
}

func southExpiresInBatches(t *testing.T, s *souths) {
	r := s.with(t, 100)
	for i := range byte(10) {
		putSouth(t, r, south(i))
	}
	s.clock.advance(time.Hour)
	for left := 10; left > 0; {
		gone, err := r.Expire(t.Context(), s.clock.now(), 4)
		if err != nil || len(gone) != min(left, 4) {
			t.Fatalf("expired %d of %d, error %v", len(gone), left, err)
		}
		left -= len(gone)
		southLength(t, r, left)
	}
}

func southFirstRaces(t *testing.T, s *souths) {
	r := s.with(t, 100)
	for i := range byte(20) {
		won := southContest(t, func(by int) error {
			mine := south(i)
			mine.Instance = fmt.Sprint(by)
			_, err := r.Put(t.Context(), mine)
			return err
		})
		if got, err := r.Get(t.Context(), [32]byte{i}); err != nil || got.Instance != fmt.Sprint(won) {
			t.Errorf("%d won and %+v is stored, error %v", won, got, err)
		}
	}
	southLength(t, r, 20)
}

func southRaces(t *testing.T, s *souths) {
	r := s.with(t, 10)
	is := putSouth(t, r, south(1))
	for range 20 {
		won := southContest(t, func(by int) error {
			mine := *is
			mine.Instance = fmt.Sprint(by)
			_, err := r.Put(t.Context(), &mine)
			return err
		})
		var err error
		if is, err = r.Get(t.Context(), is.Key); err != nil || is.Instance != fmt.Sprint(won) {
			t.Fatalf("%d won and %+v is stored, error %v", won, is, err)
		}
	}
}

// southContest returns which one of eight succeeded; the others must meet a
// conflict.
func southContest(t *testing.T, put func(by int) error) int {
	t.Helper()
	var wins, winner atomic.Int64
	var wg sync.WaitGroup
	for by := range 8 {
		wg.Go(func() {
			switch err := put(by); {
			case err == nil:
				wins.Add(1)
				winner.Store(int64(by))
			case !errors.Is(err, store.ErrConflict):
				t.Errorf("put: %v", err)
			}
		})
	}
	wg.Wait()
	if wins.Load() != 1 {
		t.Fatalf("%d writers won", wins.Load())
	}
	return int(winner.Load())
}
