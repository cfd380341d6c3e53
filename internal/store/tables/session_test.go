package tables

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/store"
)

// tale is a DB that hands on to another, counts, and can be made to pause.
type tale struct {
	DB
	reads, writes atomic.Int64
	afterRead     func() // between what was read and its return; may be nil
}

func (d *tale) Read(ctx context.Context, f func(Tx) error) error {
	d.reads.Add(1)
	err := d.DB.Read(ctx, f)
	if d.afterRead != nil {
		d.afterRead()
	}
	return err
}

func (d *tale) Write(ctx context.Context, f func(Tx) error) error {
	d.writes.Add(1)
	return d.DB.Write(ctx, f)
}

type bench struct {
	*Sessions
	db  *tale
	now atomic.Int64
}

const idle = 30 * time.Minute

func newBench(t testing.TB, cached int) *bench {
	t.Helper()
	b := &bench{db: &tale{DB: openDB(t, filepath.Join(t.TempDir(), "penstock.db"))}}
	b.now.Store(time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC).UnixNano())
	b.Sessions = NewSessions(b.db, "one", SessionBounds{Max: 1e6, MaxFor: 1e6, Idle: idle, Cached: cached},
		func() time.Time { return time.Unix(0, b.now.Load()) })
	return b
}

func (b *bench) advance(by time.Duration) { b.now.Add(int64(by)) }

func (b *bench) add(t testing.TB, id string) {
	t.Helper()
	s := &store.Session{ID: id, Server: "default", Principal: [32]byte{1}, Revision: mcp.V20250618}
	if _, err := b.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) has(t testing.TB, id string) *store.Session {
	t.Helper()
	s, err := b.Get(t.Context(), id)
	if err != nil {
		t.Fatalf("get %s: %v", id, err)
	}
	return s
}

// lastUsed is what the database knows.
func (b *bench) lastUsed(t testing.TB, id string) (at int64) {
	t.Helper()
	err := b.db.DB.Read(t.Context(), func(tx Tx) error {
		return tx.Row(t.Context(), `SELECT last_used FROM sessions WHERE id = $1`, []any{id}, &at)
	})
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestAGetAsksTheCacheAloneAndAllocatesNothing(t *testing.T) {
	b := newBench(t, 1000)
	b.add(t, "a")
	reads, writes := b.db.reads.Load(), b.db.writes.Load()
	allocs := testing.AllocsPerRun(1000, func() {
		b.advance(time.Second)
		if _, err := b.Get(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
	if b.db.reads.Load() != reads || b.db.writes.Load() != writes {
		t.Error("the database was asked")
	}
}

func TestAUseIsWrittenOnlyWhenItHasMovedByATenthOfTheIdleTime(t *testing.T) {
	b := newBench(t, 1000)
	b.add(t, "a")
	start := b.lastUsed(t, "a")
	b.advance(idle / 10)
	b.has(t, "a")
	writes := b.db.writes.Load()
	if err := b.Flush(t.Context()); err != nil || b.db.writes.Load() != writes || b.lastUsed(t, "a") != start {
		t.Errorf("a small move was written, error %v", err)
	}
	b.advance(time.Second)
	for range 100 {
		b.has(t, "a")
	}
	if b.lastUsed(t, "a") != start {
		t.Error("it was written on the way of the request")
	}
	if err := b.Flush(t.Context()); err != nil || b.db.writes.Load() != writes+1 || b.lastUsed(t, "a") != b.now.Load() {
		t.Errorf("%d writes, last used %d instead of %d, error %v", b.db.writes.Load()-writes, b.lastUsed(t, "a"), b.now.Load(), err)
	}
}

func TestUsesOfManySessionsShareAWrite(t *testing.T) {
	b := newBench(t, 100000)
	for i := range 200 {
		b.add(t, fmt.Sprint(i))
	}
	b.advance(idle / 2)
	for i := range 200 {
		b.has(t, fmt.Sprint(i))
	}
	writes := b.db.writes.Load()
	if err := b.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := b.db.writes.Load() - writes; n != 1 {
		t.Errorf("200 uses took %d transactions", n)
	}
	for i := range 200 {
		if b.lastUsed(t, fmt.Sprint(i)) != b.now.Load() {
			t.Fatalf("the use of %d was not written", i)
		}
	}
}

func TestAUseThatCouldNotBeWrittenIsWrittenLater(t *testing.T) {
	b := newBench(t, 1000)
	b.add(t, "a")
	b.advance(idle / 2)
	b.has(t, "a")
	good := b.db.DB
	b.db.DB = failing{good}
	if err := b.Flush(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("flush: %v", err)
	}
	b.db.DB = good
	b.has(t, "a")
	if err := b.Flush(t.Context()); err != nil || b.lastUsed(t, "a") != b.now.Load() {
		t.Errorf("last used %d instead of %d, error %v", b.lastUsed(t, "a"), b.now.Load(), err)
	}
}

// failing is a database that is away.
type failing struct{ DB }

func (failing) Write(context.Context, func(Tx) error) error { return store.ErrUnavailable }

func TestTheLastUseIsExactAfterAnOrderlyEnd(t *testing.T) {
	b := newBench(t, 1000)
	b.add(t, "a")
	b.advance(time.Second)
	b.has(t, "a")
	if err := b.FlushAll(t.Context()); err != nil || b.lastUsed(t, "a") != b.now.Load() {
		t.Errorf("last used %d instead of %d, error %v", b.lastUsed(t, "a"), b.now.Load(), err)
	}
}

// A restarted process, or another one, cannot know of uses that were not written
// yet, and gives a session that much longer.
func TestASessionOutlivesAProcessThatDidNotWriteItsLastUse(t *testing.T) {
	b := newBench(t, 1000)
	b.add(t, "a")
	b.advance(idle / 10)
	b.has(t, "a")
	next := NewSessions(b.db, "two", b.bounds, b.Sessions.now)
	b.advance(idle)
	if gone, err := next.Expire(t.Context(), time.Unix(0, b.now.Load()).Add(-idle)); err != nil || len(gone) > 0 {
		t.Errorf("expired %v, %v", gone, err)
	}
	if _, err := next.Get(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	// Its first use there is written, so that everybody knows.
	if err := next.Flush(t.Context()); err != nil || b.lastUsed(t, "a") != b.now.Load() {
		t.Errorf("last used %d instead of %d, error %v", b.lastUsed(t, "a"), b.now.Load(), err)
	}
}

func TestTheCacheIsBoundedAndForgetsNoUse(t *testing.T) {
	b := newBench(t, cacheShards) // one row a shard
	for i := range 600 {
		b.add(t, fmt.Sprint(i))
	}
	b.advance(time.Minute)
	for i := range 600 {
		b.has(t, fmt.Sprint(i))
	}
	entries := 0
	for i := range b.cache.shard {
		entries += len(b.cache.shard[i].byID)
	}
	if entries > cacheShards {
		t.Errorf("%d rows are cached, the bound is %d", entries, cacheShards)
	}
	if err := b.FlushAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 600 {
		if b.lastUsed(t, fmt.Sprint(i)) != b.now.Load() {
			t.Fatalf("the use of %d is lost", i)
		}
	}
}

// What was read before a write and arrives after it must not be cached: nobody
// would read it again.
func TestARowThatAWriteHasOvertakenIsNotCached(t *testing.T) {
	for name, write := range map[string]func(*testing.T, *bench){
		"delete": func(t *testing.T, b *bench) {
			if err := b.Delete(t.Context(), "a"); err != nil {
				t.Error(err)
			}
		},
		"update": func(t *testing.T, b *bench) {
			if _, err := b.Update(t.Context(), &store.Session{ID: "a", Server: "default", LogLevel: "debug"}); err != nil {
				t.Error(err)
			}
		},
		"expire": func(t *testing.T, b *bench) {
			if gone, err := b.Expire(t.Context(), time.Unix(0, b.now.Load()+1)); err != nil || len(gone) != 1 {
				t.Errorf("expired %v, %v", gone, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 1000)
			b.add(t, "a")
			b.cache.drop("a")
			b.db.afterRead = func() {
				b.db.afterRead = nil
				write(t, b)
			}
			b.has(t, "a") // began before the write, so it may have found it
			s, err := b.Get(t.Context(), "a")
			if name == "update" && (err != nil || s.LogLevel != "debug") {
				t.Errorf("after the update: %+v, %v", s, err)
			}
			if name != "update" && !errors.Is(err, store.ErrNotFound) {
				t.Errorf("after the %s: %+v, %v", name, s, err)
			}
		})
	}
}

// However reads and writes of a session fall together, the cache ends up with
// what the database has.
func TestTheCacheAgreesWithTheDatabase(t *testing.T) {
	b := newBench(t, 1000)
	for round := range 50 {
		id := fmt.Sprint(round)
		b.add(t, id)
		var wg sync.WaitGroup
		for w := range 4 {
			wg.Go(func() {
				for i := range 10 {
					s, err := b.Get(t.Context(), id)
					if err != nil {
						continue
					}
					next := *s
					next.LogLevel = fmt.Sprint(w, i)
					if _, err := b.Update(t.Context(), &next); err != nil && !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrNotFound) {
						t.Errorf("update: %v", err)
					}
					if i%3 == 0 {
						b.cache.drop(id)
					}
					if round%2 == 0 && w == 3 && i == 7 {
						if err := b.Delete(t.Context(), id); err != nil {
							t.Errorf("delete: %v", err)
						}
					}
				}
			})
		}
		wg.Wait()
		cached, cachedErr := b.Get(t.Context(), id)
		b.cache.drop(id)
		stored, storedErr := b.Get(t.Context(), id)
		switch {
		case (cachedErr == nil) != (storedErr == nil):
			t.Fatalf("cached: %v, stored: %v", cachedErr, storedErr)
		case cachedErr == nil && (cached.Generation != stored.Generation || cached.LogLevel != stored.LogLevel):
			t.Fatalf("cached: %+v, stored: %+v", cached, stored)
		}
	}
}

func TestExpireGoesOnOverManyBatches(t *testing.T) {
	b := newBench(t, 1000)
	const n = 2*expireBatch + 7
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			for i := w; i < n; i += 16 {
				s := &store.Session{ID: fmt.Sprint(i), Server: "default", Principal: [32]byte{byte(i % 50)}}
				if _, err := b.Create(t.Context(), s); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	b.advance(time.Hour)
	gone, err := b.Expire(t.Context(), time.Unix(0, b.now.Load()))
	if err != nil || len(gone) != n {
		t.Errorf("%d of %d expired, error %v", len(gone), n, err)
	}
	// The count of each principal went down with it.
	err = b.db.Read(t.Context(), func(tx Tx) error {
		return tx.Rows(t.Context(), `SELECT scope, n FROM counts WHERE n <> 0`, nil, func(r Scanner) error {
			var scope []byte
			var is int64
			if err := r.Scan(&scope, &is); err != nil {
				return err
			}
			return fmt.Errorf("%q still counts %d", scope, is)
		})
	})
	if err != nil {
		t.Error(err)
	}
}

func TestASessionUsedDuringASweepStaysAndIsStillCounted(t *testing.T) {
	b := newBench(t, 1000)
	b.add(t, "a")
	b.add(t, "b")
	b.advance(time.Hour)
	limit := time.Unix(0, b.now.Load())
	b.db.afterRead = func() { // the sweep has found both
		b.db.afterRead = nil
		e := b.cache.find("a")
		e.used.Store(b.now.Load())
		if err := b.write(t.Context(), []*cached{e}); err != nil {
			t.Error(err)
		}
	}
	gone, err := b.Expire(t.Context(), limit)
	if err != nil || len(gone) != 1 || gone[0].ID != "b" {
		t.Errorf("expired %v, %v", gone, err)
	}
	b.has(t, "a")
	for what, scope := range map[string][]byte{"all": sessionScope, "the principal's": scopeOf([32]byte{1})} {
		if n, err := count(t.Context(), b.db, scope); err != nil || n != 1 {
			t.Errorf("%s: %d counted, error %v", what, n, err)
		}
	}
}

func TestAnIdThatCannotBeOursCostsNoQuery(t *testing.T) {
	b := newBench(t, 1000)
	reads := b.db.reads.Load()
	for _, id := range []string{"\xff", "a\x00b", strings.Repeat("x", longestID+1)} {
		if _, err := b.Get(t.Context(), id); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%q: %v", id[:1], err)
		}
	}
	if b.db.reads.Load() != reads {
		t.Error("the database was asked")
	}
}
