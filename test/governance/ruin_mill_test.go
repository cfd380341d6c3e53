package governance_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// mill is an MCP server of one era whose tools do what a gateway has to govern, and that remembers what it was sent.
//
//	echo, region  answer ok; region repeats its argument in a header
//	slow          answers when it is released, or never
//	fail, broken  an error of its own, and a result that is one
//	cut, junk     breaks its connection, and the protocol
//	large         answers with as many bytes as asked for
//	ask           asks its client before it answers
//
// With "sse":true among its arguments a tool answers as an event stream.
type mill struct {
	*httptest.Server
	legacy       bool
	limits, more string // for the document: more limits, more of the upstream; each begins with a comma

	mu       sync.Mutex // guards what follows
	seen     []grist
	released chan struct{}
	answers  map[string]chan json.RawMessage // to questions, by id
	sessions int
}

// grist is one request as it arrived.
type grist struct {
	Method, Name, Arguments string
	Header                  http.Header
	Body                    string
}

func newMill(t testing.TB, legacy bool) *mill {
	m := &mill{legacy: legacy, released: make(chan struct{}), answers: map[string]chan json.RawMessage{}}
	m.Server = httptest.NewServer(m)
	t.Cleanup(func() {
		m.release()
		m.CloseClientConnections()
		m.Close()
	})
	return m
}

func (m *mill) era() string {
	if m.legacy {
		return "legacy"
	}
	return "modern"
}

// release lets the slow ones answer.
func (m *mill) release() {
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-m.released:
	default:
		close(m.released)
	}
}

// calls are what arrived for a method; "": all three that call something.
func (m *mill) calls(method string) []grist {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []grist
	for _, g := range m.seen {
		if method != "" && g.Method == method || method == "" && (g.Method == "tools/call" || g.Method == "prompts/get" || g.Method == "resources/read") {
			out = append(out, g)
		}
	}
	return out
}

// arrived tells how many calls had a text in their arguments or name.
func (m *mill) arrived(text string) (n int) {
	for _, g := range m.calls("") {
		if strings.Contains(g.Body, text) {
			n++
		}
	}
	return n
}

const millTools = `{"name":"echo","inputSchema":{"type":"object"}},{"name":"slow","inputSchema":{"type":"object"}},` +
	`{"name":"fail","inputSchema":{"type":"object"}},{"name":"broken","inputSchema":{"type":"object"}},` +
	`{"name":"large","inputSchema":{"type":"object"}},{"name":"ask","inputSchema":{"type":"object"}},{"name":"cut","inputSchema":{"type":"object"}},{"name":"junk","inputSchema":{"type":"object"}},{"name":"secret","inputSchema":{"type":"object"}},` +
	`{"name":"region","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"Count"}}}}`

// ServeHTTP implements http.Handler.
func (m *mill) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return // the gateway hung up
	}
	var q struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			Name, URI       string
			ProtocolVersion string          `json:"protocolVersion"`
			Arguments       json.RawMessage `json:"arguments"`
			InputResponses  json.RawMessage `json:"inputResponses"`
		} `json:"params"`
		Result json.RawMessage `json:"result"`
	}
	if q.Method = r.Method; r.Method == http.MethodPost {
		q.Method = ""
		_ = json.Unmarshal(raw, &q) // what is no message is answered as an unknown method
	}
	p := &q.Params
	m.mu.Lock()
	m.seen = append(m.seen, grist{Method: q.Method, Name: p.Name + p.URI, Arguments: string(p.Arguments), Header: r.Header.Clone(), Body: string(raw)})
	released := m.released
	m.mu.Unlock()
	a := &millAnswer{m: m, w: w, r: r, id: q.ID}
	switch {
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case q.Method == "" && q.Result != nil:
		m.mu.Lock()
		c := m.answers[string(q.ID)]
		m.mu.Unlock()
		if c != nil {
			c <- q.Result
		}
		w.WriteHeader(http.StatusAccepted)
	case q.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	case q.Method == "initialize" && m.legacy:
		m.mu.Lock()
		m.sessions++
		w.Header().Set("Mcp-Session-Id", "s"+strconv.Itoa(m.sessions))
		m.mu.Unlock()
		a.result(`{"protocolVersion":"` + p.ProtocolVersion + `","capabilities":{"tools":{},"prompts":{},"resources":{}},"serverInfo":{"name":"mill","version":"1"}}`)
	case q.Method == "server/discover" && !m.legacy:
		a.kept(`"supportedVersions":["` + modernVersion + `"],"capabilities":{"tools":{},"prompts":{},"resources":{}}`)
	case q.Method == "tools/list":
		a.kept(`"tools":[` + millTools + `]`)
	case q.Method == "prompts/list":
		a.kept(`"prompts":[{"name":"greet"}]`)
	case q.Method == "resources/list":
		a.kept(`"resources":[{"uri":"file:///a","name":"a"}]`)
	case q.Method == "resources/templates/list":
		a.kept(`"resourceTemplates":[]`)
	case q.Method == "prompts/get":
		a.plain(`"messages":[{"role":"user","content":{"type":"text","text":"hi"}}]`)
	case q.Method == "resources/read":
		a.plain(`"contents":[{"uri":"file:///a","text":"a"}]`)
	case q.Method == "tools/call":
		m.call(a, p.Name, p.Arguments, p.InputResponses, released)
	default:
		a.say(http.StatusNotFound, `"error":{"code":-32601,"message":"method not found"}`)
	}
}

func (m *mill) call(a *millAnswer, name string, arguments, responses json.RawMessage, released chan struct{}) {
	var args struct {
		SSE   bool `json:"sse"`
		Bytes int  `json:"bytes"`
	}
	_ = json.Unmarshal(arguments, &args) // others have other members
	a.sse = args.SSE
	const ok = `"content":[{"type":"text","text":"ok"}]`
	switch name {
	case "slow":
		select {
		case <-released:
		case <-a.r.Context().Done():
			return
		}
	case "fail":
		a.say(http.StatusOK, `"error":{"code":-32050,"message":"its own"}`)
		return
	case "cut":
		panic(http.ErrAbortHandler)
	case "junk":
		_, _ = io.WriteString(a.w, "junk")
		return
	case "broken":
		a.plain(`"isError":true,"content":[{"type":"text","text":"broken"}]`)
		return
	case "large":
		a.plain(`"content":[{"type":"text","text":"` + strings.Repeat("#", args.Bytes) + `"}]`)
		return
	case "ask":
		if !m.asked(a, responses) {
			return
		}
	}
	a.plain(ok)
}

const millQuestion = `{"message":"who?","requestedSchema":{"type":"object","properties":{"who":{"type":"string"}}}}`

// asked asks the client in the way of the era; false: there is nothing to be answered now.
func (m *mill) asked(a *millAnswer, responses json.RawMessage) bool {
	if !m.legacy {
		if responses != nil {
			return true
		}
		a.say(http.StatusOK, `"result":{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":`+
			strings.Replace(millQuestion, "{", `{"mode":"form",`, 1)+`}},"requestState":"st"}`)
		return false
	}
	m.mu.Lock()
	id := strconv.Quote("e" + strconv.Itoa(len(m.answers)))
	c := make(chan json.RawMessage, 1)
	m.answers[id] = c
	m.mu.Unlock()
	a.sse = true
	a.event(`{"jsonrpc":"2.0","id":` + id + `,"method":"elicitation/create","params":` + millQuestion + `}`)
	select {
	case <-c:
		return true
	case <-a.r.Context().Done():
	case <-time.After(30 * time.Second):
	}
	return false
}

// millAnswer is the answer to one request.
type millAnswer struct {
	m     *mill
	w     http.ResponseWriter
	r     *http.Request
	id    json.RawMessage
	sse   bool
	begun bool
}

// plain answers with members of a result.
func (a *millAnswer) plain(members string) {
	if !a.m.legacy {
		members = `"resultType":"complete",` + members
	}
	a.result("{" + members + "}")
}

// kept is plain for what may be cached.
func (a *millAnswer) kept(members string) {
	if !a.m.legacy {
		members += `,"ttlMs":600000,"cacheScope":"public"`
	}
	a.plain(members)
}

func (a *millAnswer) result(object string) { a.say(http.StatusOK, `"result":`+object) }

func (a *millAnswer) say(status int, member string) {
	message := `{"jsonrpc":"2.0","id":` + string(a.id) + `,` + member + `}`
	if a.sse {
		a.event(message)
		return
	}
	a.w.Header().Set("Content-Type", "application/json")
	a.w.WriteHeader(status)
	_, _ = io.WriteString(a.w, message)
}

func (a *millAnswer) event(message string) {
	if !a.begun {
		a.begun = true
		a.w.Header().Set("Content-Type", "text/event-stream")
	}
	_, _ = fmt.Fprintf(a.w, "event: message\ndata: %s\n\n", message)
	_ = http.NewResponseController(a.w).Flush()
}
