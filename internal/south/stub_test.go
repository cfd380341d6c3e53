package south

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/goleak"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// message is one HTTP request as it reached a stub.
type arrived struct {
	verb, method, id string
	header           http.Header
	body             string
}

func (a arrived) String() string { return strings.TrimSpace(a.verb + " " + a.method) }

// stub is an upstream under the test's control. Its fields are set before it is
// used, but for what mu guards.
type stub struct {
	legacy   bool
	revision string // of initialize; "": 2025-11-25
	caps     string // "": {"tools":{}}
	// on answers instead of the stub itself, when it returns true.
	on func(w http.ResponseWriter, r *http.Request, a arrived) bool

	url string
	srv *httptest.Server

	mu       sync.Mutex // guards what follows
	seen     []arrived
	made     int
	sessions map[string]bool
}

func (s *stub) start(t *testing.T) *stub {
	t.Helper()
	s.sessions = map[string]bool{}
	s.srv = httptest.NewServer(s)
	s.url = s.srv.URL + "/mcp"
	t.Cleanup(s.stop)
	return s
}

func (s *stub) stop() {
	s.srv.CloseClientConnections()
	s.srv.Close()
}

// got returns what arrived of a method, or of every method for "".
func (s *stub) got(method string) (out []arrived) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.seen {
		if method == "" || a.method == method || a.verb == method {
			out = append(out, a)
		}
	}
	return out
}

// log is what arrived, one line each.
func (s *stub) log() (out []string) {
	for _, a := range s.got("") {
		out = append(out, a.String())
	}
	return out
}

// amnesia forgets every session.
func (s *stub) amnesia() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions = map[string]bool{}
}

func (s *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	a := arrived{verb: r.Method, header: r.Header, body: string(body)}
	if len(body) > 0 {
		var m struct {
			ID     jsontext.Value `json:"id"`
			Method string         `json:"method"`
		}
		if err := json.Unmarshal(body, &m); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		a.id, a.method = string(m.ID), m.Method
	}
	s.mu.Lock()
	s.seen = append(s.seen, a)
	s.mu.Unlock()
	if s.on != nil && s.on(w, r, a) {
		return
	}
	s.answer(w, r, a)
}

func (s *stub) answer(w http.ResponseWriter, r *http.Request, a arrived) {
	caps := s.caps
	if caps == "" {
		caps = `{"tools":{}}`
	}
	id := r.Header.Get("Mcp-Session-Id")
	s.mu.Lock()
	known := s.sessions[id]
	s.mu.Unlock()
	switch {
	case !s.legacy && a.method == "server/discover":
		result(w, a.id, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":`+caps+`,"instructions":"hi","ttlMs":0,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"stub","version":"1"}}}`)
	case !s.legacy:
		result(w, a.id, `{"resultType":"complete","content":[]}`)
	case a.method == "server/discover":
		plainJSON(w, 200, `{"jsonrpc":"2.0","id":`+a.id+`,"error":{"code":-32601,"message":"unknown method"}}`)
	case a.method == "initialize":
		s.mu.Lock()
		s.made++
		id := fmt.Sprintf("s%d", s.made)
		s.sessions[id] = true
		s.mu.Unlock()
		w.Header().Set("Mcp-Session-Id", id)
		revision := s.revision
		if revision == "" {
			revision = "2025-11-25"
		}
		result(w, a.id, `{"protocolVersion":"`+revision+`","capabilities":`+caps+`,"serverInfo":{"name":"stub","version":"1"},"instructions":"hi"}`)
	case !known:
		plainJSON(w, http.StatusNotFound, `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"gone"}}`)
	case a.verb == http.MethodDelete:
		s.mu.Lock()
		delete(s.sessions, id)
		s.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
	case a.verb != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case a.id == "" || a.method == "":
		w.WriteHeader(http.StatusAccepted)
	default:
		result(w, a.id, `{"content":[]}`)
	}
}

func result(w http.ResponseWriter, id, result string) {
	plainJSON(w, 200, `{"jsonrpc":"2.0","id":`+id+`,"result":`+result+`}`)
}

func plainJSON(w http.ResponseWriter, status int, body string) {
	say(w, status, "application/json", body)
}

func say(w http.ResponseWriter, status int, kind, body string) {
	if kind != "" {
		w.Header().Set("Content-Type", kind)
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// stream begins an event stream and returns how to write to it.
func stream(w http.ResponseWriter) (write func(string)) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(200)
	rc := http.NewResponseController(w)
	_ = rc.Flush()
	return func(s string) {
		_, _ = io.WriteString(w, s)
		_ = rc.Flush()
	}
}

// dial returns an Upstream for a URL; it is closed with the test.
func reach(t *testing.T, address string, change ...func(*Options)) *Upstream {
	t.Helper()
	at, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Key: "up", URL: at, Timeout: 10 * time.Second, ProbeTimeout: 5 * time.Second, Failures: 5, OpenFor: time.Minute,
		ResponseBytes: 64 << 20, IdleSession: time.Hour, ClientInfo: []byte(`{"name":"gw","version":"1"}`), Log: slog.New(slog.DiscardHandler),
	}
	for _, f := range change {
		f(&o)
	}
	u := New(o)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		u.Close(ctx)
	})
	return u
}

func link(t *testing.T, u *Upstream, key SessionKey) *Link {
	t.Helper()
	l, err := u.Link(t.Context(), key)
	if err != nil {
		t.Fatalf("link: %v", err)
	}
	return l
}

// toolsCall is a request of that link.
func toolsCall(l *Link) *Request {
	id := l.NextID(nil)
	return &Request{
		Method: "tools/call", Name: "a", ID: id,
		Body: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"a"}}`, id),
	}
}

// send sends a request and returns its whole answer.
func send(t *testing.T, l *Link, r *Request) (string, error) {
	t.Helper()
	a, err := l.Send(t.Context(), r)
	if err != nil {
		return "", err
	}
	defer a.Close()
	if a.Rest == nil {
		return string(a.Whole), nil
	}
	rest, err := io.ReadAll(a.Rest)
	if err != nil {
		return "", a.Fault(err)
	}
	return string(a.Head) + string(rest), nil
}

// codeOf is the code that a client would see; 0 for no error.
func codeOf(err error) int {
	if err == nil {
		return 0
	}
	return int(fault.From(err).Code)
}

func wantCode(t *testing.T, err error, code fault.Code) {
	t.Helper()
	if codeOf(err) != int(code) {
		t.Errorf("error %v; want code %d", err, code)
	}
}

// settle waits for a condition that another goroutine brings about.
func settle(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(6 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 6 s: %s", what)
		}
	}
}

// leakless fails the test when it leaves goroutines behind. It is called first.
func leakless(t *testing.T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}

// drop cuts the connection under a handler.
func drop() { panic(http.ErrAbortHandler) }

var ignoreEvents = func(*wire.Answer) error { return nil }

func itoa(n int) string { return fmt.Sprint(n) }

// logTo has an upstream log into a buffer.
func logTo(b *logBuffer) func(*Options) {
	return func(o *Options) { o.Log = slog.New(slog.NewTextHandler(b, nil)) }
}
