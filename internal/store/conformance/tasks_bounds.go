package conformance

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/store"
)

func taskDeletes(t *testing.T, s *tasks) {
	r := s.with(t, 10, 10)
	is, other := mint(t, r, task("a", 1)), mint(t, r, task("a", 2))
	owned(t, r, is)
	if err := r.Delete(t.Context(), is.Hash, is.Principal); err != nil {
		t.Fatal(err)
	}
	unowned(t, r, is, true)
	for _, of := range []*store.Task{is, task("b", 1)} {
		if err := r.Delete(t.Context(), of.Hash, of.Principal); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("delete of nothing: %v", err)
		}
	}
	same(t, "another's", other, owned(t, r, other))
	counted(t, r, 1)
}

func taskBounds(t *testing.T, s *tasks) {
	r := s.with(t, 3, 2)
	mint(t, r, task("a", 1))
	mint(t, r, task("b", 1))
	if stands, err := r.Mint(t.Context(), task("c", 1)); !errors.Is(err, store.ErrFullFor) || stands != nil {
		t.Errorf("at the principal's bound: %+v, %v", stands, err)
	}
	mint(t, r, task("c", 2))
	if stands, err := r.Mint(t.Context(), task("d", 2)); !errors.Is(err, store.ErrFull) || stands != nil {
		t.Errorf("at the whole bound: %+v, %v", stands, err)
	}
	unowned(t, r, task("d", 2), false)
	mint(t, r, task("b", 1)) // a refresh is none more
	counted(t, r, 3)
	if err := r.Delete(t.Context(), task("a", 1).Hash, task("a", 1).Principal); err != nil {
		t.Fatal(err)
	}
	mint(t, r, task("d", 2))
	counted(t, r, 3)
	r = s.with(t, 0, 0)
	if _, err := r.Mint(t.Context(), task("a", 1)); err == nil {
		t.Error("a bound of nothing let one in")
	}
}

// Where counts are spread over rows, some of them fill up before others.
func taskFills(t *testing.T, s *tasks) {
	const bound = 70
	r := s.with(t, bound+10, bound)
	for round := range 3 {
		for i := range bound {
			mint(t, r, task(fmt.Sprint(round, i), 1))
		}
		if _, err := r.Mint(t.Context(), task("more", 1)); !errors.Is(err, store.ErrFullFor) {
			t.Errorf("round %d: one more of the principal: %v", round, err)
		}
		for i := range 10 {
			mint(t, r, task(fmt.Sprint(round, i), 2))
		}
		if _, err := r.Mint(t.Context(), task("more", 2)); !errors.Is(err, store.ErrFull) {
			t.Errorf("round %d: one more of all: %v", round, err)
		}
		counted(t, r, bound+10)
		for i := range bound {
			is := task(fmt.Sprint(round, i), 1)
			if err := r.Delete(t.Context(), is.Hash, is.Principal); err != nil {
				t.Fatal(err)
			}
		}
		if n, err := r.Expire(t.Context(), noon.Add(2*time.Hour), noon, 100); err != nil || n != 10 {
			t.Fatalf("expired %d, error %v", n, err)
		}
		counted(t, r, 0)
	}
}

func taskRoom(t *testing.T, s *tasks) {
	r := s.with(t, 1, 1)
	locate(t, r, task("a", 2))
	mint(t, r, task("a", 1))
	counted(t, r, 1)
	r = s.with(t, 2, 1)
	mint(t, r, task("b", 1))
	locate(t, r, task("a", 2))
	if _, err := r.Mint(t.Context(), task("a", 1)); !errors.Is(err, store.ErrFullFor) {
		t.Errorf("at the principal's bound: %v", err)
	}
	owned(t, r, task("a", 2)) // a refused mint takes nothing away
	counted(t, r, 2)
}
