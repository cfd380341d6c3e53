package gateway

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-mcp/penstock/config"
)

// heard is one message as it reached an upstream.
type heard struct {
	verb, method, id, body string
	header                 http.Header
}

// up is an upstream under the test's control. Its fields are set before it
// serves, or under mu.
type up struct {
	legacy       bool
	caps         string // "": tools, prompts, resources, completions, logging
	instructions string
	lists        map[string]string // list method to raw members of its result
	// on answers instead, when it returns true.
	on func(w http.ResponseWriter, r *http.Request, h heard) bool

	url string

	mu   sync.Mutex // guards what follows
	seen []heard
	made int
}

// usual lists offer one thing of each kind.
var usual = map[string]string{
	"tools/list":               `"tools":[{"name":"add","inputSchema":{"type":"object"}}]`,
	"prompts/list":             `"prompts":[{"name":"greet"}]`,
	"resources/list":           `"resources":[{"uri":"file:///a","name":"a"}]`,
	"resources/templates/list": `"resourceTemplates":[{"uriTemplate":"file:///t/{x}","name":"t"}]`,
}

func (u *up) start(t testing.TB) *up {
	t.Helper()
	srv := httptest.NewServer(u)
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	u.url = srv.URL + "/mcp"
	return u
}

func (u *up) got(method string) (out []heard) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, h := range u.seen {
		if h.method == method || h.verb == method {
			out = append(out, h)
		}
	}
	return out
}

// last is the newest message of a method.
func (u *up) last(t *testing.T, method string) heard {
	t.Helper()
	all := u.got(method)
	if len(all) == 0 {
		t.Fatalf("no %s reached the upstream", method)
	}
	return all[len(all)-1]
}

func (u *up) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	h := heard{verb: r.Method, header: r.Header, body: string(body)}
	if len(body) > 0 {
		var m struct {
			ID     jsontext.Value `json:"id"`
			Method string         `json:"method"`
		}
		// The messages of the tests hold what only a careful reader takes.
		if err := json.Unmarshal(body, &m); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		h.id, h.method = string(m.ID), m.Method
	}
	u.mu.Lock()
	u.seen = append(u.seen, h)
	on, legacy := u.on, u.legacy
	u.mu.Unlock()
	if on != nil && on(w, r, h) {
		return
	}
	u.answer(w, h, legacy)
}

// set changes how the upstream answers while it serves.
func (u *up) set(on func(http.ResponseWriter, *http.Request, heard) bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.on = on
}

func (u *up) answer(w http.ResponseWriter, h heard, legacy bool) {
	caps := u.caps
	if caps == "" {
		caps = `{"tools":{},"prompts":{},"resources":{},"completions":{},"logging":{}}`
	}
	lists := u.lists
	if lists == nil {
		lists = usual
	}
	instructions := ""
	if u.instructions != "" {
		instructions = `,"instructions":"` + u.instructions + `"`
	}
	switch {
	case h.verb == http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	case h.id == "":
		w.WriteHeader(http.StatusAccepted)
	case h.method == "server/discover" && !legacy:
		reply(w, 200, `{"jsonrpc":"2.0","id":`+h.id+`,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":`+caps+instructions+`,"ttlMs":0,"cacheScope":"public"}}`)
	case h.method == "initialize" && legacy:
		u.mu.Lock()
		u.made++
		w.Header().Set("Mcp-Session-Id", "s"+string(rune('0'+u.made)))
		u.mu.Unlock()
		reply(w, 200, `{"jsonrpc":"2.0","id":`+h.id+`,"result":{"protocolVersion":"2025-11-25","capabilities":`+caps+instructions+`,"serverInfo":{"name":"up","version":"1"}}}`)
	case h.method == "server/discover" || h.method == "initialize":
		reply(w, 200, `{"jsonrpc":"2.0","id":`+h.id+`,"error":{"code":-32601,"message":"unknown"}}`)
	case lists[h.method] != "":
		more := ""
		if !legacy {
			more = `,"resultType":"complete","ttlMs":60000,"cacheScope":"public"`
		}
		reply(w, 200, `{"jsonrpc":"2.0","id":`+h.id+`,"result":{`+lists[h.method]+more+`}}`)
	default:
		reply(w, 200, `{"jsonrpc":"2.0","id":`+h.id+`,"result":{}}`)
	}
}

func reply(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// answers makes an upstream answer a method with a message in which $ID stands
// for the id.
func answers(method string, status int, message string) func(http.ResponseWriter, *http.Request, heard) bool {
	return func(w http.ResponseWriter, _ *http.Request, h heard) bool {
		if h.method != method {
			return false
		}
		reply(w, status, strings.ReplaceAll(message, "$ID", h.id))
		return true
	}
}

// house is a gateway in front of upstreams.
type house struct {
	*Gateway
	t testing.TB
}

// serving builds a gateway; more are lines of the document.
func serving(t testing.TB, ups map[string]*up, more ...string) *house {
	t.Helper()
	var b strings.Builder
	b.WriteString("upstreams:\n")
	for _, key := range slices.Sorted(maps.Keys(ups)) {
		if ups[key].url == "" {
			ups[key].start(t)
		}
		b.WriteString("  " + key + ": {url: '" + ups[key].url + "'}\n")
	}
	b.WriteString(strings.Join(more, "\n"))
	doc, err := config.Parse("test.yaml", []byte(b.String()), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	g, err := New(doc, Version{Name: "penstock", Version: "test"}, slog.New(slog.DiscardHandler), Storage{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		if err := g.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return &house{g, t}
}

// out is what a client gets.
type out struct {
	status int
	header http.Header
	body   string
	cut    bool // the connection was cut
}

func (h *house) send(verb, body string, header map[string]string) out {
	h.t.Helper()
	r := httptest.NewRequestWithContext(h.t.Context(), verb, "http://localhost/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for k, v := range header {
		r.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	cut := func() (cut bool) {
		defer func() {
			if p := recover(); p != nil {
				if p != abort { //nolint:errorlint // net/http compares it so, too
					panic(p)
				}
				cut = true
			}
		}()
		h.Handler().ServeHTTP(w, r)
		return false
	}()
	return out{w.Code, w.Result().Header, w.Body.String(), cut} //nolint:bodyclose // a recorder's body
}

const metaOpen = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}`

// modern sends a request of the newest revision; params are members.
func (h *house) modern(method, name, params string, headers ...string) out {
	h.t.Helper()
	if params != "" {
		params += ","
	}
	return h.raw(method, name, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+params+metaOpen+`}}}`, headers...)
}

// raw sends a whole modern message.
func (h *house) raw(method, name, body string, headers ...string) out {
	h.t.Helper()
	hd := map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method}
	if name != "" {
		hd["Mcp-Name"] = name
	}
	for i := 0; i+1 < len(headers); i += 2 {
		hd[headers[i]] = headers[i+1]
	}
	return h.send("POST", body, hd)
}

// session opens a legacy session and returns how to use it.
func (h *house) session(revision, caps string) (id string, send func(body string, headers ...string) out) {
	h.t.Helper()
	g := h.send("POST", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+revision+`","capabilities":`+caps+`,"clientInfo":{"name":"c","version":"9"}}}`, nil)
	id = g.header.Get("Mcp-Session-Id")
	if id == "" {
		h.t.Fatalf("initialize: %+v", g)
	}
	return id, func(body string, headers ...string) out {
		h.t.Helper()
		hd := map[string]string{"Mcp-Session-Id": id}
		for i := 0; i+1 < len(headers); i += 2 {
			hd[headers[i]] = headers[i+1]
		}
		return h.send("POST", body, hd)
	}
}

// answer is what tests look at in a message.
type answer struct {
	ID     jsontext.Value `json:"id"`
	Result map[string]any `json:"result"`
	Error  *struct {
		Code    int            `json:"code"`
		Message string         `json:"message"`
		Data    jsontext.Value `json:"data"`
	} `json:"error"`
}

func (o out) message(t testing.TB) answer {
	t.Helper()
	var a answer
	if o.cut {
		t.Fatalf("the connection was cut after %d bytes", len(o.body))
	}
	if err := json.Unmarshal([]byte(o.body), &a); err != nil {
		t.Fatalf("HTTP %d %q: %v", o.status, o.body, err)
	}
	return a
}

func (o out) code(t testing.TB) int {
	t.Helper()
	if e := o.message(t).Error; e != nil {
		return e.Code
	}
	return 0
}

var minted = regexp.MustCompile(`"[A-Z0-9]{8}-[0-9a-z]+"`)

// unminted replaces ids of ours by ID.
func unminted(body string) string { return minted.ReplaceAllString(body, "ID") }

type (
	responseWriter = http.ResponseWriter
	request        = http.Request
)

// abort cuts a connection when a handler panics with it.
var abort = http.ErrAbortHandler
