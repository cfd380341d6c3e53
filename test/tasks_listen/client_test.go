package tasks_listen_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	declares = `{"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	subID    = "io.modelcontextprotocol/subscriptionId"
)

// client is one principal of a gateway.
type client struct {
	t       *testing.T
	url     string
	subject string // "": without a key
	token   string // instead of its key
	http    *http.Client
}

func (g *gateway) as(subject string) *client {
	tr := &http.Transport{}
	g.t.Cleanup(tr.CloseIdleConnections)
	return &client{t: g.t, url: g.url, subject: subject, http: &http.Client{Transport: tr}}
}

// message is what tests look at.
type message struct {
	ID     jsontext.Value `json:"id"`
	Method string         `json:"method"`
	Params jsontext.Value `json:"params"`
	Result jsontext.Value `json:"result"`
	Error  *struct {
		Code    int            `json:"code"`
		Message string         `json:"message"`
		Data    jsontext.Value `json:"data"`
	} `json:"error"`
}

// detail is a DetailedTask.
type detail struct {
	TaskID     string                    `json:"taskId"`
	Status     string                    `json:"status"`
	Message    string                    `json:"statusMessage"`
	Type       string                    `json:"resultType"`
	Requests   map[string]jsontext.Value `json:"inputRequests"`
	Result     jsontext.Value            `json:"result"`
	Error      jsontext.Value            `json:"error"`
	Meta       map[string]jsontext.Value `json:"_meta"`
	PollMillis int                       `json:"pollIntervalMs"`
}

func read[T any](t *testing.T, raw []byte) (out T) {
	t.Helper()
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return out
}

func (c *client) post(ctx context.Context, method, name, body string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	r.Header.Set("Mcp-Method", method)
	if name != "" {
		r.Header.Set("Mcp-Name", name)
	}
	switch {
	case c.token != "":
		r.Header.Set("Authorization", "Bearer "+c.token)
	case c.subject != "":
		r.Header.Set("Authorization", "Bearer "+secretOf(c.subject))
	}
	return c.http.Do(r)
}

func request(id, method, params, caps string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":%s}}}`,
		id, method, params, caps)
}

// send sends one request and returns its answer.
func (c *client) send(method, name, params string) message {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	resp, err := c.post(ctx, method, name, request("1", method, params, declares))
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		at := strings.LastIndex(string(raw), "data: ")
		raw = []byte(strings.TrimSpace(string(raw[at+len("data: "):])))
	}
	return read[message](c.t, raw)
}

// task calls a tool and returns the id of the task that was made of the call. It
// waits for the gateway to know the upstream.
func (c *client) task(tool, args string) string {
	c.t.Helper()
	var m message
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		m = c.send("tools/call", tool, fmt.Sprintf(`"name":%q,"arguments":%s`, tool, args))
		if m.Error == nil && strings.Contains(string(m.Result), `"taskId"`) {
			return read[detail](c.t, m.Result).TaskID
		}
	}
	c.t.Fatalf("no task was made of a call of %s: %+v %s", tool, m.Error, m.Result)
	return ""
}

func (c *client) get(id string) detail {
	c.t.Helper()
	m := c.send("tasks/get", id, fmt.Sprintf(`"taskId":%q`, id))
	if m.Error != nil {
		c.t.Fatalf("tasks/get: %+v", m.Error)
	}
	return read[detail](c.t, m.Result)
}

func quoted(ids []string) string {
	raw, _ := json.Marshal(ids)
	return string(raw)
}

// stream is one subscriptions/listen.
type stream struct {
	t     *testing.T
	id    string
	acked []string
	in    chan message
	end   func() // closes it, and waits for the reader
}

// listen listens for tasks, and holds that the acknowledgement comes first.
func (c *client) listen(id string, ids ...string) *stream {
	c.t.Helper()
	return c.listenFor(id, `"taskIds":`+quoted(ids))
}

func (c *client) listenFor(id, filter string) *stream {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	resp, err := c.post(ctx, "subscriptions/listen", "", request(id, "subscriptions/listen", `"notifications":{`+filter+`}`, declares))
	if err != nil {
		cancel()
		c.t.Fatal(err)
	}
	s := &stream{t: c.t, id: id, in: make(chan message, 100)}
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(s.in)
		defer func() { _ = resp.Body.Close() }()
		lines := bufio.NewScanner(resp.Body)
		lines.Buffer(nil, 4<<20)
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				var m message
				if err := json.Unmarshal([]byte(data), &m); err != nil {
					c.t.Errorf("%s: %v", data, err)
					return
				}
				s.in <- m
			}
		}
	})
	s.end = sync.OnceFunc(func() {
		cancel()
		go func() {
			for range s.in { //nolint:revive // what nobody reads any more
			}
		}()
		reading.Wait()
	})
	c.t.Cleanup(s.end)
	first := s.next()
	if first.Method != "notifications/subscriptions/acknowledged" {
		c.t.Fatalf("the first message is %+v", first)
	}
	ack := read[struct {
		Meta  map[string]jsontext.Value `json:"_meta"`
		Notes struct {
			TaskIDs []string `json:"taskIds"`
		} `json:"notifications"`
	}](c.t, first.Params)
	if got := string(ack.Meta[subID]); got != id {
		c.t.Fatalf("acknowledged for %s, want %s", got, id)
	}
	s.acked = ack.Notes.TaskIDs
	return s
}

// next is the next message; an empty one at the end of the stream.
func (s *stream) next() message {
	s.t.Helper()
	select {
	case m := <-s.in:
		return m
	case <-time.After(patience):
		s.t.Fatal("nothing comes")
	}
	return message{}
}

// told is the next notification, which has to be of a task.
func (s *stream) told() detail {
	s.t.Helper()
	m := s.next()
	if m.Method != "notifications/tasks" {
		s.t.Fatalf("got %+v", m)
	}
	d := read[detail](s.t, m.Params)
	if string(d.Meta[subID]) != s.id || d.Type != "" {
		s.t.Fatalf("tagged with %s, of type %q; want %s and none", d.Meta[subID], d.Type, s.id)
	}
	return d
}

// until reads what is told of one task until it has that status, and holds that
// nothing is told twice in a row.
func (s *stream) until(id, status string) (d detail, seen []string) {
	s.t.Helper()
	last := ""
	for {
		d = s.told()
		if d.TaskID != id {
			s.t.Fatalf("told of %q, want %q", d.TaskID, id)
		}
		now := d.Status + " " + d.Message
		if now == last {
			s.t.Fatalf("told twice of %s", now)
		}
		last = now
		seen = append(seen, d.Status)
		if d.Status == status {
			return d, seen
		}
	}
}

// silent holds that nothing comes for a while, and that the stream goes on.
func (s *stream) silent(d time.Duration) {
	s.t.Helper()
	select {
	case m, ok := <-s.in:
		s.t.Fatalf("got %+v %s, open: %v", m, m.Params, ok)
	case <-time.After(d):
	}
}
