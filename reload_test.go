package penstock_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock"
	"github.com/penstock-mcp/penstock/config"
	"github.com/penstock-mcp/penstock/internal/demo"
)

func document(t *testing.T, yaml string) *config.Document {
	t.Helper()
	doc, err := config.Parse("test.yaml", []byte(yaml), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// call sends one modern tools/call and returns the body.
func call(t *testing.T, url, tool, args string) string {
	t.Helper()
	return ask(t, url, "tools/call", tool, `"name":"`+tool+`","arguments":`+args+`,`)
}

// ask sends one modern request and returns the body.
func ask(t *testing.T, url, method, name, params string) string {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	req, _ := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	req.Header.Set("Mcp-Method", method)
	if name != "" {
		req.Header.Set("Mcp-Name", name)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return string(b)
}

func TestReloadsUnderLoadFailNoRequestToAnUnchangedUpstream(t *testing.T) {
	library := httptest.NewServer(demo.Library())
	defer library.Close()
	workshop := httptest.NewServer(demo.Workshop())
	defer workshop.Close()
	base := fmt.Sprintf("upstreams:\n  library: {url: %s}\n", library.URL)
	docs := []*config.Document{
		document(t, base),
		document(t, base+fmt.Sprintf("  workshop: {url: %s}\n", workshop.URL)),
		document(t, base+fmt.Sprintf("  renamed: {url: %s}\n", workshop.URL)),
	}
	// One naming for all: a single upstream is served namespaced, too.
	gw, err := penstock.New(docs[0])
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = gw.Run(ctx) })
	front := httptest.NewServer(gw.Handler())

	var calls atomic.Int64
	var load sync.WaitGroup
	loadCtx, endLoad := context.WithCancel(context.Background())
	for range 4 {
		load.Go(func() {
			for loadCtx.Err() == nil {
				if got := call(t, front.URL+"/mcp", "library__search_books", `{"query":"gothic"}`); !strings.Contains(got, "Frankenstein") {
					t.Errorf("during a reload: %s", got)
				}
				calls.Add(1)
			}
		})
	}
	for i := range 30 {
		rctx, cancel := context.WithTimeout(ctx, 3*time.Second)
		if err := gw.Reload(rctx, docs[(i+1)%len(docs)]); err != nil {
			t.Fatal(err)
		}
		cancel()
		switch (i + 1) % len(docs) {
		case 1:
			if got := call(t, front.URL+"/mcp", "workshop__roll_dice", `{}`); strings.Contains(got, `"error"`) {
				t.Errorf("an added upstream is not served: %s", got)
			}
		case 2:
			if got := call(t, front.URL+"/mcp", "workshop__roll_dice", `{}`); !strings.Contains(got, "-32602") {
				t.Errorf("an old name is still served: %s", got)
			}
		}
	}
	endLoad()
	load.Wait()
	front.Close()
	stop()
	running.Wait()
	end, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := gw.Close(end); err != nil {
		t.Error(err)
	}
	if calls.Load() < 100 {
		t.Errorf("only %d calls: no load", calls.Load())
	}
}

func TestReloadedDocumentThatCannotBeServedChangesNothing(t *testing.T) {
	library := httptest.NewServer(demo.Library())
	defer library.Close()
	gw, err := penstock.New(document(t, fmt.Sprintf("upstreams:\n  library: {url: %s}\n", library.URL)))
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(gw.Handler())
	defer front.Close()
	bad := document(t, fmt.Sprintf("upstreams:\n  library: {url: %s}\n", library.URL))
	bad.Upstreams["library"].URL = "http://[::1" // what no loader lets through
	if err := gw.Reload(t.Context(), bad); err == nil {
		t.Fatal("a document that cannot be served was taken")
	}
	if got := call(t, front.URL+"/mcp", "library__search_books", `{"query":"gothic"}`); !strings.Contains(got, "Frankenstein") {
		t.Errorf("after a refused reload: %s", got)
	}
	if err := gw.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAReloadTellsTheNamesThatChanged(t *testing.T) {
	library := httptest.NewServer(demo.Library())
	defer library.Close()
	yaml := "upstreams:\n  library: {url: %s, namespace: %s}\n"
	var log syncBuffer
	gw, err := penstock.New(document(t, fmt.Sprintf(yaml, library.URL, "old")), penstock.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(gw.Handler())
	defer front.Close()
	ask(t, front.URL+"/mcp", "tools/list", "", "")
	if err := gw.Reload(t.Context(), document(t, fmt.Sprintf(yaml, library.URL, "new"))); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(5 * time.Second)
	for !strings.Contains(log.String(), "names changed") && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	if got := log.String(); !strings.Contains(got, "new__search_books") || !strings.Contains(got, "old__search_books") {
		t.Errorf("the log does not tell the names that changed:\n%s", got)
	}
	if err := gw.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

type syncBuffer struct {
	mu sync.Mutex // guards b
	b  strings.Builder
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
