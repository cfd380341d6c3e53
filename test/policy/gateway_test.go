package policy_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock"
	"github.com/penstock-mcp/penstock/config"
)

// gateway is a running Penstock.
type gateway struct {
	t      testing.TB
	origin string
	http   *http.Client
	gw     *penstock.Gateway
	log    *logBuffer
	stop   func() // ends it before its test; once
}

func parsed(t testing.TB, doc string) *config.Document {
	t.Helper()
	d, err := config.Parse("test.yaml", []byte(doc), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatalf("configuration: %v\n%s", err, doc)
	}
	return d
}

// serve runs the gateway of a document until the test ends.
func serve(t testing.TB, doc string, options ...penstock.Option) *gateway {
	t.Helper()
	log := &logBuffer{}
	gw, err := penstock.New(parsed(t, doc), append(options, penstock.WithLogger(slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))))...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = gw.Run(ctx) })
	front := httptest.NewServer(gw.Handler())
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 16}
	var once sync.Once
	g := &gateway{t: t, origin: front.URL, gw: gw, log: log, http: &http.Client{Transport: transport, Timeout: 60 * time.Second}}
	g.stop = func() {
		once.Do(func() {
			transport.CloseIdleConnections()
			front.CloseClientConnections()
			front.Close()
			end, stop := context.WithTimeout(context.Background(), 10*time.Second)
			defer stop()
			cancel()
			_ = gw.Close(end)
			wg.Wait()
		})
	}
	t.Cleanup(func() {
		g.stop()
		if t.Failed() {
			t.Logf("the gateway's log:\n%s", log.tail(8))
		}
	})
	return g
}

// as is a client of a caller at a path.
func (g *gateway) as(t testing.TB, c *caller, path string) *client {
	token := ""
	if c != nil {
		token = c.token
	}
	return &client{t: t, url: g.origin + path, token: token, http: g.http}
}

func (g *gateway) reload(doc string) {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := g.gw.Reload(ctx, parsed(g.t, doc)); err != nil {
		g.t.Fatalf("reload: %v", err)
	}
}

// logBuffer keeps the gateway's log.
type logBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

// Write implements io.Writer.
func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) tail(n int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := strings.Split(l.b.String(), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
