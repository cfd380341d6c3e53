package durablegateway_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock"
	"github.com/penstock-mcp/penstock/config"
	"github.com/penstock-mcp/penstock/internal/durable"
)

// gateway is a running Penstock with a database of its own.
type gateway struct {
	t       testing.TB
	gw      *penstock.Gateway
	front   *httptest.Server
	http    *http.Client
	records string
	ending  sync.Once
	end     func()
	log     *logBuffer
}

// document is the configuration of a gateway in front of workers, each pinned as it is now.
func document(t testing.TB, dir, more string, workers ...*worker) string {
	b := fmt.Sprintf("state: %q\naudit: {file: %q, flush: 1ms}\nlimits: {list_timeout: 5s}\n%s\nupstreams:\n",
		"sqlite:"+filepath.Join(dir, "p.db"), filepath.Join(dir, "audit.jsonl"), more)
	for _, w := range workers {
		b += fmt.Sprintf("  %s: {url: %q, durable: {pin: %q}}\n", w.name, w.srv.URL+"/mcp", w.pin(t))
	}
	return b
}

// pin is the digest of what a worker offers, made apart from the gateway.
func (w *worker) pin(t testing.TB) string {
	t.Helper()
	o := durable.Offer{Revision: modernVersion, ServerInfo: []byte(`{"version":"1","name":"` + w.name + `"}`)}
	w.change(func() {
		o.Capabilities = []byte(`{"extensions":{"` + extension + `":{}},"tools":{"listChanged":true}}`)
		if err := json.Unmarshal([]byte(w.tools), &o.Tools); err != nil {
			t.Fatal(err)
		}
	})
	m, err := o.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	return m.String()
}

const secret = "-secret-0123456789abcdef"

// keys lets callers in, each with the scopes of durable writes.
func keys(who ...string) string {
	b := "auth:\n  api_keys:\n"
	for _, name := range who {
		sum := sha256.Sum256([]byte(name + secret))
		b += fmt.Sprintf("    - {name: %s, hash: \"sha256:%s\", subject: %s, tenant: acme, scopes: [\"penstock:effect:idempotent-write\", \"penstock:effect:non-idempotent-write\"]}\n",
			name, hex.EncodeToString(sum[:]), name)
	}
	return b
}

func serve(t testing.TB, dir, doc string, options ...penstock.Option) *gateway {
	t.Helper()
	parsed, err := config.Parse("test.yaml", []byte(doc), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatalf("configuration: %v\n%s", err, doc)
	}
	g := &gateway{t: t, log: &logBuffer{}, records: filepath.Join(dir, "audit.jsonl")}
	log := slog.New(slog.NewTextHandler(g.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	store, err := penstock.OpenStore(context.Background(), parsed, log)
	if err != nil {
		t.Fatal(err)
	}
	if g.gw, err = penstock.New(parsed, append(options, penstock.WithLogger(log), penstock.WithStore(store))...); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = g.gw.Run(ctx) })
	g.front = httptest.NewServer(g.gw.Handler())
	transport := &http.Transport{DisableCompression: true}
	g.http = &http.Client{Transport: transport, Timeout: 60 * time.Second}
	g.end = func() {
		transport.CloseIdleConnections()
		g.gw.Drain()
		g.front.CloseClientConnections()
		g.front.Close()
		end, stop := context.WithTimeout(context.Background(), 10*time.Second)
		defer stop()
		cancel()
		_ = g.gw.Close(end)
		wg.Wait()
		_ = store.Close()
	}
	t.Cleanup(func() {
		g.close()
		if t.Failed() {
			t.Logf("the gateway's log:\n%s", g.log.tail(40))
		}
	})
	return g
}

func (g *gateway) close() { g.ending.Do(g.end) }

// admin asks the operator's socket.
func (g *gateway) admin(method, path string, q url.Values) (int, string) {
	g.t.Helper()
	w := httptest.NewRecorder()
	g.gw.Admin().ServeHTTP(w, httptest.NewRequest(method, path+"?"+q.Encode(), nil))
	return w.Code, w.Body.String()
}

// record is a line of the audit record.
type record struct {
	Method, Kind, Name, Original, Upstream, Via, Subject, Decision, Outcome, Detail string
	Code                                                                            int
}

// recorded ends the gateway and returns what it recorded of a method.
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

// client sends modern requests.
type client struct {
	g    *gateway
	who  string // by its API key; "": nobody
	caps string
}

func (g *gateway) as(who string) *client {
	return &client{g: g, who: who, caps: `{"extensions":{"` + extension + `":{}}}`}
}

func (c *client) plain() *client { return &client{g: c.g, who: c.who, caps: `{}`} }

// reply is an answer as it came.
type reply struct {
	Status               int
	Body, Result, Said   string
	Code                 int
	Structured, ToolCode string
}

func (r *reply) String() string { return fmt.Sprintf("HTTP %d %.1200s", r.Status, r.Body) }

func (c *client) send(ctx context.Context, method, params, name string) (*http.Response, error) {
	if params != "" {
		params += ","
	}
	body := `{"jsonrpc":"2.0","id":7,"method":` + quote(method) + `,"params":{` + params + `"_meta":{"io.modelcontextprotocol/protocolVersion":"` + modernVersion +
		`","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":` + c.caps + `}}}`
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.g.front.URL+"/mcp", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Protocol-Version", modernVersion)
	r.Header.Set("Mcp-Method", method)
	if name != "" {
		r.Header.Set("Mcp-Name", name)
	}
	if c.who != "" {
		r.Header.Set("Authorization", "Bearer "+c.who+secret)
	}
	return c.g.http.Do(r)
}

func (c *client) request(method, params, name string) *reply {
	c.g.t.Helper()
	resp, err := c.send(context.Background(), method, params, name)
	if err != nil {
		c.g.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		c.g.t.Fatal(err)
	}
	out := &reply{Status: resp.StatusCode, Body: string(raw)}
	msg := out.Body
	for line := range strings.Lines(out.Body) {
		if data, is := strings.CutPrefix(line, "data:"); is && strings.Contains(data, `"id":7`) {
			msg = strings.TrimSpace(data)
		}
	}
	out.Result, out.Said = at(msg, "result"), text(msg, "error", "message")
	out.Code, _ = strconv.Atoi(at(msg, "error", "code"))
	if out.Structured = at(out.Result, "structuredContent"); at(out.Result, "isError") == "true" {
		out.ToolCode = text(out.Structured, "code")
	}
	return out
}

// call calls a tool with raw arguments.
func (c *client) call(tool, arguments string) *reply {
	c.g.t.Helper()
	return c.request("tools/call", `"name":`+quote(tool)+`,"arguments":`+arguments, tool)
}

func (c *client) task(method, id string) *reply {
	c.g.t.Helper()
	return c.request(method, `"taskId":`+quote(id), id)
}

// tools are the names that tools/list shows.
func (c *client) tools() (names []string) {
	c.g.t.Helper()
	r := c.request("tools/list", "", "")
	var l struct {
		Tools []struct{ Name string }
	}
	if err := json.Unmarshal([]byte(r.Result), &l); err != nil {
		c.g.t.Fatalf("%v: %v", err, r)
	}
	for _, t := range l.Tools {
		names = append(names, t.Name)
	}
	return names
}

// ready waits until something can be submitted.
func (c *client) ready() *client {
	c.g.t.Helper()
	eventually(c.g.t, "submit is listed", 10*time.Second, func() bool { return strings.Contains(strings.Join(c.tools(), " "), "penstock_submit") })
	return c
}

// leased returns a lease for a submission of a tool, and the tool's schema digest.
func (c *client) leased(words, alias string) (lease, schema string) {
	c.g.t.Helper()
	d := c.call(words+"_describe", `{"alias":`+quote(alias)+`}`)
	effect := text(d.Structured, "sideEffect")
	l := c.call(words+"_lease", `{"aliases":[`+quote(alias)+`],"sideEffects":[`+quote(effect)+`,"non_idempotent_write"]}`)
	if lease = text(l.Structured, "leaseId"); lease == "" {
		c.g.t.Fatalf("no lease: %v\n%v", d, l)
	}
	return lease, text(d.Structured, "schemaDigest")
}

// deadline is that of all submissions, so that one that is made again is the same.
var deadline = time.Now().Add(9 * time.Minute).UnixMilli()

// submission is a document for arguments.
func submission(words, key, schema, arguments string, runtime time.Duration) string {
	input, err := durable.SumJSON([]byte(arguments))
	if err != nil {
		panic(err)
	}
	some := durable.Sum([]byte("some")).String()
	return fmt.Sprintf(`{"schemaVersion":"%s.task-submission/1","logicalTaskId":"l","attemptId":"a","correlationId":"c","idempotencyKey":%q,"providerInterfaceVersion":%q,`+
		`"inputSha256":%q,"acceptancePolicySha256":%q,"artifactScopeSha256":%q,"deadlineUnixMs":%d,"retentionMs":600000,`+
		`"limits":{"maxRuntimeMs":%d,"maxOutputBytes":65536,"maxArtifactBytes":1024,"maxAttempts":1},"permittedEffect":"non_idempotent_write","cleanupRequired":true}`,
		words, key, schema, input.String(), some, some, deadline, runtime.Milliseconds())
}

// submit submits work of a tool.
func (c *client) submit(alias, key, arguments string) *reply {
	c.g.t.Helper()
	return c.submitFor(20*time.Second, alias, key, arguments)
}

// submitFor is submit of work that may run for so long.
func (c *client) submitFor(runtime time.Duration, alias, key, arguments string) *reply {
	c.g.t.Helper()
	lease, schema := c.leased("penstock", alias)
	return c.call("penstock_submit", fmt.Sprintf(`{"leaseId":%q,"alias":%q,"arguments":%s,"task":%s}`, lease, alias, arguments,
		submission("penstock", key, schema, arguments, runtime)))
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
