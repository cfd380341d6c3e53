package south

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/demo"
)

// replica is a demo server that can be taken away and that counts its calls.
type replica struct {
	*httptest.Server
	calls atomic.Int64
	down  atomic.Bool
}

func newReplica(t *testing.T, h http.Handler) *replica {
	r := &replica{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if r.down.Load() {
			c, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_ = c.Close()
			}
			return
		}
		r.calls.Add(1)
		h.ServeHTTP(w, req)
	}))
	t.Cleanup(r.Close)
	return r
}

func joinReplicas(t *testing.T, rs ...*replica) *Replicas {
	t.Helper()
	var each []*Upstream
	for _, r := range rs {
		u, err := url.Parse(r.URL)
		if err != nil {
			t.Fatal(err)
		}
		each = append(each, New(Options{
			Key: "up", URL: u, Timeout: 2 * time.Second, ProbeTimeout: time.Second, Failures: 3, OpenFor: time.Second,
			ResponseBytes: 1 << 20, IdleSession: time.Minute, ClientInfo: []byte(`{"name":"t","version":"1"}`), Log: slog.New(slog.DiscardHandler),
		}))
	}
	join := NewReplicas(each)
	t.Cleanup(func() { join.Close(t.Context()) })
	return join
}

func TestReplicasOfAModernUpstreamTakeTurns(t *testing.T) {
	a, b := newReplica(t, demo.Library()), newReplica(t, demo.Library())
	join := joinReplicas(t, a, b)
	join.Wait(t.Context())
	seen := map[*Upstream]int{}
	for range 20 {
		l, err := join.Link(t.Context(), SessionKey{})
		if err != nil {
			t.Fatal(err)
		}
		seen[l.Upstream]++
	}
	if len(seen) != 2 {
		t.Errorf("%d replicas were used", len(seen))
	}
}

func TestALegacySessionStaysAtItsReplicaUntilThatIsGone(t *testing.T) {
	a, b := newReplica(t, demo.Workshop()), newReplica(t, demo.Workshop())
	join := joinReplicas(t, a, b)
	join.Start()
	key := SessionKey{Server: "s", North: "n"}
	first, err := join.Link(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if l, err := join.Link(t.Context(), key); err != nil || l.Upstream != first.Upstream {
			t.Fatalf("the session moved, %v", err)
		}
	}
	home := a
	if first.Upstream.o.URL.String() == b.URL {
		home = b
	}
	home.down.Store(true)
	home.CloseClientConnections()
	deadline := time.Now().Add(10 * time.Second)
	for {
		l, err := join.Link(t.Context(), key)
		if err == nil && l.Upstream != first.Upstream {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the session did not move from a replica that is gone: %v", err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	home.down.Store(false)
	deadline = time.Now().Add(10 * time.Second)
	for join.State().Replicas[0].State != "up" || join.State().Replicas[1].State != "up" {
		if time.Now().After(deadline) {
			t.Fatalf("a replica that is back stays out of turn: %+v", join.State())
		}
		time.Sleep(50 * time.Millisecond)
	}
}
