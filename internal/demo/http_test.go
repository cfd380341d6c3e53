package demo

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

const (
	metaJSON = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	listJSON = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + metaJSON + `}}`
)

// post sends one body straight to a handler; headers are pairs, an empty value
// takes one away.
func post(h http.Handler, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		if r.Header.Del(headers[i]); headers[i+1] != "" {
			r.Header.Add(headers[i], headers[i+1])
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestModernRequestsAreCheckedInOrder(t *testing.T) {
	const v = "Mcp-Protocol-Version"
	read := `{"jsonrpc":"2.0","id":"r","method":"resources/read","params":{"uri":"file:///ż",` + metaJSON + `}}`
	for _, tc := range []struct {
		name    string
		body    string
		headers []string
		status  int
		has     string
	}{
		{"a good request", listJSON, []string{v, "2026-07-28", "Mcp-Method", "tools/list"}, 200, `"ttlMs":60000,"cacheScope":"public"`},
		{"broken JSON", `{`, nil, 400, `-32700`},
		{"a duplicate name", `{"jsonrpc":"2.0","jsonrpc":"2.0"}`, nil, 400, `-32700`},
		{"a batch", `[` + listJSON + `]`, nil, 400, `-32600`},
		{"a null id", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, nil, 400, `-32600`},
		{"a fraction as id", `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, nil, 400, `-32600`},
		{"a response", `{"jsonrpc":"2.0","id":1,"result":{}}`, nil, 400, `-32600`},
		{"no _meta", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, []string{v, "2026-07-28"}, 400, `-32602`},
		{"no header", listJSON, nil, 400, `-32020`},
		{"another header", listJSON, []string{v, "2025-11-25"}, 400, `-32020`},
		{"another version", strings.Replace(listJSON, "2026-07-28", "2031-01-01", 1), []string{v, "2031-01-01"}, 400, `"data":{"supported":["2026-07-28"],"requested":"2031-01-01"}`},
		{"initialize", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`, nil, 400, `-32022`},
		{"initialize with _meta", strings.Replace(listJSON, "tools/list", "initialize", 1), []string{v, "2026-07-28", "Mcp-Method", "initialize"}, 404, `-32601`},
		{"an unknown method", strings.Replace(listJSON, "tools/list", "x/y", 1), []string{v, "2026-07-28", "Mcp-Method", "x/y"}, 404, `-32601`},
		{"no Mcp-Method", listJSON, []string{v, "2026-07-28"}, 400, `-32020`},
		{"no Mcp-Name", read, []string{v, "2026-07-28", "Mcp-Method", "resources/read"}, 400, `-32020`},
		{"a wrong Mcp-Name", read, []string{v, "2026-07-28", "Mcp-Method", "resources/read", "Mcp-Name", "file:///z"}, 400, `-32020`},
		{"an encoded Mcp-Name", read, []string{v, "2026-07-28", "Mcp-Method", "resources/read", "Mcp-Name", mcp.EncodeHeader("file:///ż")}, 200, `"id":"r","error":{"code":-32602,"message":"no resource \"file:///ż\"","data":{"uri":"file:///ż"}}`},
		{"a notification", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, nil, 202, ``},
		{"another media type", listJSON, []string{"Content-Type", "text/plain"}, 415, ``},
		{"nothing acceptable", listJSON, []string{"Accept", "text/html"}, 406, ``},
		{"a foreign origin", listJSON, []string{"Origin", "https://evil.example"}, 403, ``},
		{"a local origin", listJSON, []string{"Origin", "http://localhost:6274", v, "2026-07-28", "Mcp-Method", "tools/list"}, 200, ``},
		{"too much", strings.Repeat(" ", maxBody+1), nil, 413, ``},
		{"streams only", listJSON, []string{"Accept", "text/event-stream", v, "2026-07-28", "Mcp-Method", "tools/list"}, 200, "event: message\ndata: {"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := post(Library(), tc.body, tc.headers...)
			if w.Code != tc.status || !strings.Contains(w.Body.String(), tc.has) {
				t.Errorf("%d %s, want %d with %s", w.Code, w.Body, tc.status, tc.has)
			}
		})
	}
}

func TestTheLibraryHasNothingToGetOrDelete(t *testing.T) {
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		w := httptest.NewRecorder()
		Library().ServeHTTP(w, httptest.NewRequest(method, "/mcp", nil))
		if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "POST" {
			t.Errorf("%s: %d", method, w.Code)
		}
	}
}

// open starts a session and returns its id.
func open(t *testing.T, h http.Handler, version string) string {
	t.Helper()
	w := post(h, fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`, version))
	id := w.Header().Get("Mcp-Session-Id")
	if w.Code != http.StatusOK || id == "" {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return id
}

func TestSessionsBeginLiveAndEnd(t *testing.T) {
	h := Workshop()
	id := open(t, h, "2025-11-25")
	const ping = `{"jsonrpc":"2.0","id":"p","method":"ping"}`
	for _, tc := range []struct {
		name    string
		body    string
		headers []string
		status  int
		has     string
	}{
		{"ping", ping, []string{"Mcp-Session-Id", id}, 200, `{"jsonrpc":"2.0","id":"p","result":{}}`},
		{"the version is stated", ping, []string{"Mcp-Session-Id", id, "MCP-Protocol-Version", "2025-11-25"}, 200, `"result":{}`},
		{"another version", ping, []string{"Mcp-Session-Id", id, "MCP-Protocol-Version", "2025-06-18"}, 400, `2025-11-25`},
		{"a bad version", ping, []string{"Mcp-Session-Id", id, "MCP-Protocol-Version", "x"}, 400, `-32600`},
		{"no session", ping, nil, 400, `initialize`},
		{"an unknown session", ping, []string{"Mcp-Session-Id", "x"}, 404, `-32001`},
		{"an unknown method", `{"jsonrpc":"2.0","id":1,"method":"server/discover"}`, []string{"Mcp-Session-Id", id}, 200, `-32601`},
		{"a probe", `{"jsonrpc":"2.0","id":1,"method":"server/discover"}`, []string{"MCP-Protocol-Version", "2026-07-28"}, 400, `-32600`},
		{"a notification", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, []string{"Mcp-Session-Id", id}, 202, ``},
		{"a batch", `[` + ping + `]`, []string{"Mcp-Session-Id", id}, 400, `-32600`},
		{"JSON only", ping, []string{"Mcp-Session-Id", id, "Accept", "application/json"}, 200, `{"jsonrpc":"2.0","id":"p","result":{}}`},
		{"initialize without a version", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`, nil, 200, `-32602`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := post(h, tc.body, tc.headers...)
			if w.Code != tc.status || !strings.Contains(w.Body.String(), tc.has) {
				t.Errorf("%d %s, want %d with %s", w.Code, w.Body, tc.status, tc.has)
			}
		})
	}
	for i, want := range []int{http.StatusNoContent, http.StatusNotFound} {
		r := httptest.NewRequest(http.MethodDelete, "/mcp", nil)
		r.Header.Set("Mcp-Session-Id", id)
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != want {
			t.Errorf("delete %d: %d, want %d", i, w.Code, want)
		}
	}
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/mcp", nil)); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("get: %d", w.Code)
	}
}

func TestTheWorkshopNegotiatesTheRevision(t *testing.T) {
	for asked, want := range map[string]string{
		"2025-03-26": "2025-03-26", "2025-06-18": "2025-06-18", "2025-11-25": "2025-11-25",
		"2026-07-28": "2025-11-25", "2024-11-05": "2025-11-25", "garbage": "2025-11-25",
	} {
		w := post(Workshop(), fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":%q}}`, asked))
		if !strings.Contains(w.Body.String(), `{"protocolVersion":"`+want+`"`) {
			t.Errorf("%s: %s", asked, w.Body)
		}
		if has := strings.Contains(w.Body.String(), `"title"`); has != (want != "2025-03-26") {
			t.Errorf("%s: serverInfo is not shaped: %s", asked, w.Body)
		}
	}
}

func TestTheOldestRevisionHasBatches(t *testing.T) {
	h := Workshop()
	id := open(t, h, "2025-03-26")
	w := post(h, `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":"2","method":"initialize"},7]`,
		"Mcp-Session-Id", id, "Accept", "application/json")
	const want = `[{"jsonrpc":"2.0","id":1,"result":{}},` +
		`{"jsonrpc":"2.0","id":"2","error":{"code":-32600,"message":"initialize is never part of a batch"}},` +
		`{"jsonrpc":"2.0","error":{"code":-32600,"message":"the body is not a JSON-RPC message"}}]`
	if d := cmp.Diff(want, w.Body.String()); w.Code != http.StatusOK || d != "" {
		t.Errorf("%d %s", w.Code, d)
	}
	if w := post(h, `[{"jsonrpc":"2.0","method":"notifications/x"}]`, "Mcp-Session-Id", id); w.Code != http.StatusAccepted {
		t.Errorf("notifications alone: %d", w.Code)
	}
	for _, body := range []string{`[]`, `[1`} {
		if w := post(h, body, "Mcp-Session-Id", id); w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d", body, w.Code)
		}
	}
}

func TestTheSessionUsedLongestAgoMakesRoom(t *testing.T) {
	var table sessions
	first, second := table.open(mcp.V20251125), table.open(mcp.V20251125)
	for range maxSessions - 2 {
		table.open(mcp.V20251125)
	}
	if table.get(first.id) == nil {
		t.Fatal("a session is gone before there is need")
	}
	table.open(mcp.V20251125)
	if table.get(first.id) == nil || table.get(second.id) != nil || len(table.byID) != maxSessions {
		t.Errorf("%d sessions, the wrong one went", len(table.byID))
	}
}

func TestAnswersAreOneEventEach(t *testing.T) {
	h := Workshop()
	w := post(h, `{"jsonrpc":"2.0","id":"a\nb","method":"resources/read","params":{"uri":"workshop://safety"}}`, "Mcp-Session-Id", open(t, h, "2025-11-25"))
	body, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	if w.Header().Get("Content-Type") != "text/event-stream" || strings.Count(string(body), "\n") != 3 {
		t.Errorf("%q", body)
	}
}
