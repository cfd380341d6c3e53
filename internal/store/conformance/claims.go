package conformance

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-mcp/penstock/internal/store"
)

// Claims holds an engine to the contract of store.Claims. open returns empty
// repositories of one store; what it opens ends with t.
func Claims(t *testing.T, open func(t *testing.T, b Bounds) (store.Sessions, store.Claims)) {
	for name, test := range map[string]func(*testing.T, *claims){
		"the newer claim holds":                          newerHolds,
		"a released claim does not come again":           releasedStaysOver,
		"of many claims those that are lost are named":   lostAreNamed,
		"each of many takers gets a generation":          takersRace,
		"a claim ends with its session, however it ends": endsWithSession,
	} {
		t.Run(name, func(t *testing.T) {
			test(t, &claims{open: open, clock: newClock()})
		})
	}
}

type claims struct {
	open  func(*testing.T, Bounds) (store.Sessions, store.Claims)
	clock *clock
}

func (c *claims) with(t *testing.T, b Bounds) (store.Sessions, store.Claims) {
	t.Helper()
	b.Now = c.clock.now
	return c.open(t, b)
}

func take(t *testing.T, r store.Claims, session, owner string) store.Claim {
	t.Helper()
	is, err := r.Take(t.Context(), session, owner)
	if err != nil || is.Session != session || is.Owner != owner {
		t.Fatalf("take: %+v, %v", is, err)
	}
	return is
}

func lost(t *testing.T, r store.Claims, held []store.Claim, want ...store.Claim) {
	t.Helper()
	got, err := r.Lost(t.Context(), held)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func newerHolds(t *testing.T, c *claims) {
	_, r := c.with(t, roomy)
	if _, err := r.Get(t.Context(), "s"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("get of nothing: %v", err)
	}
	first := take(t, r, "s", "one")
	other := take(t, r, "other", "one")
	lost(t, r, []store.Claim{first, other})
	second := take(t, r, "s", "two")
	if second.Generation <= first.Generation {
		t.Errorf("generation %d follows %d", second.Generation, first.Generation)
	}
	lost(t, r, []store.Claim{first, second, other}, first)
	third := take(t, r, "s", "two") // the same instance, another stream
	lost(t, r, []store.Claim{second, third}, second)
	if got, err := r.Get(t.Context(), "s"); err != nil || got != third {
		t.Errorf("get: %+v, %v; want %+v", got, err, third)
	}
}

func releasedStaysOver(t *testing.T, c *claims) {
	_, r := c.with(t, roomy)
	first := take(t, r, "s", "one")
	second := take(t, r, "s", "two")
	if err := r.Release(t.Context(), first); err != nil {
		t.Errorf("release of a lost claim: %v", err)
	}
	lost(t, r, []store.Claim{second})
	if err := r.Release(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	lost(t, r, []store.Claim{first, second}, first, second)
	again := take(t, r, "s", "one")
	if again.Generation <= second.Generation {
		t.Errorf("generation %d after %d was released", again.Generation, second.Generation)
	}
	lost(t, r, []store.Claim{first, second, again}, first, second)
	if err := r.Release(t.Context(), store.Claim{Session: "none", Owner: "one", Generation: 1}); err != nil {
		t.Errorf("release of nothing: %v", err)
	}
}

func lostAreNamed(t *testing.T, c *claims) {
	_, r := c.with(t, roomy)
	var held, want []store.Claim
	for i := range 150 { // more than any one query asks for
		is := take(t, r, fmt.Sprint(i), "one")
		held = append(held, is)
		if i%7 == 0 {
			take(t, r, is.Session, "two")
			want = append(want, is)
		}
	}
	lost(t, r, held, want...)
	lost(t, r, nil)
}

func takersRace(t *testing.T, c *claims) {
	_, r := c.with(t, roomy)
	const takers = 16
	got := make([]store.Claim, takers)
	var wg sync.WaitGroup
	for i := range takers {
		wg.Go(func() {
			var err error
			if got[i], err = r.Take(t.Context(), "s", fmt.Sprint(i)); err != nil {
				t.Errorf("take: %v", err)
			}
		})
	}
	wg.Wait()
	holds, err := r.Get(t.Context(), "s")
	if err != nil || holds.Generation != takers {
		t.Fatalf("%+v holds, error %v", holds, err)
	}
	var want []store.Claim
	seen := map[uint64]bool{}
	for _, is := range got {
		if seen[is.Generation] {
			t.Errorf("generation %d was given twice", is.Generation)
		}
		seen[is.Generation] = true
		if is != holds {
			want = append(want, is)
		}
	}
	lost(t, r, got, want...)
}

func endsWithSession(t *testing.T, c *claims) {
	sessions, r := c.with(t, Bounds{Max: 100, MaxFor: 1, Idle: time.Hour})
	ended := func(how, id string) {
		t.Helper()
		if is, err := r.Get(t.Context(), id); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("after %s: %+v, %v", how, is, err)
		}
	}
	for i, id := range []string{"deleted", "evicted", "expired", "kept"} {
		create(t, sessions, record(id, byte(i)))
		take(t, r, id, "one")
	}
	if err := sessions.Delete(t.Context(), "deleted"); err != nil {
		t.Fatal(err)
	}
	ended("delete", "deleted")
	c.clock.advance(time.Minute)
	found(t, sessions, "kept")
	if evicted, err := sessions.Create(t.Context(), record("new", 1)); err != nil || evicted == nil {
		t.Fatalf("evicted %v, %v", evicted, err)
	}
	ended("eviction", "evicted")
	if gone, err := sessions.Expire(t.Context(), c.clock.now()); err != nil || len(gone) != 1 {
		t.Fatalf("expired %v, %v", gone, err)
	}
	ended("expiry", "expired")
	if _, err := r.Get(t.Context(), "kept"); err != nil {
		t.Errorf("the claim of a living session: %v", err)
	}
}
