package taskslegacy_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

const modern, legacy = "2026-07-28", "2025-11-25"

// message is what a client is sent.
type message struct {
	raw    string
	status int
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
		Data    json.RawMessage
	}
}

func (m *message) code() int {
	if m.Error == nil {
		return 0
	}
	return m.Error.Code
}

// client speaks to a house as one MCP client would.
type client struct {
	url, revision, caps, session string
	key                          string    // of the API; ""
	feed                         io.Writer // of stdio
	came                         chan *message
	ctx                          context.Context
	stop                         context.CancelFunc
	posts                        sync.WaitGroup
	n                            int
	// answer is what the client says to a question; nil: it says nothing.
	answer func(method string, params json.RawMessage) string
	server *message   // the answer to initialize
	asked  []*message // questions and notifications that came
}

func newClient(revision, caps string) *client {
	c := &client{revision: revision, caps: cmp.Or(caps, "{}"), came: make(chan *message, 1000)}
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c
}

// end lets go of everything that is under way.
func (c *client) end() {
	c.stop()
	c.posts.Wait()
	http.DefaultClient.CloseIdleConnections()
}

func (c *client) begin(t *testing.T) {
	t.Helper()
	if c.revision == modern {
		return
	}
	a := c.call(t, "initialize", fmt.Sprintf(`{"protocolVersion":%q,"capabilities":%s,"clientInfo":{"name":"test","version":"1"}}`, c.revision, c.caps))
	if a.Result == nil {
		t.Fatalf("initialize: %s", a.raw)
	}
	c.server = a
	c.say(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// lines takes what a house says over stdio.
func (c *client) lines(r io.Reader) {
	s := bufio.NewScanner(r)
	s.Buffer(nil, 64<<20)
	for s.Scan() {
		c.take(s.Bytes(), 0)
	}
}

func (c *client) take(raw []byte, status int) {
	m := &message{raw: string(raw), status: status}
	if json.Unmarshal(raw, m) == nil {
		c.came <- m
	}
}

// say sends one message, and has what comes back taken.
func (c *client) say(t *testing.T, raw string) {
	t.Helper()
	if c.feed != nil {
		if _, err := io.WriteString(c.feed, raw+"\n"); err != nil {
			t.Fatal(err)
		}
		return
	}
	r, err := http.NewRequestWithContext(c.ctx, http.MethodPost, c.url, strings.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if c.session != "" {
		r.Header.Set("Mcp-Session-Id", c.session)
	}
	if c.key != "" {
		r.Header.Set("Authorization", "Bearer "+c.key)
	}
	if c.revision == modern || c.session != "" {
		r.Header.Set("Mcp-Protocol-Version", c.revision)
	}
	if c.revision == modern {
		var m struct {
			Method string
			Params struct{ Name, TaskID string }
		}
		_ = json.Unmarshal([]byte(raw), &m)
		r.Header.Set("Mcp-Method", m.Method)
		if name := cmp.Or(m.Params.Name, m.Params.TaskID); name != "" {
			r.Header.Set("Mcp-Name", name)
		}
	}
	c.posts.Go(func() {
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return
		}
		defer func() { _ = resp.Body.Close() }()
		if s := resp.Header.Get("Mcp-Session-Id"); s != "" {
			c.session = s
		}
		if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
			raw, _ := io.ReadAll(resp.Body)
			c.take(raw, resp.StatusCode)
			return
		}
		s := bufio.NewScanner(resp.Body)
		s.Buffer(nil, 64<<20)
		var data []byte
		for s.Scan() {
			switch line := s.Bytes(); {
			case len(line) == 0:
				if len(data) > 0 {
					c.take(data, resp.StatusCode)
				}
				data = nil
			case bytes.HasPrefix(line, []byte("data:")):
				data = append(data, bytes.TrimSpace(line[5:])...)
			}
		}
	})
}

// begun sends a request and returns its id.
func (c *client) begun(t *testing.T, method, params string) int {
	t.Helper()
	c.n++
	if c.revision == modern {
		meta := fmt.Sprintf(`"_meta":{"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientCapabilities":%s}`, modern, c.caps)
		if params != "{}" {
			meta += ","
		}
		params = "{" + meta + params[1:]
	}
	c.say(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, c.n, method, params))
	return c.n
}

// call sends a request and waits for its answer; it answers what it is asked.
func (c *client) call(t *testing.T, method, params string) *message {
	t.Helper()
	return c.await(t, c.begun(t, method, params))
}

// await waits for the answer to a request.
func (c *client) await(t *testing.T, id int) *message {
	t.Helper()
	over := time.NewTimer(patience)
	defer over.Stop()
	for {
		select {
		case m := <-c.came:
			if m.Method == "" {
				if string(m.ID) == fmt.Sprint(id) {
					return m
				}
				continue
			}
			c.asked = append(c.asked, m)
			if m.ID != nil && c.answer != nil {
				if result := c.answer(m.Method, m.Params); result != "" {
					c.say(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result))
				}
			}
		case <-over.C:
			t.Fatalf("request %d has no answer", id)
		}
	}
}

// heard are the messages of a method that came so far.
func (c *client) heard(method string) (out []*message) {
	for _, m := range c.asked {
		if m.Method == method {
			out = append(out, m)
		}
	}
	return out
}

// made starts a task and returns its id.
func (c *client) made(t *testing.T, params string) string {
	t.Helper()
	a := c.call(t, "tools/call", params)
	var r struct {
		Task   struct{ TaskID, Status string }
		TaskID string
	}
	if a.Result == nil || json.Unmarshal(a.Result, &r) != nil || cmp.Or(r.Task.TaskID, r.TaskID) == "" {
		t.Fatalf("no task: %s", a.raw)
	}
	return cmp.Or(r.Task.TaskID, r.TaskID)
}

// status is how a task is.
func (c *client) status(t *testing.T, id string) string {
	t.Helper()
	a := c.call(t, "tasks/get", fmt.Sprintf(`{"taskId":%q}`, id))
	var r struct{ TaskID, Status string }
	if a.Result == nil || json.Unmarshal(a.Result, &r) != nil || r.TaskID != id {
		t.Fatalf("tasks/get: %s", a.raw)
	}
	return r.Status
}

// until waits until something holds.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s does not come true", what)
		}
	}
}
