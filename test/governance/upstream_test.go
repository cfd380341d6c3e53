package governance_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

const modernVersion = "2026-07-28"

// upstream is a modern MCP server with one tool, echo, that remembers what it was sent.
type upstream struct {
	*httptest.Server

	mu      sync.Mutex // guards what follows
	seen    []received
	refuses map[string]bool // values of Authorization that get a 401
}

// received is one request as it arrived.
type received struct {
	Method        string
	Authorization []string
	Body          string
	Refused       bool
}

func newUpstream(t testing.TB) *upstream {
	u := &upstream{refuses: map[string]bool{}}
	u.Server = httptest.NewServer(u)
	t.Cleanup(u.Close)
	return u
}

// endpoint is the URL for a document.
func (u *upstream) endpoint() string { return u.Server.URL + "/mcp" }

// ServeHTTP implements http.Handler.
func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return // the gateway hung up
	}
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if r.Method == http.MethodPost {
		_ = json.Unmarshal(raw, &m) // what is no message is answered as an unknown method
	} else {
		m.Method = r.Method
	}
	authorization := r.Header.Values("Authorization")
	if u.note(received{Method: m.Method, Authorization: slices.Clone(authorization), Body: string(raw)}) {
		w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	answer := func(status int, member string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, member)
	}
	const kept = `"resultType":"complete","ttlMs":600000,"cacheScope":"public"`
	switch m.Method {
	case http.MethodGet, http.MethodDelete:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case "server/discover":
		answer(http.StatusOK, `"result":{"supportedVersions":["`+modernVersion+`"],"capabilities":{"tools":{}},`+kept+`}`)
	case "tools/list":
		answer(http.StatusOK, `"result":{"tools":[{"name":"echo","inputSchema":{"type":"object"}}],`+kept+`}`)
	case "tools/call":
		answer(http.StatusOK, `"result":{"resultType":"complete","content":[{"type":"text","text":"ok"}]}`)
	default:
		if m.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		answer(http.StatusNotFound, `"error":{"code":-32601,"message":"method not found"}`)
	}
}

// note remembers a request and tells whether to refuse it.
func (u *upstream) note(r received) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	r.Refused = slices.ContainsFunc(r.Authorization, func(a string) bool { return u.refuses[a] })
	u.seen = append(u.seen, r)
	return r.Refused
}

// refuse answers requests with this value of Authorization with a 401 from now on.
func (u *upstream) refuse(authorization string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.refuses[authorization] = true
}

// requests returns what arrived for a method, or everything for "", in order.
func (u *upstream) requests(method string) []received {
	u.mu.Lock()
	defer u.mu.Unlock()
	var out []received
	for _, r := range u.seen {
		if method == "" || r.Method == method {
			out = append(out, r)
		}
	}
	return out
}

// saw tells whether a text was in any body.
func (u *upstream) saw(text string) bool {
	return slices.ContainsFunc(u.requests(""), func(r received) bool { return strings.Contains(r.Body, text) })
}

// credentials are the distinct values of Authorization that arrived with a method, or with any for "", in order.
func (u *upstream) credentials(method string) []string {
	var out []string
	for _, r := range u.requests(method) {
		for _, a := range r.Authorization {
			if !slices.Contains(out, a) {
				out = append(out, a)
			}
		}
	}
	return out
}
