package catalog

import (
	"fmt"
	"strings"
	"testing"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

func wide(upstreams, each int, era mcp.Era) *fleet {
	f := newFleet()
	for u := range upstreams {
		var items []string
		for i := range each {
			items = append(items, fmt.Sprintf(`{"name":"tool_%04d","description":%q,"inputSchema":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}}}}`, i, strings.Repeat("what it does ", 10)))
		}
		f.up(fmt.Sprintf("up%03d", u), map[mcp.Kind][]string{mcp.Tools: items}).era = era
	}
	return f
}

func BenchmarkWarmList(b *testing.B) {
	for _, size := range []struct{ upstreams, each int }{{10, 50}, {100, 20}} {
		b.Run(fmt.Sprintf("%dx%d", size.upstreams, size.each), func(b *testing.B) {
			s := serve(b, wide(size.upstreams, size.each, mcp.Modern), nil)
			b.ReportAllocs()
			for b.Loop() {
				cursor, n := "", 0
				for {
					l, err := s.List(b.Context(), alice, nil, mcp.Tools, mcp.LatestModern, cursor, cursor != "")
					if err != nil {
						b.Fatal(err)
					}
					n += l.Count
					if cursor = l.Next; cursor == "" {
						break
					}
				}
				if n != size.upstreams*size.each {
					b.Fatal(n)
				}
			}
		})
	}
}

// BenchmarkRefresh is a list whose every source is out of date, but says the
// same as before: what a legacy federation costs once a second.
func BenchmarkRefresh(b *testing.B) {
	f := wide(10, 50, mcp.Legacy)
	s := serve(b, f, nil)
	all(b, s, alice, mcp.Tools)
	b.ReportAllocs()
	for b.Loop() {
		for key := range f.ups {
			s.Invalidate(key, mcp.Tools, false)
		}
		if _, err := s.List(b.Context(), alice, nil, mcp.Tools, mcp.LatestModern, "", false); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBuild(b *testing.B) {
	f := wide(100, 20, mcp.Modern)
	s := serve(b, f, nil)
	all(b, s, alice, mcp.Tools)
	lists := make([]*itemSet, len(s.o.Members))
	for i, src := range s.sources[mcp.Tools] {
		lists[i] = src.common.snap.set
	}
	b.ReportAllocs()
	for b.Loop() {
		s.render(&s.build(mcp.Tools, lists, [32]byte{}).all, mcp.LatestModern)
	}
}

func BenchmarkResolve(b *testing.B) {
	for _, era := range []mcp.Era{mcp.Modern, mcp.Legacy} {
		b.Run(era.String(), func(b *testing.B) {
			s := serve(b, wide(100, 20, era), nil)
			all(b, s, alice, mcp.Tools)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := s.Resolve(b.Context(), alice, mcp.Tools, "up042__tool_0007"); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

func TestResolvingAKnownNameDoesNotAllocate(t *testing.T) {
	for _, era := range []mcp.Era{mcp.Modern, mcp.Legacy} {
		s := serve(t, wide(10, 10, era), nil)
		all(t, s, alice, mcp.Tools)
		ctx := t.Context()
		if n := testing.AllocsPerRun(100, func() {
			if _, err := s.Resolve(ctx, alice, mcp.Tools, "up003__tool_0007"); err != nil {
				t.Error(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", era, n)
		}
	}
}

func TestAWarmListDoesNotGrowWithWhatIsListed(t *testing.T) {
	measure := func(upstreams int) float64 {
		s := serve(t, wide(upstreams, 20, mcp.Modern), func(o *Options) { o.PageSize = 10 })
		all(t, s, alice, mcp.Tools)
		ctx := t.Context()
		return testing.AllocsPerRun(100, func() {
			if _, err := s.List(ctx, alice, nil, mcp.Tools, mcp.LatestModern, "", false); err != nil {
				t.Error(err)
			}
		})
	}
	// What is pooled may be made anew now and then, and is under the race detector;
	// growth would show in hundreds.
	if small, large := measure(2), measure(60); large > small+3 {
		t.Errorf("a page of 40 tools takes %v allocations, one of 1200 %v", small, large)
	}
}
