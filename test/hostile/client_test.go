package hostile_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// client sends exact bytes to an endpoint.
type client struct {
	t     testing.TB
	url   string
	token string // "": it has none
	http  *http.Client
}

func newClient(t testing.TB, url string) *client {
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &client{t: t, url: url, http: &http.Client{Transport: transport, Timeout: 30 * time.Second}}
}

// at is the same client for another path.
func (c *client) at(path string) *client {
	d := *c
	d.url = strings.TrimSuffix(c.url, "/mcp") + path
	return &d
}

// as is the same client with a token.
func (c *client) as(token string) *client {
	d := *c
	d.token = token
	return &d
}

// reply is an answer as it came.
type reply struct {
	Status int
	Header http.Header
	Length int64 // Content-Length, -1 without
	Body   string
	Events []string // data of each event, where it is an event stream
	Err    error    // what reading the body ended with
}

// do sends one HTTP request; headers are pairs, in which "-Name" takes one away.
func (c *client) do(ctx context.Context, verb, body string, headers ...string) (*reply, error) {
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(ctx, verb, c.url, content)
	if err != nil {
		return nil, err
	}
	if verb == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		switch name := headers[i]; {
		case name == "Host":
			r.Host = headers[i+1]
		case strings.HasPrefix(name, "-"):
			r.Header.Del(name[1:])
		case name == "Accept" || name == "Content-Type":
			r.Header.Set(name, headers[i+1])
		default:
			r.Header.Add(name, headers[i+1])
		}
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	out := &reply{Status: resp.StatusCode, Header: resp.Header, Length: resp.ContentLength, Body: string(raw), Err: err}
	if resp.Header.Get("Content-Type") == "text/event-stream" {
		out.Events = events(out.Body)
	}
	return out, nil
}

// post sends a POST and fails the test when no answer comes.
func (c *client) post(body string, headers ...string) *reply {
	c.t.Helper()
	r, err := c.do(context.Background(), http.MethodPost, body, headers...)
	if err != nil {
		c.t.Fatalf("POST: %v", err)
	}
	return r
}

// try is post, but that a connection cut before the answer is an answer, too.
func (c *client) try(body string, headers ...string) *reply {
	c.t.Helper()
	r, err := c.do(context.Background(), http.MethodPost, body, headers...)
	if err != nil {
		return &reply{Err: err}
	}
	return r
}

// events reads an event stream as a strict client does: fields by lines, an
// event at each empty one, unless it has no data, as a priming event.
func events(body string) []string {
	var out []string
	var data []string
	for _, line := range strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(body), "\n") {
		if line == "" {
			if strings.Join(data, "") != "" {
				out = append(out, strings.Join(data, "\n"))
			}
			data = nil
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		if name == "data" {
			data = append(data, strings.TrimPrefix(value, " "))
		}
	}
	return out
}

// message is the JSON-RPC answer: the body, or the last event.
func (r *reply) message() string {
	if len(r.Events) > 0 {
		return r.Events[len(r.Events)-1]
	}
	return r.Body
}

func (r *reply) String() string {
	return fmt.Sprintf("HTTP %d %s\n%.2000s (%v)", r.Status, r.Header.Get("Content-Type"), r.Body, r.Err)
}

// meta is what every modern request declares.
const meta = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}`

// modernBody is a modern request; params are raw members, and "_meta" is added.
func modernBody(id, method, params string) string {
	if params != "" {
		params += ","
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"method":` + quote(method) + `,"params":{` + params + `"_meta":{` + meta + `}}}`
}

// modernHeaders are those that a body demands.
func modernHeaders(method, name string) []string {
	h := []string{"MCP-Protocol-Version", modernVersion, "Mcp-Method", method}
	if name != "" {
		h = append(h, "Mcp-Name", sentinel(name))
	}
	return h
}

// sentinel is a header value for any text (checklist 111).
func sentinel(s string) string {
	plain := s != "" && strings.TrimSpace(s) == s && (!strings.HasPrefix(s, "=?base64?") || !strings.HasSuffix(s, "?="))
	for _, b := range []byte(s) {
		plain = plain && b >= 0x20 && b <= 0x7e
	}
	if plain {
		return s
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(s)) + "?="
}

// modern sends one modern request, valid in its form.
func (c *client) modern(method, params string) *reply {
	c.t.Helper()
	return c.post(modernBody("1", method, params), modernHeaders(method, nameOf(method, params))...)
}

func nameOf(method, params string) string {
	switch method {
	case "tools/call", "prompts/get":
		return text("{"+params+"}", "name")
	case "resources/read":
		return text("{"+params+"}", "uri")
	}
	return ""
}

// session is a legacy client's.
type session struct {
	*client
	id, version string
	init        string // the initialize result
	ids         int64
}

// legacy opens a session that declares nothing.
func (c *client) legacy(version string) *session {
	c.t.Helper()
	return c.legacyWith(version, `{}`)
}

// legacyWith opens a session that declares raw capabilities.
func (c *client) legacyWith(version, caps string) *session {
	c.t.Helper()
	r := c.post(strings.Replace(initialize(version), `"capabilities":{}`, `"capabilities":`+caps, 1))
	if r.Status != http.StatusOK || r.Header.Get("Mcp-Session-Id") == "" {
		c.t.Fatalf("initialize: %v", r)
	}
	s := &session{client: c, id: r.Header.Get("Mcp-Session-Id"), init: at(r.message(), "result")}
	s.version = text(s.init, "protocolVersion")
	if n := s.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`); n.Status != http.StatusAccepted || n.Body != "" {
		c.t.Fatalf("notifications/initialized: %v", n)
	}
	return s
}

func initialize(version string) string {
	return `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":` + quote(version) +
		`,"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
}

// send posts raw bytes within the session.
func (s *session) send(body string, headers ...string) *reply {
	s.t.Helper()
	return s.post(body, append(s.headers(), headers...)...)
}

func (s *session) headers() []string {
	h := []string{"Mcp-Session-Id", s.id}
	if s.version != "2025-03-26" {
		h = append(h, "MCP-Protocol-Version", s.version)
	}
	return h
}

// call sends one request within the session; params are raw members.
func (s *session) call(method, params string) *reply {
	s.t.Helper()
	return s.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%s,"params":{%s}}`, atomic.AddInt64(&s.ids, 1), quote(method), params))
}

// caller is a client of either era.
type caller interface {
	request(method, params string) *reply
}

func (c *client) request(method, params string) *reply  { return c.modern(method, params) }
func (s *session) request(method, params string) *reply { return s.call(method, params) }

// clients are one caller of each era on an endpoint.
func (c *client) clients() map[string]caller {
	c.t.Helper()
	return map[string]caller{"modern": c, "legacy": c.legacy("2025-11-25")}
}

// wantError holds an answer to be a JSON-RPC error.
func wantError(t testing.TB, r *reply, status, code int) {
	t.Helper()
	if r.Status != status || at(r.message(), "error", "code") != fmt.Sprint(code) || text(r.message(), "error", "message") == "" {
		t.Errorf("want HTTP %d and error %d, got %v", status, code, r)
	}
}

// wantResult holds an answer to be a result, and returns it raw.
func wantResult(t testing.TB, r *reply) string {
	t.Helper()
	result := at(r.message(), "result")
	if r.Status != http.StatusOK || r.Err != nil || result == "" {
		t.Errorf("want a result, got %v", r)
	}
	return result
}

// rawHTTP sends exact bytes on a connection and reads one response. Without an
// answer within the time, or with none at all, the error says so.
func rawHTTP(t testing.TB, addr, request, verb string) (*reply, error) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	go func() { _, _ = io.WriteString(c, request) }()
	resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: verb})
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	return &reply{Status: resp.StatusCode, Header: resp.Header, Body: string(raw), Err: err}, nil
}
