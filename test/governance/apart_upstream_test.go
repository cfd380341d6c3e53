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

// The credential that every principal's requests reach the upstreams of the interleavings with.
const sharedBearer = "Bearer shared"

const legacyVersion = "2025-11-25"

// keeper is an MCP server of the interleavings. What it says carries a marker: one that keeps sessions (legacy) has one
// for each, made at initialize; the modern one has a new one for each answer. What it knows of calls it knows by their
// nonce, which is the argument n.
type keeper struct {
	*httptest.Server
	legacy bool
	greets string                            // instructions for the caller's name, with the scope of the answer; "": none
	admits func(authorization []string) bool // nil: it takes what comes

	mu       sync.Mutex // guards what follows
	seen     []arrival
	minted   int
	sessions map[string]*kept         // by id; legacy
	running  map[string]string        // by session and raw id: the nonce of a call
	holds    map[string]chan struct{} // by nonce: closed when the call may end
	asked    map[string]*question     // by raw id
	states   map[string]string        // nonce by state; modern
	ended    map[string]bool          // by nonce: calls that the gateway gave up
	feeds    map[*feedOf]bool
	wrong    []string
	fetches  int // of the public list
}

// arrival is one request as it came.
type arrival struct {
	Verb, Method, Session string
	Authorization         []string
	Body                  string
	Refused               bool
}

// kept is a session.
type kept struct {
	id, marker string
	deleted    bool
}

// question is one that a call asked.
type question struct {
	session string
	answer  chan string
}

// feedOf is a stream on which changes are told.
type feedOf struct {
	session string // legacy
	tag     string // raw; modern
	uris    map[string]bool
	lines   chan string
}

func newKeeper(t testing.TB, legacy bool) *keeper {
	u := &keeper{
		legacy: legacy, sessions: map[string]*kept{}, running: map[string]string{}, holds: map[string]chan struct{}{},
		asked: map[string]*question{}, states: map[string]string{}, ended: map[string]bool{}, feeds: map[*feedOf]bool{},
	}
	u.Server = httptest.NewServer(u)
	t.Cleanup(func() {
		u.CloseClientConnections()
		u.Close()
	})
	return u
}

func (u *keeper) blame(format string, a ...any) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.wrong = append(u.wrong, fmt.Sprintf(format, a...))
}

// mint makes a marker of a class: L of a legacy session, M of a modern answer, P and S of what may be shared.
func (u *keeper) mint(class byte) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.minted++
	return fmt.Sprintf("mark-%c%06d-", class, u.minted)
}

// uri is the resource that everybody may subscribe to.
func (u *keeper) uri() string {
	if u.legacy {
		return "x:/shared"
	}
	return "y:/shared"
}

// heard is one request as it arrived.
type heard struct {
	w      http.ResponseWriter
	r      *http.Request
	u      *keeper
	id     string // raw; "": a notification
	method string
	params struct {
		Name        string            `json:"name"`
		URI         string            `json:"uri"`
		RequestID   json.RawMessage   `json:"requestId"`
		State       string            `json:"requestState"`
		Arguments   map[string]string `json:"arguments"`
		Responses   json.RawMessage   `json:"inputResponses"`
		Cursor      string            `json:"cursor"`
		Notifcation json.RawMessage   `json:"notifications"`
		Meta        struct {
			Token json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	}
	session *kept
	begun   bool
}

// ServeHTTP implements http.Handler.
func (u *keeper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return // the gateway hung up
	}
	x := &heard{w: w, r: r, u: u}
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
		Result json.RawMessage `json:"result"`
	}
	if r.Method == http.MethodPost {
		if err := json.Unmarshal(raw, &m); err != nil {
			u.blame("malformed: %s", raw)
			return
		}
		_ = json.Unmarshal(m.Params, &x.params) // what has another shape is not looked at
	}
	x.id, x.method = string(m.ID), m.Method
	if u.refuses(r, x.method, raw) {
		w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if u.legacy && x.method != "initialize" && x.method != "server/discover" {
		u.mu.Lock()
		x.session = u.sessions[r.Header.Get("Mcp-Session-Id")]
		gone := x.session == nil || x.session.deleted
		u.mu.Unlock()
		if gone {
			w.WriteHeader(http.StatusNotFound)
			return
		}
	}
	switch {
	case r.Method == http.MethodGet && u.legacy:
		x.feed(&feedOf{session: x.session.id, uris: map[string]bool{}, lines: make(chan string, 64)})
	case r.Method == http.MethodDelete && u.legacy:
		u.mu.Lock()
		x.session.deleted = true
		var calls []string
		for call := range u.running {
			if strings.HasPrefix(call, x.session.id+" ") {
				calls = append(calls, call)
			}
		}
		u.mu.Unlock()
		for _, call := range calls {
			u.give(call) // a session takes its calls along
		}
		w.WriteHeader(http.StatusNoContent)
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case x.method == "" && m.Result != nil:
		x.answered(m.Result)
		w.WriteHeader(http.StatusAccepted)
	case x.id == "":
		if x.method == "notifications/cancelled" {
			u.give(x.session.id + " " + string(x.params.RequestID))
		}
		w.WriteHeader(http.StatusAccepted)
	default:
		x.serve()
	}
}

// refuses notes a request and tells whether its credential is not taken.
func (u *keeper) refuses(r *http.Request, method string, body []byte) bool {
	a := arrival{
		Verb: r.Method, Method: method, Session: r.Header.Get("Mcp-Session-Id"),
		Authorization: slices.Clone(r.Header.Values("Authorization")), Body: string(body),
	}
	a.Refused = u.admits != nil && !u.admits(a.Authorization)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.seen = append(u.seen, a)
	return a.Refused
}

// arrivals is what came, in order.
func (u *keeper) arrivals() []arrival {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.seen)
}

// give notes that a call was given up, and ends it.
func (u *keeper) give(call string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if nonce := u.running[call]; nonce != "" {
		delete(u.running, call)
		u.ended[nonce] = true
		if hold := u.holds[nonce]; hold != nil {
			close(hold)
			delete(u.holds, nonce)
		}
	}
}

// answered takes the answer to a question of a legacy call, which comes in the session of that call.
func (x *heard) answered(result []byte) {
	u := x.u
	u.mu.Lock()
	q := u.asked[x.id]
	delete(u.asked, x.id)
	u.mu.Unlock()
	switch {
	case q == nil:
		u.blame("an answer to nothing: %s %s", x.id, result)
	case q.session != x.session.id:
		u.blame("the question %s of session %s was answered in %s", x.id, q.session, x.session.id)
	default:
		q.answer <- string(result)
	}
}

// marker is that of the session, or a new one.
func (x *heard) marker() string {
	if x.session != nil {
		return x.session.marker
	}
	return x.u.mint('M')
}

func (x *heard) serve() {
	u := x.u
	hello := ""
	if u.greets != "" {
		who, _ := holder(x.r.Header.Values("Authorization"))
		hello = fmt.Sprintf(`,"instructions":"written for %s","ttlMs":60000,"cacheScope":%q`, who, u.greets)
	}
	switch x.method {
	case "server/discover":
		if u.legacy {
			x.body(http.StatusNotFound, `"error":{"code":-32601,"message":"method not found"}`)
			return
		}
		x.result(`"supportedVersions":["` + modernVersion + `"],"capabilities":{"tools":{"listChanged":true},"prompts":{},"resources":{"subscribe":true,"listChanged":true},"completions":{},"logging":{}}` + hello)
	case "initialize":
		s := &kept{marker: u.mint('L')}
		u.mu.Lock()
		s.id = fmt.Sprintf("session-%d", u.minted)
		u.sessions[s.id] = s
		u.mu.Unlock()
		x.w.Header().Set("Mcp-Session-Id", s.id)
		x.result(`"protocolVersion":"` + legacyVersion + `","serverInfo":{"name":"k","version":"1"},"capabilities":{"tools":{"listChanged":true},"prompts":{},"resources":{"subscribe":true,"listChanged":true},"completions":{},"logging":{}}` + hello)
	case "tools/list":
		x.list("tools", `{"name":%q,"description":%q,"inputSchema":{"type":"object"}}`, x.marker(), "echo", "steps", "ask", "hold", "change")
	case "prompts/list":
		if u.legacy {
			x.list("prompts", `{"name":%q,"description":%q}`, x.marker(), "plain")
			return
		}
		u.mu.Lock()
		u.fetches++
		u.mu.Unlock()
		x.result(`"prompts":[{"name":"public","description":"` + u.mint('P') + `"}],"ttlMs":600000,"cacheScope":"public"`)
	case "resources/list":
		x.list("resources", `{"uri":%q,"name":%q}`, x.marker(), u.uri())
	case "resources/templates/list":
		x.result(`"resourceTemplates":[]`)
	case "resources/read":
		if m := x.marker(); x.params.URI == u.uri() || strings.HasSuffix(x.params.URI, m) {
			x.result(fmt.Sprintf(`"contents":[{"uri":%q,"text":%q}]`, x.params.URI, m))
			return
		}
		code := -32602
		if u.legacy {
			code = -32002
		}
		x.body(http.StatusOK, fmt.Sprintf(`"error":{"code":%d,"message":"no such resource"}`, code))
	case "prompts/get":
		x.result(fmt.Sprintf(`"messages":[{"role":"user","content":{"type":"text","text":%q}}]`, x.marker()))
	case "resources/subscribe":
		u.mu.Lock()
		for f := range u.feeds {
			if f.session == x.session.id {
				f.uris[x.params.URI] = true
			}
		}
		u.mu.Unlock()
		x.result("")
	case "subscriptions/listen":
		var n struct {
			URIs []string `json:"resourceSubscriptions"`
		}
		_ = json.Unmarshal(x.params.Notifcation, &n)
		f := &feedOf{tag: x.id, uris: map[string]bool{}, lines: make(chan string, 64)}
		for _, uri := range n.URIs {
			f.uris[uri] = true
		}
		f.lines <- `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + x.id + `},"notifications":` + string(x.params.Notifcation) + `}}`
		x.feed(f)
	case "tools/call":
		x.call()
	default: // ping, logging/setLevel, resources/unsubscribe
		x.result("")
	}
}

// list answers a list of items that everybody has, and of one that nobody else has.
func (x *heard) list(kind, item, marker string, common ...string) {
	only := "only_" + marker
	if kind == "resources" {
		only = strings.TrimSuffix(x.u.uri(), "shared") + "of/" + marker
	}
	var items []string
	for _, name := range append(common, only) {
		items = append(items, fmt.Sprintf(item, name, "of "+marker))
	}
	more := ""
	if !x.u.legacy {
		more = `,"ttlMs":600000,"cacheScope":"private"`
	}
	x.result(`"` + kind + `":[` + strings.Join(items, ",") + `]` + more)
}

// call serves a tool. Its argument n comes back wherever it can.
func (x *heard) call() {
	u, nonce, marker := x.u, x.params.Arguments["n"], x.marker()
	call := ""
	if x.session != nil {
		call = x.session.id + " " + x.id
		u.mu.Lock()
		u.running[call] = nonce
		u.mu.Unlock()
	}
	done := func(said string) {
		x.result(fmt.Sprintf(`"content":[{"type":"text","text":%q}]`, said+" "+marker+" "+nonce))
	}
	switch x.params.Name {
	case "echo":
		done("echo")
	case "steps":
		x.progress(marker + " " + nonce)
		x.event(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","data":"` + marker + " " + nonce + `"}}`)
		// Nobody subscribed in this session; some servers tell all the same.
		x.event(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"` + u.uri() + `/` + marker + `","title":"` + marker + `"}}`)
		x.event(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"` + u.uri() + `","title":"` + marker + " " + nonce + `"}}`)
		done("steps")
	case "change":
		x.event(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		done("changed")
	case "hold":
		hold := make(chan struct{})
		u.mu.Lock()
		u.holds[nonce] = hold
		u.mu.Unlock()
		x.progress(marker + " " + nonce)
		select {
		case <-hold:
			done("held")
		case <-x.r.Context().Done():
			if call == "" { // so a modern one is cancelled
				u.mu.Lock()
				u.ended[nonce] = true
				u.mu.Unlock()
			}
		}
	case "ask":
		message := fmt.Sprintf(`{"message":%q,"requestedSchema":{"type":"object","properties":{"a":{"type":"string"}}}}`, marker+" "+nonce)
		if !u.legacy {
			x.askModern(marker, nonce, message, done)
			return
		}
		q := &question{session: x.session.id, answer: make(chan string, 1)}
		u.mu.Lock()
		u.minted++
		id := fmt.Sprintf(`"q-%d"`, u.minted)
		u.asked[id] = q
		u.mu.Unlock()
		x.event(`{"jsonrpc":"2.0","id":` + id + `,"method":"elicitation/create","params":` + message + `}`)
		select {
		case answer := <-q.answer:
			done("asked " + answer)
		case <-x.r.Context().Done():
		}
	default:
		x.body(http.StatusOK, `"error":{"code":-32602,"message":"no such tool"}`)
	}
}

// askModern asks, or takes the answer with the state that it gave.
func (x *heard) askModern(marker, nonce, message string, done func(string)) {
	u := x.u
	if x.params.State == "" {
		state := "state " + marker
		u.mu.Lock()
		u.states[state] = nonce
		u.mu.Unlock()
		x.body(http.StatusOK, fmt.Sprintf(`"result":{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":%s}},"requestState":%q}`, message, state))
		return
	}
	u.mu.Lock()
	of, known := u.states[x.params.State]
	u.mu.Unlock()
	if !known || of != nonce {
		u.blame("the state %q of %s came with %s", x.params.State, of, nonce)
	}
	done("asked " + string(x.params.Responses))
}

func (x *heard) body(status int, member string) {
	message := `{"jsonrpc":"2.0","id":` + x.id + `,` + member + `}`
	if x.begun {
		x.event(message)
		return
	}
	x.w.Header().Set("Content-Type", "application/json")
	x.w.WriteHeader(status)
	_, _ = io.WriteString(x.w, message)
}

// result answers with the members of a result.
func (x *heard) result(members string) {
	if !x.u.legacy {
		if members != "" {
			members = "," + members
		}
		members = `"resultType":"complete"` + members
	}
	x.body(http.StatusOK, `"result":{`+members+`}`)
}

func (x *heard) event(message string) {
	if !x.begun {
		x.begun = true
		x.w.Header().Set("Content-Type", "text/event-stream")
		x.w.WriteHeader(http.StatusOK)
	}
	_, _ = io.WriteString(x.w, "event: message\ndata: "+message+"\n\n")
	_ = http.NewResponseController(x.w).Flush()
}

func (x *heard) progress(text string) {
	if token := x.params.Meta.Token; token != nil {
		x.event(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + string(token) + `,"progress":1,"message":"` + text + `"}}`)
	}
}

// feed serves a stream of changes until the gateway closes it.
func (x *heard) feed(f *feedOf) {
	u := x.u
	u.mu.Lock()
	u.feeds[f] = true
	u.mu.Unlock()
	defer func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.feeds, f)
	}()
	x.begun = true
	x.w.Header().Set("Content-Type", "text/event-stream")
	x.w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(x.w).Flush()
	for {
		select {
		case line := <-f.lines:
			x.event(line)
		case <-x.r.Context().Done():
			return
		}
	}
}

// touch tells that the shared resource has changed, or that the tools have. What is told is nobody's.
func (u *keeper) touch(tools bool) {
	text := u.mint('S')
	u.mu.Lock()
	defer u.mu.Unlock()
	for f := range u.feeds {
		meta := ""
		if f.tag != "" {
			meta = `"_meta":{"io.modelcontextprotocol/subscriptionId":` + f.tag + `}`
		}
		message := `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{` + meta + `}}`
		if !tools {
			if !f.uris[u.uri()] {
				continue
			}
			if meta != "" {
				meta = "," + meta
			}
			message = `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"` + u.uri() + `","title":"` + text + `"` + meta + `}}`
		}
		select {
		case f.lines <- message:
		default: // one missed is no fault of this test
		}
	}
}

// release lets a call end that is held.
func (u *keeper) release(nonce string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if hold := u.holds[nonce]; hold != nil {
		close(hold)
		delete(u.holds, nonce)
	}
}

// gaveUp tells whether the gateway ended a call early.
func (u *keeper) gaveUp(nonce string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.ended[nonce]
}

// faults takes what was wrong so far.
func (u *keeper) faults() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	out := u.wrong
	u.wrong = nil
	return out
}
