package hostile_test

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

const tellingCaps = `{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true}}`

// telling is an upstream that tells of changes: by subscriptions/listen, or by
// GET streams and resources/subscribe.
type telling struct {
	*upstream

	mu         sync.Mutex // guards what follows
	streams    map[chan string]telltale
	opened     int
	subscribed map[string]int // legacy: by URI, less what was unsubscribed
}

// telltale is one open stream.
type telltale struct{ id, filter string } // of a modern one, raw

func (u *upstream) telling() *telling {
	w := &telling{upstream: u, streams: map[chan string]telltale{}, subscribed: map[string]int{}}
	u.caps = tellingCaps
	u.handle("subscriptions/listen", func(x *exchange) {
		filter := at(x.Params, "notifications")
		w.serve(x, telltale{x.ID, filter}, `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":`+x.ID+`},"notifications":`+filter+`}}`)
	})
	u.handle("GET", func(x *exchange) {
		u.mu.Lock()
		known := u.sessions[x.Session]
		u.mu.Unlock()
		if !known {
			x.w.WriteHeader(http.StatusNotFound)
			return
		}
		w.serve(x, telltale{}, "")
	})
	count := func(by int) func(*exchange) {
		return func(x *exchange) {
			w.mu.Lock()
			w.subscribed[text(x.Params, "uri")] += by
			w.mu.Unlock()
			x.result(`{}`)
		}
	}
	u.handle("resources/subscribe", count(1))
	u.handle("resources/unsubscribe", count(-1))
	return w
}

func (w *telling) serve(x *exchange, tale telltale, first string) {
	in := make(chan string, 64)
	w.mu.Lock()
	w.streams[in] = tale
	w.opened++
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.streams, in)
	}()
	x.w.Header().Set("Content-Type", "text/event-stream")
	x.stream(": open\n\n")
	if first != "" {
		x.stream(event(first))
	}
	for {
		select {
		case msg := <-in:
			x.stream(msg)
		case <-x.r.Context().Done():
			return
		case <-w.closed:
			return
		}
	}
}

// tell sends a notification on every stream that wants it. params are raw
// members.
func (w *telling) tell(method, params string) {
	wanted := map[string]string{
		"notifications/tools/list_changed": "toolsListChanged", "notifications/prompts/list_changed": "promptsListChanged",
		"notifications/resources/list_changed": "resourcesListChanged", "notifications/resources/updated": "resourceSubscriptions",
	}[method]
	w.mu.Lock()
	defer w.mu.Unlock()
	for in, tale := range w.streams {
		p := params
		if tale.id != "" {
			if !strings.Contains(tale.filter, wanted) {
				continue
			}
			if p != "" {
				p += ","
			}
			p += `"_meta":{"io.modelcontextprotocol/subscriptionId":` + tale.id + `}`
		}
		in <- event(`{"jsonrpc":"2.0","method":` + quote(method) + `,"params":{` + p + `}}`)
	}
}

// raw sends bytes on every stream.
func (w *telling) raw(b string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for in := range w.streams {
		in <- b
	}
}

// live are the streams that are open.
func (w *telling) live() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.streams)
}

// listens waits until the gateway has asked for what it is to hear of, and has
// closed the stream that it heard on before: while both are open, what is told is
// told on both.
func (w *telling) listens(t testing.TB, what string) {
	t.Helper()
	eventually(t, "the gateway listens for "+what, 10*time.Second, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.streams) != 1 {
			return false
		}
		if w.legacy != "" {
			return w.subscribed[what] > 0 || strings.HasSuffix(what, "Changed")
		}
		for _, tale := range w.streams {
			if strings.Contains(tale.filter, what) {
				return true
			}
		}
		return false
	})
}

// change replaces the tools that are listed, and says so.
func (w *telling) change(tools ...string) {
	w.upstream.mu.Lock()
	w.lists["tools"] = nil
	w.upstream.mu.Unlock()
	w.tool(tools...)
	w.tell("notifications/tools/list_changed", "")
}

// hearing is a client's open stream.
type hearing struct {
	t      testing.TB
	name   string
	cancel context.CancelFunc
	events chan string // messages, in order; closed with the stream
	done   chan struct{}
}

// hear opens a stream with one request and reads it until the test ends.
func (c *client) hear(verb, body string, headers ...string) *hearing {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, verb, c.url, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	if verb == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	patient := *c.http
	patient.Timeout = 0
	resp, err := patient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	h := &hearing{t: c.t, cancel: cancel, events: make(chan string, 1000), done: make(chan struct{})}
	c.t.Cleanup(h.close)
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		c.t.Fatalf("%s: HTTP %d %s", verb, resp.StatusCode, resp.Header.Get("Content-Type"))
	}
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

// close hangs up.
func (h *hearing) close() {
	h.cancel()
	<-h.done
}

// listen opens subscriptions/listen and reads the acknowledgement.
func (c *client) listen(id, filter string) (*hearing, string) {
	c.t.Helper()
	h := c.hear(http.MethodPost, modernBody(id, "subscriptions/listen", `"notifications":`+filter), modernHeaders("subscriptions/listen", "")...)
	h.name = "modern"
	ack := h.next()
	if text(ack, "method") != "notifications/subscriptions/acknowledged" || at(ack, "params", "_meta", "io.modelcontextprotocol/subscriptionId") != id {
		c.t.Fatalf("the first message is %s", ack)
	}
	return h, at(ack, "params", "notifications")
}

// stand opens the GET stream of a session.
func (s *session) stand() *hearing {
	s.t.Helper()
	h := s.hear(http.MethodGet, "", s.headers()...)
	h.name = "legacy"
	return h
}

// next is the next message.
func (h *hearing) next() string {
	h.t.Helper()
	select {
	case m, ok := <-h.events:
		if !ok {
			h.t.Fatalf("%s: the stream ended", h.name)
		}
		return m
	case <-time.After(10 * time.Second):
		h.t.Fatalf("%s: nothing came", h.name)
	}
	return ""
}

// want holds the next messages to be of these methods.
func (h *hearing) want(what string, methods ...string) (messages []string) {
	h.t.Helper()
	for _, method := range methods {
		m := h.next()
		if text(m, "method") != method {
			h.t.Errorf("%s, %s: got %s, want %s", h.name, what, m, method)
		}
		messages = append(messages, m)
	}
	return messages
}

// quiet holds that nothing comes for a while.
func (h *hearing) quiet(what string, while time.Duration) {
	h.t.Helper()
	select {
	case m, ok := <-h.events:
		h.t.Errorf("%s, %s: got %q (open: %v)", h.name, what, m, ok)
	case <-time.After(while):
	}
}

// ended holds the stream to be over, and returns what came last.
func (h *hearing) ended(within time.Duration) (last string) {
	h.t.Helper()
	deadline := time.After(within)
	for {
		select {
		case m, ok := <-h.events:
			if !ok {
				return last
			}
			last = m
		case <-deadline:
			h.t.Fatalf("%s: the stream is open after %s", h.name, within)
		}
	}
}

// ears are one listener of each era, for the lists.
func (g *gateway) ears() []*hearing {
	modern, _ := g.listen(`"l-1"`, `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}`)
	return []*hearing{modern, g.legacy("2025-11-25").stand()}
}
