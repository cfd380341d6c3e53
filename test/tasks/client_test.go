package tasks_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	modernVersion = "2026-07-28"
	extension     = "io.modelcontextprotocol/tasks"
	// declaring are the capabilities of a client that can have tasks.
	declaring = `{"elicitation":{"form":{}},"extensions":{"` + extension + `":{}}}`
)

// client sends modern requests as somebody.
type client struct {
	g        *gateway
	key      string // shown as bearer; "": none
	caps     string
	endpoint string
}

// as is a client that can have tasks.
func (g *gateway) as(who string) *client {
	return &client{g: g, key: secretOf(who), caps: declaring, endpoint: g.front.URL + "/mcp"}
}

// bearing is a client with a token.
func (g *gateway) bearing(token string) *client {
	c := g.as("")
	c.key = token
	return c
}

// plain is the same client without tasks.
func (c *client) plain() *client {
	d := *c
	d.caps = `{"elicitation":{"form":{}}}`
	return &d
}

// reply is an answer as it came.
type reply struct {
	Status  int
	Header  http.Header
	Body    string
	Message string // the JSON-RPC answer
	Code    int    // of the error; 0: none
	Said    string // the error's message
	Result  string // raw
	Took    time.Duration
	Err     error // no answer came
}

func (r *reply) String() string { return fmt.Sprintf("HTTP %d %.900s (%v)", r.Status, r.Body, r.Err) }

// id is the task of a result.
func (r *reply) id() string { return text(r.Result, "taskId") }

// request sends a request with raw members of params and a name for Mcp-Name. More headers are pairs, in which "-Name" takes
// one away.
func (c *client) request(method, params, name string, headers ...string) *reply {
	return c.during(context.Background(), method, params, name, headers...)
}

func (c *client) during(ctx context.Context, method, params, name string, headers ...string) *reply {
	if params != "" {
		params += ","
	}
	body := `{"jsonrpc":"2.0","id":7,"method":` + quote(method) + `,"params":{` + params + `"_meta":{"io.modelcontextprotocol/protocolVersion":"` + modernVersion +
		`","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":` + c.caps + `}}}`
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint, strings.NewReader(body))
	if err != nil {
		return &reply{Err: err}
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": modernVersion, "Mcp-Method": method,
	} {
		r.Header.Set(name, value)
	}
	if name != "" {
		r.Header.Set("Mcp-Name", sentinel(name))
	}
	if c.key != "" {
		r.Header.Set("Authorization", "Bearer "+c.key)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if taken, is := strings.CutPrefix(headers[i], "-"); is {
			r.Header.Del(taken)
		} else {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	began := time.Now()
	resp, err := c.g.http.Do(r)
	if err != nil {
		return &reply{Err: err}
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	out := &reply{Status: resp.StatusCode, Header: resp.Header, Body: string(raw), Took: time.Since(began), Err: err}
	out.Message = out.Body
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		for line := range strings.Lines(out.Body) {
			if data, is := strings.CutPrefix(line, "data:"); is && strings.TrimSpace(data) != "" {
				out.Message = strings.TrimSpace(data)
			}
		}
	}
	out.Result, out.Said = at(out.Message, "result"), text(out.Message, "error", "message")
	out.Code, _ = strconv.Atoi(at(out.Message, "error", "code"))
	return out
}

// call calls a tool; more are raw members of params.
func (c *client) call(tool string, more ...string) *reply {
	params := append([]string{`"name":` + quote(tool)}, more...)
	if len(more) == 0 {
		params = append(params, `"arguments":{}`)
	}
	return c.request("tools/call", strings.Join(params, ","), tool)
}

// mint calls a tool that makes a task of it, and returns the id.
func (c *client) mint(t testing.TB, tool string) string {
	t.Helper()
	r := c.call(tool)
	if r.id() == "" || text(r.Result, "resultType") != "task" {
		t.Fatalf("no task: %v", r)
	}
	return r.id()
}

// task sends a request about a task.
func (c *client) task(method, id string) *reply {
	params := `"taskId":` + quote(id)
	if method == "tasks/update" {
		params += `,"inputResponses":{"k":{"action":"accept","content":{"word":"secret"}}}`
	}
	return c.request(method, params, id)
}

func (c *client) get(id string) *reply { return c.task("tasks/get", id) }

// methods of the extension.
var methods = []string{"tasks/get", "tasks/update", "tasks/cancel"}

// owns holds that a client can follow a task.
func (c *client) owns(t testing.TB, id string) {
	t.Helper()
	if r := c.get(id); r.Code != 0 || r.Status != http.StatusOK || r.id() != id {
		t.Errorf("%q is not found: %v", id, r)
	}
}

// lacks holds that no method knows a task.
func (c *client) lacks(t testing.TB, id string) {
	t.Helper()
	for _, method := range methods {
		unknown(t, c.task(method, id))
	}
}

// unknown holds an answer to be the one for a task that does not exist.
func unknown(t testing.TB, r *reply) {
	t.Helper()
	if r.Status != http.StatusOK || r.Message != `{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"Task not found"}}` {
		t.Errorf("want an unknown task, got %v", r)
	}
}

// sentinel is a header value for any text (checklist 111).
func sentinel(s string) string {
	plain := s != "" && strings.TrimSpace(s) == s && (!strings.HasPrefix(s, "=?base64?") || !strings.HasSuffix(s, "?="))
	for _, b := range []byte(s) {
		plain = plain && b >= 0x20 && b <= 0x7e
	}
	if plain {
		return s
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(s)) + "?="
}

// unsentinel is the text of a header value.
func unsentinel(t testing.TB, v string) string {
	t.Helper()
	inner, begins := strings.CutPrefix(v, "=?base64?")
	inner, ends := strings.CutSuffix(inner, "?=")
	if !begins || !ends {
		return v
	}
	raw, err := base64.StdEncoding.DecodeString(inner)
	if err != nil {
		t.Errorf("header %q: %v", v, err)
	}
	return string(raw)
}
