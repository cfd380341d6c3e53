package tasks_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock"
	"github.com/penstock-mcp/penstock/config"
)

// Codes of errors (docs/errors.md).
const (
	invalidParams       = -32602
	methodNotFound      = -32601
	headerMismatch      = -32020
	missingCapability   = -32021
	upstreamUnavailable = -31001
	upstreamTimeout     = -31002
	connectionLost      = -31003
	rateLimited         = -31005
	taskAmbiguous       = -31006
	invalidAnswer       = -31007
	storeUnavailable    = -31015
	hookRefused         = -31017
	hookFailed          = -31018
)

// doc is a configuration.
type doc struct {
	limits string   // members of limits, instead of the usual ones
	tasks  string   // members of tasks, instead of a rate of searches that is never met
	server string   // members of the server default
	auth   string   // instead of API keys for everybody
	more   string   // more at the top level
	ups    []string // lines under upstreams
}

// tenants has everybody who calls, and the tenant that each belongs to. The name before a slash is the subject.
var tenants = map[string]string{"ann": "acme", "bob": "acme", "eve": "acme", "ann/other": "rival"}

func (d doc) String() string {
	var b strings.Builder
	limits := d.limits
	if limits == "" {
		limits = "list_timeout: 10s, call_timeout: 30s"
	}
	fmt.Fprintf(&b, "limits: {%s}\n", limits)
	tasks := d.tasks
	if tasks == "" {
		tasks = "probe_rate: 1000/s"
	}
	fmt.Fprintf(&b, "tasks: {%s}\n", tasks)
	if d.server != "" {
		fmt.Fprintf(&b, "servers: {default: {%s}}\n", d.server)
	}
	if d.auth != "" {
		b.WriteString(d.auth + "\n")
	} else {
		b.WriteString("auth:\n  api_keys:\n")
		for who, tenant := range tenants {
			sum := sha256.Sum256([]byte(secretOf(who)))
			subject, _, _ := strings.Cut(who, "/")
			fmt.Fprintf(&b, "    - {name: %q, hash: \"sha256:%s\", subject: %s, tenant: %s, scopes: [mcp]}\n", who, hex.EncodeToString(sum[:]), subject, tenant)
		}
	}
	b.WriteString(d.more + "\nupstreams:\n" + strings.Join(d.ups, ""))
	return b.String()
}

// secretOf is the API key of a caller.
func secretOf(who string) string { return "secret-of-" + who + "-0123456789abcdef" }

// over is a document in front of upstreams that are named for themselves.
func over(ups ...*upstream) doc {
	var d doc
	for _, u := range ups {
		d.ups = append(d.ups, u.line(u.name, ""))
	}
	return d
}

// gateway is a running Penstock.
type gateway struct {
	t       testing.TB
	gw      *penstock.Gateway
	front   *httptest.Server
	http    *http.Client
	log     *logBuffer
	records string       // file of the audit record
	arrived atomic.Int64 // requests
	ending  sync.Once
	end     func()
}

// parsed is a document that is accepted.
func parsed(t testing.TB, d fmt.Stringer) *config.Document {
	t.Helper()
	out, err := config.Parse("test.yaml", []byte(d.String()), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatalf("configuration: %v\n%s", err, d)
	}
	return out
}

// serve runs the gateway of a document until the test ends or it is closed. Its state is in memory, and every request is recorded.
func serve(t testing.TB, d doc, more ...penstock.Option) *gateway {
	t.Helper()
	g := &gateway{t: t, log: &logBuffer{}, records: filepath.Join(t.TempDir(), "audit.jsonl")}
	d.more += fmt.Sprintf("\naudit: {file: %q, flush: 1ms}", g.records)
	logger := slog.New(slog.NewTextHandler(g.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var err error
	if g.gw, err = penstock.New(parsed(t, d), append(more, penstock.WithLogger(logger))...); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = g.gw.Run(ctx) })
	g.listen(g.gw.Handler(), func(end context.Context) {
		cancel()
		_ = g.gw.Close(end)
		wg.Wait()
	})
	return g
}

// listen serves a handler, and stops it before end is called.
func (g *gateway) listen(h http.Handler, end func(context.Context)) {
	g.front = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.arrived.Add(1)
		h.ServeHTTP(w, r)
	}))
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 256}
	g.http = &http.Client{Transport: transport, Timeout: 60 * time.Second}
	g.end = func() {
		transport.CloseIdleConnections()
		g.front.CloseClientConnections()
		g.front.Close()
		ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
		defer stop()
		end(ctx)
	}
	g.t.Cleanup(func() {
		g.close()
		if g.t.Failed() {
			g.t.Logf("the gateway's log:\n%s", g.log.tail(30))
		}
	})
}

// close ends the gateway; its audit record is whole then.
func (g *gateway) close() { g.ending.Do(g.end) }

func (g *gateway) reload(d doc) {
	g.t.Helper()
	d.more += fmt.Sprintf("\naudit: {file: %q, flush: 1ms}", g.records)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := g.gw.Reload(ctx, parsed(g.t, d)); err != nil {
		g.t.Fatalf("reload: %v", err)
	}
}

// record is a line of the audit record.
type record struct {
	Method, Kind, Name, Original, Upstream, Subject, Tenant, Decision, Rule, Outcome, Detail string
	Code                                                                                     int
}

// close ends the gateway and returns what it recorded of one method.
func (g *gateway) recorded(method string) (out []record) {
	g.t.Helper()
	g.close()
	raw, err := os.ReadFile(g.records)
	if err != nil {
		g.t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		var r record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			g.t.Fatalf("audit record: %v\n%s", err, line)
		}
		if r.Method == method {
			out = append(out, r)
		}
	}
	return out
}

// count adds up the metrics of a name that have each of some labels, written label="value".
func (g *gateway) count(name string, labels ...string) (total int) {
	g.t.Helper()
	w := httptest.NewRecorder()
	g.gw.Metrics().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
		of, set, _ := strings.Cut(series, "{")
		has := of == name
		for _, l := range labels {
			has = has && strings.Contains(","+set, ","+l)
		}
		if !has {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			g.t.Fatalf("metrics: %q", line)
		}
		total += int(v)
	}
	return total
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
