package penstock_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock"
	"github.com/penstock-mcp/penstock/config"
)

// sharing is two gateways over one store, as two instances of a fleet are.
func sharing(t *testing.T) (gateways [2]*penstock.Gateway, urls [2]string) {
	t.Helper()
	doc := document(t, "state: sqlite:"+filepath.Join(t.TempDir(), "state.db"))
	st, err := penstock.OpenStore(t.Context(), doc, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(func() {
		stop()
		running.Wait()
		for _, gw := range gateways {
			_ = gw.Close(context.Background())
		}
		_ = st.Close()
	})
	for i := range gateways {
		gateways[i], urls[i] = runs(t, ctx, &running, doc, st)
	}
	return gateways, urls
}

func runs(t *testing.T, ctx context.Context, running *sync.WaitGroup, doc *config.Document, st *penstock.Store) (*penstock.Gateway, string) {
	t.Helper()
	gw, err := penstock.New(doc, penstock.WithStore(st))
	if err != nil {
		t.Fatal(err)
	}
	running.Go(func() { _ = gw.Run(ctx) })
	srv := httptest.NewServer(gw.Handler())
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	return gw, srv.URL + "/mcp"
}

// session opens a legacy session.
func session(t *testing.T, url string) string {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}`
	resp, err := http.Post(url, "application/json", strings.NewReader(body)) //nolint:noctx // a test's
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.Header.Get("Mcp-Session-Id")
}

// stand opens a session's GET stream; ended tells when it is closed.
func stand(t *testing.T, url, session string) (ended <-chan error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Mcp-Session-Id", session)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("HTTP %d", resp.StatusCode)
	}
	c := make(chan error, 1)
	go func() {
		defer resp.Body.Close()
		_, err := io.Copy(io.Discard, resp.Body)
		c <- err
	}()
	return c
}

func TestAnOlderStreamClosesWhenAnotherInstanceHasANewer(t *testing.T) { // DESIGN section 7: within 2 s
	_, urls := sharing(t)
	id := session(t, urls[0])
	older := stand(t, urls[0], id)
	newer := stand(t, urls[1], id)
	begun := time.Now()
	select {
	case err := <-older:
		if err != nil {
			t.Errorf("it was cut: %v", err)
		}
		if took := time.Since(begun); took > 2*time.Second {
			t.Errorf("it closed after %v", took)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("the older stream is still open")
	}
	select {
	case <-newer:
		t.Error("the newer closed, too")
	default:
	}
}

func TestDrainEndsStreams(t *testing.T) {
	gateways, urls := sharing(t)
	ended := stand(t, urls[0], session(t, urls[0]))
	gateways[0].Drain()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("it was cut: %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("the stream is still open")
	}
}
