package tables

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-mcp/penstock/internal/store"
)

// foreign is a DB that others write to.
type foreign struct{ *tale }

func (foreign) Shared() bool { return true }

// taskBench is a repository of tasks over a DB that counts, with a clock that is
// moved by hand.
type taskBench struct {
	*Tasks
	db *tale
	ns atomic.Int64
}

func newTaskBench(t testing.TB, shared bool, cached int) *taskBench {
	t.Helper()
	b := &taskBench{db: &tale{DB: openDB(t, filepath.Join(t.TempDir(), "penstock.db"))}}
	b.ns.Store(time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC).UnixNano())
	var db DB = b.db
	if shared {
		db = foreign{b.db}
	}
	b.Tasks = NewTasks(db, TaskBounds{Max: 1 << 30, MaxFor: 1 << 30, Cached: cached}, func() time.Time { return time.Unix(0, b.ns.Load()) })
	return b
}

func someTask(n int) *store.Task {
	return &store.Task{
		Hash: sha256.Sum256(fmt.Append(nil, n)), Principal: [32]byte{byte(n % 7)}, Server: "default", Upstream: "jobs",
		Tool: fmt.Sprint("tool-", n%50), Exposed: fmt.Sprint("jobs__tool-", n%50), Session: fmt.Sprintf("%064x", n), Replica: [32]byte{byte(n % 3)},
		Sealed: make([]byte, 76), Created: time.Date(2026, 7, 28, 12, 0, 0, n, time.UTC), Used: time.Date(2026, 7, 28, 12, 0, 0, n, time.UTC),
		Expires: time.Date(2026, 7, 28, 13, 0, 0, n, time.UTC),
	}
}

func (b *taskBench) minted(t testing.TB, is *store.Task) *store.Task {
	t.Helper()
	stored, err := b.Mint(t.Context(), is)
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

// reads checks how often f reads from the database.
func (b *taskBench) reads(t testing.TB, what string, want int64, f func()) {
	t.Helper()
	before := b.db.reads.Load()
	f()
	if n := b.db.reads.Load() - before; n != want {
		t.Errorf("%s read %d times; want %d", what, n, want)
	}
}

func (b *taskBench) get(t testing.TB, is *store.Task) *store.Task {
	t.Helper()
	got, _, err := b.Get(t.Context(), is.Hash, is.Principal)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestAnOwnerIsCachedUntilItExpires(t *testing.T) {
	for _, shared := range []bool{false, true} {
		b := newTaskBench(t, shared, 1000)
		is := someTask(1)
		stored := *b.minted(t, is)
		stored.Sealed = nil
		b.reads(t, "after one's own mint", 0, func() {
			if d := cmp.Diff(&stored, b.get(t, is)); d != "" {
				t.Error(d)
			}
		})
		b.ns.Add(int64(2 * time.Second))
		b.reads(t, "within 2 s", 0, func() { b.get(t, is) })
		b.ns.Add(1)
		want := int64(0)
		if shared {
			want = 1
		}
		b.reads(t, "later than 2 s", want, func() { b.get(t, is) })
		b.reads(t, "and at once again", 0, func() { b.get(t, is) })
		b.ns.Store(is.Expires.UnixNano() - int64(time.Second))
		b.get(t, is)
		b.reads(t, "before the end", 0, func() { b.get(t, is) })
		b.ns.Store(is.Expires.UnixNano())
		b.reads(t, "expired", 2, func() { b.get(t, is); b.get(t, is) })
	}
}

// Nothing but the database is asked about an id that this principal does not
// own, and each time, so that nobody can tell one that others own.
func TestAForeignAndAnUnknownIdTakeTheSameWay(t *testing.T) {
	for _, shared := range []bool{false, true} {
		b := newTaskBench(t, shared, 1000)
		is := someTask(1)
		b.minted(t, is)
		b.get(t, is)
		other := [32]byte{200}
		before := b.cache.size()
		for range 3 {
			for _, hash := range [][32]byte{is.Hash, someTask(2).Hash} {
				b.reads(t, "an id of another or of nobody", 1, func() {
					if _, known, err := b.Get(t.Context(), hash, other); !errors.Is(err, store.ErrNotFound) || known != (hash == is.Hash) {
						t.Errorf("known %v, error %v", known, err)
					}
				})
			}
		}
		if b.cache.size() != before {
			t.Error("what was not found is cached")
		}
		b.reads(t, "the owner's", 0, func() { b.get(t, is) })
	}
}

// Whatever was read before a change of this process is not served after it.
func TestAReadThatAChangeOvertookIsNotCached(t *testing.T) {
	changes := map[string]func(b *taskBench, is *store.Task) error{
		"mark": func(b *taskBench, is *store.Task) error {
			return b.Mark(t.Context(), is.Hash, is.Principal, 0, store.TaskRevoked)
		},
		"touch": func(b *taskBench, is *store.Task) error {
			return b.Touch(t.Context(), store.TaskTouch{Hash: is.Hash, Principal: is.Principal, Unlimited: true})
		},
		"refresh": func(b *taskBench, is *store.Task) error {
			next := *is
			next.Tool = "next"
			_, err := b.Mint(t.Context(), &next)
			return err
		},
		"replace": func(b *taskBench, is *store.Task) error {
			var over *store.Task
			all, err := b.All(t.Context(), "", store.TaskPosition{}, 1)
			if err == nil {
				over = all[0]
				next := *is
				next.Upstream = "next"
				_, err = b.Replace(t.Context(), &next, over)
			}
			return err
		},
		"delete": func(b *taskBench, is *store.Task) error { return b.Delete(t.Context(), is.Hash, is.Principal) },
		"expire": func(b *taskBench, is *store.Task) error {
			_, err := b.Expire(t.Context(), is.Expires.Add(1), is.Expires, 1)
			return err
		},
		"mint": func(b *taskBench, is *store.Task) error { // before which there was none
			if err := b.Delete(t.Context(), is.Hash, is.Principal); err != nil {
				return err
			}
			next := *is
			next.Upstream = "another"
			_, err := b.Mint(t.Context(), &next)
			return err
		},
	}
	for what, change := range changes {
		t.Run(what, func(t *testing.T) {
			b := newTaskBench(t, false, 1000)
			is := someTask(1)
			b.minted(t, is)
			b.cache.drop(&taskKey{is.Hash, is.Principal})
			b.db.afterRead = func() {
				b.db.afterRead = nil
				if err := change(b, is); err != nil {
					t.Error(err)
				}
			}
			_, _, _ = b.Get(t.Context(), is.Hash, is.Principal) // as it was before, or not
			got, _, err := b.Get(t.Context(), is.Hash, is.Principal)
			b.cache.drop(&taskKey{is.Hash, is.Principal})
			want, _, wantErr := b.Get(t.Context(), is.Hash, is.Principal)
			if d := cmp.Diff(want, got); d != "" || !errors.Is(err, wantErr) {
				t.Errorf("from the cache: %s, %v instead of %v", d, err, wantErr)
			}
		})
	}
}

func TestACacheOfOwnersKeepsToItsBound(t *testing.T) {
	c := newTaskCache(2 * cacheShards)
	for i := range 5000 {
		is := someTask(i)
		key := taskKey{is.Hash, is.Principal}
		c.put(0, &key, is, 1)
		if got := c.get(&key, 1, 1); got == nil {
			t.Fatal("what was just entered is not there")
		}
	}
	if size := c.size(); size > 2*cacheShards || size < cacheShards {
		t.Errorf("%d owners are cached; the bound is %d", size, 2*cacheShards)
	}
}

// An owner in the cache costs at most 300 bytes, also where each is bound to a
// session of its own.
func TestACachedOwnerCostsAtMost300Bytes(t *testing.T) {
	const n = 100_000
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	c := newTaskCache(2 * n) // so that none is displaced from a full shard
	for i := range n {
		is := someTask(i)
		c.put(0, &taskKey{is.Hash, is.Principal}, is, 1)
	}
	each := (heap() - before) / n
	if size := c.size(); size < n-10 {
		t.Fatalf("%d of %d are cached", size, n)
	}
	t.Logf("%d bytes each", each)
	if each > 300 {
		t.Errorf("a cached owner costs %d bytes", each)
	}
	runtime.KeepAlive(c)
}

func TestACachedLookupIsOneAlloc(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	b := newTaskBench(t, false, 1000)
	is := someTask(1)
	b.minted(t, is)
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() { _, _, _ = b.Get(ctx, is.Hash, is.Principal) }); n > 1 { // the record
		t.Errorf("%v allocations", n)
	}
}

// Two keys of one digest, which hardly ever meet, displace each other and are
// never taken for each other.
func TestKeysOfOneDigestAreNotConfused(t *testing.T) {
	c := newTaskCache(1000)
	one, two := someTask(1), someTask(2)
	key := taskKey{one.Hash, one.Principal}
	h, digest := c.of(&key)
	h.by[digest] = newOwner(two, 1) // as if
	if got := c.get(&key, 1, 1); got != nil {
		t.Errorf("got %+v", got)
	}
	c.touch(&key, 5, 5)
	c.lacks(0, &key)
	if e := h.by[digest]; e == nil || e.used == 5 {
		t.Error("another's entry was changed")
	}
	c.put(*h.changed(digest), &key, one, 1)
	if got := c.get(&key, 1, 1); got == nil || got.Hash != one.Hash {
		t.Errorf("got %+v", got)
	}
}

// Many mints at once do not keep each other's owners out of the cache: who polls
// what it has just been given asks no database.
func TestMintsBesideEachOtherAreAllCached(t *testing.T) {
	const n = 2000
	c := newTaskCache(100 * n)
	marks := make([]uint64, n)
	for i := range n { // all are under way
		is := someTask(i)
		marks[i] = c.mark(&taskKey{is.Hash, is.Principal})
	}
	for i := range n {
		is := someTask(i)
		c.replace(marks[i], &taskKey{is.Hash, is.Principal}, is, 1)
	}
	if size := c.size(); size < n*8/10 {
		t.Errorf("%d of %d are cached", size, n)
	}
}
