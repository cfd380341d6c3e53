package penstock_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/penstock-mcp/penstock"
	"github.com/penstock-mcp/penstock/config"
	"github.com/penstock-mcp/penstock/internal/demo"
)

// counted is an upstream that counts what reaches it.
func counted(t *testing.T) (url string, n *atomic.Int64) {
	t.Helper()
	n = new(atomic.Int64)
	library := demo.Library()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		library.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	return srv.URL + "/mcp", n
}

func closing(t *testing.T, gw *penstock.Gateway) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := gw.Close(ctx); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func served(t *testing.T, h http.Handler, path string) (status int, body string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+path, http.NoBody))
	b, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, string(b)
}

func TestNewOpensNothing(t *testing.T) {
	before := goleak.IgnoreCurrent()
	dir := t.TempDir()
	t.Chdir(dir)
	url, n := counted(t)
	gw, err := penstock.New(document(t, "admin: unix:a.sock\nstate: sqlite:p.db\nlisten: 127.0.0.1:1\nupstreams: {library: {url: '"+url+"'}}"))
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond)
	if n.Load() != 0 {
		t.Errorf("%d requests reached the upstream before Run", n.Load())
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) != 0 {
		t.Errorf("files: %v, %v", left, err)
	}
	closing(t, gw)
	http.DefaultClient.CloseIdleConnections()
	goleak.VerifyNone(t, before, goleak.IgnoreAnyFunction("net/http.(*Server).Serve"), goleak.IgnoreAnyFunction("net/http.(*conn).serve"))
}

func TestTheFirstRequestConnectsWithoutRun(t *testing.T) {
	url, _ := counted(t)
	gw, err := penstock.New(document(t, "upstreams: {library: {url: '"+url+"'}}"))
	if err != nil {
		t.Fatal(err)
	}
	defer closing(t, gw)
	front := httptest.NewServer(gw.Handler())
	defer front.Close()
	if got := call(t, front.URL+"/mcp", "library__search_books", `{"query":"gothic"}`); !strings.Contains(got, "Frankenstein") {
		t.Errorf("%s", got)
	}
}

func TestRunConnectsByItselfAndEndsWithItsContext(t *testing.T) {
	url, n := counted(t)
	gw, err := penstock.New(document(t, "upstreams: {library: {url: '"+url+"'}}"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- gw.Run(ctx) }()
	for end := time.Now().Add(5 * time.Second); n.Load() == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the upstream was not contacted")
		}
	}
	stop()
	select {
	case err := <-ran:
		if err != nil {
			t.Errorf("Run: %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Error("Run goes on")
	}
	closing(t, gw)
}

func TestDrainTellsTheLoadBalancer(t *testing.T) {
	url, _ := counted(t)
	gw, err := penstock.New(document(t, "upstreams: {library: {url: '"+url+"'}}"))
	if err != nil {
		t.Fatal(err)
	}
	defer closing(t, gw)
	if code, body := served(t, gw.Handler(), "/ready"); code != 200 {
		t.Errorf("HTTP %d %s", code, body)
	}
	gw.Drain()
	if code, body := served(t, gw.Handler(), "/ready"); code != 503 {
		t.Errorf("while draining: HTTP %d %s", code, body)
	}
	if code, body := served(t, gw.Handler(), "/health"); code != 200 {
		t.Errorf("health while draining: HTTP %d %s", code, body)
	}
	front := httptest.NewServer(gw.Handler())
	defer front.Close()
	if got := call(t, front.URL+"/mcp", "library__search_books", `{"query":"gothic"}`); !strings.Contains(got, "Frankenstein") {
		t.Errorf("a request while draining: %s", got)
	}
}

func TestDetailsAndAdminAreApartFromTheHandler(t *testing.T) {
	url, _ := counted(t)
	gw, err := penstock.New(document(t, "observe: {listen: '127.0.0.1:0'}\nupstreams: {library: {url: '"+url+"', owner: platform}}"))
	if err != nil {
		t.Fatal(err)
	}
	defer closing(t, gw)
	if code, body := served(t, gw.Details(), "/ready"); code != 200 || !strings.Contains(body, "platform") {
		t.Errorf("details: HTTP %d %s", code, body)
	}
	if code, body := served(t, gw.Admin(), "/explain?name=library__search_books"); code != 200 || !strings.Contains(body, `"search_books"`) {
		t.Errorf("admin: HTTP %d %s", code, body)
	}
	for _, path := range []string{"/explain?name=x", "/ready?details"} {
		if _, body := served(t, gw.Handler(), path); strings.Contains(body, "platform") || strings.Contains(body, "upstream") {
			t.Errorf("clients see %s: %s", path, body)
		}
	}
}

func TestNewRefusesWhatCannotBeBuilt(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	doc := document(t, "upstreams: {u: {url: 'https://127.0.0.1:1/mcp', tls: {ca: "+ca+"}}}")
	if gw, err := penstock.New(doc); err == nil || !strings.Contains(err.Error(), "upstreams.u.tls") {
		t.Errorf("%v, %v", gw, err)
	}
}

func TestTheLogGoesWhereItIsSentAndHoldsNoSecret(t *testing.T) {
	var log bytes.Buffer
	const secret = "hunter2-hunter2"
	doc, err := config.Parse("test.yaml", []byte("upstreams: {u: {url: 'http://127.0.0.1:1/mcp', credentials: {bearer: '${TOKEN}'}}}\nlimits: {list_timeout: 1s}"), func(name string) (string, bool) { return secret, name == "TOKEN" })
	if err != nil {
		t.Fatal(err)
	}
	gw, err := penstock.New(doc, penstock.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))))
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(gw.Handler())
	answer := call(t, front.URL+"/mcp", "u__x", `{}`)
	front.Close()
	closing(t, gw)
	if !strings.Contains(answer, "-31001") || !strings.Contains(log.String(), "upstream_unavailable") {
		t.Errorf("answer %s, log %s", answer, log.String())
	}
	if strings.Contains(log.String()+answer, secret) || strings.Contains(answer, "127.0.0.1") {
		t.Errorf("a secret or an address leaks: %s %s", answer, log.String())
	}
}

func TestVersionIsNeverEmpty(t *testing.T) {
	if penstock.Version() == "" {
		t.Error("no version")
	}
}
