package governance_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock"
	"github.com/penstock-mcp/penstock/config"
	"github.com/penstock-mcp/penstock/test/idp"
)

// audience is what tokens for the gateway name.
const audience = "penstock"

// good is a token that is served.
var good = idp.TokenSpec{Subject: "alice", Audience: []string{audience}, Scopes: []string{"mcp"}}

// document is a gateway in front of one upstream, named up, for callers of a provider. more are members of that upstream.
func document(p *idp.Provider, u *upstream, more string) string {
	return fmt.Sprintf(`
limits: {list_timeout: 10s, call_timeout: 30s}
servers: {default: {naming: passthrough}}
auth:
  jwt:
    - {issuer: %q, audience: %q, algorithms: [RS256, ES256]}
  required_scopes: [mcp]
upstreams:
  up:
    url: %q
    %s
`, p.Issuer(), audience, u.endpoint(), more)
}

// gateway is a running Penstock and a client of it.
type gateway struct {
	*client
	origin string
	log    *logBuffer
	gw     *penstock.Gateway
}

// serve runs the gateway of a document until the test ends. Its state is in memory.
func serve(t testing.TB, doc string) *gateway {
	t.Helper()
	d, err := config.Parse("test.yaml", []byte(doc), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatalf("configuration: %v\n%s", err, doc)
	}
	log := &logBuffer{}
	gw, err := penstock.New(d, penstock.WithLogger(slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))))
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
			t.Logf("the gateway's log:\n%s", log.tail(40))
		}
	})
	return &gateway{client: newClient(t, front.URL+"/mcp"), origin: front.URL, log: log, gw: gw}
}

// ready waits until a token is served: keys are read and the upstream is found.
func (g *gateway) ready(t testing.TB, token string) {
	t.Helper()
	var last *reply
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if last = g.call("ready", bearer(token)); last.served() {
			return
		}
	}
	t.Fatalf("a good token is not served: %v", last)
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
