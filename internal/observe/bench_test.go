package observe

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func BenchmarkRequest(b *testing.B) {
	m := NewMetrics("v")
	for i := range 20 {
		m.Request(&RequestFacts{Server: fmt.Sprint("server", i), Method: "tools/call", Era: "modern", Outcome: OK})
	}
	f := &RequestFacts{Server: "server7", Method: "tools/call", Era: "modern", Outcome: OK, Duration: 700 * time.Microsecond, BytesIn: 500, BytesOut: 1500}
	b.Run("alone", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			m.Request(f)
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				m.Request(f)
			}
		})
	})
}

func BenchmarkUpstreamCall(b *testing.B) {
	m := NewMetrics("v")
	b.ReportAllocs()
	for b.Loop() {
		m.UpstreamCall("files", "tools/call", "ok", time.Millisecond)
	}
}

// BenchmarkScrape is one look at a gateway with 100 upstreams.
func BenchmarkScrape(b *testing.B) {
	m := NewMetrics("v")
	s := everything()
	for i := range 100 {
		key := fmt.Sprint("up", i)
		s.Upstreams = append(s.Upstreams, UpstreamSnapshot{Key: key, State: "up", Breaker: "closed"})
		for _, method := range []string{"tools/call", "tools/list", "ping"} {
			m.UpstreamCall(key, method, "ok", time.Millisecond)
		}
	}
	m.Watch(func() Snapshot { return s })
	b.ReportAllocs()
	for b.Loop() {
		m.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/metrics", nil))
	}
}

func BenchmarkRequestID(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		NewRequestID()
	}
}

const parentUnsampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"

func BenchmarkSpan(b *testing.B) {
	for _, c := range []struct {
		name, parent string
		sample       float64
	}{{"unsampled root", "", 0}, {"unsampled parent", parentUnsampled, 1}, {"sampled", "", 1}} {
		b.Run(c.name, func(b *testing.B) {
			t := discarding(b, c.sample)
			dst := make([]byte, 0, 64)
			b.ReportAllocs()
			for b.Loop() {
				s := t.Start(c.parent, "", "tools/call add")
				s.Set(AttrMethod, "tools/call")
				up := s.Child("tools/call add")
				dst = up.AppendTraceparent(dst[:0])
				up.End()
				s.End()
			}
		})
	}
}
