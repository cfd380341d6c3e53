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

func taskMintRaces(t *testing.T, s *tasks) {
	r := s.with(t, 100, 100)
	for round := range 5 {
		var won sync.Map
		var conflicts atomic.Int64
		var wg sync.WaitGroup
		for by := range 100 {
			wg.Go(func() {
				is := task(fmt.Sprint(round), 1)
				is.Upstream = [2]string{"one", "two"}[by%2]
				stored, err := r.Mint(t.Context(), is)
				switch {
				case err == nil:
					won.Store(stored.Upstream, true)
				case !errors.Is(err, store.ErrConflict):
					t.Errorf("mint: %v", err)
				default:
					conflicts.Add(1)
					if stored == nil || stored.Upstream == is.Upstream {
						t.Errorf("the record that stands is %+v", stored)
					}
				}
			})
		}
		wg.Wait()
		var winners []string
		for upstream := range won.Range {
			winners = append(winners, upstream.(string))
		}
		if len(winners) != 1 || conflicts.Load() != 50 {
			t.Fatalf("%v won, %d met a conflict", winners, conflicts.Load())
		}
		if is := owned(t, r, task(fmt.Sprint(round), 1)); is.Upstream != winners[0] || is.Generation != 50 {
			t.Errorf("%v won and %+v is stored", winners, is)
		}
	}
	counted(t, r, 5)
}

func taskPrincipalsRace(t *testing.T, s *tasks) {
	r := s.with(t, 1000, 10)
	var wg sync.WaitGroup
	for p := range byte(100) {
		wg.Go(func() {
			is := task("one id", p)
			is.Upstream = fmt.Sprint(p % 3)
			if _, err := r.Mint(t.Context(), is); err != nil {
				t.Errorf("mint: %v", err)
			}
		})
	}
	wg.Wait()
	for p := range byte(100) {
		if is, _, err := r.Get(t.Context(), task("one id", p).Hash, task("one id", p).Principal); err != nil || is.Upstream != fmt.Sprint(p%3) {
			t.Errorf("principal %d has %+v, error %v", p, is, err)
		}
	}
	counted(t, r, 100)
}

func taskReplaceRaces(t *testing.T, s *tasks) {
	r := s.with(t, 10, 10)
	is := mint(t, r, task("a", 1))
	for range 10 {
		over := is
		won := southContest(t, func(by int) error {
			next := task("a", 1)
			next.Upstream = fmt.Sprint(by)
			_, err := r.Replace(t.Context(), next, over)
			return err
		})
		if is = owned(t, r, is); is.Upstream != fmt.Sprint(won) || is.Generation != over.Generation+1 {
			t.Fatalf("%d won and %+v is stored", won, is)
		}
	}
}

func taskLocateRaces(t *testing.T, s *tasks) {
	r := s.with(t, 100, 100)
	for round := range 20 {
		id := fmt.Sprint(round)
		won := southContest(t, func(by int) error {
			_, err := r.Locate(t.Context(), task(id, byte(by)))
			return err
		})
		if is := owned(t, r, task(id, byte(won))); !is.Located {
			t.Errorf("stored %+v", is)
		}
	}
	counted(t, r, 20)
}

func taskLocateAndMintRace(t *testing.T, s *tasks) {
	r := s.with(t, 10_000, 1000)
	const rounds = 40
	for round := range rounds {
		id := fmt.Sprint(round)
		var wg sync.WaitGroup
		for p := range byte(8) {
			wg.Go(func() {
				do := r.Locate
				if p%4 == 0 {
					do = r.Mint
				}
				if _, err := do(t.Context(), task(id, p)); err != nil && !errors.Is(err, store.ErrConflict) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	for _, is := range everything(t, r) {
		if is.Located {
			t.Errorf("%v kept a located record beside a minted one", is.Principal[0])
		}
	}
	counted(t, r, 2*rounds)
}

func taskBoundsRace(t *testing.T, s *tasks) {
	r := s.with(t, 30, 4)
	var kept [10]atomic.Int64
	var wg sync.WaitGroup
	for p := range kept {
		for i := range 10 {
			wg.Go(func() {
				_, err := r.Mint(t.Context(), task(fmt.Sprint(p, ".", i), byte(p)))
				switch {
				case err == nil:
					kept[p].Add(1)
				case !errors.Is(err, store.ErrFull) && !errors.Is(err, store.ErrFullFor):
					t.Errorf("mint: %v", err)
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
	if total != 30 {
		t.Errorf("%d were let in; want 30", total)
	}
	counted(t, r, 30)
}

func taskCountsRace(t *testing.T, s *tasks) {
	r := s.with(t, 60, 25) // so that both bounds are met
	var wg sync.WaitGroup
	for w := range 12 {
		wg.Go(func() {
			for i := range 40 {
				is := task(fmt.Sprint((w*7+i*3)%30), byte(w%4))
				if i%5 == 0 {
					is.Expires = noon.Add(-time.Hour)
				}
				var err error
				switch (w + i) % 6 {
				case 0:
					err = r.Delete(t.Context(), is.Hash, is.Principal)
				case 1:
					_, err = r.Locate(t.Context(), is)
				case 2:
					err = r.Touch(t.Context(), store.TaskTouch{Hash: is.Hash, Principal: is.Principal, Used: s.clock.now(), Expires: noon.Add(time.Hour)},
						store.TaskTouch{Hash: task("0", 0).Hash, Principal: is.Principal, Used: s.clock.now()})
				case 3:
					if i%8 == 0 {
						_, err = r.Expire(t.Context(), noon.Add(-time.Minute), noon.Add(-time.Hour), 10)
						break
					}
					err = r.Mark(t.Context(), is.Hash, is.Principal, 0, store.TaskCancelled)
				default:
					_, err = r.Mint(t.Context(), is)
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
	counted(t, r, len(everything(t, r)))
	s.clock.advance(100 * time.Hour)
	if _, err := r.Expire(t.Context(), s.clock.now(), s.clock.now(), 1000); err != nil {
		t.Fatal(err)
	}
	counted(t, r, 0)
}

// A record that is read while it changes must not be served as it was before,
// once the change is done.
func taskSeesOwnWrites(t *testing.T, s *tasks) {
	r := s.with(t, 100, 100)
	is := mint(t, r, task("a", 1))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_, _, _ = r.Get(t.Context(), is.Hash, is.Principal)
				}
			}
		})
	}
	defer wg.Wait()
	defer close(stop)
	for i := range 50 {
		m := store.TaskMark(i % 4)
		if err := r.Mark(t.Context(), is.Hash, is.Principal, 0, m); err != nil {
			t.Fatal(err)
		}
		if got, _, err := r.Get(t.Context(), is.Hash, is.Principal); err != nil || got.Mark != m {
			t.Fatalf("marked %v, got %+v, error %v", m, got, err)
		}
		at := noon.Add(time.Duration(i) * time.Hour)
		if err := r.Touch(t.Context(), store.TaskTouch{Hash: is.Hash, Principal: is.Principal, Used: at, Expires: at}); err != nil {
			t.Fatal(err)
		}
		if got, _, err := r.Get(t.Context(), is.Hash, is.Principal); err != nil || !got.Used.Equal(at) || !got.Expires.Equal(at) {
			t.Fatalf("touched at %v, got %+v, error %v", at, got, err)
		}
	}
}
