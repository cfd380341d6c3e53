package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/auth"
	"github.com/penstock-mcp/penstock/internal/north"
	"github.com/penstock-mcp/penstock/internal/relay"
)

// talker is a legacy upstream whose calls follow a script, with requests of their
// own on the call's stream.
type talker struct {
	*up
	script func(c *talk)

	mu      sync.Mutex             // guards what follows
	replies map[string]chan string // by session and id
	stray   []string               // responses to nothing that was asked
	gone    chan string            // ids that notifications/cancelled named
}

// talk is one call at a talker.
type talk struct {
	t       *talker
	w       http.ResponseWriter
	ctx     context.Context
	session string
	id      string
	body    string
}

func talks(script func(c *talk)) *talker {
	t := &talker{up: &up{legacy: true}, script: script, replies: map[string]chan string{}, gone: make(chan string, 64)}
	t.on = func(w http.ResponseWriter, r *http.Request, hd heard) bool {
		session := r.Header.Get("Mcp-Session-Id")
		switch {
		case hd.method == "" && hd.id != "":
			t.heardReply(session+" "+hd.id, hd.body)
			w.WriteHeader(http.StatusAccepted)
		case hd.method == "notifications/cancelled":
			var m struct {
				Params struct {
					RequestID json.RawMessage `json:"requestId"`
				} `json:"params"`
			}
			_ = json.Unmarshal([]byte(hd.body), &m)
			t.gone <- string(m.Params.RequestID)
			w.WriteHeader(http.StatusAccepted)
		case hd.method == "tools/call" || hd.method == "prompts/get" || hd.method == "resources/read":
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(http.StatusOK)
			t.script(&talk{t: t, w: w, ctx: r.Context(), session: session, id: hd.id, body: hd.body})
		default:
			return false
		}
		return true
	}
	return t
}

func (t *talker) heardReply(key, body string) {
	t.mu.Lock()
	ch := t.replies[key]
	if ch == nil {
		t.stray = append(t.stray, body)
	}
	t.mu.Unlock()
	if ch != nil {
		ch <- body
	}
}

// send writes one message.
func (c *talk) send(message string) {
	fmt.Fprintf(c.w, "data: %s\n\n", message)
	_ = http.NewResponseController(c.w).Flush()
}

// ask sends a request; rest are its other members.
func (c *talk) ask(id, rest string) {
	c.t.mu.Lock()
	c.t.replies[c.session+" "+id] = make(chan string, 4)
	c.t.mu.Unlock()
	c.send(`{"jsonrpc":"2.0","id":` + id + `,` + rest + `}`)
}

// reply waits for the response to a request; "" is none.
func (c *talk) reply(id string) string {
	c.t.mu.Lock()
	ch := c.t.replies[c.session+" "+id]
	c.t.mu.Unlock()
	select {
	case s := <-ch:
		return s
	case <-c.ctx.Done():
		return ""
	}
}

// done ends the call with a text.
func (c *talk) done(text string) {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	c.send(`{"jsonrpc":"2.0","id":` + c.id + `,"result":{"content":[{"type":"text","text":` + string(quoted) + `}]}}`)
}

const (
	everything = `{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}`
	askForm    = `"method":"elicitation/create","params":{"message":"name?","requestedSchema":{"type":"object","properties":{}}}`
	accept     = `{"action":"accept","content":{}}`
)

// asked is an input_required result.
type askedRound struct {
	Result struct {
		Type     string `json:"resultType"`
		Requests map[string]struct {
			Method string          `json:"method"`
			Params json.RawMessage `json:"params"`
		} `json:"inputRequests"`
		State string          `json:"requestState"`
		TTL   json.RawMessage `json:"ttlMs"`
	} `json:"result"`
}

// round reads an input_required result.
func (o out) round(t testing.TB) askedRound {
	t.Helper()
	var a askedRound
	body := o.body
	if all := o.data(); !strings.HasPrefix(body, "{") {
		body = all[len(all)-1]
	}
	if err := json.Unmarshal([]byte(body), &a); err != nil || a.Result.Type != "input_required" || len(a.Result.Requests) == 0 || a.Result.State == "" {
		t.Fatalf("no question: HTTP %d %s (%v)", o.status, o.body, err)
	}
	return a
}

// key is the one key of a method.
func (a askedRound) key(t testing.TB, method string) string {
	t.Helper()
	for key, q := range a.Result.Requests {
		if q.Method == method {
			return key
		}
	}
	t.Fatalf("%s was not asked: %+v", method, a.Result.Requests)
	return ""
}

// answered are the params of a retry that gives every question one answer.
func (a askedRound) answered(answer string) string {
	var in []string
	for key := range a.Result.Requests {
		in = append(in, `"`+key+`":`+answer)
	}
	return a.with(strings.Join(in, ","))
}

// with are the params of a retry with some answers.
func (a askedRound) with(answers string) string {
	state, err := json.Marshal(a.Result.State)
	if err != nil {
		panic(err)
	}
	return `"requestState":` + string(state) + `,"inputResponses":{` + answers + `}`
}

// asking sends a modern call of a client that can be asked; params are members.
func (h *house) asking(params string, more ...string) out {
	h.t.Helper()
	return h.asks(h.t.Context(), "tools/call", "u__add", everything, `"name":"u__add",`+params, more...)
}

// asks sends a modern request under a context; more are members of _meta.
func (h *house) asks(ctx context.Context, method, name, caps, params string, more ...string) out {
	h.t.Helper()
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + caps + strings.Join(more, "") + `}`
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + strings.TrimSuffix(params, ",") + `,` + meta + `}}`
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/mcp", strings.NewReader(body))
	for k, v := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name,
	} {
		r.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	h.Handler().ServeHTTP(w, r)
	return out{w.Code, w.Result().Header, w.Body.String(), false} //nolint:bodyclose // a recorder's body
}

// as makes requests come from another principal until it is undone.
func (h *house) as(name string) (undo func()) {
	was := h.principal
	h.principal = &north.Principal{Key: auth.Key(auth.IssuerLocal, "", name), Name: name}
	return func() { h.principal = was }
}

// text is the text of a complete result.
func (o out) text(t testing.TB) string {
	t.Helper()
	var a struct {
		Result struct {
			Type    string `json:"resultType"`
			IsError bool   `json:"isError"`
			Content []struct {
				Text string `json:"text"`
			} `json:"content"`
		} `json:"result"`
	}
	body := o.body
	if all := o.data(); strings.HasPrefix(body, "event:") {
		body = all[len(all)-1]
	}
	if err := json.Unmarshal([]byte(body), &a); err != nil || a.Result.Type != "complete" || len(a.Result.Content) != 1 {
		t.Fatalf("no complete result: HTTP %d %s", o.status, o.body)
	}
	if a.Result.IsError {
		return "error: " + a.Result.Content[0].Text
	}
	return a.Result.Content[0].Text
}

// clock is a time that tests move.
type clock struct {
	mu     sync.Mutex // guards what follows
	now    time.Time
	timers map[*clockTimer]struct{}
}

type clockTimer struct {
	c  *clock
	at time.Time
	f  func()
}

func (t *clockTimer) Stop() bool {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	_, running := t.c.timers[t]
	delete(t.c.timers, t)
	return running
}

func (c *clock) after(d time.Duration, f func()) relay.Timer {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &clockTimer{c, c.now.Add(d), f}
	c.timers[t] = struct{}{}
	return t
}

func (c *clock) time() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// move lets time pass, and waits for what that sets off.
func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	c.now = c.now.Add(d)
	var due []*clockTimer
	for t := range c.timers {
		if !t.at.After(c.now) {
			due = append(due, t)
			delete(c.timers, t)
		}
	}
	c.mu.Unlock()
	for _, t := range due {
		t.f()
	}
}

// timed puts a gateway's questions under a clock of the test's.
func (h *house) timed() *clock {
	h.t.Helper()
	c := &clock{now: time.Now(), timers: map[*clockTimer]struct{}{}}
	h.parks = relay.NewParks(slog.New(slog.DiscardHandler), c.after)
	var err error
	if h.sealer, err = relay.NewSealer(h.keys.ring, 31*time.Minute, c.time); err != nil {
		h.t.Fatal(err)
	}
	return c
}

// settled waits for a condition that another goroutine brings about.
func settled(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(8 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 8 s: %s", what)
		}
	}
}

// got waits for what a channel brings.
func receive[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(8 * time.Second):
		t.Fatalf("not within 8 s: %s", what)
		panic("unreachable")
	}
}
