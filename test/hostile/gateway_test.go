package hostile_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock"
	"github.com/penstock-mcp/penstock/config"
	"github.com/penstock-mcp/penstock/internal/north"
)

// members maps configured keys to upstreams.
type members map[string]*upstream

// gateway is a running Penstock.
type gateway struct {
	*client
	addr string
	log  *logBuffer
	gw   *penstock.Gateway
}

// parsed is a document that is accepted.
func parsed(t testing.TB, doc string) *config.Document {
	t.Helper()
	d, err := config.Parse("test.yaml", []byte(doc), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatalf("configuration: %v\n%s", err, doc)
	}
	return d
}

// reload serves another document.
func (g *gateway) reload(doc string) {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := g.gw.Reload(ctx, parsed(g.t, doc)); err != nil {
		g.t.Fatalf("reload: %v", err)
	}
}

// document writes a configuration. more is YAML at the top level; a line
// "KEY: text" of keys adds text to that upstream.
func document(ups members, keys map[string]string, more string) string {
	var b strings.Builder
	b.WriteString(more + "\nupstreams:\n")
	names := make([]string, 0, len(ups))
	for k := range ups {
		names = append(names, k)
	}
	sort.Strings(names)
	for _, k := range names {
		extra := keys[k]
		if extra != "" {
			extra = ", " + extra
		}
		fmt.Fprintf(&b, "  %s: {url: %q%s}\n", k, ups[k].start().URL, extra)
	}
	return b.String()
}

// quick keeps the tests short: an upstream that is silent costs one second.
const quick = `limits: {list_timeout: 1s, call_timeout: 10s}`

// calm is for tests without an upstream that is silent: a busy machine fails none.
const calm = `limits: {list_timeout: 5s, call_timeout: 10s}`

// open starts a gateway over upstreams, namespaced.
func open(t testing.TB, ups members) *gateway {
	t.Helper()
	return serve(t, document(ups, nil, calm))
}

// through starts a gateway in front of one upstream, passthrough.
func through(t testing.TB, u *upstream) *gateway {
	t.Helper()
	return serve(t, document(members{"up": u}, nil, calm+"\nservers: {default: {naming: passthrough}}"))
}

// serve runs the gateway of a document until the test ends. Its state is in memory.
func serve(t testing.TB, doc string) *gateway {
	t.Helper()
	return serveWith(t, parsed(t, doc))
}

// serveKept is serve with the state where the document says.
func serveKept(t testing.TB, doc string) *gateway {
	t.Helper()
	d := parsed(t, doc)
	store, err := penstock.OpenStore(t.Context(), d, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return serveWith(t, d, penstock.WithStore(store))
}

func serveWith(t testing.TB, d *config.Document, more ...penstock.Option) *gateway {
	t.Helper()
	log := &logBuffer{}
	logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	gw, err := penstock.New(d, append(more, penstock.WithLogger(logger))...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l, err := north.Listen(ctx, "127.0.0.1:0", gw.Handler(), north.ListenOptions{
		HeaderBytes: int(d.Limits.HeaderBytes), Connections: d.Limits.Connections, Log: logger,
	})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { _ = gw.Run(ctx) })
	wg.Go(func() { _ = l.Serve() })
	t.Cleanup(func() {
		end, stop := context.WithTimeout(context.Background(), 3*time.Second)
		defer stop()
		_ = l.Shutdown(end) // what hangs is cut
		cancel()
		_ = gw.Close(end)
		wg.Wait()
		if t.Failed() {
			t.Logf("the gateway's log:\n%s", log.tail(40))
		}
	})
	addr := l.Addr().String()
	return &gateway{client: newClient(t, "http://"+addr+"/mcp"), addr: addr, log: log, gw: gw}
}

// refused holds a document to be refused at load, and returns why.
func refused(t testing.TB, doc string) string {
	t.Helper()
	_, err := config.Parse("test.yaml", []byte(doc), func(string) (string, bool) { return "", false })
	if err == nil {
		t.Fatalf("the configuration was accepted:\n%s", doc)
	}
	return err.Error()
}

// names lists one kind to its end and returns the identifiers.
func names(t testing.TB, c caller, method string) []string {
	t.Helper()
	kind, member := "tools", "name"
	switch method {
	case "prompts/list":
		kind = "prompts"
	case "resources/list":
		kind, member = "resources", "uri"
	case "resources/templates/list":
		kind, member = "resourceTemplates", "uriTemplate"
	}
	var out []string
	params := ""
	for range 100 {
		result := wantResult(t, c.request(method, params))
		if list := at(result, kind); !strings.HasPrefix(list, "[") {
			t.Fatalf("%s of %s is %q", kind, method, list)
		}
		out = append(out, texts(at(result, kind), member)...)
		next := at(result, "nextCursor")
		if next == "" {
			return out
		}
		params = `"cursor":` + next
	}
	t.Fatal("the walk does not end")
	return nil
}

// healthy holds that a call to a tool is answered, while others are in trouble.
func healthy(t testing.TB, c caller, tool string) {
	t.Helper()
	result := wantResult(t, c.request("tools/call", `"name":`+quote(tool)+`,"arguments":{}`))
	if text(result, "content", 0, "text") != "ok" {
		t.Errorf("the healthy call of %s got %s", tool, result)
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

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logBuffer) tail(n int) string {
	lines := strings.Split(l.String(), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// deadAddress is one that nobody listens on.
func deadAddress(t testing.TB) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	return ln.Addr().String()
}
