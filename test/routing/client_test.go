package routing_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// reporter is what tests and property checks have in common.
type reporter interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// client speaks to one virtual server as one MCP client would, byte by byte.
type client struct {
	url      string
	revision string
	session  string
	accept   string // "": both forms
	caps     string // raw capabilities of a modern client; "": {}
	mayBeCut bool   // an answer without its end is an answer, too
	n        int
}

// answer is what a client got.
type answer struct {
	status  int
	header  http.Header
	raw     []byte // the message; of an event stream, the data of its last event
	stream  string // the body of an event stream
	cut     bool   // it had no end
	ID      jsontext.Value
	Result  jsontext.Value
	Failure *struct {
		Code    int
		Message string
		Data    jsontext.Value
	} `json:"error"`
}

func (a *answer) code() int {
	if a.Failure == nil {
		return 0
	}
	return a.Failure.Code
}

func (e *endpoint) path(server string) string {
	if server == "" || server == "default" {
		return e.base + "/mcp"
	}
	return e.base + "/servers/" + server + "/mcp"
}

// modern returns a client of 2026-07-28 for a virtual server.
func (e *endpoint) modern(server string) *client {
	return &client{url: e.path(server), revision: modernRevision}
}

// legacy returns a client with an open session.
func (e *endpoint) legacy(t reporter, server, revision string) *client {
	t.Helper()
	c := &client{url: e.path(server), revision: revision}
	c.initialize(t)
	return c
}

func (c *client) initialize(t reporter) *answer {
	t.Helper()
	a := c.post(t, []byte(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"`+c.revision+`","capabilities":`+cmp.Or(c.caps, "{}")+`,"clientInfo":{"name":"test","version":"1"}}}`), nil)
	if a.Result == nil {
		t.Fatalf("initialize: HTTP %d %s", a.status, a.raw)
	}
	if c.session = a.header.Get("Mcp-Session-Id"); c.session == "" {
		t.Fatal("initialize: no session id")
	}
	c.post(t, []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`), nil)
	return a
}

// clients returns one client of each era.
func (e *endpoint) clients(t reporter, server string) map[string]*client {
	t.Helper()
	return map[string]*client{"modern": e.modern(server), "legacy": e.legacy(t, server, legacyRevision)}
}

func (c *client) modern() bool { return c.revision == modernRevision }

// call sends a request with the given raw params object; metadata is added.
func (c *client) call(t reporter, method, params string) *answer {
	t.Helper()
	c.n++
	params = cmp.Or(params, "{}")
	if c.modern() {
		meta := fmt.Sprintf(`"_meta":{"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientCapabilities":%s}`, c.revision, cmp.Or(c.caps, "{}"))
		if inner := strings.TrimSpace(params[1:]); inner != "}" {
			meta += ","
		}
		params = "{" + meta + params[1:]
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, c.n, method, params)
	return c.post(t, []byte(body), c.headers(t, []byte(body)))
}

// headers are those that repeat a modern message's body (checklist 21, 22).
func (c *client) headers(t reporter, body []byte) http.Header {
	t.Helper()
	if !c.modern() {
		return nil
	}
	var m struct {
		Method string `json:"method"`
		Params struct {
			Name string `json:"name"`
			URI  string `json:"uri"`
		} `json:"params"`
	}
	if err := json.Unmarshal(body, &m); err != nil {
		t.Fatalf("a test's own message: %v\n%s", err, body)
	}
	h := http.Header{"Mcp-Method": {m.Method}}
	switch m.Method {
	case "tools/call", "prompts/get":
		h.Set("Mcp-Name", headerValue(m.Params.Name))
	case "resources/read":
		h.Set("Mcp-Name", headerValue(m.Params.URI))
	}
	return h
}

// headerValue is the sentinel form of whatever may need it (checklist 111).
func headerValue(s string) string {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(s)) + "?="
		}
	}
	return s
}

// headerText undoes headerValue.
func headerText(v string) string {
	inner, ok := strings.CutPrefix(v, "=?base64?")
	if !ok {
		return v
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(inner, "?="))
	if err != nil {
		return "not base64: " + v
	}
	return string(raw)
}

// post sends exactly these bytes.
func (c *client) post(t reporter, body []byte, header http.Header) *answer {
	t.Helper()
	return c.send(t, http.MethodPost, body, header)
}

func (c *client) send(t reporter, verb string, body []byte, header http.Header) *answer {
	t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), verb, c.url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range header {
		r.Header[k] = v
	}
	if verb == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("Accept", cmp.Or(c.accept, "application/json, text/event-stream"))
	if c.session != "" {
		r.Header.Set("Mcp-Session-Id", c.session)
	}
	if c.modern() || c.session != "" && c.revision != "2025-03-26" {
		r.Header.Set("Mcp-Protocol-Version", c.revision)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil && c.mayBeCut {
		return &answer{cut: true}
	}
	if err != nil {
		t.Fatalf("%s %s: %v", verb, c.url, err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	a := &answer{status: resp.StatusCode, header: resp.Header, raw: raw}
	if err != nil && c.mayBeCut {
		a.cut = true
		return a
	}
	if err != nil {
		t.Fatalf("%s %s: %v after %d bytes", verb, c.url, err, len(raw))
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		a.raw, a.stream = lastEvent(raw), string(raw)
	}
	if len(a.raw) == 0 || !strings.Contains(resp.Header.Get("Content-Type"), "json") && !strings.Contains(resp.Header.Get("Content-Type"), "event-stream") {
		return a
	}
	if err := json.Unmarshal(a.raw, a, json.MatchCaseInsensitiveNames(true), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)); err != nil {
		t.Fatalf("the answer is not JSON: %v\n%s", err, a.raw)
	}
	return a
}

// lastEvent is the data of the last event, its lines joined.
func lastEvent(stream []byte) []byte {
	events := strings.Split(strings.TrimRight(string(stream), "\n"), "\n\n")
	var data []string
	for line := range strings.SplitSeq(events[len(events)-1], "\n") {
		if d, ok := strings.CutPrefix(line, "data:"); ok {
			data = append(data, strings.TrimPrefix(d, " "))
		}
	}
	return []byte(strings.Join(data, "\n"))
}

// item is what tests look at in a list's entry.
type item struct {
	Name, Title, URI, URITemplate, Description string
	InputSchema                                jsontext.Value
}

func (i *item) id() string { return cmp.Or(i.URI, i.URITemplate, i.Name) }

// page is one page of a list.
type page struct {
	Tools, Prompts, Resources, ResourceTemplates []item
	NextCursor                                   *string
	TTLMs                                        *int
	CacheScope                                   string
	Meta                                         struct {
		Partial []missing `json:"penstock/partial"`
	} `json:"_meta"`
}

type missing struct {
	Upstream, Reason string
	Stale            bool
}

func (p *page) items() []item {
	return append(append(append(p.Tools, p.Prompts...), p.Resources...), p.ResourceTemplates...)
}

func (a *answer) page(t reporter) *page {
	t.Helper()
	if a.Result == nil {
		t.Fatalf("no list: HTTP %d %s", a.status, a.raw)
	}
	p := &page{}
	if err := json.Unmarshal(a.Result, p, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatalf("list: %v\n%s", err, a.raw)
	}
	return p
}

// walk lists every page.
func (c *client) walk(t reporter, method string) []item {
	t.Helper()
	var out []item
	params := ""
	for range 1000 {
		p := c.call(t, method, params).page(t)
		out = append(out, p.items()...)
		if p.NextCursor == nil {
			return out
		}
		params = `{"cursor":` + quote(*p.NextCursor) + `}`
	}
	t.Fatalf("%s does not end", method)
	return nil
}

// ids are the identifiers of a whole list.
func (c *client) ids(t reporter, method string) []string {
	t.Helper()
	out := []string{}
	for _, i := range c.walk(t, method) {
		out = append(out, i.id())
	}
	return out
}

// named calls what a method names: params.name, or params.uri for resources.
func (c *client) named(t reporter, method, name string) *answer {
	t.Helper()
	switch method {
	case "resources/read":
		return c.call(t, method, `{"uri":`+quote(name)+`}`)
	case "completion/complete":
		return c.call(t, method, `{"ref":{"type":"ref/prompt","name":`+quote(name)+`},"argument":{"name":"a","value":""}}`)
	}
	return c.call(t, method, `{"name":`+quote(name)+`}`)
}
