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

// owner is what a principal's record says, or the error.
func owner(t *testing.T, r store.Tasks, of *store.Task) string {
	t.Helper()
	is, _, err := r.Get(t.Context(), of.Hash, of.Principal)
	if errors.Is(err, store.ErrNotFound) {
		return "none"
	}
	if err != nil {
		t.Fatal(err)
	}
	return is.Upstream + " " + is.Mark.String()
}

func TestAnotherInstancesChangesToTasksAreSeenWithin2s(t *testing.T) {
	p := twoInstances(t)
	one, two := p.a.Tasks(), p.b.Tasks()
	marked, deleted, replaced, fresh := task(0, 1), task(5, 1), task(10, 1), task(15, 1)
	check := func(when string, r store.Tasks, want map[*store.Task]string) {
		t.Helper()
		for of, is := range want {
			if got := owner(t, r, of); got != is {
				t.Errorf("%s: %s, want %s", when, got, is)
			}
		}
	}
	check("before", two, map[*store.Task]string{fresh: "none"})
	for _, is := range []*store.Task{marked, deleted, replaced, fresh} {
		if _, err := one.Mint(t.Context(), is); err != nil {
			t.Fatal(err)
		}
	}
	const live = "upstream-0 live"
	// A mint is seen at once, also of an id that was asked for before.
	check("minted by the other", two, map[*store.Task]string{marked: live, deleted: live, replaced: live, fresh: live})
	over, _, err := one.Get(t.Context(), replaced.Hash, replaced.Principal)
	if err != nil {
		t.Fatal(err)
	}
	next := *replaced
	next.Upstream = "next"
	_, err = one.Replace(t.Context(), &next, over)
	if err := errors.Join(err, one.Mark(t.Context(), marked.Hash, marked.Principal, 0, store.TaskRevoked), one.Delete(t.Context(), deleted.Hash, deleted.Principal)); err != nil {
		t.Fatal(err)
	}
	changed := map[*store.Task]string{marked: "upstream-0 revoked", deleted: "none", replaced: "next live"}
	check("where it was done", one, changed)
	p.advance(2*time.Second + time.Nanosecond)
	check("2 s later", two, changed)
	// Who acts on what it has cached is told, and reads anew.
	if err := one.Mark(t.Context(), fresh.Hash, fresh.Principal, 0, store.TaskWithheld); err != nil {
		t.Fatal(err)
	}
	if err := two.Mark(t.Context(), fresh.Hash, fresh.Principal, 1, store.TaskCancelled); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a late mark: %v", err)
	}
	check("after the conflict", two, map[*store.Task]string{fresh: "upstream-0 withheld"})
}

// Instances mint, locate, touch and expire the same ids beside each other.
// Neither bound, count nor rule of ownership suffers, and no two of their
// transactions wait for each other in a circle.
func TestInstancesShareTasks(t *testing.T) {
	address := pgtest.Database(t)
	o := engine.Options{URL: address, Tasks: 150, TasksPerPrincipal: 40}
	all := []store.Tasks{open(t, o).Tasks(), open(t, o).Tasks(), open(t, o).Tasks()}
	var wg sync.WaitGroup
	for w := range 24 {
		wg.Go(func() {
			r := all[w%3]
			for i := range 60 {
				n := (w*11 + i*5) % 60
				is := task(n, byte(w%6))
				is.Upstream = fmt.Sprint(w % 2)
				if i%4 == 0 {
					is.Expires = time.Unix(1, 0)
				}
				var err error
				switch (w + i) % 7 {
				case 0:
					_, err = r.Locate(t.Context(), is)
				case 1:
					err = r.Delete(t.Context(), is.Hash, is.Principal)
				case 2:
					var touches []store.TaskTouch
					for k := range 10 {
						of := task(60-n+k, byte(w%6))
						touches = append(touches, store.TaskTouch{Hash: of.Hash, Principal: of.Principal, Used: time.Now()})
					}
					err = r.Touch(t.Context(), touches...)
				case 3:
					_, err = r.Expire(t.Context(), time.Unix(2, 0), time.Unix(2, 0), 20)
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
	for _, r := range all {
		exact(t, r, 150, 40)
	}
	c, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	var deadlocks int64
	if err := c.QueryRow(t.Context(), `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`).Scan(&deadlocks); err != nil || deadlocks > 0 {
		t.Errorf("%d deadlocks, error %v", deadlocks, err)
	}
}

// exact checks counts, bounds and who may have a located record.
func exact(t *testing.T, r store.Tasks, max, maxFor int) (n int) {
	t.Helper()
	each := map[[32]byte]int{}
	type claim struct {
		hash     [32]byte
		upstream string
	}
	holders, located := map[claim]int{}, map[claim]bool{}
	for after := (store.TaskPosition{}); ; {
		page, err := r.All(t.Context(), "", after, 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, is := range page {
			n++
			each[is.Principal]++
			c := claim{is.Hash, is.Upstream}
			holders[c]++
			located[c] = located[c] || is.Located
			after = is.Position()
		}
		if len(page) < 100 {
			break
		}
	}
	for c, n := range holders {
		if located[c] && n > 1 {
			t.Errorf("%x of %s: a located record and %d more", c.hash[:4], c.upstream, n-1)
		}
	}
	for principal, n := range each {
		if own, _, err := r.Count(t.Context(), principal); err != nil || own != n || n > maxFor {
			t.Errorf("principal %d has %d records, counted %d, bound %d, error %v", principal[0], n, own, maxFor, err)
		}
	}
	if _, counted, err := r.Count(t.Context(), [32]byte{}); err != nil || counted != n || n > max {
		t.Errorf("%d records, counted %d, bound %d, error %v", n, counted, max, err)
	}
	return n
}

func TestOneIdMintedByTwoUpstreamsOnTwoInstancesHasOneOwner(t *testing.T) {
	p := twoInstances(t)
	for round := range 5 {
		var won [2]atomic.Int64
		var wg sync.WaitGroup
		for by := range 40 {
			wg.Go(func() {
				is := task(round, 1)
				is.Upstream = fmt.Sprint(by % 2)
				_, err := []store.Tasks{p.a.Tasks(), p.b.Tasks()}[by/2%2].Mint(t.Context(), is)
				if err == nil {
					won[by%2].Add(1)
				} else if !errors.Is(err, store.ErrConflict) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if a, b := won[0].Load(), won[1].Load(); a+b != 20 || a*b != 0 {
			t.Errorf("%d and %d mints succeeded", a, b)
		}
	}
}
