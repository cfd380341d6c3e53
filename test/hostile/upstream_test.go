package hostile_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const modernVersion = "2026-07-28"

// upstream is an MCP server that answers as scripted. Its defaults are an
// honest, minimal server of its era; handlers replace them method by method.
// All fields but those under mu are set before serve.
type upstream struct {
	t       testing.TB
	URL     string
	legacy  string // the revision it speaks; "" is modern
	session bool   // legacy: it keeps sessions
	caps    string // raw capabilities; "" leaves them out
	lists   map[string][]string
	on      map[string]func(*exchange) // by method; also "GET" and "DELETE"
	server  *httptest.Server

	mu       sync.Mutex // guards what was seen
	seen     []received
	sessions map[string]bool
	closed   chan struct{}
}

// received is one request as it arrived.
type received struct {
	Verb, Method, Session, Target string
	Header                        http.Header
	Length                        int64 // Content-Length, -1 without
	Raw                           []byte
	ID, Params                    string // raw
}

// exchange is one request and the way to answer it.
type exchange struct {
	received
	w http.ResponseWriter
	r *http.Request
	u *upstream
}

const allCaps = `{"tools":{},"prompts":{},"resources":{},"completions":{},"logging":{}}`

func newModern(t testing.TB) *upstream { return newUpstream(t, "", false) }

func newLegacy(t testing.TB) *upstream { return newUpstream(t, "2025-11-25", true) }

func newUpstream(t testing.TB, legacy string, session bool) *upstream {
	return &upstream{
		t: t, legacy: legacy, session: session, caps: allCaps,
		lists: map[string][]string{}, on: map[string]func(*exchange){},
		sessions: map[string]bool{}, closed: make(chan struct{}),
	}
}

// bothEras runs a test against an upstream of each era, beside other tests.
func bothEras(t *testing.T, f func(t *testing.T, u *upstream)) {
	t.Helper()
	t.Parallel()
	for name, make := range map[string]func(testing.TB) *upstream{"modern": newModern, "legacy": newLegacy} {
		t.Run("upstream="+name, func(t *testing.T) {
			t.Parallel()
			f(t, make(t))
		})
	}
}

// tool, prompt, resource and template add plain items; list adds raw ones.
func (u *upstream) tool(names ...string) *upstream {
	for _, n := range names {
		u.list("tools", fmt.Sprintf(`{"name":%s,"inputSchema":{"type":"object"}}`, quote(n)))
	}
	return u
}

func (u *upstream) prompt(name string) *upstream {
	return u.list("prompts", fmt.Sprintf(`{"name":%s}`, quote(name)))
}

func (u *upstream) resource(uri string) *upstream {
	return u.list("resources", fmt.Sprintf(`{"uri":%s,"name":"r"}`, quote(uri)))
}

func (u *upstream) template(uri string) *upstream {
	return u.list("resourceTemplates", fmt.Sprintf(`{"uriTemplate":%s,"name":"t"}`, quote(uri)))
}

func (u *upstream) list(kind string, raw ...string) *upstream {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.lists[kind] = append(u.lists[kind], raw...)
	return u
}

// handle answers a method.
func (u *upstream) handle(method string, f func(*exchange)) *upstream {
	u.on[method] = f
	return u
}

// start serves on a free port of the loopback until the test ends.
func (u *upstream) start() *upstream {
	if u.server == nil {
		u.begin(httptest.NewServer(u))
	}
	return u
}

func (u *upstream) begin(s *httptest.Server) {
	u.server = s
	u.URL = s.URL + "/mcp"
	u.t.Cleanup(u.stop)
}

// stop ends the upstream as a crash would: what hangs is cut.
func (u *upstream) stop() {
	u.mu.Lock()
	select {
	case <-u.closed:
		u.mu.Unlock()
		return
	default:
	}
	close(u.closed)
	u.mu.Unlock()
	u.server.CloseClientConnections()
	u.server.Close()
}

// ServeHTTP implements http.Handler.
func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return // the gateway hung up
	}
	x := &exchange{w: w, r: r, u: u, received: received{
		Verb: r.Method, Header: r.Header.Clone(), Length: r.ContentLength, Raw: raw,
		Session: r.Header.Get("Mcp-Session-Id"), Target: r.URL.RequestURI(),
	}}
	if r.Method == http.MethodPost {
		var m struct {
			ID     jsontext.Value `json:"id"`
			Method string         `json:"method"`
			Params jsontext.Value `json:"params"`
		}
		if err := json.Unmarshal(raw, &m); err != nil {
			u.t.Errorf("the gateway sent malformed JSON: %v\n%s", err, raw)
			return
		}
		x.Method, x.ID, x.Params = m.Method, string(m.ID), string(m.Params)
	} else {
		x.Method = r.Method
	}
	u.mu.Lock()
	u.seen = append(u.seen, x.received)
	known := u.sessions[x.Session]
	u.mu.Unlock()
	if f := u.on[x.Method]; f != nil {
		f(x)
		return
	}
	if u.session && x.Method != "initialize" && x.Method != "server/discover" && !known {
		x.body(http.StatusNotFound, "application/json", `{"jsonrpc":"2.0","error":{"code":-32001,"message":"no such session"}}`)
		return
	}
	u.honest(x)
}

// honest is the default answer to a method.
func (u *upstream) honest(x *exchange) {
	kinds := map[string]string{
		"tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources", "resources/templates/list": "resourceTemplates",
	}
	switch {
	case x.Method == "GET":
		x.w.WriteHeader(http.StatusMethodNotAllowed)
	case x.Method == "DELETE":
		u.mu.Lock()
		delete(u.sessions, x.Session)
		u.mu.Unlock()
		x.w.WriteHeader(http.StatusNoContent)
	case x.ID == "":
		x.w.WriteHeader(http.StatusAccepted)
	case x.Method == "server/discover" && u.legacy == "":
		x.result(u.discover())
	case x.Method == "initialize" && u.legacy != "":
		x.handshake(u.legacy)
	case kinds[x.Method] != "":
		u.mu.Lock()
		items := slices.Clone(u.lists[kinds[x.Method]])
		u.mu.Unlock()
		x.page(kinds[x.Method], "", items...)
	case x.Method == "tools/call":
		x.result(`{"content":[{"type":"text","text":"ok"}]}`)
	case x.Method == "prompts/get":
		x.result(`{"messages":[]}`)
	case x.Method == "resources/read":
		x.result(`{"contents":[{"uri":` + at(x.Params, "uri") + `,"text":"ok"}]}`)
	case x.Method == "completion/complete":
		x.result(`{"completion":{"values":["ok"]}}`)
	case x.Method == "ping" || x.Method == "logging/setLevel":
		x.result(`{}`)
	default:
		x.fail(-32601, "method not found")
	}
}

func (u *upstream) discover() string {
	caps := ""
	if u.caps != "" {
		caps = `,"capabilities":` + u.caps
	}
	return `{"supportedVersions":["` + modernVersion + `"]` + caps + `,"ttlMs":1000,"cacheScope":"public"}`
}

// handshake answers initialize, with a new session where the upstream keeps them.
func (x *exchange) handshake(version string) {
	if x.u.session {
		x.u.mu.Lock()
		id := fmt.Sprintf("s-%d", len(x.u.seen))
		x.u.sessions[id] = true
		x.u.mu.Unlock()
		x.w.Header().Set("Mcp-Session-Id", id)
	}
	caps := ""
	if x.u.caps != "" {
		caps = `,"capabilities":` + x.u.caps
	}
	x.body(http.StatusOK, "application/json", x.message(`"result":{"protocolVersion":"`+version+`"`+caps+`,"serverInfo":{"name":"peer","version":"1"}}`))
}

// requests returns what arrived for a method, in order.
func (u *upstream) requests(method string) []received {
	u.mu.Lock()
	defer u.mu.Unlock()
	var out []received
	for _, r := range u.seen {
		if r.Method == method {
			out = append(out, r)
		}
	}
	return out
}

// last is the latest request for a method.
func (u *upstream) last(t testing.TB, method string) received {
	t.Helper()
	all := u.requests(method)
	if len(all) == 0 {
		t.Fatalf("the upstream saw no %s", method)
	}
	return all[len(all)-1]
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, within time.Duration, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(within); ; time.Sleep(10 * time.Millisecond) {
		if holds() {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("within %s it did not happen that %s", within, what)
		}
	}
}
