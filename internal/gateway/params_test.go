package gateway

import (
	"net/http"
	"testing"
)

var annotated = map[string]string{"tools/list": `"tools":[
	{"name":"add","inputSchema":{"type":"object","properties":{
		"region":{"type":"string","x-mcp-header":"Region"},
		"n":{"type":"integer","x-mcp-header":"N"},
		"on":{"type":"boolean","x-mcp-header":"On"},
		"deep":{"type":"object","properties":{"er":{"type":"string","x-mcp-header":"Deeper"}}}}}}]`}

// Checklist 23, 24: the headers that a schema declares repeat the arguments.
func TestParameterHeadersAreComparedWithTheArguments(t *testing.T) {
	u := &up{lists: annotated}
	h := serving(t, map[string]*up{"u": u})
	h.modern("tools/list", "", "")
	for _, c := range []struct {
		args    string
		headers []string
		ok      bool
	}{
		{`{}`, nil, true},
		{`{"region":null}`, nil, true},
		{`{"region":"eu"}`, []string{"Mcp-Param-Region", "eu"}, true},
		{`{"region":"eu"}`, []string{"mcp-param-region", "eu"}, true},
		{`{"region":"ü"}`, []string{"Mcp-Param-Region", "=?base64?w7w=?="}, true},
		{`{"region":"e\u0075"}`, []string{"Mcp-Param-Region", "eu"}, true},
		{`{"n":42}`, []string{"Mcp-Param-N", "42"}, true},
		{`{"n":42.0}`, []string{"Mcp-Param-N", "42"}, true},
		{`{"on":true}`, []string{"Mcp-Param-On", "true"}, true},
		{`{"deep":{"er":"x"}}`, []string{"Mcp-Param-Deeper", "x"}, true},
		{`{"other":1}`, []string{"Mcp-Param-Other", "2"}, true}, // not declared: not compared
		{`{"region":"eu"}`, nil, false},
		{`{"region":"eu"}`, []string{"Mcp-Param-Region", "us"}, false},
		{`{"region":"eu"}`, []string{"Mcp-Param-Region", "EU"}, false},
		{`{"region":"eu"}`, []string{"Mcp-Param-Region", ""}, false},
		{`{"region":"eu"}`, []string{"Mcp-Param-Region", "=?base64?ZXU?="}, false},
		{`{}`, []string{"Mcp-Param-Region", "eu"}, false},
		{`{"region":null}`, []string{"Mcp-Param-Region", "null"}, false},
		{`{"n":42}`, []string{"Mcp-Param-N", "43"}, false},
		{`{"n":9007199254740993}`, []string{"Mcp-Param-N", "9007199254740992"}, false},
		{`{"on":true}`, []string{"Mcp-Param-On", "1"}, false},
		{`{"deep":{"er":"x"}}`, nil, false},
	} {
		before := len(u.got("tools/call"))
		g := h.modern("tools/call", "u__add", `"name":"u__add","arguments":`+c.args, c.headers...)
		switch {
		case c.ok && (g.status != 200 || g.code(t) != 0):
			t.Errorf("%s %v: HTTP %d %s", c.args, c.headers, g.status, g.body)
		case !c.ok && (g.status != 400 || g.code(t) != -32020 || len(u.got("tools/call")) != before):
			t.Errorf("%s %v: HTTP %d %s", c.args, c.headers, g.status, g.body)
		}
	}
}

// Checklist 109, T15: south they are made from the arguments, also for a legacy
// client, whatever the client sent.
func TestParameterHeadersAreMadeForTheUpstream(t *testing.T) {
	u := &up{lists: annotated}
	h := serving(t, map[string]*up{"u": u})
	_, send := h.session("2025-11-25", `{}`)
	send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"u__add","arguments":{"region":" ü","n":42,"on":false,"deep":{"er":""}}}}`, "Mcp-Param-Region", "forged", "Mcp-Param-Free", "theirs")
	hd := u.last(t, "tools/call").header
	for name, want := range map[string]string{"Mcp-Param-Region": "=?base64?IMO8?=", "Mcp-Param-N": "42", "Mcp-Param-On": "false"} {
		if got := hd.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if v, there := hd[http.CanonicalHeaderKey("Mcp-Param-Deeper")]; !there || v[0] != "" { // T11: empty is not absent
		t.Errorf("the header of an empty string: %v", v)
	}
	if hd.Get("Mcp-Param-Free") != "" {
		t.Error("a header of a legacy client went on")
	}
	send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"u__add","arguments":{"region":null}}}`)
	for name := range u.last(t, "tools/call").header {
		if len(name) > 10 && name[:10] == "Mcp-Param-" {
			t.Errorf("%s for an absent argument", name)
		}
	}
	h.modern("tools/call", "u__add", `"name":"u__add","arguments":{"region":"eu"}`, "Mcp-Param-Region", "=?base64?ZXU=?=", "Mcp-Param-Free", "theirs")
	if hd := u.last(t, "tools/call").header; hd.Get("Mcp-Param-Region") != "eu" || len(hd.Values("Mcp-Param-Region")) != 1 || hd.Get("Mcp-Param-Free") != "theirs" {
		t.Errorf("%v", hd)
	}
}

func TestALegacyUpstreamGetsNoParameterHeaders(t *testing.T) {
	u := &up{legacy: true, lists: annotated}
	h := serving(t, map[string]*up{"u": u})
	if g := h.modern("tools/call", "u__add", `"name":"u__add","arguments":{"region":"eu"}`, "Mcp-Param-Region", "eu"); g.status != 200 {
		t.Fatalf("HTTP %d %s", g.status, g.body)
	}
	if hd := u.last(t, "tools/call").header; hd.Get("Mcp-Param-Region") != "" {
		t.Errorf("%v", hd)
	}
}
