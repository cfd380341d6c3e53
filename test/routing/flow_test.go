package routing_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What arrives before an answer leaves before it, in order, under the client's
// own token, whatever its type (checklist 62).
func TestProgressComesBackInOrderUnderTheClientsToken(t *testing.T) {
	t.Parallel()
	for _, legacy := range []bool{false, true} {
		up := peers{"a": {legacy: legacy, tools: items("tools", "x")}}
		up["a"].raw = func(w http.ResponseWriter, got request) bool {
			if got.method != "tools/call" {
				return false
			}
			token := string(find(got.body, "params", "_meta", "progressToken"))
			w.Header().Set("Content-Type", "text/event-stream")
			for _, n := range []string{"1.0", "2", "9007199254740993"} {
				_, _ = io.WriteString(w, `data: {"jsonrpc":"2.0","method":"notifications/progress","params":{ "progressToken" : `+token+`, "progress":`+n+"}}\n\n")
			}
			_, _ = io.WriteString(w, `data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"another's","progress":3}}`+"\n\n")
			_, _ = io.WriteString(w, "data: "+success(got.id, `"content":[]`)+"\n\n")
			return true
		}
		gw := serve(t, up, "")
		for era, c := range gw.clients(t, "") {
			for _, token := range []string{`7`, `"p"`, `"\u0070\/"`} {
				c.accept = "text/event-stream, application/json"
				meta := `"progressToken":` + token
				if c.modern() {
					meta += `,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}`
				}
				body := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__x","_meta":{` + meta + `}}}`)
				a := c.post(t, body, c.headers(t, body))
				var got []string
				for event := range strings.SplitSeq(a.stream, "\n\n") {
					if _, data, ok := strings.Cut(event, "data: "); ok && data != "" { // a priming event has none
						got = append(got, data)
					}
				}
				var wanted []string
				for _, n := range []string{"1.0", "2", "9007199254740993"} {
					wanted = append(wanted, `{"jsonrpc":"2.0","method":"notifications/progress","params":{ "progressToken" : `+token+`, "progress":`+n+"}}")
				}
				if len(got) != 4 || a.Result == nil {
					t.Fatalf("%s client, legacy upstream %t: %q", era, legacy, a.stream)
				}
				if diff := cmp.Diff(wanted, got[:3]); diff != "" {
					t.Errorf("%s client, legacy upstream %t: %s", era, legacy, diff)
				}
			}
		}
	}
}

// DESIGN section 8: the state of a question is sealed for one request, and comes
// back to the upstream as it gave it.
func TestRequestStateIsSealedOnItsWayNorthAndOpenedOnItsWayBack(t *testing.T) {
	t.Parallel()
	const state = `s3cret "état" 😀`
	ask := func(got request) string {
		if got.method != "tools/call" || find(got.body, "params", "inputResponses") != nil {
			return ""
		}
		return success("$ID", `"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{"mode":"form","message":"?","requestedSchema":{"type":"object"}}}},"requestState":`+quote(state))
	}
	up := peers{"a": {tools: items("tools", "x", "y"), reply: ask}, "b": {tools: items("tools", "x"), reply: ask}}
	c := serve(t, up, "").modern("")
	c.caps = `{"elicitation":{"form":{}}}`
	first := c.named(t, "tools/call", "a__x")
	sealed := find(first.Result, "requestState")
	if sealed == nil || strings.Contains(string(sealed), "s3cret") || unquote(find(first.Result, "resultType")) != "input_required" {
		t.Fatalf("the question: %s", first.raw)
	}
	retry := func(name, state string) *answer {
		return c.call(t, "tools/call", `{"name":"`+name+`","inputResponses":{"q":{"action":"accept","content":{}}},"requestState":`+state+`}`)
	}
	want(t, retry("a__x", string(sealed)), up["a"], "tools/call", "x")
	if got := unquote(find(up["a"].last(t, "tools/call").body, "params", "requestState")); got != state {
		t.Errorf("the upstream got %q back, not %q", got, state)
	}
	for _, p := range up {
		p.forget()
	}
	// Nowhere else, and not altered.
	altered := string(sealed[:len(sealed)-5]) + "AAAA\""
	for name, state := range map[string]string{"a__y": string(sealed), "b__x": string(sealed), "a__x": altered} {
		wantCode(t, retry(name, state), -32602, "tools/call", up)
	}
	wantCode(t, retry("a__x", quote(state)), -32602, "tools/call", up)
}

// Log messages of a call reach the client that set a level, from that level up,
// and nobody else (checklist 63, T30).
func TestLogMessagesReachWhoAskedForThem(t *testing.T) {
	t.Parallel()
	for _, legacy := range []bool{false, true} {
		up := peers{"a": {legacy: legacy, caps: `{"tools":{},"logging":{}}`, tools: items("tools", "x")}}
		up["a"].raw = func(w http.ResponseWriter, got request) bool {
			if got.method != "tools/call" {
				return false
			}
			w.Header().Set("Content-Type", "text/event-stream")
			for _, level := range []string{"debug", "warning", "error", "no-level"} {
				_, _ = io.WriteString(w, `data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"`+level+`","data":1.0}}`+"\n\n")
			}
			_, _ = io.WriteString(w, "data: "+success(got.id, `"content":[]`)+"\n\n")
			return true
		}
		gw := serve(t, up, "")
		for era, c := range gw.clients(t, "") {
			if a := c.named(t, "tools/call", "a__x"); a.Result == nil || strings.Contains(a.stream, "notifications/message") {
				t.Errorf("%s client, legacy upstream %t, without a level: %q", era, legacy, a.stream)
			}
			params := `{"name":"a__x"`
			if c.modern() {
				params += `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":"warning"}`
			} else if a := c.call(t, "logging/setLevel", `{"level":"warning"}`); a.Result == nil {
				t.Fatal(string(a.raw))
			}
			body := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + params + `}}`)
			a := c.post(t, body, c.headers(t, body))
			var levels []string
			for event := range strings.SplitSeq(a.stream, "\n\n") {
				_, data, _ := strings.Cut(event, "data: ")
				if level := find([]byte(data), "params", "level"); level != nil {
					levels = append(levels, unquote(level))
				}
			}
			if diff := cmp.Diff([]string{"warning", "error"}, levels); diff != "" || a.Result == nil {
				t.Errorf("%s client, legacy upstream %t: %s", era, legacy, diff)
			}
		}
	}
}

// Headers are made anew for each hop; what a client sends beside them is for the
// gateway alone (checklist 80, T10).
func TestNoHeaderOfTheClientReachesAnUpstream(t *testing.T) {
	t.Parallel()
	for _, legacy := range []bool{false, true} {
		up := peers{"a": {legacy: legacy, tools: items("tools", "x")}}
		gw := serve(t, up, "")
		for era, c := range gw.clients(t, "") {
			params := `{"name":"a__x"`
			if c.modern() {
				params += `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
			}
			body := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + params + `}}`)
			h := c.headers(t, body)
			if h == nil {
				h = http.Header{}
			}
			private := []string{"Authorization", "Cookie", "X-Secret", "X-Forwarded-For", "Last-Event-Id", "Proxy-Authorization", "User-Agent"}
			for _, name := range private {
				h.Set(name, "the-clients-own")
			}
			if a := c.post(t, body, h); a.Result == nil {
				t.Fatalf("%s: %s", era, a.raw)
			}
			got := up["a"].last(t, "tools/call").header
			for name, values := range got {
				if strings.Contains(strings.Join(values, " "), "the-clients-own") {
					t.Errorf("%s client, legacy upstream %t: %s: %q", era, legacy, name, values)
				}
			}
			if session := got.Get("Mcp-Session-Id"); c.session != "" && session == c.session {
				t.Errorf("%s client: its session id reached the upstream", era)
			}
		}
	}
}
