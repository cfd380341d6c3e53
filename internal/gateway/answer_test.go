package gateway

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const ours = `{"name":"penstock","title":"Penstock","version":"test"}`

// What a result looks like to each client, to the byte (checklist 6.5, 104).
func TestResultsToTheByte(t *testing.T) {
	const tag = `"penstock/upstream":"u"`
	const modernMeta = `"_meta":{` + tag + `,"io.modelcontextprotocol/serverInfo":` + ours + `}`
	for _, c := range []struct {
		what, method, params string
		legacy               bool   // upstream
		result               string // of the upstream
		modern               string // to a modern client
		v251125              string // to legacy clients
		v250618, v250326     string // "": as the newer one
	}{
		{
			what: "a modern result", method: "tools/call", params: `"name":"u__add"`,
			result:  `{"resultType":"complete","content":[{"type":"text","text":"<\u003c"}],"n":9007199254740993,"x":[1 , 1e400]}`,
			modern:  `{"resultType":"complete","content":[{"type":"text","text":"<\u003c"}],"n":9007199254740993,"x":[1 , 1e400],` + modernMeta + `}`,
			v251125: `{"content":[{"type":"text","text":"<\u003c"}],"n":9007199254740993,"x":[1 , 1e400],"_meta":{` + tag + `}}`,
		},
		{
			what: "a legacy result", method: "tools/call", params: `"name":"u__add"`, legacy: true,
			result:  `{"content":[],"isError":true}`,
			modern:  `{"content":[],"isError":true,"resultType":"complete",` + modernMeta + `}`,
			v251125: `{"content":[],"isError":true,"_meta":{` + tag + `}}`,
		},
		{
			what: "a legacy result that would ask", method: "tools/call", params: `"name":"u__add"`, legacy: true,
			result:  `{"resultType":"input_required","inputRequests":{"k":{"method":"roots/list"}},"requestState":"s","content":[]}`,
			modern:  `{"content":[],"resultType":"complete",` + modernMeta + `}`,
			v251125: `{"resultType":"input_required","inputRequests":{"k":{"method":"roots/list"}},"requestState":"s","content":[],"_meta":{` + tag + `}}`,
		},
		{
			what: "an empty result", method: "tools/call", params: `"name":"u__add"`, legacy: true,
			result:  `{}`,
			modern:  `{"resultType":"complete",` + modernMeta + `}`,
			v251125: `{"_meta":{` + tag + `}}`,
		},
		{
			what: "a forged server", method: "tools/call", params: `"name":"u__add"`,
			result:  `{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"evil"},"a":1,"penstock/upstream":"other"},"resultType":"complete","content":[]}`,
			modern:  `{"_meta":{"io.modelcontextprotocol/serverInfo":` + ours + `,"a":1,` + tag + `},"resultType":"complete","content":[]}`,
			v251125: `{"_meta":{"a":1,` + tag + `},"content":[]}`,
		},
		{
			what: "structured content that is an object", method: "tools/call", params: `"name":"u__add"`, legacy: true,
			result:  `{"content":[{"type":"text","text":"{}"}],"structuredContent":{"a":1}}`,
			modern:  `{"content":[{"type":"text","text":"{}"}],"structuredContent":{"a":1},"resultType":"complete",` + modernMeta + `}`,
			v251125: `{"content":[{"type":"text","text":"{}"}],"structuredContent":{"a":1},"_meta":{` + tag + `}}`,
			v250326: `{"content":[{"type":"text","text":"{}"}],"_meta":{` + tag + `}}`,
		},
		{
			what: "a resource", method: "resources/read", params: `"uri":"file:///a"`, legacy: true,
			result:  `{"contents":[{"uri":"file:///a","text":"x"}]}`,
			modern:  `{"contents":[{"uri":"file:///a","text":"x"}],"resultType":"complete","ttlMs":0,"cacheScope":"private",` + modernMeta + `}`,
			v251125: `{"contents":[{"uri":"file:///a","text":"x"}],"_meta":{` + tag + `}}`,
		},
		{
			what: "a resource that may be kept", method: "resources/read", params: `"uri":"file:///a"`,
			result:  `{"resultType":"complete","ttlMs":5000,"cacheScope":"public","contents":[{"uri":"file:///a","text":"x"}]}`,
			modern:  `{"resultType":"complete","ttlMs":5000,"cacheScope":"public","contents":[{"uri":"file:///a","text":"x"}],` + modernMeta + `}`,
			v251125: `{"contents":[{"uri":"file:///a","text":"x"}],"_meta":{` + tag + `}}`,
		},
		{
			what: "a prompt", method: "prompts/get", params: `"name":"u__greet"`,
			result:  `{"resultType":"complete","messages":[]}`,
			modern:  `{"resultType":"complete","messages":[],` + modernMeta + `}`,
			v251125: `{"messages":[],"_meta":{` + tag + `}}`,
		},
	} {
		t.Run(c.what, func(t *testing.T) {
			u := &up{legacy: c.legacy, on: answers(c.method, 200, `{"jsonrpc":"2.0","id":$ID,"result":`+c.result+`}`)}
			h := serving(t, map[string]*up{"u": u})
			name := strings.Trim(c.params[strings.Index(c.params, ":")+1:], `"`)
			if d := cmp.Diff(`{"jsonrpc":"2.0","id":1,"result":`+c.modern+`}`, h.modern(c.method, name, c.params).body); d != "" {
				t.Errorf("modern: %s", d)
			}
			want := c.v251125
			for _, v := range []struct{ revision, want string }{{"2025-11-25", ""}, {"2025-06-18", c.v250618}, {"2025-03-26", c.v250326}} {
				if v.want != "" {
					want = v.want
				}
				_, send := h.session(v.revision, `{}`)
				got := send(`{"jsonrpc":"2.0","id":"q","method":"` + c.method + `","params":{` + c.params + `}}`)
				if d := cmp.Diff(`{"jsonrpc":"2.0","id":"q","result":`+want+`}`, got.body); d != "" || got.status != 200 {
					t.Errorf("%s: HTTP %d %s", v.revision, got.status, d)
				}
			}
		})
	}
}

func TestResultsAreProjectedByRevision(t *testing.T) {
	const result = `{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"complete","structuredContent":[1],"content":[{"type":"resource_link","uri":"x:1","name":"n","icons":[]}]}}`
	u := &up{on: answers("tools/call", 200, result)}
	h := serving(t, map[string]*up{"u": u})
	for revision, c := range map[string]struct{ has, lacks string }{
		"2025-11-25": {`"resource_link"`, "structuredContent"},
		"2025-06-18": {`"resource_link"`, "icons"},
		"2025-03-26": {`"type":"text"`, "resource_link"},
	} {
		_, send := h.session(revision, `{}`)
		g := send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"u__add"}}`)
		if !strings.Contains(g.body, c.has) || strings.Contains(g.body, c.lacks) || strings.Contains(g.body, "structuredContent") {
			t.Errorf("%s: %s", revision, g.body)
		}
	}
	if g := h.modern("tools/call", "u__add", `"name":"u__add"`); !strings.Contains(g.body, `"structuredContent":[1]`) {
		t.Errorf("modern: %s", g.body)
	}
}

func TestTheOriginTagCanBeHidden(t *testing.T) {
	u := &up{}
	h := serving(t, map[string]*up{"secret-up": u}, "servers: {default: {origin_tag: off}}")
	if g := h.modern("tools/call", "secret-up__add", `"name":"secret-up__add"`); g.status != 200 || strings.Contains(g.body, "secret-up") {
		t.Errorf("HTTP %d %s", g.status, g.body)
	}
}

// Checklist section 9, 6.2, T57, T62: an upstream's own error, and what each
// client gets. $ID stands for ids.
func TestUpstreamErrorsByEra(t *testing.T) {
	for _, c := range []struct {
		what, method   string
		legacy         bool // upstream
		error          string
		modern, oldies int // codes
		status         int // to the modern client
		verbatim       bool
	}{
		{"any", "tools/call", false, `{"code":5,"message":"m","data":{"a":[1 ,2]}}`, 5, 5, 200, true},
		{"any of a legacy upstream", "tools/call", true, `{"code":-32000,"message":"m","data":null}`, -32000, -32000, 200, true},
		{"invalid params", "tools/call", false, `{"code":-32602,"message":"m"}`, -32602, -32602, 200, true},
		{"internal", "prompts/get", true, `{"code":-32603,"message":"m"}`, -32603, -32603, 200, true},
		{"unknown method", "tools/call", true, `{"code":-32601,"message":"m"}`, -32601, -32601, 404, true},
		{"unknown resource, modern", "resources/read", false, `{"code":-32602,"message":"m","data":{"uri":"file:///a"}}`, -32602, -32002, 200, false},
		{"invalid params of a read", "resources/read", false, `{"code":-32602,"message":"m"}`, -32602, -32602, 200, true},
		{"unknown resource, legacy", "resources/read", true, `{"code":-32002,"message":"m"}`, -32602, -32002, 200, false},
		{"URL elicitation", "tools/call", true, `{"code":-32042,"message":"m","data":{"elicitations":[]}}`, -32021, 0, 400, false},
		{"missing capability, read", "resources/read", false, `{"code":-32021,"message":"m","data":{"requiredCapabilities":{"sampling":{}}}}`, -32021, -32603, 400, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			u := &up{legacy: c.legacy, on: answers(c.method, 200, `{"jsonrpc":"2.0","id":$ID,"error":`+c.error+`}`)}
			h := serving(t, map[string]*up{"u": u})
			params, name := `"name":"u__add"`, "u__add"
			switch c.method {
			case "resources/read":
				params, name = `"uri":"file:///a"`, "file:///a"
			case "prompts/get":
				params, name = `"name":"u__greet"`, "u__greet"
			}
			g := h.modern(c.method, name, params)
			if g.status != c.status || g.code(t) != c.modern {
				t.Errorf("modern: HTTP %d %s; want %d with %d", g.status, g.body, c.status, c.modern)
			}
			if want := `{"jsonrpc":"2.0","id":1,"error":` + c.error + `}`; c.verbatim && g.body != want {
				t.Errorf("modern: %s, want %s", g.body, want)
			}
			if c.method == "resources/read" && g.code(t) == -32602 && !c.verbatim && !strings.Contains(g.body, `"data":{"uri":"file:///a"}`) {
				t.Errorf("modern: no data.uri in %s", g.body)
			}
			_, send := h.session("2025-11-25", `{}`)
			old := send(`{"jsonrpc":"2.0","id":1,"method":"` + c.method + `","params":{` + params + `}}`)
			if old.status != 200 || old.code(t) != c.oldies {
				t.Errorf("legacy: HTTP %d %s; want code %d", old.status, old.body, c.oldies)
			}
			if want := `{"jsonrpc":"2.0","id":1,"error":` + c.error + `}`; c.verbatim && old.body != want {
				t.Errorf("legacy: %s, want %s", old.body, want)
			}
		})
	}
}

func TestAnErrorWithoutAnIDIsTheAnswerToTheCall(t *testing.T) {
	for _, id := range []string{`"id":null,`, ``} {
		u := &up{on: answers("tools/call", 400, `{"jsonrpc":"2.0",`+id+`"error":{"code":-32600,"message":"m"}}`)}
		h := serving(t, map[string]*up{"u": u})
		if g := h.modern("tools/call", "u__add", `"name":"u__add"`); g.body != `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"m"}}` || g.status != 200 {
			t.Errorf("HTTP %d %s", g.status, g.body)
		}
	}
}

// Checklist 6.3: a legacy client has no code for a capability that it lacks.
func TestALegacyClientLearnsInWordsWhatItLacks(t *testing.T) {
	u := &up{on: answers("tools/call", 400, `{"jsonrpc":"2.0","id":$ID,"error":{"code":-32021,"message":"m","data":{"requiredCapabilities":{"sampling":{}}}}}`)}
	h := serving(t, map[string]*up{"u": u})
	_, send := h.session("2025-11-25", `{}`)
	g := send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"u__add"}}`)
	if r := g.message(t).Result; r["isError"] != true || !strings.Contains(g.body, "capability") {
		t.Errorf("%s", g.body)
	}
	if g := h.modern("tools/call", "u__add", `"name":"u__add"`); g.status != 400 || g.code(t) != -32021 || !strings.Contains(g.body, `"requiredCapabilities":{"sampling":{}}`) {
		t.Errorf("modern: HTTP %d %s", g.status, g.body)
	}
}

// T62: -32020 and -32022 are about what the gateway added: it mends that once,
// and a client never sees them.
func TestRefusalsOfOurOwnHeadersAreMendedOnce(t *testing.T) {
	for code, repaired := range map[int]string{-32020: "tools/list", -32022: "server/discover"} {
		for _, times := range []int{1, 100} {
			n := 0
			u := &up{}
			u.set(answers("never", 0, ""))
			h := serving(t, map[string]*up{"u": u})
			h.modern("tools/list", "", "") // so that the list is known
			u.mu.Lock()
			u.seen = nil
			u.mu.Unlock()
			refuse := answers("tools/call", 400, `{"jsonrpc":"2.0","id":$ID,"error":{"code":`+fmt.Sprint(code)+`,"message":"m","data":{"supported":["2026-07-28"],"requested":"x"}}}`)
			u.set(func(w responseWriter, r *request, hd heard) bool {
				if hd.method == "tools/call" {
					if n++; n <= times {
						return refuse(w, r, hd)
					}
				}
				return false
			})
			g := h.modern("tools/call", "u__add", `"name":"u__add"`)
			want := 0
			if times > 1 {
				want = -31007
			}
			if g.code(t) != want || g.status != 200 {
				t.Errorf("%d, %d times: HTTP %d %s", code, times, g.status, g.body)
			}
			if calls := len(u.got("tools/call")); calls != 2 {
				t.Errorf("%d, %d times: %d calls", code, times, calls)
			}
			if len(u.got(repaired)) == 0 {
				t.Errorf("%d: no %s before the second attempt", code, repaired)
			}
		}
	}
}

// An upstream that was legacy and was replaced by a modern one refuses the
// session's messages with codes of the new era.
func TestAnUpstreamThatBecameModernIsReachedAgain(t *testing.T) {
	u := &up{legacy: true}
	h := serving(t, map[string]*up{"u": u})
	if g := h.modern("tools/call", "u__add", `"name":"u__add"`); g.code(t) != 0 {
		t.Fatalf("%s", g.body)
	}
	u.mu.Lock()
	u.legacy = false
	u.mu.Unlock()
	u.set(func(w responseWriter, _ *request, hd heard) bool {
		if hd.header.Get("Mcp-Method") != "" || hd.id == "" {
			return false
		}
		reply(w, 400, `{"jsonrpc":"2.0","id":`+hd.id+`,"error":{"code":-32022,"message":"m","data":{"supported":["2026-07-28"],"requested":"2025-11-25"}}}`)
		return true
	})
	if g := h.modern("tools/call", "u__add", `"name":"u__add"`); g.code(t) != 0 || g.status != 200 {
		t.Errorf("HTTP %d %s", g.status, g.body)
	}
}

// DESIGN section 3: after the first byte a failure cuts the connection.
func TestALargeAnswerThatBreaksOffCutsTheClient(t *testing.T) {
	u := &up{on: func(w responseWriter, _ *request, hd heard) bool {
		if hd.method != "tools/call" {
			return false
		}
		reply(w, 200, `{"jsonrpc":"2.0","id":`+hd.id+`,"result":{"resultType":"complete","a":"`+strings.Repeat("a", 150<<10))
		panic(abort)
	}}
	h := serving(t, map[string]*up{"u": u})
	if g := h.modern("tools/call", "u__add", `"name":"u__add"`); !g.cut || strings.Contains(g.body, `"error"`) {
		t.Errorf("cut %v, HTTP %d, %d bytes", g.cut, g.status, len(g.body))
	}
}

func TestALargeAnswerPassesAsItIs(t *testing.T) {
	text := strings.Repeat(`\u003c\"é`, 20<<10)
	for _, legacy := range []bool{false, true} {
		u := &up{legacy: legacy, on: answers("tools/call", 200, `{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"`+text+`"}],"n":1e400}}`)}
		h := serving(t, map[string]*up{"u": u})
		want := `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"` + text + `"}],"n":1e400,"resultType":"complete","_meta":{"penstock/upstream":"u","io.modelcontextprotocol/serverInfo":` + ours + `}}}`
		if g := h.modern("tools/call", "u__add", `"name":"u__add"`); g.cut || g.body != want {
			t.Errorf("cut %v, HTTP %d, %d bytes, want %d; ends %s", g.cut, g.status, len(g.body), len(want), g.body[max(0, len(g.body)-200):])
		}
	}
}

func TestTransportFaultsHaveCodesOfOurOwn(t *testing.T) { // DESIGN section 13
	u := &up{}
	h := serving(t, map[string]*up{"u": u}, "limits: {call_timeout: 1s, response_bytes: 128KiB}")
	h.modern("tools/list", "", "")
	for what, c := range map[string]struct {
		on   func(responseWriter, *request, heard) bool
		code int
	}{
		"silence": {func(_ responseWriter, r *request, _ heard) bool { <-r.Context().Done(); return true }, -31002},
		"a cut":   {func(responseWriter, *request, heard) bool { panic(abort) }, -31003},
		"HTML": {func(w responseWriter, _ *request, _ heard) bool {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(200)
			return true
		}, -31007},
		"HTTP 503": {func(w responseWriter, _ *request, _ heard) bool { w.WriteHeader(503); return true }, -31001},
		"too large": {func(w responseWriter, _ *request, hd heard) bool {
			w.Header().Set("Content-Length", "200000")
			reply(w, 200, `{"jsonrpc":"2.0","id":`+hd.id+`,"result":{"a":"`+strings.Repeat("a", 100000))
			panic(abort)
		}, -31008},
		"a result [1]": {answers("tools/call", 200, `{"jsonrpc":"2.0","id":$ID,"result":[1]}`), -31007},
	} {
		u.set(func(w responseWriter, r *request, hd heard) bool { return hd.method == "tools/call" && c.on(w, r, hd) })
		g := h.modern("tools/call", "u__add", `"name":"u__add"`)
		if g.code(t) != c.code {
			t.Errorf("%s: HTTP %d %.200s; want %d", what, g.status, g.body, c.code)
		}
		if strings.Contains(g.body, "127.0.0.1") {
			t.Errorf("%s: an address reaches the client: %s", what, g.body)
		}
	}
}

// A result of the era with sessions cannot ask, whatever it says of itself.
func TestALegacyResultThatPosesAsAQuestionIsNone(t *testing.T) {
	u := &up{legacy: true, on: answers("tools/call", 200, `{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"input_required","content":[],"requestState":"open","inputRequests":{"k":{"method":"roots/list"}},"isError":false}}`)}
	h := serving(t, map[string]*up{"u": u})
	g := h.modern("tools/call", "u__add", `"name":"u__add"`)
	for _, never := range []string{"requestState", "inputRequests", "input_required", `"open"`} {
		if strings.Contains(g.body, never) {
			t.Errorf("%s in %s", never, g.body)
		}
	}
	if !strings.Contains(g.body, `"resultType":"complete"`) || !strings.Contains(g.body, `"isError":false`) {
		t.Error(g.body)
	}
}
