package routing_test

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	modernRevision = "2026-07-28"
	legacyRevision = "2025-11-25"
)

// peer is an upstream written by hand: it speaks one era, offers what its
// fields say, and remembers what reached it. Its fields are set before it is
// started, but for the atomics.
type peer struct {
	legacy       bool
	caps         string // raw capabilities; "": tools, prompts, resources and completions
	instructions string
	namespace    string   // of its upstream in the document; "": the key
	tools        []string // raw list items
	prompts      []string
	resources    []string
	templates    []string
	page         int    // items on a page of its lists; 0: all
	ttl          int    // ttlMs of its lists, modern
	scope        string // cacheScope of its lists, modern; "": public

	// reply answers a call instead of the peer's own answer, with a raw message
	// in which $ID stands for the id. "": the peer's own answer after all.
	reply func(got request) string
	// raw answers a call all by itself where it returns true.
	raw func(w http.ResponseWriter, got request) bool
	// before runs ahead of every answer; it may wait.
	before func(got request)

	down atomic.Bool // cuts every connection

	url string

	mu       sync.Mutex // guards seen and sessions
	seen     []request
	sessions int
}

// request is one message as it reached a peer. For DELETE only header is set.
type request struct {
	verb   string
	method string
	id     string // raw
	params jsontext.Value
	name   string // params.name, params.uri, or what params.ref names
	cursor *string
	header http.Header
	body   []byte
	from   string // address of the connection
}

const everyCapability = `{"tools":{},"prompts":{},"resources":{},"completions":{}}`

func (p *peer) start(t testing.TB) *peer {
	t.Helper()
	s := httptest.NewServer(p)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	p.url = s.URL + "/mcp"
	return p
}

// got returns the messages of a method that arrived, in order.
func (p *peer) got(method string) []request {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []request
	for _, r := range p.seen {
		if r.method == method {
			out = append(out, r)
		}
	}
	return out
}

// last is the newest message of a method; it is an error when there is none.
func (p *peer) last(t reporter, method string) request {
	t.Helper()
	all := p.got(method)
	if len(all) == 0 {
		t.Fatalf("no %s reached the upstream", method)
	}
	return all[len(all)-1]
}

func (p *peer) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = nil
}

func (p *peer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p.down.Load() {
		panic(http.ErrAbortHandler)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	got := request{verb: r.Method, method: r.Method, header: r.Header, body: body, from: r.RemoteAddr}
	if r.Method == http.MethodPost {
		var m struct {
			ID     jsontext.Value `json:"id"`
			Method string         `json:"method"`
			Params jsontext.Value `json:"params"`
		}
		if err := json.Unmarshal(body, &m); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		var params struct {
			Name   string  `json:"name"`
			URI    string  `json:"uri"`
			Cursor *string `json:"cursor"`
			Ref    struct {
				Name string `json:"name"`
				URI  string `json:"uri"`
			} `json:"ref"`
		}
		if m.Params != nil {
			if err := json.Unmarshal(m.Params, &params); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
		}
		got.method, got.id, got.params, got.cursor = m.Method, string(m.ID), m.Params, params.Cursor
		got.name = cmp.Or(params.Name, params.URI, params.Ref.Name, params.Ref.URI)
	}
	p.mu.Lock()
	p.seen = append(p.seen, got)
	p.mu.Unlock()
	if p.before != nil {
		p.before(got)
	}
	p.serve(w, r, got)
}

func (p *peer) serve(w http.ResponseWriter, r *http.Request, got request) {
	switch {
	case r.Method == http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
		return
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	case got.id == "":
		w.WriteHeader(http.StatusAccepted)
		return
	case !p.legacy && r.Header.Get("Mcp-Protocol-Version") != modernRevision:
		write(w, http.StatusBadRequest, failure(got.id, -32022, `unsupported`, `{"supported":["`+modernRevision+`"],"requested":"?"}`))
		return
	case p.legacy && got.method == "server/discover":
		write(w, http.StatusOK, failure(got.id, -32601, "unknown method", ""))
		return
	}
	if p.legacy && got.method == "initialize" {
		p.mu.Lock()
		p.sessions++
		w.Header().Set("Mcp-Session-Id", "s"+strconv.Itoa(p.sessions))
		p.mu.Unlock()
	}
	if p.raw != nil && p.raw(w, got) {
		return
	}
	if p.reply != nil {
		if m := p.reply(got); m != "" {
			write(w, http.StatusOK, strings.ReplaceAll(m, "$ID", got.id))
			return
		}
	}
	write(w, http.StatusOK, p.answer(got))
}

func write(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, message)
}

func failure(id string, code int, message, data string) string {
	if data != "" {
		data = `,"data":` + data
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s%s}}`, id, code, quote(message), data)
}

// answer is the peer's own answer.
func (p *peer) answer(got request) string {
	caps := cmp.Or(p.caps, everyCapability)
	info := `{"name":"peer","version":"1"}`
	switch got.method {
	case "initialize":
		return success(got.id, fmt.Sprintf(`"protocolVersion":%q,"capabilities":%s,"serverInfo":%s,"instructions":%s`, legacyRevision, caps, info, quote(p.instructions)))
	case "server/discover":
		return p.complete(got.id, fmt.Sprintf(`"supportedVersions":[%q],"capabilities":%s,"ttlMs":0,"cacheScope":"public","instructions":%s,"_meta":{"io.modelcontextprotocol/serverInfo":%s}`, modernRevision, caps, quote(p.instructions), info))
	case "tools/list":
		return p.list(got, "tools", p.tools)
	case "prompts/list":
		return p.list(got, "prompts", p.prompts)
	case "resources/list":
		return p.list(got, "resources", p.resources)
	case "resources/templates/list":
		return p.list(got, "resourceTemplates", p.templates)
	case "tools/call":
		return p.complete(got.id, `"content":[{"type":"text","text":`+quote(got.name)+`}]`)
	case "prompts/get":
		return p.complete(got.id, `"messages":[{"role":"user","content":{"type":"text","text":`+quote(got.name)+`}}]`)
	case "resources/read":
		return p.complete(got.id, `"contents":[{"uri":`+quote(got.name)+`,"text":`+quote(got.name)+`}]`)
	case "completion/complete":
		return p.complete(got.id, `"completion":{"values":[`+quote(got.name)+`]}`)
	case "logging/setLevel", "ping":
		return p.complete(got.id, "")
	}
	return failure(got.id, -32601, "unknown method", "")
}

func (p *peer) list(got request, key string, items []string) string {
	first := 0
	if got.cursor != nil {
		n, err := strconv.Atoi(strings.TrimPrefix(*got.cursor, "from "))
		if err != nil || n < 0 || n > len(items) {
			return failure(got.id, -32602, "unknown cursor", "")
		}
		first = n
	}
	next := ""
	if p.page > 0 && first+p.page < len(items) {
		next = fmt.Sprintf(`,"nextCursor":"from %d"`, first+p.page)
		items = items[:first+p.page]
	}
	members := `"` + key + `":[` + strings.Join(items[first:], ",") + `]` + next
	if !p.legacy {
		members += fmt.Sprintf(`,"ttlMs":%d,"cacheScope":%q`, p.ttl, cmp.Or(p.scope, "public"))
	}
	return p.complete(got.id, members)
}

func (p *peer) complete(id, members string) string {
	if !p.legacy {
		members = strings.TrimSuffix(`"resultType":"complete",`+members, ",")
	}
	return success(id, members)
}

func success(id, members string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"result":{` + members + `}}`
}

func quote(s string) string {
	b, err := jsontext.AppendQuote(nil, s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// items makes one list item of a kind per identifier, each with its identifier
// repeated in a member that no naming rule touches.
func items(kind string, ids ...string) []string {
	var out []string
	for _, id := range ids {
		q := quote(id)
		switch kind {
		case "tools":
			out = append(out, `{"name":`+q+`,"description":`+q+`,"inputSchema":{"type":"object"}}`)
		case "prompts":
			out = append(out, `{"name":`+q+`,"description":`+q+`}`)
		case "resources":
			out = append(out, `{"uri":`+q+`,"name":`+quote("name of "+id)+`,"description":`+q+`}`)
		case "templates":
			out = append(out, `{"uriTemplate":`+q+`,"name":`+quote("name of "+id)+`,"description":`+q+`}`)
		}
	}
	return slices.Clip(out)
}
