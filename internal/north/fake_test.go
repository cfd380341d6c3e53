package north

import (
	"bytes"
	"cmp"
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

	"github.com/go-json-experiment/json"

	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/store"
	"github.com/penstock-mcp/penstock/internal/store/memory"
)

// rooms stands for everything behind north. Its fields are set before it serves.
type rooms struct {
	identify func(*http.Request) (*Principal, error)
	serve    func(context.Context, *Exchange) error // nil: answers {"served":METHOD}
	stand    func(context.Context, *Exchange) error // nil: waits for the end
	ready    error
	admit    func(*Exchange) error // nil: admits all

	caller *Principal
	mu     sync.Mutex // guards what follows
	trails []Trail    // of what was recorded, the method in Detail
	ended  []string
	served []string
}

func (g *rooms) Identify(r *http.Request) (*Principal, error) {
	if g.identify != nil {
		return g.identify(r)
	}
	return g.caller, nil
}

func (g *rooms) Local() *Principal { return g.caller }

func (g *rooms) Admit(x *Exchange) error {
	if g.admit != nil {
		return g.admit(x)
	}
	return nil
}

func (g *rooms) Record(x *Exchange) {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := x.Trail
	t.Detail = cmp.Or(x.Msg.Method, t.Verb)
	g.trails = append(g.trails, t)
}

// recorded is what was recorded since it was last asked for.
func (g *rooms) recorded() []Trail {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := g.trails
	g.trails = nil
	return out
}

func (g *rooms) Describe(_ context.Context, server string, _ *Principal, rev mcp.Revision) ([]byte, error) {
	return fmt.Appendf(nil, `{"protocolVersion":%q,"server":%q}`, rev, server), nil
}

func (g *rooms) Serve(ctx context.Context, x *Exchange) error {
	g.mu.Lock()
	g.served = append(g.served, x.Msg.Method)
	g.mu.Unlock()
	if g.serve != nil {
		return g.serve(ctx, x)
	}
	return x.Result(fmt.Appendf(nil, `{"served":%q}`, x.Msg.Method))
}

func (g *rooms) Ended(s *store.Session) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = append(g.ended, s.ID)
}

func (g *rooms) Stand(ctx context.Context, x *Exchange) error {
	if g.stand != nil {
		return g.stand(ctx, x)
	}
	return x.Wait(ctx, nil)
}

func (g *rooms) Ready() error { return g.ready }

func (g *rooms) reached() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string(nil), g.served...)
}

func (g *rooms) gone() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string(nil), g.ended...)
}

// front is a handler with rooms behind it, on a port.
type front struct {
	*rooms
	t       testing.TB
	h       *Handler
	url     string
	client  *http.Client
	options Options
	current atomic.Pointer[Handler] // what serves now; nil: h
}

func open(t *testing.T, g *rooms, change ...func(*Options)) *front {
	t.Helper()
	f := build(t, g, change...)
	f.serveHandler()
	return f
}

func build(t testing.TB, g *rooms, change ...func(*Options)) *front {
	t.Helper()
	if g.caller == nil {
		g.caller = &Principal{Key: [32]byte{1}, Name: "tester"}
	}
	o := Options{
		Servers: map[string]string{"default": "/mcp", "other": "/servers/other/mcp"}, RequestBytes: 1 << 20, InFlight: 100,
		Idle: time.Hour, BodyTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second,
		Log: slog.New(slog.DiscardHandler),
	}
	for _, f := range change {
		f(&o)
	}
	f := &front{rooms: g, t: t, options: o}
	f.h = New(o, g, memory.NewSessions(1000, 10, o.Idle, time.Now))
	return f
}

// got is one HTTP answer.
type got struct {
	status int
	header http.Header
	body   string
	err    error // met while reading the body
}

// msg is what tests look at in an answer that is a JSON-RPC message.
type msg struct {
	ID    any `json:"id"`
	Error *struct {
		Code    int            `json:"code"`
		Message string         `json:"message"`
		Data    map[string]any `json:"data"`
	} `json:"error"`
	Result map[string]any `json:"result"`
}

func (g got) message(t testing.TB) msg {
	t.Helper()
	body := g.body
	if strings.HasPrefix(g.header.Get("Content-Type"), "text/event-stream") {
		events := strings.Split(strings.TrimSuffix(body, "\n\n"), "\n\n")
		last := events[len(events)-1]
		data, ok := strings.CutPrefix(last, "event: message\ndata: ")
		if !ok {
			t.Fatalf("not an event: %q", last)
		}
		body = data
	}
	var m msg
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		t.Fatalf("HTTP %d with %q: %v", g.status, g.body, err)
	}
	return m
}

// code is the error's code, or 0.
func (g got) code(t testing.TB) int {
	t.Helper()
	if g.body == "" {
		return 0
	}
	if m := g.message(t); m.Error != nil {
		return m.Error.Code
	}
	return 0
}

// send does one request; a header of value "-" is left out.
func (f *front) send(verb, path, body string, header map[string]string) got {
	f.t.Helper()
	r, err := http.NewRequestWithContext(f.t.Context(), verb, f.url+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	return f.do(r, header)
}

func (f *front) do(r *http.Request, header map[string]string) got {
	f.t.Helper()
	for k, v := range header {
		switch {
		case v == "-":
		case k == "Host":
			r.Host = v
		default:
			for one := range strings.SplitSeq(v, "|") {
				r.Header.Add(k, one)
			}
		}
	}
	resp, err := f.client.Do(r)
	if err != nil {
		return got{err: err}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return got{resp.StatusCode, resp.Header, string(b), err}
}

// post sends a message with the usual media types, and more headers.
func (f *front) post(body string, more map[string]string) got {
	f.t.Helper()
	h := map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
	for k, v := range more {
		h[k] = v
	}
	return f.send(http.MethodPost, "/mcp", body, h)
}

const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// modernHeaders are those of a modern request; name "" sends no Mcp-Name.
func modernHeaders(method, name string) map[string]string {
	h := map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method}
	if name != "" {
		h["Mcp-Name"] = name
	}
	return h
}

// modern sends a valid modern request; params are members without braces.
func (f *front) modern(method, name, params string) got {
	f.t.Helper()
	if params != "" {
		params += ","
	}
	return f.post(`{"jsonrpc":"2.0","id":7,"method":"`+method+`","params":{`+params+meta+`}}`, modernHeaders(method, name))
}

// initialize opens a session of that revision and returns its id.
func (f *front) initialize(revision string) string {
	f.t.Helper()
	g := f.post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+revision+`","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`, nil)
	id := g.header.Get("Mcp-Session-Id")
	if g.status != http.StatusOK || id == "" {
		f.t.Fatalf("initialize: %+v", g)
	}
	return id
}

// legacy sends a request within a session.
func (f *front) legacy(session, body string, more ...string) got {
	f.t.Helper()
	h := map[string]string{"Mcp-Session-Id": session}
	for i := 0; i+1 < len(more); i += 2 {
		h[more[i]] = more[i+1]
	}
	return f.post(body, h)
}

const ping = `{"jsonrpc":"2.0","id":2,"method":"ping"}`

// eventually waits for a condition that another goroutine brings about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 5 s: %s", what)
		}
	}
}

// lockedBuffer keeps a log.
type lockedBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// serveHandler puts f.h on a port, for a handler made by the test.
func (f *front) serveHandler() {
	f.t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cmp.Or(f.current.Load(), f.h).ServeHTTP(w, r)
	}))
	f.t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	f.url, f.client = srv.URL, srv.Client()
}
