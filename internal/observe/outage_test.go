package observe

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// lines is a log that several goroutines write to.
type lines struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func logged() (*slog.Logger, *lines) {
	l := &lines{}
	return slog.New(slog.NewTextHandler(l, nil)), l
}

// flood ends n spans; each takes its time only if something blocks.
func flood(t *testing.T, tr *Tracer, n int) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range n {
			tr.Start("", "", "ping").End()
		}
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Error("requests wait for the collector")
		<-done
	}
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not within 20 s: " + what)
		}
	}
}

// accounted holds that every span became something.
func accounted(t *testing.T, tr *Tracer, n uint64) {
	t.Helper()
	if s := tr.Stats(); s.Exported+s.Dropped+s.Failed != n || s.Queued != 0 {
		t.Errorf("%+v, of %d spans", s, n)
	}
}

func TestACollectorThatIsDownCostsTracesOnly(t *testing.T) {
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = ln.Close() // nobody listens there now
	log, said := logged()
	tr := tracer(t, "http://"+ln.Addr().String(), 1, log)
	m := NewMetrics("v")
	m.WatchTracer(tr)
	flood(t, tr, maxBatch)
	eventually(t, "the batch failed", func() bool { return tr.Stats().Failed == maxBatch })
	look(t, m).want(t, maxBatch, "penstock_trace_spans_total", "outcome", "failed")
	flood(t, tr, maxBatch)
	if err := tr.Close(within(t)); err != nil {
		t.Error(err)
	}
	accounted(t, tr, 2*maxBatch)
	if n := strings.Count(said.String(), "traces were not taken"); n != 1 {
		t.Errorf("said %d times: %s", n, said)
	}
}

func TestACollectorThatFailsCostsTracesOnly(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, strings.Repeat("very long\n", 1000), http.StatusInternalServerError)
	}))
	defer s.Close()
	log, said := logged()
	tr := tracer(t, s.URL, 1, log)
	flood(t, tr, 100)
	if err := tr.Close(within(t)); err != nil {
		t.Error(err)
	}
	if got := tr.Stats(); got.Failed != 100 {
		t.Errorf("%+v", got)
	}
	if n := len(said.String()); n == 0 || n > 1000 {
		t.Errorf("%d bytes were logged", n)
	}
}

func TestACollectorThatRedirectsIsNotFollowed(t *testing.T) {
	elsewhere := receive(t)
	s := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer s.Close()
	tr := tracer(t, s.URL, 1, nil)
	flood(t, tr, 1)
	if err := tr.Close(within(t)); err != nil {
		t.Error(err)
	}
	if got := tr.Stats(); got.Failed != 1 {
		t.Errorf("%+v", got)
	}
}

func TestACollectorThatHangsCostsTracesOnly(t *testing.T) {
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer s.Close()
	defer close(release)
	log, _ := logged()
	tr := tracer(t, s.URL, 1, log)
	m := NewMetrics("v")
	m.WatchTracer(tr)
	const n = 3 * maxQueued
	flood(t, tr, n)
	got := tr.Stats()
	if got.Dropped < n-maxQueued || got.Queued > maxQueued {
		t.Errorf("%+v: more is kept than the bound of %d", got, maxQueued)
	}
	look(t, m).want(t, float64(got.Dropped), "penstock_trace_spans_total", "outcome", "dropped")
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	if err := tr.Close(ctx); err == nil {
		t.Error("all was delivered, it says")
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("Close took %v", took)
	}
	select {
	case <-tr.post.ended:
	default:
		t.Error("something is still being sent")
	}
	accounted(t, tr, n)
	tr.Start("", "", "late").End()
	accounted(t, tr, n+1)
	if err := tr.Close(ctx); err != nil {
		t.Errorf("the second Close: %v", err)
	}
}

func TestABusyCollectorIsAskedAgain(t *testing.T) {
	r := receive(t)
	handler := r.Config.Handler
	var mu sync.Mutex
	refused := 0
	r.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		mu.Lock()
		first := refused == 0
		refused++
		mu.Unlock()
		if first {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		handler.ServeHTTP(w, q)
	})
	tr := tracer(t, r.URL, 1, nil)
	flood(t, tr, 5)
	if err := tr.Close(within(t)); err != nil {
		t.Error(err)
	}
	if got := tr.Stats(); got.Exported != 5 {
		t.Errorf("%+v", got)
	}
}

func TestSpansLeaveWithinSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := tracer(t, "http://127.0.0.1:1", 1, nil)
		tr.post.to = nothing{}
		tr.Start("", "", "ping").End()
		synctest.Wait()
		if got := tr.Stats(); got.Queued != 1 {
			t.Errorf("%+v before its time", got)
		}
		time.Sleep(batchAfter)
		synctest.Wait()
		if got := tr.Stats(); got.Exported != 1 || got.Queued != 0 {
			t.Errorf("%+v", got)
		}
		if err := tr.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// nothing takes every batch.
type nothing struct{}

func (nothing) ExportSpans(context.Context, []sdk.ReadOnlySpan) error { return nil }
func (nothing) Shutdown(context.Context) error                        { return nil }
