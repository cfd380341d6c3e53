package task

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/store"
	"github.com/penstock-mcp/penstock/internal/store/memory"
)

var (
	ann = [32]byte{1}
	bob = [32]byte{2}
)

func newIndex(max, each int) (*Index, store.Tasks) {
	s := memory.NewTasks(max, each, time.Now)
	return New(Options{Store: s, Grace: 10 * time.Minute, UnlimitedTTL: time.Hour}), s
}

func mint(t *testing.T, x *Index, id, upstream string, principal [32]byte, life Life) *store.Task {
	t.Helper()
	rec, err := x.Mint(t.Context(), id, &store.Task{Principal: principal, Server: "default", Upstream: upstream, Tool: "tool"}, life)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func TestATaskIsItsPrincipalsAlone(t *testing.T) {
	x, _ := newIndex(100, 10)
	mint(t, x, "id", "a", ann, Life{})
	if rec, _, err := x.Find(t.Context(), "id", ann); err != nil || rec.Upstream != "a" {
		t.Errorf("%v %v", rec, err)
	}
	if _, known, err := x.Find(t.Context(), "id", bob); !errors.Is(err, ErrUnknown) || !known {
		t.Errorf("foreign: %v %v", known, err)
	}
	if _, known, err := x.Find(t.Context(), "other", bob); !errors.Is(err, ErrUnknown) || known {
		t.Errorf("unknown: %v %v", known, err)
	}
}

func TestTwoPrincipalsMayHaveOneIdAndOneMayNotAtTwoUpstreams(t *testing.T) {
	x, _ := newIndex(100, 10)
	first := mint(t, x, "task-1", "a", ann, Life{})
	mint(t, x, "task-1", "b", bob, Life{})
	var c *CollisionError
	_, err := x.Mint(t.Context(), "task-1", &store.Task{Principal: ann, Upstream: "b"}, Life{})
	if !errors.As(err, &c) || c.Owner.Upstream != "a" || !errors.Is(err, ErrCollision) {
		t.Fatalf("%v", err)
	}
	if _, err := x.Supplant(t.Context(), "task-1", &store.Task{Principal: ann, Upstream: "b"}, Life{}, first); err != nil {
		t.Fatal(err)
	}
	if rec, _, err := x.Find(t.Context(), "task-1", ann); err != nil || rec.Upstream != "b" {
		t.Errorf("%v %v", rec, err)
	}
}

func TestALocatedTaskGivesWayToItsMint(t *testing.T) {
	x, _ := newIndex(100, 10)
	if _, err := x.Found(t.Context(), "id", &store.Task{Principal: bob, Upstream: "a"}, Life{}); err != nil {
		t.Fatal(err)
	}
	mint(t, x, "id", "a", ann, Life{})
	if _, _, err := x.Find(t.Context(), "id", bob); !errors.Is(err, ErrUnknown) {
		t.Errorf("who found it first still has it: %v", err)
	}
}

func TestAWithheldTaskIsUnknown(t *testing.T) {
	x, _ := newIndex(100, 10)
	rec := mint(t, x, "id", "a", ann, Life{})
	if err := x.Mark(t.Context(), rec, store.TaskWithheld); err != nil {
		t.Fatal(err)
	}
	if _, _, err := x.Find(t.Context(), "id", ann); !errors.Is(err, ErrUnknown) {
		t.Errorf("%v", err)
	}
}

func TestRecordsLiveAsLongAsTheirTasksAndTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, _ := newIndex(100, 10)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- x.Run(ctx) }()
		short := Life{Known: true, TTL: time.Minute}
		mint(t, x, "short", "a", ann, short)
		mint(t, x, "endless", "a", ann, Life{Known: true, Unlimited: true})
		mint(t, x, "zero", "a", ann, Life{Known: true})
		rec := mint(t, x, "longer", "a", ann, short)
		x.Saw(rec, Life{Known: true, TTL: 2 * time.Hour})
		time.Sleep(5 * time.Minute)
		for _, id := range []string{"short", "endless", "zero", "longer"} {
			if _, _, err := x.Find(ctx, id, ann); err != nil {
				t.Errorf("%s within its grace: %v", id, err)
			}
		}
		time.Sleep(10 * time.Minute)
		for id, there := range map[string]bool{"short": false, "endless": true, "zero": false, "longer": true} {
			if _, _, err := x.Find(ctx, id, ann); (err == nil) != there {
				t.Errorf("%s after its grace: %v", id, err)
			}
		}
		time.Sleep(2 * time.Hour)
		if _, _, err := x.Find(ctx, "endless", ann); !errors.Is(err, ErrUnknown) {
			t.Errorf("an endless task unused for long: %v", err)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestWhatMovesALittleIsNotWritten(t *testing.T) {
	x, _ := newIndex(100, 10)
	rec := mint(t, x, "id", "a", ann, Life{Known: true, TTL: time.Hour})
	for _, c := range []struct {
		life Life
		want int
	}{
		{Life{}, 0},
		{Life{Known: true, TTL: time.Hour}, 0},
		{Life{Known: true, TTL: time.Hour + 5*time.Minute}, 0},
		{Life{Known: true, TTL: time.Hour + 7*time.Minute}, 1},
		{Life{Known: true, Unlimited: true}, 1},
		{Life{Known: true, TTL: time.Minute}, 1},
	} {
		clear(x.moved)
		if x.Saw(rec, c.life); len(x.moved) != c.want {
			t.Errorf("%+v: %d to be written, want %d", c.life, len(x.moved), c.want)
		}
	}
}

func TestSlotsBindBeforeAnythingIsWritten(t *testing.T) {
	x, _ := newIndex(100, 100)
	l := Limits{All: 5, PerPrincipal: 3}
	var slots []*Slot
	for range 3 {
		s, err := x.Reserve(t.Context(), ann, l)
		if err != nil {
			t.Fatal(err)
		}
		slots = append(slots, s)
	}
	if _, err := x.Reserve(t.Context(), ann, l); !errors.Is(err, ErrNoSlot) {
		t.Errorf("a fourth: %v", err)
	}
	if _, err := x.Reserve(t.Context(), bob, l); err != nil {
		t.Errorf("another's: %v", err)
	}
	for _, s := range slots {
		s.Release()
		s.Release()
	}
	for i := range 3 {
		mint(t, x, fmt.Sprint("t", i), "a", ann, Life{})
	}
	if _, err := x.Reserve(t.Context(), ann, l); !errors.Is(err, ErrNoSlot) {
		t.Errorf("records do not count: %v", err)
	}
	var none *Slot
	none.Release()
}

func TestPropertyNoMoreSlotsThanThereIsRoom(t *testing.T) {
	x, _ := newIndex(1000, 1000)
	var held, most atomic.Int32
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 200 {
				s, err := x.Reserve(t.Context(), ann, Limits{All: 7, PerPrincipal: 7})
				if err != nil {
					continue
				}
				n := held.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				held.Add(-1)
				s.Release()
			}
		})
	}
	wg.Wait()
	if most.Load() > 7 {
		t.Errorf("%d at once", most.Load())
	}
}

// failing is a store that cannot commit.
type failing struct {
	store.Tasks
	down atomic.Bool
}

func (f *failing) Mint(ctx context.Context, t *store.Task) (*store.Task, error) {
	if f.down.Load() {
		return nil, store.ErrUnavailable
	}
	return f.Tasks.Mint(ctx, t)
}

func (f *failing) Get(ctx context.Context, hash, principal [32]byte) (*store.Task, bool, error) {
	if f.down.Load() {
		return nil, false, store.ErrUnavailable
	}
	return f.Tasks.Get(ctx, hash, principal)
}

func TestNoTaskIsOfferedWhileTheStoreCannotCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &failing{Tasks: memory.NewTasks(10, 10, time.Now)}
		x := New(Options{Store: f})
		l := Limits{All: 10, PerPrincipal: 10}
		s, err := x.Reserve(t.Context(), ann, l)
		if err != nil {
			t.Fatal(err)
		}
		s.Release()
		f.down.Store(true)
		if _, err := x.Mint(t.Context(), "id", &store.Task{Principal: ann, Upstream: "a"}, Life{}); !errors.Is(err, store.ErrUnavailable) {
			t.Fatal(err)
		}
		if _, err := x.Reserve(t.Context(), ann, l); !errors.Is(err, ErrNoStore) {
			t.Errorf("offered: %v", err)
		}
		// An outage is no "unknown": a client would drop the id for good.
		if _, _, err := x.Find(t.Context(), "id", ann); fault.From(err).Code != fault.StoreUnavailable {
			t.Errorf("%v", err)
		}
		f.down.Store(false)
		time.Sleep(brokenFor + time.Millisecond)
		if _, err := x.Reserve(t.Context(), ann, l); err != nil {
			t.Errorf("not offered again: %v", err)
		}
	})
}

func TestSealedIdsOpenUnderTheRingAndUnderTheirHashAlone(t *testing.T) {
	old, err := NewVault([][]byte{[]byte("an old secret of thirty-two bytes")})
	if err != nil {
		t.Fatal(err)
	}
	both, err := NewVault([][]byte{[]byte("a new secret of thirty-two bytes!"), []byte("an old secret of thirty-two bytes")})
	if err != nil {
		t.Fatal(err)
	}
	sealed := old.Seal("the id")
	if id, err := both.Open(sealed, Hash("the id")); err != nil || id != "the id" {
		t.Errorf("%q %v", id, err)
	}
	if _, err := both.Open(sealed, Hash("another")); !errors.Is(err, ErrSealed) {
		t.Error("opened under another hash")
	}
	if _, err := old.Open(both.Seal("x"), Hash("x")); !errors.Is(err, ErrSealed) {
		t.Error("opened without its key")
	}
}
