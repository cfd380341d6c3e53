package governance_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock"
	"github.com/penstock-mcp/penstock/config"
)

// More codes of refusals (docs/errors.md).
const (
	policyDenied     = -31004
	rateLimited      = -31005
	atCapacity       = -31009
	hookRefused      = -31017
	hookFailed       = -31018
	auditUnavailable = -31020
	identityAway     = -31021
)

// house is a gateway of a document that a test may look at from everywhere.
type house struct {
	t      testing.TB
	gw     *penstock.Gateway
	front  *httptest.Server
	http   *http.Client
	log    *logBuffer
	ending sync.Once
	end    func()
}

// parsed is a document that is accepted.
func parsed(t testing.TB, doc string) *config.Document {
	t.Helper()
	d, err := config.Parse("test.yaml", []byte(doc), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatalf("configuration: %v\n%s", err, doc)
	}
	return d
}

// build runs a gateway until the test ends, or close is called.
func build(t testing.TB, doc string, more ...penstock.Option) *house {
	t.Helper()
	h := &house{t: t, log: &logBuffer{}}
	logger := slog.New(slog.NewTextHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var err error
	if h.gw, err = penstock.New(parsed(t, doc), append(more, penstock.WithLogger(logger))...); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = h.gw.Run(ctx) })
	h.front = httptest.NewServer(h.gw.Handler())
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}
	h.http = &http.Client{Transport: transport, Timeout: 60 * time.Second}
	h.end = func() {
		transport.CloseIdleConnections()
		h.front.CloseClientConnections()
		h.front.Close()
		end, stop := context.WithTimeout(context.Background(), 10*time.Second)
		defer stop()
		cancel()
		_ = h.gw.Close(end)
		wg.Wait()
	}
	t.Cleanup(func() {
		h.close()
		if t.Failed() {
			t.Logf("the gateway's log:\n%s", h.log.tail(30))
		}
	})
	return h
}

// close ends the gateway; its audit record is whole then.
func (h *house) close() { h.ending.Do(h.end) }

func (h *house) reload(doc string) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := h.gw.Reload(ctx, parsed(h.t, doc)); err != nil {
		h.t.Fatalf("reload: %v", err)
	}
}

// known waits until a call of echo is served: the upstream is found.
func (h *house) known(key string) {
	h.t.Helper()
	wait(h.t, "the upstream", 30*time.Second, func() bool { return h.do(&query{Key: key, Params: echo("known")}).served() })
}

// together runs subtests at the same time, as they mostly wait, whatever the number of processors. ended waits for them.
func together() (run func(t *testing.T, name string, f func(t *testing.T)), ended func()) {
	var all sync.WaitGroup
	return func(t *testing.T, name string, f func(t *testing.T)) {
		all.Go(func() { t.Run(name, f) })
	}, all.Wait
}

// reporter is what a test, and a property of one, is told of.
type reporter interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Fatal(args ...any)
}

// wait waits until something is so.
func wait(t reporter, what string, most time.Duration, is func() bool) {
	t.Helper()
	for end := time.Now().Add(most); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %s", what, most)
		}
	}
}

// query is one request. The zero value calls a tool, as a modern client.
type query struct {
	Verb    string // "": POST
	Path    string // "": /mcp
	Method  string // "": tools/call
	Params  string // members of params
	ID      string // raw; "": 1
	Session string // of a legacy client
	Legacy  bool   // without a session
	Key     string // shown as bearer
	Caps    string // "": {}
	Meta    string // more members of _meta, with a comma before them
	Body    string // instead of all that
	Header  map[string]string
	Accept  string // "": both
	Context context.Context
}

// reaction is what came of it.
type reaction struct {
	Status  int
	Header  http.Header
	Body    string
	Events  []string // messages of a stream before the answer
	Message string   // the answer
	Code    int
	Said    string // the error's message
	Result  json.RawMessage
	Text    string // of the first content
	IsError bool
	Type    string // resultType
	Err     error
}

// served tells whether a tool of the mill answered.
func (r *reaction) served() bool {
	return r.Err == nil && r.Status == http.StatusOK && r.Code == 0 && r.Text == "ok" && !r.IsError
}

func (r *reaction) String() string {
	return fmt.Sprintf("HTTP %d %.600s (%v)", r.Status, r.Body, r.Err)
}

// echo are the params of a call of echo with a text.
func echo(text string) string { return `"name":"echo","arguments":{"text":"` + text + `"}` }

// tool are the params of a call.
func tool(name, arguments string) string {
	return `"name":` + strconv.Quote(name) + `,"arguments":` + arguments
}

func (q *query) method() string {
	if q.Method == "" {
		return "tools/call"
	}
	return q.Method
}

func (q *query) legacy() bool { return q.Legacy || q.Session != "" }

// message is the JSON-RPC request.
func (q *query) message() string {
	id := q.ID
	if id == "" {
		id = "1"
	}
	params := q.Params
	if !q.legacy() {
		caps := q.Caps
		if caps == "" {
			caps = "{}"
		}
		if params != "" {
			params += ","
		}
		params += `"_meta":{"io.modelcontextprotocol/protocolVersion":"` + modernVersion +
			`","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":` + caps + q.Meta + `}`
	} else if q.Meta != "" {
		if params != "" {
			params += ","
		}
		params += `"_meta":{` + strings.TrimPrefix(q.Meta, ",") + `}`
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"method":` + strconv.Quote(q.method()) + `,"params":{` + params + `}}`
}

// name is what Mcp-Name has to say.
func (q *query) name() string {
	var p struct{ Name, URI string }
	_ = json.Unmarshal([]byte("{"+q.Params+"}"), &p)
	return p.Name + p.URI
}

func (h *house) request(q *query) (*http.Request, error) {
	body, verb, path := q.Body, q.Verb, q.Path
	if verb == "" {
		verb = http.MethodPost
	}
	if path == "" {
		path = "/mcp"
	}
	if body == "" && verb == http.MethodPost {
		body = q.message()
	}
	ctx := q.Context
	if ctx == nil {
		ctx = context.Background()
	}
	r, err := http.NewRequestWithContext(ctx, verb, h.front.URL+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if r.Header.Set("Accept", "application/json, text/event-stream"); q.Accept != "" {
		r.Header.Set("Accept", q.Accept)
	}
	if verb == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	switch {
	case q.Session != "":
		r.Header.Set("Mcp-Session-Id", q.Session)
	case !q.legacy():
		r.Header.Set("Mcp-Protocol-Version", modernVersion)
		r.Header.Set("Mcp-Method", q.method())
		if name := q.name(); name != "" {
			r.Header.Set("Mcp-Name", name)
		}
	}
	if q.Key != "" {
		r.Header.Set("Authorization", bearer(q.Key))
	}
	for name, value := range q.Header {
		if value == "" {
			r.Header.Del(name)
		} else {
			r.Header.Set(name, value)
		}
	}
	return r, nil
}

// do sends a request and reads its answer to the end.
func (h *house) do(q *query) *reaction {
	r, err := h.request(q)
	if err != nil {
		return &reaction{Err: err}
	}
	resp, err := h.http.Do(r)
	if err != nil {
		return &reaction{Err: err}
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	out := &reaction{Status: resp.StatusCode, Header: resp.Header, Body: string(raw), Err: err}
	out.parse()
	return out
}

// parse takes the messages out of the body.
func (r *reaction) parse() {
	r.Message = r.Body
	if strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream") {
		r.Message = ""
		for line := range strings.Lines(r.Body) {
			data, is := strings.CutPrefix(line, "data:")
			if data = strings.TrimSpace(data); !is || data == "" {
				continue
			}
			if r.Message != "" {
				r.Events = append(r.Events, r.Message)
			}
			r.Message = data
		}
	}
	r.read(r.Message)
}

// read reads one answer.
func (r *reaction) read(message string) {
	var m struct {
		Error struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
		Result json.RawMessage `json:"result"`
	}
	if json.Unmarshal([]byte(message), &m) != nil {
		return
	}
	r.Code, r.Said, r.Result = m.Error.Code, m.Error.Message, m.Result
	var c struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
		IsError    bool   `json:"isError"`
		ResultType string `json:"resultType"`
	}
	_ = json.Unmarshal(m.Result, &c) // others have no content
	if r.IsError, r.Type = c.IsError, c.ResultType; len(c.Content) > 0 {
		r.Text = c.Content[0].Text
	}
}

// open begins a session of a legacy client.
func (h *house) open(revision, caps, key string) (session string, r *reaction) {
	r = h.do(&query{
		Legacy: true, Method: "initialize", Key: key,
		Params: `"protocolVersion":"` + revision + `","capabilities":` + caps + `,"clientInfo":{"name":"c","version":"1"}`,
	})
	return r.Header.Get("Mcp-Session-Id"), r
}

// session is open that succeeds.
func (h *house) session(revision, caps, key string) string {
	h.t.Helper()
	id, r := h.open(revision, caps, key)
	if r.Status != http.StatusOK || id == "" {
		h.t.Fatalf("initialize: %v", r)
	}
	return id
}

// counts are the metrics, by name and labels as they are written.
type counts map[string]float64

// counts reads GET /metrics.
func (h *house) counts() counts {
	h.t.Helper()
	w := httptest.NewRecorder()
	h.gw.Metrics().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		h.t.Fatalf("metrics: HTTP %d", w.Code)
	}
	out := counts{}
	for line := range strings.Lines(w.Body.String()) {
		line = strings.TrimSpace(line)
		i := strings.LastIndexByte(line, ' ')
		if line == "" || line[0] == '#' || i < 0 {
			continue
		}
		v, err := strconv.ParseFloat(line[i+1:], 64)
		if err != nil {
			h.t.Fatalf("metrics: %q", line)
		}
		out[line[:i]] = v
	}
	return out
}

// sum adds up what has the name, and each label written label="value".
func (c counts) sum(name string, labels ...string) (total int) {
	for series, v := range c {
		if series != name && !strings.HasPrefix(series, name+"{") {
			continue
		}
		has := true
		for _, l := range labels {
			has = has && (strings.Contains(series, "{"+l) || strings.Contains(series, ","+l))
		}
		if has {
			total += int(v)
		}
	}
	return total
}

// keyed are API keys for callers, one for each subject: the name is the key, too.
func keyed(subjects ...string) string {
	var b strings.Builder
	b.WriteString("auth:\n  api_keys:\n")
	for _, s := range subjects {
		sum := sha256.Sum256([]byte(secretOf(s)))
		fmt.Fprintf(&b, "    - {name: key-%s, hash: \"sha256:%s\", subject: %s, tenant: acme, scopes: [mcp]}\n", s, hex.EncodeToString(sum[:]), s)
	}
	return b.String()
}

// secretOf is the key of a subject.
func secretOf(subject string) string { return "secret-of-" + subject + "-0123456789abcdef" }

// over is a document in front of one mill, named up.
func over(m *mill, more string) string {
	return fmt.Sprintf("limits: {list_timeout: 10s, call_timeout: 30s%s}\nservers: {default: {naming: passthrough}}\nupstreams:\n  up: {url: %q, era: %s%s}\n%s",
		m.limits, m.Server.URL+"/mcp", m.era(), m.more, more)
}

// folder holds the built program; set by command, removed by TestMain.
var folder string

// command builds the program once for all tests.
var command = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "penstock-governance-")
	if err != nil {
		return "", err
	}
	folder = dir
	bin := filepath.Join(dir, "penstock")
	if out, err := exec.Command("go", "build", "-o", bin, "../../cmd/penstock").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return bin, nil
})

// verify runs penstock audit verify and returns whether it found nothing wrong, and what it said.
func verify(t *testing.T, files ...string) (ok bool, said string) {
	t.Helper()
	bin, err := command()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd := exec.Command(bin, append([]string{"audit", "verify"}, files...)...)
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	if err != nil && cmd.ProcessState.ExitCode() != 1 {
		t.Fatalf("audit verify: %v\n%s", err, out.String())
	}
	return err == nil, out.String()
}
