package governance_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// apartWait is how long the interleavings wait for what must come.
const apartWait = 20 * time.Second

var markers = regexp.MustCompile(`mark-[LMNPS]\d{6}-`)

// ears notes who heard which marker. N marks what a principal sent itself.
type ears struct {
	mu    sync.Mutex                   // guards what follows
	by    map[string]map[string]string // principal to where, by marker
	leaks []string
}

// hear looks for markers in what a principal was sent.
func (e *ears) hear(who, where, text string) {
	found := markers.FindAllString(text, -1)
	if len(found) == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, m := range found {
		if c := m[len("mark-")]; c == 'P' || c == 'S' {
			continue
		}
		if e.by[m] == nil {
			e.by[m] = map[string]string{}
		}
		if _, known := e.by[m][who]; known {
			continue
		}
		for other, first := range e.by[m] {
			e.leaks = append(e.leaks, fmt.Sprintf("%s got %s in %s; %s had it in %s: %.300s", who, m, where, other, first, text))
		}
		e.by[m][who] = where
	}
}

// own notes that a marker is a principal's.
func (e *ears) own(who, marker string) { e.hear(who, "its own request", marker) }

// take returns what reached somebody whose it was not, since the last time.
func (e *ears) take() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := e.leaks
	e.leaks = nil
	return out
}

// party is one principal, with two keys, at one or more gateways.
type party struct {
	name string
	keys [2]string
	ears *ears
	http *http.Client
	urls []string

	sessions  []*northern
	cursors   []cursorOf
	states    []*openState
	questions []*openQuestion
	holds     []*heldCall
	eventIDs  []string
	private   []string // markers in its lists of the legacy upstream
	listens   []*live
}

// northern is a session of a legacy client.
type northern struct {
	id, version string
	at          int // the gateway where it was opened
	marker      string
	ids         int
	standing    *live
	subscribed  map[string]bool
}

type cursorOf struct{ method, cursor string }

// openState is a call of a modern client that waits for an answer.
type openState struct {
	tool, nonce, key, state string
	at                      int
}

// openQuestion is a call of a legacy client that waits for an answer.
type openQuestion struct {
	session *northern
	call    *live
	id      string // raw
	nonce   string
}

// heldCall is a call that its upstream holds.
type heldCall struct {
	session *northern // nil: of a modern client
	call    *live
	id      string // raw
	nonce   string
	at      *keeper
}

// said is an answer as it came.
type said struct {
	Status int
	Header http.Header
	Body   string
}

func (s *said) String() string { return fmt.Sprintf("HTTP %d %v %.600s", s.Status, s.Header, s.Body) }

// message is the JSON-RPC answer: the body, or the last event of it.
func (s *said) message() string {
	out := s.Body
	if strings.HasPrefix(s.Header.Get("Content-Type"), "text/event-stream") {
		for line := range strings.Lines(s.Body) {
			if data, is := strings.CutPrefix(line, "data:"); is && strings.TrimSpace(data) != "" {
				out = strings.TrimSpace(data)
			}
		}
	}
	return out
}

// request is what a party sends. The text known is one that it knows from elsewhere, which is replaced in the answer by
// "ID" before anybody looks.
type request struct {
	at, key           int
	verb, body, known string
	header            []string // pairs
}

func (p *party) new(ctx context.Context, q *request) (*http.Request, error) {
	var body io.Reader
	if q.body != "" {
		body = strings.NewReader(q.body)
	}
	r, err := http.NewRequestWithContext(ctx, q.verb, p.urls[q.at%len(p.urls)], body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", bearer(p.keys[q.key]))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if q.verb == http.MethodGet {
		r.Header.Set("Accept", "text/event-stream")
	}
	for i := 0; i+1 < len(q.header); i += 2 {
		r.Header.Set(q.header[i], q.header[i+1])
	}
	return r, nil
}

// send sends a request and reads the whole answer.
func (p *party) send(q *request) (*said, error) {
	ctx, cancel := context.WithTimeout(context.Background(), apartWait)
	defer cancel()
	r, err := p.new(ctx, q)
	if err != nil {
		return nil, err
	}
	resp, err := p.http.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	out := &said{Status: resp.StatusCode, Header: resp.Header, Body: string(raw)}
	if q.known != "" {
		out.Body = strings.ReplaceAll(out.Body, q.known, "ID")
	}
	p.ears.hear(p.name, q.verb+" "+q.body, fmt.Sprint(out.Header)+out.Body)
	return out, nil
}

// live is an event stream that is being read.
type live struct {
	Status int
	events chan string // data of each; closed at its end
	close  context.CancelFunc
	done   chan struct{} // closed at its end

	mu   sync.Mutex // guards last
	last string     // id of the last event
}

// open sends a request whose answer is an event stream.
func (p *party) open(q *request) (*live, error) {
	ctx, cancel := context.WithCancel(context.Background())
	r, err := p.new(ctx, q)
	if err != nil {
		cancel()
		return nil, err
	}
	resp, err := p.http.Do(r)
	if err != nil {
		cancel()
		return nil, err
	}
	l := &live{Status: resp.StatusCode, events: make(chan string, 1000), close: cancel, done: make(chan struct{})}
	go func() {
		defer close(l.done)
		defer close(l.events)
		defer cancel()
		defer resp.Body.Close()
		in := bufio.NewScanner(resp.Body)
		in.Buffer(nil, 1<<20)
		for in.Scan() {
			line := in.Text()
			p.ears.hear(p.name, "the stream of "+q.verb+" "+q.body, line)
			name, value, _ := strings.Cut(line, ":")
			value = strings.TrimPrefix(value, " ")
			switch {
			case name == "id":
				l.mu.Lock()
				l.last = value
				l.mu.Unlock()
			case name == "data" && value != "", strings.HasPrefix(line, "{"):
				if name != "data" {
					value = line // an answer in JSON
				}
				select {
				case l.events <- value:
				default: // nobody waits for so many
				}
			}
		}
	}()
	return l, nil
}

// next waits for an event that holds all of the texts.
func (l *live) next(texts ...string) (string, error) {
	over := time.NewTimer(apartWait)
	defer over.Stop()
	var had []string
	for {
		select {
		case e, more := <-l.events:
			if more && holdsAll(e, texts) {
				return e, nil
			}
			if had = append(had, e); !more {
				return "", fmt.Errorf("the stream ended (HTTP %d) without %q: %.300q", l.Status, texts, had)
			}
		case <-over.C:
			return "", fmt.Errorf("within %s no event had %q: %.300q", apartWait, texts, had)
		}
	}
}

func holdsAll(s string, texts []string) bool {
	return !slices.ContainsFunc(texts, func(t string) bool { return !strings.Contains(s, t) })
}

// end closes a stream and waits until it is read.
func (l *live) end() {
	l.close()
	<-l.done
}

func (l *live) lastID() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// asking is the metadata of a modern client that can be asked, and wants to hear everything.
const asking = `"io.modelcontextprotocol/protocolVersion":"` + modernVersion + `","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}},"io.modelcontextprotocol/logLevel":"debug","progressToken":"tok"`

// modern is a request of a modern client; params are raw members.
func modern(at, key int, method, name, params string) *request {
	if params != "" {
		params += ","
	}
	q := &request{
		at: at, key: key, verb: http.MethodPost,
		body:   `{"jsonrpc":"2.0","id":"` + method + `","method":"` + method + `","params":{` + params + `"_meta":{` + asking + `}}}`,
		header: []string{"MCP-Protocol-Version", modernVersion, "Mcp-Method", method},
	}
	if name != "" {
		q.header = append(q.header, "Mcp-Name", name)
	}
	return q
}

// in is a message within a session.
func (s *northern) in(at, key int, body string) *request {
	q := &request{at: at, key: key, verb: http.MethodPost, body: body, header: []string{"Mcp-Session-Id", s.id}}
	if s.version != "2025-03-26" {
		q.header = append(q.header, "MCP-Protocol-Version", s.version)
	}
	return q
}

// call is a request within a session, and its raw id.
func (s *northern) call(at, key int, method, params string) (q *request, id string) {
	s.ids++
	id = fmt.Sprint(s.ids)
	return s.in(at, key, `{"jsonrpc":"2.0","id":`+id+`,"method":"`+method+`","params":{`+params+`}}`), id
}

// with is the same request under another verb.
func (q request) with(verb string, header ...string) *request {
	q.verb, q.body = verb, ""
	q.header = append(slices.Clone(q.header), header...)
	return &q
}

// other is a text of the same form that nobody was ever given.
func other(id string) string {
	b := []byte(id)
	for i := len(b) / 2; i < len(b); i++ {
		switch c := b[i]; {
		case c >= 'A' && c < 'Z', c >= 'a' && c < 'z', c >= '2' && c < '7':
			b[i]++
			return string(b)
		}
	}
	panic("no other form of " + id)
}

// member reads a member of a JSON message by its path.
func member(message string, path ...string) string {
	raw := json.RawMessage(message)
	for _, name := range path {
		var m map[string]json.RawMessage
		if json.Unmarshal(raw, &m) != nil {
			return ""
		}
		raw = m[name]
	}
	return string(raw)
}

// textAt is member for a string, decoded.
func textAt(message string, path ...string) string {
	var s string
	_ = json.Unmarshal([]byte(member(message, path...)), &s)
	return s
}
