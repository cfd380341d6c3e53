package hook

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

func BenchmarkEndpoint(b *testing.B) {
	url := server(b, saying(`{"decision":"allow"}`))
	measure(b, newBench(b, Hook{URL: url}).Set)
}

func BenchmarkFunction(b *testing.B) {
	measure(b, newBench(b, Hook{Func: deciding(Verdict{}, nil)}).Set)
}

func measure(b *testing.B, s *Set) {
	s.o.Outcome = func(string, Event, string, time.Duration) {}
	large := call(ToolAfter)
	large.Result = []byte(`{"content":[{"type":"text","text":"` + strings.Repeat("what it says ", 70000) + `"}]}`)
	for name, c := range map[string]*Call{"before": call(ToolBefore), "after": call(ToolAfter), "after900K": large} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Run(context.Background(), c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAnswer(b *testing.B) {
	raw := []byte(`{"decision":"allow","arguments":{"a":[1,2,{"x":"y"}],"text":"some text of usual length"}}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := parseAnswer(raw); err != nil {
			b.Fatal(err)
		}
	}
}

func TestAllocNothingWithoutHooks(t *testing.T) {
	checkAllocs(t, nil)
	checkAllocs(t, newBench(t, Hook{Func: deciding(Verdict{}, nil), Events: []Event{PromptBefore}}).Set)
}

func checkAllocs(t *testing.T, s *Set) {
	t.Helper()
	if raceEnabled {
		t.Skip("the race detector allocates by itself")
	}
	c := call(ToolBefore)
	if n := testing.AllocsPerRun(200, func() {
		if s.Wants(Before(mcp.Tools)) || s.Holds(After(mcp.Tools)) != 0 {
			t.Error("it wants something")
		}
		if _, err := s.Run(context.Background(), c); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
