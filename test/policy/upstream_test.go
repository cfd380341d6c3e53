package policy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// upstream is an MCP server of either era that records what arrives, asks before
// it answers the tool ask, and tells of changes.
type upstream struct {
	*httptest.Server
	t      testing.TB
	name   string // of what it answers
	legacy bool
	caps   string // raw
	more   string // raw members of its description, such as instructions

	mu      sync.Mutex          // guards what follows
	lists   map[string][]string // raw items by kind
	seen    []received
	streams map[chan string]string // to the raw id of the subscription, "" for a GET
	replies map[string]chan string // to questions, by id
	asked   int
	closed  chan struct{}
}

// received is one request as it arrived. Target is what it is about: a name, a
// URI, or, of a subscription, all URIs.
type received struct{ method, target, params string }

func newUpstream(t testing.TB, name string, legacy bool) *upstream {
	u := &upstream{
		t: t, name: name, legacy: legacy, caps: upstreamCaps, lists: map[string][]string{}, streams: map[chan string]string{},
		replies: map[string]chan string{}, closed: make(chan struct{}),
	}
	u.Server = httptest.NewServer(u)
	t.Cleanup(func() {
		close(u.closed)
		u.CloseClientConnections()
		u.Close()
	})
	return u
}

func (u *upstream) endpoint() string { return u.URL + "/mcp" }

// list adds raw items of one kind.
func (u *upstream) list(kind string, raw ...string) *upstream {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.lists[kind] = append(u.lists[kind], raw...)
	return u
}

// tool adds tools without annotations.
func (u *upstream) tool(names ...string) *upstream {
	for _, n := range names {
		u.list("tools", `{"name":`+quote(n)+`,"inputSchema":{"type":"object"}}`)
	}
	return u
}

func (u *upstream) prompt(name string) *upstream {
	return u.list("prompts", `{"name":`+quote(name)+`,"arguments":[{"name":"env"}]}`)
}

func (u *upstream) resource(uri string) *upstream {
	return u.list("resources", `{"uri":`+quote(uri)+`,"name":"r"}`)
}

func (u *upstream) template(uri string) *upstream {
	return u.list("resourceTemplates", `{"uriTemplate":`+quote(uri)+`,"name":"t"}`)
}

var listKinds = map[string]string{
	"tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources", "resources/templates/list": "resourceTemplates",
}

const upstreamCaps = `{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"completions":{}}`

// ServeHTTP implements http.Handler.
func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return // the gateway hung up
	}
	if r.Method != http.MethodPost {
		u.notPost(w, r)
		return
	}
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		u.t.Errorf("the gateway sent malformed JSON: %v\n%s", err, raw)
		return
	}
	params := string(m.Params)
	u.note(m.Method, params)
	answer := func(member string) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, member)
	}
	result := func(members string) {
		if !u.legacy {
			members = with(members, `"resultType":"complete"`)
		}
		answer(`"result":{` + members + `}`)
	}
	if m.Method == "" { // an answer to a question
		u.mu.Lock()
		ch := u.replies[string(m.ID)]
		u.mu.Unlock()
		if ch != nil {
			ch <- string(raw)
		}
		w.WriteHeader(http.StatusAccepted)
		return
	}
	switch {
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	case m.Method == "server/discover" && !u.legacy:
		result(with(`"supportedVersions":["`+modernVersion+`"],"ttlMs":600000,"cacheScope":"public","capabilities":`+u.caps, u.more))
	case m.Method == "initialize" && u.legacy:
		w.Header().Set("Mcp-Session-Id", "s")
		result(with(`"protocolVersion":"2025-11-25","serverInfo":{"name":"peer","version":"1"},"capabilities":`+u.caps, u.more))
	case listKinds[m.Method] != "":
		kind := listKinds[m.Method]
		u.mu.Lock()
		items := strings.Join(u.lists[kind], ",")
		u.mu.Unlock()
		more := ""
		if !u.legacy {
			more = `"ttlMs":600000,"cacheScope":"public"`
		}
		result(with(`"`+kind+`":[`+items+`]`, more))
	case m.Method == "tools/call" && text(params, "name") == "ask":
		u.ask(w, r, string(m.ID), params)
	case m.Method == "tools/call":
		result(`"content":[{"type":"text","text":` + quote(u.name) + `}]`)
	case m.Method == "prompts/get":
		result(`"messages":[{"role":"user","content":{"type":"text","text":` + quote(u.name) + `}}]`)
	case m.Method == "resources/read":
		more := ""
		if !u.legacy {
			more = `"ttlMs":0,"cacheScope":"private"`
		}
		result(with(`"contents":[{"uri":`+at(params, "uri")+`,"text":`+quote(u.name)+`}]`, more))
	case m.Method == "completion/complete":
		result(`"completion":{"values":[` + quote(u.name) + `]}`)
	case m.Method == "resources/subscribe" && u.legacy, m.Method == "resources/unsubscribe" && u.legacy, m.Method == "ping":
		result("")
	case m.Method == "subscriptions/listen" && !u.legacy:
		u.stand(w, r, string(m.ID), `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":`+
			string(m.ID)+`},"notifications":`+at(params, "notifications")+`}}`)
	default:
		if !u.legacy {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
		}
		answer(`"error":{"code":-32601,"message":"method not found"}`)
	}
}

func (u *upstream) notPost(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodGet && u.legacy:
		u.stand(w, r, "", "")
	case r.Method == http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

// note records a request.
func (u *upstream) note(method, params string) {
	target := text(params, "name")
	for _, path := range [][]any{{"uri"}, {"ref", "name"}, {"ref", "uri"}} {
		if s := text(params, path...); s != "" {
			target = s
		}
	}
	if method == "subscriptions/listen" {
		target = at(params, "notifications", "resourceSubscriptions")
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.seen = append(u.seen, received{method, target, params})
}

// arrived counts what came about a target, by any method but lists.
func (u *upstream) arrived(target string) (n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, r := range u.seen {
		if r.target == target || r.method == "subscriptions/listen" && strings.Contains(r.target, quote(target)) {
			n++
		}
	}
	return n
}

// ask asks the user first: in a result of its own, or while the call runs.
func (u *upstream) ask(w http.ResponseWriter, r *http.Request, id, params string) {
	const question = `"method":"elicitation/create","params":{"mode":"form","message":"sure?","requestedSchema":{"type":"object","properties":{}}}`
	done := `{"jsonrpc":"2.0","id":` + id + `,"result":{"resultType":"complete","content":[{"type":"text","text":` + quote(u.name) + `}]}}`
	if !u.legacy {
		w.Header().Set("Content-Type", "application/json")
		if at(params, "inputResponses") == "" {
			done = `{"jsonrpc":"2.0","id":` + id + `,"result":{"resultType":"input_required","inputRequests":{"q":{` + strings.Replace(question, `"mode":"form",`, "", 1) + `}},"requestState":"mine"}}`
		}
		_, _ = io.WriteString(w, done)
		return
	}
	ch := make(chan string, 1)
	u.mu.Lock()
	u.asked++
	asked := fmt.Sprintf(`"q-%d"`, u.asked)
	u.replies[asked] = ch
	u.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	u.send(w, `{"jsonrpc":"2.0","id":`+asked+`,`+question+`}`)
	select {
	case <-ch:
		u.send(w, done)
	case <-r.Context().Done():
	case <-u.closed:
	}
}

func (u *upstream) send(w http.ResponseWriter, message string) {
	_, _ = io.WriteString(w, "event: message\ndata: "+message+"\n\n")
	_ = http.NewResponseController(w).Flush()
}

// stand keeps a stream open.
func (u *upstream) stand(w http.ResponseWriter, r *http.Request, id, first string) {
	in := make(chan string, 64)
	u.mu.Lock()
	u.streams[in] = id
	u.mu.Unlock()
	defer func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.streams, in)
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, ": open\n\n")
	_ = http.NewResponseController(w).Flush()
	if first != "" {
		u.send(w, first)
	}
	for {
		select {
		case m := <-in:
			u.send(w, m)
		case <-r.Context().Done():
			return
		case <-u.closed:
			return
		}
	}
}

// tell sends a notification on every stream. params are raw members.
func (u *upstream) tell(method, params string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for in, id := range u.streams {
		p := params
		if id != "" {
			p = with(p, `"_meta":{"io.modelcontextprotocol/subscriptionId":`+id+`}`)
		}
		in <- `{"jsonrpc":"2.0","method":` + quote(method) + `,"params":{` + p + `}}`
	}
}

// heard waits until the gateway listens, on one stream.
func (u *upstream) heard(t testing.TB) {
	t.Helper()
	eventually(t, "the gateway listens to "+u.name, func() bool {
		u.mu.Lock()
		defer u.mu.Unlock()
		return len(u.streams) == 1
	})
}

func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it did not happen that %s", what)
		}
	}
}

// replied are the answers that came to questions.
func (u *upstream) replied() (out []received) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, r := range u.seen {
		if r.method == "" {
			out = append(out, r)
		}
	}
	return out
}
