package durablegateway_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// legacy sends one message of a legacy session and returns the answer and the session's id.
func (g *gateway) legacy(session, body string) (answer, id string) {
	g.t.Helper()
	r, err := http.NewRequestWithContext(g.t.Context(), http.MethodPost, g.front.URL+"/mcp", strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
		r.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	}
	resp, err := g.http.Do(r)
	if err != nil {
		g.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	out := string(raw)
	for line := range strings.Lines(out) {
		if data, is := strings.CutPrefix(line, "data:"); is && strings.Contains(data, `"id"`) {
			out = strings.TrimSpace(data)
		}
	}
	return out, resp.Header.Get("Mcp-Session-Id")
}

// A client of the older era finds, leases and invokes, and can submit nothing: it has no words for the task.
func TestALegacyClientInvokesAndDoesNotSubmit(t *testing.T) {
	t.Parallel()
	w, dir := startWorker(t, "kitchen"), t.TempDir()
	g := serve(t, dir, document(t, dir, "", w))
	id := text(g.as("").ready().submit("kitchen__bake", "k", `{}`).Result, "taskId")
	_, session := g.legacy("", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	g.legacy(session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	call := func(tool, arguments string) string {
		out, _ := g.legacy(session, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"penstock_`+tool+`","arguments":`+arguments+`}}`)
		return at(out, "result")
	}
	list, _ := g.legacy(session, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	var names []string
	for i := 0; at(list, "result", "tools", i) != "" && i < 20; i++ {
		names = append(names, text(list, "result", "tools", i, "name"))
	}
	if slices.Contains(names, "penstock_submit") || !slices.Contains(names, "penstock_invoke") {
		t.Errorf("listed: %v", names)
	}
	r := call("lease", `{"aliases":["kitchen__bake"],"sideEffects":["idempotent_write"]}`)
	if strings.Contains(r, "resultType") {
		t.Errorf("lease: %s", r)
	}
	if r := call("invoke", `{"alias":"kitchen__bake","arguments":{"flavor":"lemon"},"leaseId":`+at(r, "structuredContent", "leaseId")+`}`); text(r, "content", 0, "text") != "bake for lemon" {
		t.Errorf("invoke: %s", r)
	}
	if r := call("submit", `{}`); text(r, "structuredContent", "code") != "PENSTOCK_TASK_CLIENT_CAPABILITY_REQUIRED" {
		t.Errorf("submit: %s", r)
	}
	if r, _ := g.legacy(session, `{"jsonrpc":"2.0","id":3,"method":"tasks/get","params":{"taskId":`+quote(id)+`}}`); at(r, "error", "code") == "" {
		t.Errorf("tasks/get: %s", r)
	}
}
