package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/penstock-mcp/penstock/internal/demo"
)

// called is what one run of `penstock call` did.
type called struct {
	out, notes string
	err        error
}

// runCall runs the command as main would.
func runCall(t *testing.T, stdin string, args ...string) called {
	t.Helper()
	cmd := newCallCommand()
	var out, notes bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&notes)
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return called{out.String(), notes.String(), err}
}

func (c called) usage() bool {
	var u *usageError
	return errors.As(c.err, &u)
}

func serveForCall(t *testing.T, h http.Handler) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}

// says is a server that answers every POST alike.
func says(status int, kind, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

func TestCallReachesAModernServer(t *testing.T) {
	url := serveForCall(t, demo.Library())
	for _, tc := range []struct {
		args []string
		has  string
	}{
		{[]string{"server/discover"}, `"supportedVersions": [`},
		{[]string{"tools/list"}, `      "name": "search_books",`},
		{[]string{"tools/call", `{"name":"get_book","arguments":{"id":"b7"}}`}, `"author": "Charlotte Brontë"`},
		{[]string{"resources/read", `{"uri":"library://books/b3"}`}, `"uri": "library://books/b3"`},
		{[]string{"prompts/get", `{ "name":"recommend","arguments":{"genre":"gothic"} }`}, `Recommend one gothic book`},
		{[]string{"tools/call", "--tasks", `{"name":"get_book","arguments":{"id":"b99"}}`}, `"isError": true`},
		{[]string{"completion/complete", `{"ref":{"type":"ref/prompt","name":"recommend"},"argument":{"name":"genre","value":"g"}}`}, `"gothic"`},
	} {
		got := runCall(t, "", append([]string{url}, tc.args...)...)
		if got.err != nil || !strings.Contains(got.out, tc.has) || got.notes != "" {
			t.Errorf("%v: %+v", tc.args, got)
		}
	}
}

func TestCallReachesALegacyServerAndEndsItsSession(t *testing.T) {
	var seen []string
	workshop := demo.Workshop()
	url := serveForCall(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		method, _ := stringMember(body, "method")
		seen = append(seen, fmt.Sprint(r.Method, " ", method, " ", r.Header.Get("Mcp-Protocol-Version")))
		r.Body = io.NopCloser(bytes.NewReader(body))
		workshop.ServeHTTP(w, r)
	}))
	got := runCall(t, "", "--legacy", url, "tools/call", `{"name":"convert_units","arguments":{"value":2,"from":"in","to":"cm"}}`)
	if got.err != nil || !strings.Contains(got.out, `"value": 5.08,`) {
		t.Errorf("%+v", got)
	}
	want := []string{"POST initialize ", "POST notifications/initialized 2025-11-25", "POST tools/call 2025-11-25", "DELETE  2025-11-25"}
	if d := cmp.Diff(want, seen); d != "" {
		t.Error(d)
	}
	seen = nil
	got = runCall(t, "", "--legacy", url, "initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`)
	if got.err != nil || !strings.Contains(got.out, `"protocolVersion": "2025-06-18"`) {
		t.Errorf("%+v", got)
	}
	if d := cmp.Diff([]string{"POST initialize ", "DELETE  2025-06-18"}, seen); d != "" {
		t.Error(d)
	}
}

func TestCallSendsWhatAModernClientSends(t *testing.T) {
	var header http.Header
	var body string
	url := serveForCall(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		header, body = r.Header, string(raw)
		says(200, "application/json", `{"jsonrpc":"2.0","id":1,"result":{}}`).ServeHTTP(w, r)
	}))
	info := clientInfo()
	const version = `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`
	for _, tc := range []struct {
		name    string
		args    []string
		headers map[string]string
		body    string
	}{
		{
			"no params",
			[]string{"tools/list"},
			map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list", "Mcp-Name": "", "Accept": "application/json, text/event-stream"},
			`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{` + version + `,"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":` + info + `}}}`,
		},
		{
			"params keep their bytes",
			[]string{"tools/call", `{"name":"Zażółć" ,"arguments":{"n":1e400}}`, "--tasks"},
			map[string]string{"Mcp-Name": "=?base64?WmHFvMOzxYLEhw==?="},
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{` + version + `,"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}},"io.modelcontextprotocol/clientInfo":` + info + `},"name":"Zażółć" ,"arguments":{"n":1e400}}}`,
		},
		{
			"_meta of the user wins",
			[]string{"tasks/get", `{"taskId":"a b","_meta":{"progressToken":7,"io.modelcontextprotocol/protocolVersion":"2031-01-01"}}`},
			map[string]string{"Mcp-Protocol-Version": "2031-01-01", "Mcp-Name": "a b"},
			`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"a b","_meta":{"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":` + info + `,"progressToken":7,"io.modelcontextprotocol/protocolVersion":"2031-01-01"}}}`,
		},
		{
			"headers of the user win",
			[]string{"--header", "Authorization=Bearer a=b", "--header", "mcp-method=other", "ping"},
			map[string]string{"Authorization": "Bearer a=b", "Mcp-Method": "other"},
			`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{` + version + `,"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":` + info + `}}}`,
		},
		{
			"a notification has no id",
			[]string{"notifications/x", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"a","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{}}}`},
			map[string]string{"Mcp-Method": "notifications/x", "Mcp-Protocol-Version": "a"},
			`{"jsonrpc":"2.0","method":"notifications/x","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"a","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{}}}}`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := runCall(t, "", append([]string{url}, tc.args...)...); got.err != nil {
				t.Fatal(got.err)
			}
			for k, want := range tc.headers {
				if got := strings.Join(header.Values(k), "|"); got != want {
					t.Errorf("%s: %q, want %q", k, got, want)
				}
			}
			if d := cmp.Diff(tc.body, body); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestCallPrintsTheResultAsItCame(t *testing.T) {
	const result = `{"z":9007199254740993,"a":[1.0,1e400],"a":"\u003cż\u001b[31m","e":{},"n":[]}`
	const want = "{\n  \"z\": 9007199254740993,\n  \"a\": [\n    1.0,\n    1e400\n  ],\n  \"a\": \"<ż\\u001b[31m\",\n  \"e\": {},\n  \"n\": []\n}\n"
	for _, h := range []http.Handler{
		says(200, "application/json; charset=utf-8", `{"jsonrpc":"2.0","id":1,"result":`+result+`}`),
		says(200, "text/event-stream", ": hello\r\nid: 1\ndata:\n\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\ndata: \"id\":1,\"result\":"+result+"}\n\n"),
	} {
		got := runCall(t, "", serveForCall(t, h), "x")
		if got.err != nil {
			t.Fatal(got.err)
		}
		if d := cmp.Diff(want, got.out); d != "" {
			t.Error(d)
		}
	}
}

func TestCallTellsWhatHappensMeanwhile(t *testing.T) {
	got := runCall(t, "", serveForCall(t, says(200, "text/event-stream",
		"data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{ \"progress\" : 1.0 }}\n\n"+
			"data: [{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"},{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":7}]\n\n")), "tools/call")
	if got.err != nil || got.out != "7\n" || got.notes != "notifications/progress {\"progress\":1.0}\nnotifications/x\n" {
		t.Errorf("%+v", got)
	}
}

// A legacy server may ask while it works, and would wait for ever without an answer.
func TestCallAnswersTheRequestsOfALegacyServer(t *testing.T) {
	answers := make(chan string, 2)
	url := serveForCall(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		method, _ := stringMember(body, "method")
		switch method {
		case "initialize":
			says(200, "application/json", `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"}}`).ServeHTTP(w, r)
		case "tools/call":
			w.Header().Set("Content-Type", "text/event-stream")
			for _, m := range []string{"ping", "roots/list"} {
				_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":\"s-%s\",\"method\":%q}\n\n", m, m)
				_ = http.NewResponseController(w).Flush()
				select {
				case a := <-answers:
					_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"got\",\"params\":%s}\n\n", a)
				case <-r.Context().Done():
					return
				}
			}
			_, _ = io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n")
		case "":
			answers <- string(body)
			w.WriteHeader(http.StatusAccepted)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	got := runCall(t, "", "--legacy", "--timeout", "10s", url, "tools/call")
	const want = "ping\n" + `got {"jsonrpc":"2.0","id":"s-ping","result":{}}` + "\nroots/list\n" +
		`got {"jsonrpc":"2.0","id":"s-roots/list","error":{"code":-32601,"message":"penstock call answers no requests"}}` + "\n"
	if d := cmp.Diff(want, got.notes); got.err != nil || d != "" {
		t.Errorf("%v %s", got.err, d)
	}
}

func TestCallExplainsFailures(t *testing.T) {
	rpc := func(status, code int, message, data string) http.Handler {
		quoted, err := jsontext.AppendQuote(nil, message)
		if err != nil {
			t.Fatal(err)
		}
		return says(status, "application/json", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"error":{"code":%d,"message":%s%s}}`, code, quoted, data))
	}
	for _, tc := range []struct {
		name string
		h    http.Handler
		args []string
		want string // URL stands for the address
	}{
		{"an error", rpc(200, -32602, "unknown tool", ``), nil, "x/y at URL: unknown tool (error -32602 invalid_params)"},
		{"an error with data", rpc(200, -31001, "upstream a is down; try again", `,"data":{"upstream":"a","n":1.0}`), nil, "x/y at URL: upstream a is down; try again (error -31001 upstream_unavailable)\n{\n  \"upstream\": \"a\",\n  \"n\": 1.0\n}"},
		{"a message with controls", rpc(200, 7, "a\u001b[2J\nb", ``), nil, "x/y at URL: a [2J b (error 7)"},
		{"an unknown method", rpc(404, -32601, "unknown method", ``), nil, "x/y at URL: unknown method (error -32601 method_not_found, HTTP 404)"},
		{"an unknown method of a legacy server", rpc(200, -32601, "unknown method", ``), nil, "x/y at URL: unknown method (error -32601 method_not_found); if the server speaks 2025-11-25 or an older revision, try --legacy"},
		{"older revisions only", rpc(400, -32022, "unsupported", `,"data":{"supported":["2025-11-25"]}`), nil, "x/y at URL: unsupported (error -32022 unsupported_version, HTTP 400); the server speaks older revisions only; try --legacy\n{\n  \"supported\": [\n    \"2025-11-25\"\n  ]\n}"},
		{"a newer revision", rpc(400, -32022, "unsupported", ``), nil, "x/y at URL: unsupported (error -32022 unsupported_version, HTTP 400)"},
		{"no session", rpc(400, -32000, "Bad Request: Server not initialized", ``), nil, "x/y at URL: Bad Request: Server not initialized (error -32000, HTTP 400); if the server speaks 2025-11-25 or an older revision, try --legacy"},
		{"a header", rpc(400, -32020, "Mcp-Param-Region is missing", ``), nil, "x/y at URL: Mcp-Param-Region is missing (error -32020 header_mismatch, HTTP 400); send the header with --header 'Mcp-Param-NAME=VALUE'"},
		{"initialize refused", rpc(400, -32022, "modern only", ``), []string{"--legacy"}, "x/y at URL: modern only (error -32022 unsupported_version, HTTP 400); the server may speak 2026-07-28 only; try without --legacy"},
		{"a page", says(404, "text/html", "<html><head><title>Not\nFound</title></head>"), nil, `x/y at URL: the server answered HTTP 404 Not Found with an HTML page "Not Found"; check the path of the URL`},
		{"a page as success", says(200, "text/html", "<!DOCTYPE html><title>Welcome</title>"), nil, `x/y at URL: the server answered HTTP 200 OK with an HTML page "Welcome"; check the path of the URL`},
		{"a text", says(400, "text/plain", "Bad Request: no session"), nil, `x/y at URL: the server answered HTTP 400 Bad Request with the text "Bad Request: no session"; check the path of the URL; if the server speaks 2025-11-25 or an older revision, try --legacy`},
		{"nothing", says(202, "application/json", ""), nil, "x/y at URL: its answer is not a JSON-RPC message; this is a fault of the server, or the URL is not that of an MCP server"},
		{"no token", says(401, "text/plain", ""), nil, "x/y at URL: the server answered HTTP 401 Unauthorized; the server asks for authorization: pass --header 'Authorization=Bearer TOKEN'"},
		{"broken", says(503, "text/plain", ""), nil, "x/y at URL: the server answered HTTP 503 Service Unavailable; try again later, or see the server's log"},
		{"a redirect", http.RedirectHandler("https://elsewhere.example/mcp", http.StatusTemporaryRedirect), nil, "x/y at URL: the server answered HTTP 307 Temporary Redirect; redirects are not followed; the server points to https://elsewhere.example/mcp"},
		{"another id", says(200, "application/json", `{"jsonrpc":"2.0","id":"1","result":{}}`), nil, `x/y at URL: it answered the request 1 with the id "1"; this is a fault of the server, or the URL is not that of an MCP server`},
		{"no result", says(200, "application/json", `{"jsonrpc":"2.0","id":1}`), nil, `x/y at URL: its answer holds neither a result nor an error; this is a fault of the server, or the URL is not that of an MCP server`},
		{"a stream that ends", says(200, "text/event-stream", "data: {\"method\":\"m\"}\n\n"), nil, "x/y at URL: the connection ended before the answer; the call may have run; check before you send it again"},
		{"a stream of JSON", says(200, "text/event-stream", `{"jsonrpc":"2.0","id":1,"result":{}}`), nil, "x/y at URL: the connection ended before the answer; the call may have run; check before you send it again"},
		{"a connection that breaks", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), nil, "x/y at URL: the connection ended before the answer; the call may have run; check before you send it again"},
		{"no version", says(200, "application/json", `{"jsonrpc":"2.0","id":0,"result":{}}`), []string{"--legacy"}, "x/y at URL: its answer to initialize names no protocolVersion; this is a fault of the server, or the URL is not that of an MCP server"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			url := serveForCall(t, tc.h)
			got := runCall(t, "", append([]string{url, "x/y"}, tc.args...)...)
			if got.err == nil || got.usage() || got.out != "" {
				t.Fatalf("%+v", got)
			}
			if d := cmp.Diff(tc.want, strings.ReplaceAll(got.err.Error(), url, "URL")); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestCallExplainsWhatKeepsItFromTheServer(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	hangs := serveForCall(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	plain := serveForCall(t, http.NotFoundHandler())
	for _, tc := range []struct{ args, want string }{
		{gone.URL + " ping", "ping at " + gone.URL + ": connection refused; is the server running, and are host and port right?"},
		{"http://u:secret@" + gone.Listener.Addr().String() + " ping", "ping at http://u:xxxxx@" + gone.Listener.Addr().String() + ": connection refused; is the server running, and are host and port right?"},
		{hangs + " ping --timeout 50ms", "ping at " + hangs + ": no answer within 50ms; raise --timeout, or see what the server is busy with; the call may have run"},
		{strings.Replace(plain, "http:", "https:", 1) + " ping", "ping at " + strings.Replace(plain, "http:", "https:", 1) + ": the server speaks plain HTTP; write http:// instead of https://"},
	} {
		got := runCall(t, "", strings.Fields(tc.args)...)
		if got.err == nil || got.usage() {
			t.Errorf("%s: %+v", tc.args, got)
			continue
		}
		if d := cmp.Diff(tc.want, got.err.Error()); d != "" {
			t.Error(d)
		}
	}
}

func TestCallPointsToTheOtherEra(t *testing.T) {
	workshop, library := serveForCall(t, demo.Workshop()), serveForCall(t, demo.Library())
	if got := runCall(t, "", workshop, "tools/list"); got.err == nil || !strings.HasSuffix(got.err.Error(), tryLegacy) {
		t.Errorf("%+v", got)
	}
	if got := runCall(t, "", library, "tools/list", "--legacy"); got.err == nil || !strings.Contains(got.err.Error(), tryModern) {
		t.Errorf("%+v", got)
	}
	if got := runCall(t, "", library, "ping"); got.err == nil || !strings.HasSuffix(got.err.Error(), tryLegacy) {
		t.Errorf("%+v", got)
	}
}

func TestCallRefusesWrongUsage(t *testing.T) {
	for _, args := range [][]string{
		{},
		{"http://127.0.0.1:1/mcp"},
		{"http://127.0.0.1:1/mcp", "a", "{}", "b"},
		{"127.0.0.1:1", "ping"},
		{"ftp://127.0.0.1/", "ping"},
		{"http://127.0.0.1:1", ""},
		{"http://127.0.0.1:1", "ping", "{"},
		{"http://127.0.0.1:1", "ping", "[]"},
		{"http://127.0.0.1:1", "ping", `{"a":1,"a":2}`},
		{"http://127.0.0.1:1", "ping", `{"_meta":1}`},
		{"http://127.0.0.1:1", "ping", "@/does/not/exist"},
		{"http://127.0.0.1:1", "ping", "--follow", "--legacy"},
		{"http://127.0.0.1:1", "ping", "--legacy", "--tasks"},
		{"http://127.0.0.1:1", "ping", "--header", "novalue"},
		{"http://127.0.0.1:1", "ping", "--timeout", "0s"},
		{"http://127.0.0.1:1", "ping", "--nonsense"},
	} {
		if got := runCall(t, "", args...); !got.usage() || got.out != "" {
			t.Errorf("%q: %+v", args, got)
		}
	}
}

func TestCallReadsParamsFromAFileOrStandardInput(t *testing.T) {
	url := serveForCall(t, demo.Library())
	const params = "\n{\"name\":\"get_book\",\n\"arguments\":{\"id\":\"b1\"}}\n"
	file := filepath.Join(t.TempDir(), "params.json")
	if err := os.WriteFile(file, []byte(params), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, arg := range []string{"-", "@" + file} {
		got := runCall(t, params, url, "tools/call", arg)
		if got.err != nil || !strings.Contains(got.out, "Mary Shelley") {
			t.Errorf("%s: %+v", arg, got)
		}
	}
}
