package policy_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

const modernVersion = "2026-07-28"

// client sends requests of one caller to one endpoint.
type client struct {
	t     testing.TB
	url   string
	token string
	http  *http.Client
}

// reply is an answer as it came.
type reply struct {
	Status int
	Header http.Header
	Body   string
}

func (r *reply) String() string { return fmt.Sprintf("HTTP %d: %.800s", r.Status, r.Body) }

// message is the JSON-RPC answer: the body, or the last event.
func (r *reply) message() string {
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream") {
		return r.Body
	}
	last := ""
	for line := range strings.Lines(r.Body) {
		if data, is := strings.CutPrefix(line, "data: "); is && strings.TrimSpace(data) != "" {
			last = strings.TrimSpace(data)
		}
	}
	return last
}

func (r *reply) code() string { return at(r.message(), "error", "code") }

// shape is all that tells one answer from another, but for what differs from one
// request to the next anyway.
func (r *reply) shape() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d\n", r.Status)
	h := r.Header.Clone()
	h.Del("Date")
	h.Del("X-Request-Id")
	h.Del("Content-Length") // follows from the name
	_ = h.Write(&b)
	return b.String() + r.message()
}

func (c *client) request(ctx context.Context, verb, body string, headers ...string) *http.Request {
	r, err := http.NewRequestWithContext(ctx, verb, c.url, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

// try sends exact bytes.
func (c *client) try(body string, headers ...string) (*reply, error) {
	resp, err := c.http.Do(c.request(context.Background(), http.MethodPost, body, headers...))
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	return &reply{Status: resp.StatusCode, Header: resp.Header, Body: string(raw)}, nil
}

// post is try, where an answer has to come.
func (c *client) post(body string, headers ...string) *reply {
	c.t.Helper()
	r, err := c.try(body, headers...)
	if err != nil {
		c.t.Fatalf("POST: %v", err)
	}
	return r
}

// declares is what every modern request says; the client can be asked.
const declares = `"_meta":{"io.modelcontextprotocol/protocolVersion":"` + modernVersion +
	`","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}`

func with(params, more string) string {
	if params == "" || more == "" {
		return params + more
	}
	return params + "," + more
}

func modernBody(method, params string) string {
	return `{"jsonrpc":"2.0","id":1,"method":` + quote(method) + `,"params":{` + with(params, declares) + `}}`
}

func modernHeaders(method, params string) []string {
	h := []string{"MCP-Protocol-Version", modernVersion, "Mcp-Method", method}
	name := ""
	switch method {
	case "tools/call", "prompts/get":
		name = text("{"+params+"}", "name")
	case "resources/read":
		name = text("{"+params+"}", "uri")
	default:
		return h
	}
	return append(h, "Mcp-Name", headerValue(name))
}

// headerValue is a header for any text (checklist 111).
func headerValue(s string) string {
	plain := s != "" && strings.TrimSpace(s) == s && !strings.HasPrefix(s, "=?base64?")
	for _, b := range []byte(s) {
		plain = plain && b >= 0x20 && b <= 0x7e
	}
	if plain {
		return s
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(s)) + "?="
}

// modern sends one modern request; params are raw members.
func (c *client) modern(method, params string) *reply {
	c.t.Helper()
	return c.post(modernBody(method, params), modernHeaders(method, params)...)
}

// session is one of an older revision.
type session struct {
	*client
	id, version, init string
}

func (c *client) legacy(version string) *session {
	c.t.Helper()
	r := c.post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":` + quote(version) + `,"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	s := &session{client: c, id: r.Header.Get("Mcp-Session-Id"), version: version, init: at(r.message(), "result")}
	if r.Status != http.StatusOK || s.id == "" {
		c.t.Fatalf("initialize: %v", r)
	}
	s.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return s
}

func (s *session) headers() []string {
	h := []string{"Mcp-Session-Id", s.id}
	if s.version != "2025-03-26" {
		h = append(h, "MCP-Protocol-Version", s.version)
	}
	return h
}

func (s *session) send(body string) *reply {
	s.t.Helper()
	return s.post(body, s.headers()...)
}

func legacyBody(method, params string) string {
	return `{"jsonrpc":"2.0","id":1,"method":` + quote(method) + `,"params":{` + params + `}}`
}

func (s *session) call(method, params string) *reply {
	s.t.Helper()
	return s.send(legacyBody(method, params))
}

// batched sends one request as the second entry of a batch and returns the answer
// to it as if it had come alone.
func (s *session) batched(method, params string) *reply {
	s.t.Helper()
	r := s.send(`[{"jsonrpc":"2.0","id":"ping","method":"ping"},` + legacyBody(method, params) + `]`)
	if at(r.message(), 0, "id") != `"ping"` {
		s.t.Fatalf("batch: %v", r)
	}
	return &reply{Status: r.Status, Header: http.Header{}, Body: at(r.message(), 1)}
}

// hearing is an open stream.
type hearing struct {
	t      testing.TB
	cancel context.CancelFunc
	events chan string // closed with the stream
	done   chan struct{}
}

func (c *client) hear(verb, body string, headers ...string) *hearing {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := c.request(ctx, verb, body, headers...)
	if verb == http.MethodGet {
		r.Header.Set("Accept", "text/event-stream")
	}
	patient := *c.http
	patient.Timeout = 0
	resp, err := patient.Do(r)
	if err != nil {
		cancel()
		c.t.Fatal(err)
	}
	h := &hearing{t: c.t, cancel: cancel, events: make(chan string, 1000), done: make(chan struct{})}
	c.t.Cleanup(h.close)
	go func() {
		defer close(h.done)
		defer close(h.events)
		defer func() { _ = resp.Body.Close() }()
		lines := bufio.NewScanner(resp.Body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && data != "" {
				h.events <- data
			}
		}
	}()
	return h
}

func (h *hearing) close() {
	h.cancel()
	<-h.done
}

// listen opens subscriptions/listen and returns what is acknowledged.
func (c *client) listen(filter string) (*hearing, string) {
	c.t.Helper()
	h := c.hear(http.MethodPost, modernBody("subscriptions/listen", `"notifications":`+filter), modernHeaders("subscriptions/listen", "")...)
	ack := h.next()
	if text(ack, "method") != "notifications/subscriptions/acknowledged" {
		c.t.Fatalf("the first message is %s", ack)
	}
	return h, at(ack, "params", "notifications")
}

func (h *hearing) next() string {
	h.t.Helper()
	select {
	case m, ok := <-h.events:
		if !ok {
			h.t.Fatal("the stream ended")
		}
		return m
	case <-time.After(20 * time.Second):
		h.t.Fatal("nothing came")
	}
	return ""
}

// quiet holds that nothing comes for a while.
func (h *hearing) quiet(what string, while time.Duration) {
	h.t.Helper()
	select {
	case m, ok := <-h.events:
		h.t.Errorf("%s: got %q (open: %v)", what, m, ok)
	case <-time.After(while):
	}
}
