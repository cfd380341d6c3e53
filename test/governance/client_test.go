package governance_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// client sends modern requests to an endpoint, with exactly the credentials that it is told.
type client struct {
	url  string
	http *http.Client
}

func newClient(t testing.TB, url string) *client {
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	return &client{url: url, http: &http.Client{Transport: transport, Timeout: 60 * time.Second}}
}

// reply is an answer as it came.
type reply struct {
	Status  int
	Header  http.Header
	Code    int // of the JSON-RPC error; 0: none
	Text    string
	Body    string
	Problem error // no answer came
}

func (r *reply) String() string {
	return fmt.Sprintf("HTTP %d, WWW-Authenticate %q, %.500s (%v)", r.Status, r.Header.Values("WWW-Authenticate"), r.Body, r.Problem)
}

// served tells whether the call of echo was answered as the upstream does.
func (r *reply) served() bool { return r.Status == http.StatusOK && r.Code == 0 && r.Text == "ok" }

// challenge is the value of WWW-Authenticate; "" unless there is exactly one.
func (r *reply) challenge() string {
	if all := r.Header.Values("WWW-Authenticate"); len(all) == 1 {
		return all[0]
	}
	return ""
}

const meta = `"io.modelcontextprotocol/protocolVersion":"` + modernVersion + `","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}`

// call calls the tool echo with a text that the upstream will see. Each authorization is a header of its own.
func (c *client) call(text string, authorization ...string) *reply {
	return c.callAt(c.url, text, authorization...)
}

func (c *client) callAt(url, text string, authorization ...string) *reply {
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"` + text + `"},"_meta":{` + meta + `}}}`
	r, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return &reply{Problem: err}
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("MCP-Protocol-Version", modernVersion)
	r.Header.Set("Mcp-Method", "tools/call")
	r.Header.Set("Mcp-Name", "echo")
	for _, a := range authorization {
		r.Header.Add("Authorization", a)
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return &reply{Problem: err}
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	out := &reply{Status: resp.StatusCode, Header: resp.Header, Body: string(raw), Problem: err}
	out.read()
	return out
}

// read takes the message out of the body, which may be an event stream.
func (r *reply) read() {
	text := r.Body
	if strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream") {
		for line := range strings.Lines(r.Body) {
			if data, is := strings.CutPrefix(line, "data:"); is && strings.TrimSpace(data) != "" {
				text = data
			}
		}
	}
	var m struct {
		Error struct {
			Code int `json:"code"`
		} `json:"error"`
		Result struct {
			Content []struct {
				Text string `json:"text"`
			} `json:"content"`
		} `json:"result"`
	}
	if json.Unmarshal([]byte(text), &m) != nil {
		return
	}
	r.Code = m.Error.Code
	if len(m.Result.Content) > 0 {
		r.Text = m.Result.Content[0].Text
	}
}

// bearer is a value of Authorization.
func bearer(token string) string { return "Bearer " + token }
