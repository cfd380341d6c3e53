package gateway

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	version = `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`
	caps    = `"io.modelcontextprotocol/clientCapabilities"`
)

// What a call looks like on its way to each era, to the byte (DESIGN section 3).
func TestOutboundBodiesToTheByte(t *testing.T) {
	const args = `"arguments":{"big":9007199254740993,"one":1.0, "far" : 1e400,"s":"<\u003c\/","nest":{"z":1,"a":[ ]}}`
	for _, c := range []struct {
		what           string
		client, legacy bool   // client: legacy client; legacy: legacy upstream
		params         string // of the client's message
		want           string // of the upstream's, without jsonrpc, id and method
	}{
		{
			"modern to modern", false, false,
			`{"name":"u__add",` + args + `,"_meta":{` + version + `,` + caps + `:{"sampling":{}},"progressToken":7,"vendor/k":[1 ,2]},"x":1e400}`,
			`{"name":"add",` + args + `,"_meta":{` + version + `,` + caps + `:{"sampling":{}},"progressToken":ID,"vendor/k":[1 ,2]},"x":1e400}`,
		},
		{
			"modern to modern, tasks are not declared on", false, false,
			`{"name":"u__add","task":{"ttl":1},"_meta":{` + version + `,` + caps + `:{"extensions":{"io.modelcontextprotocol/tasks":{},"x/y":{"a":1}}},"io.modelcontextprotocol/clientInfo":{"name":"c"}}}`,
			`{"name":"add","task":{"ttl":1},"_meta":{` + version + `,` + caps + `:{"extensions":{"x/y":{"a":1}}},"io.modelcontextprotocol/clientInfo":{"name":"c"}}}`,
		},
		{
			"modern to modern, trace context", false, false,
			`{"name":"u__add","_meta":{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","tracestate":"a=b",` + version + `,` + caps + `:{}}}`,
			`{"name":"add","_meta":{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","tracestate":"a=b",` + version + `,` + caps + `:{}}}`,
		},
		{
			"modern to legacy", false, true,
			`{"_meta":{` + version + `,` + caps + `:{"sampling":{}},"progressToken":"p","vendor/k":1,"io.modelcontextprotocol/logLevel":"info","io.modelcontextprotocol/clientInfo":{"name":"c"}},"name":"u__add",` + args + `}`,
			`{"_meta":{"progressToken":ID,"vendor/k":1},"name":"add",` + args + `}`,
		},
		{
			"modern to legacy, what it does not know", false, true,
			`{"name":"u__add","inputResponses":{},"arguments":{"requestState":"mine"},"task":{},"_meta":{` + version + `,` + caps + `:{}}}`,
			`{"name":"add","arguments":{"requestState":"mine"},"_meta":{}}`,
		},
		{
			"legacy to modern", true, false,
			`{"name":"u__add",` + args + `}`,
			`{"_meta":{` + version + `,"io.modelcontextprotocol/clientInfo":{"name":"c","version":"9"},` + caps + `:{"sampling":{}}},"name":"add",` + args + `}`,
		},
		{
			"legacy to modern, with _meta", true, false,
			`{"name":"u__add","_meta":{"progressToken":1,"vendor/k":{}}}`,
			`{"name":"add","_meta":{` + version + `,"io.modelcontextprotocol/clientInfo":{"name":"c","version":"9"},` + caps + `:{"sampling":{}},"progressToken":ID,"vendor/k":{}}}`,
		},
		{
			"legacy to modern, with an empty _meta", true, false,
			`{"name":"u__add","_meta":{ }}`,
			`{"name":"add","_meta":{` + version + `,"io.modelcontextprotocol/clientInfo":{"name":"c","version":"9"},` + caps + `:{"sampling":{}} }}`,
		},
		{
			"legacy to modern, a forged declaration", true, false,
			`{"name":"u__add","_meta":{"a":1,"io.modelcontextprotocol/clientCapabilities":{"sampling":{}},"io.modelcontextprotocol\/clientInfo":{"name":"evil"},"progressToken":"t"}}`,
			`{"name":"add","_meta":{` + version + `,"io.modelcontextprotocol/clientInfo":{"name":"c","version":"9"},` + caps + `:{"sampling":{}},"a":1,"progressToken":ID}}`,
		},
		{
			"legacy to modern, tasks are not offered", true, false,
			`{"name":"u__add","task":{"ttl":1},"arguments":{}}`,
			`{"_meta":{` + version + `,"io.modelcontextprotocol/clientInfo":{"name":"c","version":"9"},` + caps + `:{"sampling":{}}},"name":"add","arguments":{}}`,
		},
		{
			"legacy to legacy", true, true,
			`{"name":"u__add",` + args + `,"_meta":{"progressToken":"p","vendor/k":1}, "x" : 1 }`,
			`{"name":"add",` + args + `,"_meta":{"progressToken":ID,"vendor/k":1}, "x" : 1 }`,
		},
		{
			"legacy to legacy, tasks are not offered", true, true,
			`{"task":{"ttl":1},"name":"u__add"}`,
			`{"name":"add"}`,
		},
	} {
		t.Run(c.what, func(t *testing.T) {
			u := &up{legacy: c.legacy, on: answers("tools/call", 200, `{"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}`)}
			h := serving(t, map[string]*up{"u": u}, "servers: {default: {naming: namespaced}}")
			body := ` { "method":"tools/call","id":9007199254740993, "params":` + c.params + `,"jsonrpc":"2.0"} `
			var g out
			if c.client {
				_, send := h.session("2025-11-25", `{"sampling":{},"tasks":{}}`)
				g = send(body)
			} else {
				g = h.raw("tools/call", "u__add", body)
			}
			if g.status != 200 || string(g.message(t).ID) != "9007199254740993" {
				t.Fatalf("HTTP %d %s", g.status, g.body)
			}
			got := u.last(t, "tools/call")
			want := ` { "method":"tools/call","id":ID, "params":` + c.want + `,"jsonrpc":"2.0"} `
			if d := cmp.Diff(want, unminted(got.body)); d != "" {
				t.Error(d)
			}
			if strings.Contains(got.body, `"progressToken"`) && strings.Count(got.body, got.id) != 2 {
				t.Errorf("the progress token is not the request's id: %s", got.body)
			}
			if c.legacy {
				if got.header.Get("Mcp-Name") != "" || got.header.Get("Mcp-Method") != "" || got.header.Get("Mcp-Protocol-Version") != "2025-11-25" || got.header.Get("Mcp-Session-Id") == "" {
					t.Errorf("%v", got.header)
				}
			} else if got.header.Get("Mcp-Name") != "add" || got.header.Get("Mcp-Method") != "tools/call" || got.header.Get("Mcp-Protocol-Version") != "2026-07-28" || got.header.Get("Mcp-Session-Id") != "" {
				t.Errorf("%v", got.header)
			}
		})
	}
}

// Checklist 157: what belongs to one hop never goes on to the next.
func TestReservedMetadataOfAnotherHopIsNotPassedOn(t *testing.T) {
	const forged = `"io.modelcontextprotocol/serverInfo":{"name":"evil"},"io.modelcontextprotocol/subscriptionId":1`
	for _, legacy := range []bool{false, true} {
		u := &up{legacy: legacy}
		h := serving(t, map[string]*up{"u": u})
		_, send := h.session("2025-11-25", `{}`)
		h.raw("tools/call", "u__add", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"u__add",`+metaOpen+`,`+forged+`}}}`)
		send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"u__add","_meta":{` + forged + `}}}`)
		all := u.got("tools/call")
		if len(all) != 2 {
			t.Fatalf("%d calls", len(all))
		}
		for i, client := range []string{"modern", "legacy"} {
			for _, key := range []string{"serverInfo", "subscriptionId"} {
				if strings.Contains(all[i].body, key) {
					t.Errorf("%s client, legacy upstream %v: %s reaches the upstream: %s", client, legacy, key, all[i].body)
				}
			}
		}
	}
}

func TestTheLogLevelOfASessionIsDeclaredToAModernUpstream(t *testing.T) { // checklist 6.1
	u := &up{}
	h := serving(t, map[string]*up{"u": u})
	_, send := h.session("2025-06-18", `{}`)
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"u__add"}}`
	send(call)
	if b := u.last(t, "tools/call").body; strings.Contains(b, "logLevel") {
		t.Errorf("before it was set: %s", b)
	}
	if g := send(`{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"loud"}}`); g.code(t) != -32602 {
		t.Errorf("an unknown level: %s", g.body)
	}
	if g := send(`{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"warning"}}`); g.body != `{"jsonrpc":"2.0","id":2,"result":{}}` {
		t.Errorf("%s", g.body)
	}
	send(call)
	if b := u.last(t, "tools/call").body; !strings.Contains(b, `"io.modelcontextprotocol/logLevel":"warning"`) {
		t.Errorf("after it was set: %s", b)
	}
}

func TestHeadersOfTheClientDoNotGoOn(t *testing.T) { // T10
	u := &up{}
	h := serving(t, map[string]*up{"u": u})
	h.modern("tools/call", "=?base64?dV9fYWRk?=", `"name":"u__add"`, "Authorization", "Bearer theirs", "Cookie", "a=b", "X-Other", "1", "Mcp-Session-Id", "x", "Mcp-Param-Unknown", "kept", "Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	hd := u.last(t, "tools/call").header
	for _, name := range []string{"Authorization", "Cookie", "X-Other", "Mcp-Session-Id"} {
		if hd.Get(name) != "" {
			t.Errorf("%s reached the upstream: %q", name, hd.Get(name))
		}
	}
	if hd.Get("Mcp-Name") != "add" || hd.Get("Mcp-Param-Unknown") != "kept" { // checklist 149
		t.Errorf("%v", hd)
	}
}

func TestOddNamesAreEncodedAnew(t *testing.T) {
	u := &up{lists: map[string]string{"tools/list": `"tools":[{"name":"Zażółć","inputSchema":{}}]`, "resources/list": `"resources":[{"uri":"file:///ü b","name":"r"}]`}}
	h := serving(t, map[string]*up{"u": u}, "servers: {default: {naming: passthrough}}")
	if g := h.modern("tools/call", "=?base64?WmHFvMOzxYLEhw==?=", `"name":"Za\u017c\u00f3\u0142\u0107"`); g.status != 200 {
		t.Fatalf("HTTP %d %s", g.status, g.body)
	}
	got := u.last(t, "tools/call")
	if got.header.Get("Mcp-Name") != "=?base64?WmHFvMOzxYLEhw==?=" || !strings.Contains(got.body, `"name":"Za\u017c\u00f3\u0142\u0107"`) {
		t.Errorf("%v %s", got.header, got.body)
	}
}

func TestCompletionsGoWhereTheirReferenceBelongs(t *testing.T) {
	a, b := &up{}, &up{legacy: true, lists: map[string]string{"prompts/list": `"prompts":[{"name":"greet"}]`, "resources/templates/list": `"resourceTemplates":[{"uriTemplate":"db:///{x}","name":"t"}]`}}
	c := &up{caps: `{"prompts":{}}`, lists: map[string]string{"prompts/list": `"prompts":[{"name":"bye"}]`}}
	h := serving(t, map[string]*up{"a": a, "b": b, "c": c})
	for _, k := range []struct {
		ref, at, want string
		code          int
	}{
		{`{"type":"ref/prompt","name":"a__greet"}`, "a", `"ref":{"type":"ref/prompt","name":"greet"}`, 0},
		{`{"type":"ref/prompt","name":"b__greet","title":"x"}`, "b", `"ref":{"type":"ref/prompt","name":"greet","title":"x"}`, 0},
		{`{"type":"ref/resource","uri":"db:///{x}"}`, "b", `"ref":{"type":"ref/resource","uri":"db:///{x}"}`, 0},
		{`{"type":"ref/prompt","name":"c__bye"}`, "", "", -32601},
		{`{"type":"ref/prompt","name":"greet"}`, "", "", -32602},
		{`{"type":"ref/prompt"}`, "", "", -32602},
		{`{"type":"ref/tool","name":"a__add"}`, "", "", -32602},
		{`{"name":"a__greet"}`, "", "", -32602},
		{`5`, "", "", -32602},
	} {
		g := h.modern("completion/complete", "", `"ref":`+k.ref+`,"argument":{"name":"x","value":"y"}`)
		if g.code(t) != k.code {
			t.Errorf("%s: HTTP %d %s; want code %d", k.ref, g.status, g.body, k.code)
		}
		if at := map[string]*up{"a": a, "b": b}[k.at]; at != nil {
			if body := at.last(t, "completion/complete").body; !strings.Contains(body, k.want) {
				t.Errorf("%s: %s", k.ref, body)
			}
		}
	}
	if n := len(c.got("completion/complete")); n != 0 {
		t.Errorf("%d completions reached an upstream without them", n)
	}
	if a.last(t, "completion/complete").header.Get("Mcp-Name") != "" {
		t.Error("a completion has an Mcp-Name")
	}
}
