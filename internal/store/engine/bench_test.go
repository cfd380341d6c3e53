package engine_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/store"
	"github.com/penstock-mcp/penstock/internal/store/engine"
)

func session(id string, principal byte) *store.Session {
	return &store.Session{
		ID: id, Server: "default", Principal: [32]byte{principal}, Revision: mcp.V20250618,
		Capabilities: []byte(`{"roots":{"listChanged":true},"sampling":{}}`), ClientInfo: []byte(`{"name":"client","version":"1.0"}`),
	}
}

// BenchmarkGet is a session's lookup on the way of each legacy request: the
// goal is 200 ns without an allocation.
func BenchmarkGet(b *testing.B) {
	for name, fresh := range engines {
		b.Run(name, func(b *testing.B) {
			sessions := open(b, engine.Options{URL: fresh(b)}).Sessions()
			ids := make([]string, 500)
			for i := range ids {
				ids[i] = fmt.Sprint("session-", i)
				if _, err := sessions.Create(b.Context(), session(ids[i], byte(i))); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					if _, err := sessions.Get(b.Context(), ids[i%len(ids)]); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

// BenchmarkCreate is 64 clients that initialize at once; they share commits.
func BenchmarkCreate(b *testing.B) {
	for name, fresh := range engines {
		b.Run(name, func(b *testing.B) {
			sessions := open(b, engine.Options{URL: fresh(b), Sessions: 1 << 30, SessionsPerPrincipal: 1 << 30}).Sessions()
			var n atomic.Int64
			b.SetParallelism(64)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					i := n.Add(1)
					if _, err := sessions.Create(b.Context(), session(fmt.Sprint("session-", i), byte(i))); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

// BenchmarkOpen is the part of a start that the store takes: on an empty place,
// where the goal is 12 ms for an SQLite file, and on one that exists.
func BenchmarkOpen(b *testing.B) {
	for _, name := range []string{"memory", "sqlite"} {
		again := func(b *testing.B, address string) {
			s, err := engine.Open(b.Context(), engine.Options{URL: address})
			if err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
		b.Run(name+"/new", func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				address := engines[name](b)
				b.StartTimer()
				again(b, address)
			}
		})
		b.Run(name+"/existing", func(b *testing.B) {
			for address := engines[name](b); b.Loop(); {
				again(b, address)
			}
		})
	}
}
