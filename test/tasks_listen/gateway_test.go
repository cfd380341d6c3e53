package tasks_listen_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock"
	"github.com/penstock-mcp/penstock/config"
)

// patience is how long a test waits for what has to come.
const patience = 30 * time.Second

// gateway is a running Penstock.
type gateway struct {
	t   *testing.T
	url string
	gw  *penstock.Gateway
	log *logBuffer
}

// document is a gateway over upstreams, "key: url" each, for callers with keys, one
// for each subject. more are lines at the top level.
func document(ups map[string]string, more string, subjects ...string) string {
	var b strings.Builder
	b.WriteString("limits: {list_timeout: 10s, call_timeout: 10s, streams_per_principal: 300, in_flight_per_principal: 600}\n")
	if len(subjects) > 0 {
		b.WriteString("auth:\n  api_keys:\n")
		for _, s := range subjects {
			sum := sha256.Sum256([]byte(secretOf(s)))
			fmt.Fprintf(&b, "    - {name: key-%s, hash: \"sha256:%s\", subject: %s, scopes: [mcp]}\n", s, hex.EncodeToString(sum[:]), s)
		}
	}
	b.WriteString(more + "\nupstreams:\n")
	for k, url := range ups {
		fmt.Fprintf(&b, "  %s: {url: %q}\n", k, url)
	}
	return b.String()
}

func secretOf(subject string) string { return "secret-of-" + subject + "-0123456789abcdef0123456789" }

func parsed(t *testing.T, doc string) *config.Document {
	t.Helper()
	d, err := config.Parse("test.yaml", []byte(doc), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatalf("configuration: %v\n%s", err, doc)
	}
	return d
}

// serve runs the gateway of a document until the test ends.
func serve(t *testing.T, doc string, more ...penstock.Option) *gateway {
	t.Helper()
	log := &logBuffer{}
	logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	gw, err := penstock.New(parsed(t, doc), append(more, penstock.WithLogger(logger))...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = gw.Run(ctx) })
	front := httptest.NewServer(gw.Handler())
	t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
		end, stop := context.WithTimeout(context.Background(), 10*time.Second)
		defer stop()
		cancel()
		_ = gw.Close(end)
		wg.Wait()
		if t.Failed() {
			t.Logf("the gateway's log:\n%s", log.tail(60))
		}
	})
	return &gateway{t: t, url: front.URL + "/mcp", gw: gw, log: log}
}

// reload serves another document.
func (g *gateway) reload(doc string) {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := g.gw.Reload(ctx, parsed(g.t, doc)); err != nil {
		g.t.Fatalf("reload: %v", err)
	}
}

// wait waits until something holds.
func wait(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("waited in vain for %s", what)
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

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logBuffer) tail(n int) string {
	lines := strings.Split(l.String(), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
