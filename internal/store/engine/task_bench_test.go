package engine_test

import (
	"context"
	"crypto/sha256"
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

// task is the n-th task of a principal.
func task(n int, principal byte) *store.Task {
	return &store.Task{
		Hash: sha256.Sum256(fmt.Append(nil, n)), Principal: [32]byte{principal}, Server: "default", Upstream: fmt.Sprint("upstream-", n%5),
		Tool: fmt.Sprint("tool-", n%50), Exposed: fmt.Sprint("upstream__tool-", n%50), Sealed: make([]byte, 76),
		Created: time.Date(2026, 7, 28, 12, 0, n, 0, time.UTC), Expires: time.Date(2099, 7, 28, 12, 0, 0, 0, time.UTC),
	}
}

// seed mints n tasks, of a hundred principals.
func seed(t testing.TB, r store.Tasks, n int) {
	t.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 256 {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if _, err := r.Mint(t.Context(), task(i, byte(i%100))); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// Ways of looking a task up among n, of which the i-th is asked for.
var lookups = map[string]func(i, n int) (of *store.Task, there, known bool){
	"hit":     func(i, n int) (*store.Task, bool, bool) { return task(i%n, byte(i%n%100)), true, true },
	"unknown": func(i, n int) (*store.Task, bool, bool) { return task(-1-i, 1), false, false },
	"foreign": func(i, n int) (*store.Task, bool, bool) { return task(i%n, 200), false, true },
}

// BenchmarkTaskGet is the lookup on the way of each tasks/get: it costs the same
// with 100,000 live tasks as with 10, and for another's id as for no one's.
func BenchmarkTaskGet(b *testing.B) {
	for name, fresh := range engines {
		for _, n := range []int{10, 100_000} {
			s := open(b, engine.Options{URL: fresh(b)})
			seed(b, s.Tasks(), n)
			ask := func(b *testing.B, r store.Tasks, what string, among int) {
				type question struct {
					hash, principal [32]byte
					there, known    bool
				}
				asked := make([]question, 4096)
				for i := range asked {
					is, there, known := lookups[what](i*7919, among)
					asked[i] = question{is.Hash, is.Principal, there, known}
				}
				b.ReportAllocs()
				b.ResetTimer()
				for i := 0; b.Loop(); i++ {
					q := &asked[i%len(asked)]
					_, known, err := r.Get(b.Context(), q.hash, q.principal)
					if known != q.known || errors.Is(err, store.ErrNotFound) == q.there {
						b.Fatal(known, err)
					}
				}
			}
			b.Run(fmt.Sprint(name, "/", n, "/hit cached"), func(b *testing.B) {
				// Where others write too a row is cached for 2 s, so this has few.
				ask(b, s.Tasks(), "hit", min(n, 100))
			})
			if name == "memory" {
				for _, what := range []string{"unknown", "foreign"} {
					b.Run(fmt.Sprint(name, "/", n, "/", what), func(b *testing.B) { ask(b, s.Tasks(), what, n) })
				}
				continue
			}
			uncached := engine.WithoutCache(s)
			for _, what := range []string{"hit", "unknown", "foreign"} {
				b.Run(fmt.Sprint(name, "/", n, "/", what, " uncached"), func(b *testing.B) { ask(b, uncached, what, n) })
			}
		}
	}
}

// BenchmarkTaskList is a page of 50 of a principal's tasks, and the operator's.
func BenchmarkTaskList(b *testing.B) {
	for name, fresh := range engines {
		for _, n := range []int{100, 100_000} {
			s := open(b, engine.Options{URL: fresh(b)})
			seed(b, s.Tasks(), n)
			middle := task(n/2, 1).Position()
			for what, list := range map[string]func() ([]*store.Task, error){
				"own":      func() ([]*store.Task, error) { return s.Tasks().List(b.Context(), [32]byte{1}, "default", middle, 50) },
				"all":      func() ([]*store.Task, error) { return s.Tasks().All(b.Context(), "", middle, 50) },
				"upstream": func() ([]*store.Task, error) { return s.Tasks().All(b.Context(), "upstream-1", middle, 50) },
				"count":    func() ([]*store.Task, error) { _, _, err := s.Tasks().Count(b.Context(), [32]byte{1}); return nil, err },
			} {
				b.Run(fmt.Sprint(name, "/", n, "/", what), func(b *testing.B) {
					for b.Loop() {
						if page, err := list(); err != nil || what != "count" && n > 100 && len(page) != 50 {
							b.Fatal(len(page), err)
						}
					}
				})
			}
		}
	}
}

// BenchmarkTaskMint is a mint alone, and 64 at once of one principal, with the
// commits that each took.
func BenchmarkTaskMint(b *testing.B) {
	server := pgtest.Own(b)
	server.Sync = true
	if err := errors.Join(server.Stop(), server.Start()); err != nil {
		b.Fatal(err)
	}
	databases := 0
	for name, fresh := range engines {
		for _, clients := range []int{1, 64} {
			b.Run(fmt.Sprint(name, "/", clients), func(b *testing.B) {
				address := ""
				if name == "postgres" {
					databases++
					var err error
					if address, err = server.Create(b.Context(), fmt.Sprint("bench", databases)); err != nil {
						b.Fatal(err)
					}
				} else {
					address = fresh(b)
				}
				s := open(b, engine.Options{URL: address, Tasks: 1 << 30, TasksPerPrincipal: 1 << 30})
				before := commits(b, s, name, address)
				var n atomic.Int64
				b.SetParallelism(clients)
				b.ReportAllocs()
				b.ResetTimer()
				mintNext := func() {
					if _, err := s.Tasks().Mint(b.Context(), task(int(n.Add(1)), 1)); err != nil {
						b.Error(err)
					}
				}
				if clients == 1 {
					for b.Loop() {
						mintNext()
					}
				} else {
					b.RunParallel(func(pb *testing.PB) {
						for pb.Next() {
							mintNext()
						}
					})
				}
				b.StopTimer()
				if name == "postgres" { // what its connections did is told once they end
					if err := s.Close(); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(commits(b, s, name, address)-before)/float64(n.Load()), "commits/op")
			})
		}
	}
}

// commits is how often a store has put a commit on the disk.
func commits(t testing.TB, s *engine.Store, name, address string) int64 {
	t.Helper()
	if name == "postgres" {
		return walSyncs(t, address)
	}
	return s.Commits()
}

// walSyncs is how often a server has put its log on the disk, as far as
// connections that have ended know.
func walSyncs(t testing.TB, address string) (n int64) {
	t.Helper()
	time.Sleep(200 * time.Millisecond) // for connections to end
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := pgx.Connect(ctx, address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	if err := c.QueryRow(ctx, `SELECT wal_sync FROM pg_stat_wal`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
