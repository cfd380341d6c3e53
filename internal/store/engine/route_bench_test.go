package engine_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/store"
	"github.com/penstock-mcp/penstock/internal/store/engine"
	"github.com/penstock-mcp/penstock/internal/store/pgtest"
)

// A submission is one commit and a transition is one; what is only found, and a
// beat, are none; and those who submit at once share theirs.
func TestASubmissionIsOneCommit(t *testing.T) {
	s := open(t, engine.Options{URL: engines["sqlite"](t)})
	r := durableRoute("a", "p", "k")
	begin := func(r *store.Route) error {
		_, _, err := s.Routes().Begin(t.Context(), r, begins(r), r.Created, store.RouteBounds{Max: 100, MaxPerCaller: 100})
		return err
	}
	took := func(what string, want int64, do func() error) {
		t.Helper()
		before := s.Commits()
		if err := do(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if n := s.Commits() - before; n != want {
			t.Errorf("%s took %d commits; want %d", what, n, want)
		}
	}
	took("a submission", 1, func() error { return begin(r) })
	took("the same again", 0, func() error { return begin(durableRoute("b", "p", "k")) })
	took("a transition", 1, func() error { next, e := moves(r, "dispatching"); return s.Routes().Update(t.Context(), next, e) })
	took("a beat", 0, func() error { return s.Routes().Beat(t.Context(), "one", time.Minute) })
	took("reading", 0, func() error {
		_, err := s.Routes().Due(t.Context(), r.Created, 10)
		_, err2 := s.Routes().Journal(t.Context(), "a")
		return errors.Join(err, err2)
	})
	before := s.Commits()
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			if err := begin(durableRoute(fmt.Sprint(i), "p", fmt.Sprint(i))); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := s.Commits() - before; n > 32 {
		t.Errorf("64 submissions at once took %d commits", n)
	}
}

// BenchmarkRouteBegin is a submission alone, and 64 at once, with the commits
// that each took. Each caller has at most 256.
func BenchmarkRouteBegin(b *testing.B) {
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
					if address, err = server.Create(b.Context(), fmt.Sprint("routes", databases)); err != nil {
						b.Fatal(err)
					}
				} else {
					address = fresh(b)
				}
				s := open(b, engine.Options{URL: address})
				before := commits(b, s, name, address)
				now := time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)
				var n atomic.Int64
				next := func() {
					i := n.Add(1)
					r := durableRoute(fmt.Sprint(i), fmt.Sprint("p", i/256), fmt.Sprint(i))
					_, created, err := s.Routes().Begin(b.Context(), r, begins(r), now, store.RouteBounds{Max: 1 << 30, MaxPerCaller: 257})
					if err != nil || !created {
						b.Errorf("created %v, error %v", created, err)
					}
				}
				b.SetParallelism(clients)
				b.ReportAllocs()
				b.ResetTimer()
				if clients == 1 {
					for b.Loop() {
						next()
					}
				} else {
					b.RunParallel(func(pb *testing.PB) {
						for pb.Next() {
							next()
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
