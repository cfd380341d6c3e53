//go:build linux

package chaos_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// failure is a JSON-RPC error.
type failure struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// answer is what came back for one request.
type answer struct {
	status  int
	session string // Mcp-Session-Id
	took    time.Duration
	raw     string // the message

	ID     json.RawMessage `json:"id"`
	Result *result         `json:"result"`
	Error  *failure        `json:"error"`
}

// result holds what the tests read of any result.
type result struct {
	Structured heard                   `json:"structuredContent"`
	Tools      []struct{ Name string } `json:"tools"`
	NextCursor string                  `json:"nextCursor"`
	TaskID     string                  `json:"taskId"` // of the extension, and of a legacy tasks/get
	Task       struct {
		TaskID string `json:"taskId"`
	} `json:"task"` // of a legacy call
	Meta struct {
		Partial []missing `json:"penstock/partial"`
	} `json:"_meta"`
}

// missing is an upstream that a list lacks.
type missing struct{ Upstream, Reason string }

func (a *answer) String() string {
	if a.Error != nil {
		return fmt.Sprintf("HTTP %d, error %d %s, after %s", a.status, a.Error.Code, a.Error.Message, a.took)
	}
	return fmt.Sprintf("HTTP %d, %+v, after %s", a.status, a.Result, a.took)
}

// code is the answer's error code, or 0.
func (a *answer) code() int {
	if a.Error == nil {
		return 0
	}
	return a.Error.Code
}

// ids are unique among all clients, so that an answer to another's request shows.
var ids atomic.Int64

// client is one client of a gateway, of either era. It is used by one goroutine
// at a time.
type client struct {
	http    *http.Client
	address string
	session string // "": modern
	key     string // shown as bearer; "": none
	tasks   bool   // it can have tasks
}

func newClient(t testing.TB, address string) *client {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &client{http: &http.Client{Transport: transport, Timeout: 40 * time.Second}, address: address}
}

// at is the same client, with its session, at another address.
func (c *client) at(address string) *client {
	d := *c
	d.address = address
	return &d
}

// modernMeta is the metadata of a modern request, without the capabilities and what closes it.
const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":`

const tasksExtension = "io.modelcontextprotocol/tasks"

// ask sends one request; params are raw members. An error is an answer that did
// not come, or not whole.
func (c *client) ask(method, name, params string) (*answer, error) {
	id := fmt.Sprint(ids.Add(1))
	if c.session == "" && method != "initialize" {
		if params != "" {
			params += ","
		}
		params += modernMeta
		if c.tasks {
			params += `{"extensions":{"` + tasksExtension + `":{}}}}`
		} else {
			params += `{}}`
		}
	}
	body := `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + params + `}}`
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://"+c.address+"/mcp", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.GetBody = nil // what is sent again is the test's to decide
	switch {
	case method == "initialize":
	case c.session == "":
		r.Header.Set("MCP-Protocol-Version", "2026-07-28")
		r.Header.Set("Mcp-Method", method)
		if name != "" {
			r.Header.Set("Mcp-Name", name)
		}
	default:
		r.Header.Set("MCP-Protocol-Version", "2025-11-25")
		r.Header.Set("Mcp-Session-Id", c.session)
	}
	if c.key != "" {
		r.Header.Set("Authorization", "Bearer "+c.key)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	start := time.Now()
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // it is read to its end
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		if raw = lastEvent(raw); raw == nil {
			return nil, io.ErrUnexpectedEOF
		}
	}
	a := &answer{status: resp.StatusCode, session: resp.Header.Get("Mcp-Session-Id"), took: time.Since(start), raw: string(raw)}
	if err := json.Unmarshal(raw, a); err != nil {
		return nil, fmt.Errorf("HTTP %d with %.200q: %w", resp.StatusCode, raw, err)
	}
	if string(a.ID) != id && a.Result != nil {
		return nil, &misdelivered{fmt.Sprintf("request %s was answered with id %s", id, a.ID)}
	}
	return a, nil
}

// misdelivered is an answer that belongs to another request.
type misdelivered struct{ what string }

func (m *misdelivered) Error() string { return m.what }

func lastEvent(raw []byte) []byte {
	var last []byte
	for line := range bytes.Lines(raw) {
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok && len(bytes.TrimSpace(data)) > 0 {
			last = bytes.TrimSpace(data)
		}
	}
	return last
}

// initialize opens a session.
func (c *client) initialize() (*answer, error) {
	a, err := c.ask("initialize", "", `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}`)
	if err == nil && a.Error == nil {
		c.session = a.session
	}
	return a, err
}

// call calls a tool with a text that is nobody else's, and holds that it comes back.
func (c *client) call(tool string, sleep int) (*answer, error) {
	echo := fmt.Sprint("e", ids.Add(1))
	a, err := c.ask("tools/call", tool, fmt.Sprintf(`"name":%q,"arguments":{"echo":%q,"sleep":%d}`, tool, echo, sleep))
	if err == nil && a.Result != nil && a.Result.Structured.Echo != echo {
		return nil, &misdelivered{fmt.Sprintf("the call with %s was answered with %q", echo, a.Result.Structured.Echo)}
	}
	return a, err
}

// end sends DELETE for the session and returns the HTTP status.
func (c *client) end() (int, error) {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodDelete, "http://"+c.address+"/mcp", nil)
	if err != nil {
		return 0, err
	}
	r.Header.Set("Mcp-Session-Id", c.session)
	resp, err := c.http.Do(r)
	if err != nil {
		return 0, err
	}
	_ = resp.Body.Close()
	return resp.StatusCode, nil
}

// open returns a client with a session, and fails the test without one.
func open(t testing.TB, address string) *client {
	t.Helper()
	c := newClient(t, address)
	if a, err := c.initialize(); err != nil || a.Error != nil || c.session == "" {
		t.Fatalf("initialize: %v %v", a, err)
	}
	return c
}

// must fails the test when an answer did not come or is an error.
func must(t testing.TB, a *answer, err error) *answer {
	t.Helper()
	if err != nil || a.Error != nil {
		t.Fatalf("%v %v", a, err)
	}
	return a
}
