package wire

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-mcp/penstock/internal/fault"
)

func TestParseFindsEveryMember(t *testing.T) {
	raw := []byte(` { "jsonrpc" : "2.0", "params" : {"name":"n\u0061","uri":"u","cursor":"c","taskId":"t","task":{"ttl":1},"arguments":{"id":9007199254740993},
		"requestState":"s","inputResponses":{},"level":"info","protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x"},
		"requestId":7,"reason":"r","progressToken":"p","ref":{"type":"ref/prompt","name":"rn","uri":"ru","x":1},"other":[{"a":1}],
		"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"a":{}},
		"io.modelcontextprotocol/clientInfo":{"v":1},"io.modelcontextprotocol/logLevel":"debug","io.modelcontextprotocol/serverInfo":{},
		"io.modelcontextprotocol/subscriptionId":3,"progressToken":1.0,"traceparent":"00-x","vendor":1e400}} , "method":"tools/call","id":9007199254740993 } `)
	var m Message
	if err := Parse(raw, &m); err != nil {
		t.Fatal(err)
	}
	if m.Kind != Request || m.Method != "tools/call" {
		t.Errorf("got %v %q", m.Kind, m.Method)
	}
	got := map[string]string{}
	for name, s := range map[string]Span{
		"id": m.ID, "method": m.MethodSpan, "name": m.Name, "uri": m.URI, "cursor": m.Cursor, "taskId": m.TaskID, "task": m.Task,
		"arguments": m.Arguments, "requestState": m.RequestState, "inputResponses": m.InputResponses, "level": m.Level,
		"protocolVersion": m.ProtocolVersion, "capabilities": m.Capabilities, "clientInfo": m.ClientInfo, "requestId": m.RequestID,
		"reason": m.Reason, "progressToken": m.ProgressTokenParam, "ref.type": m.RefType, "ref.name": m.RefName, "ref.uri": m.RefURI,
		"meta.version": m.MetaVersion, "meta.caps": m.MetaCaps, "meta.client": m.MetaClientInfo, "meta.level": m.MetaLogLevel,
		"meta.server": m.MetaServerInfo, "meta.sub": m.MetaSubscription, "meta.progress": m.ProgressToken, "meta.trace": m.Traceparent,
	} {
		got[name] = string(s.Of(raw))
	}
	want := map[string]string{
		"id": "9007199254740993", "method": `"tools/call"`, "name": `"n\u0061"`, "uri": `"u"`, "cursor": `"c"`, "taskId": `"t"`, "task": `{"ttl":1}`,
		"arguments": `{"id":9007199254740993}`, "requestState": `"s"`, "inputResponses": `{}`, "level": `"info"`,
		"protocolVersion": `"2025-06-18"`, "capabilities": `{}`, "clientInfo": `{"name":"x"}`, "requestId": "7",
		"reason": `"r"`, "progressToken": `"p"`, "ref.type": `"ref/prompt"`, "ref.name": `"rn"`, "ref.uri": `"ru"`,
		"meta.version": `"2026-07-28"`, "meta.caps": `{"a":{}}`, "meta.client": `{"v":1}`, "meta.level": `"debug"`,
		"meta.server": `{}`, "meta.sub": "3", "meta.progress": "1.0", "meta.trace": `"00-x"`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if p := m.Params.Of(raw); p[0] != '{' || p[len(p)-1] != '}' {
		t.Errorf("params: %s", p)
	}
	if p := m.Meta.Of(raw); !strings.HasPrefix(string(p), `{"io.`) || !strings.HasSuffix(string(p), "1e400}") {
		t.Errorf("_meta: %s", p)
	}
}

func TestParseTellsKinds(t *testing.T) {
	for raw, want := range map[string]Kind{
		`{"jsonrpc":"2.0","id":"","method":"ping"}`:                                   Request,
		`{"jsonrpc":"2.0","id":0,"method":"x/y","params":{}}`:                         Request,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`:                      Notification,
		`{"jsonrpc":"2.0","id":1,"result":{"a":1}}`:                                   Response,
		`{"jsonrpc":"2.0","id":1,"result":null}`:                                      Response,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"","data":{"Code":1}}}`: Response,
		`{"jsonrpc":"\u0032.0","id":-99999999999999999999,"m\u0065thod":"p\u0069ng"}`: Request,
		`{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":null}}`:               Request,
	} {
		var m Message
		if err := Parse([]byte(raw), &m); err != nil {
			t.Errorf("%s: %v", raw, err)
		} else if m.Kind != want {
			t.Errorf("%s is a %v", raw, m.Kind)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	deep := strings.Repeat("[", 20000) + strings.Repeat("]", 20000)
	for _, c := range []struct {
		name, raw string
		code      fault.Code
		id        string // that is still readable
	}{
		{"nothing", ``, fault.Parse, ""},
		{"white space", ` `, fault.Parse, ""},
		{"a truncated message", `{"jsonrpc":"2.0","id":1`, fault.Parse, "1"},
		{"a byte order mark", "\xef\xbb\xbf{}", fault.Parse, ""},
		{"data behind", `{"jsonrpc":"2.0","id":1,"method":"x"}{}`, fault.Parse, "1"},
		{"garbage behind", `{"jsonrpc":"2.0","id":1,"method":"x"}#`, fault.Parse, "1"},
		{"a duplicate in the envelope", `{"jsonrpc":"2.0","method":"a","id":"q","method":"b"}`, fault.Parse, `"q"`},
		{"a duplicate id", `{"jsonrpc":"2.0","method":"a","id":1,"id":2}`, fault.Parse, ""},
		{"a duplicate by escape", `{"jsonrpc":"2.0","method":"a","id":1,"params":{"name":"a","n\u0061me":"b"}}`, fault.Parse, "1"},
		{"a duplicate far below", `{"jsonrpc":"2.0","method":"a","id":1,"params":{"arguments":{"x":[{"a":1,"a":2}]}}}`, fault.Parse, "1"},
		{"invalid UTF-8", "{\"jsonrpc\":\"2.0\",\"method\":\"a\xff\",\"id\":1}", fault.Parse, "1"},
		{"a lone surrogate", `{"jsonrpc":"2.0","method":"a\ud800","id":1}`, fault.Parse, "1"},
		{"endless depth", `{"jsonrpc":"2.0","method":"a","id":1,"params":{"x":` + deep + `}}`, fault.Parse, "1"},
		{"a batch", `[{"jsonrpc":"2.0","id":1,"method":"x"}]`, fault.InvalidRequest, ""},
		{"a string", `"x"`, fault.InvalidRequest, ""},
		{"no version", `{"id":1,"method":"x"}`, fault.InvalidRequest, "1"},
		{"another version", `{"jsonrpc":"1.0","id":1,"method":"x"}`, fault.InvalidRequest, "1"},
		{"a number for a version", `{"jsonrpc":2.0,"id":1,"method":"x"}`, fault.InvalidRequest, "1"},
		{"id null", `{"jsonrpc":"2.0","id":null,"method":"x"}`, fault.InvalidRequest, ""},
		{"id with fraction", `{"jsonrpc":"2.0","id":1.0,"method":"x"}`, fault.InvalidRequest, ""},
		{"id with exponent", `{"jsonrpc":"2.0","id":1e3,"method":"x"}`, fault.InvalidRequest, ""},
		{"id an object", `{"jsonrpc":"2.0","id":{},"method":"x"}`, fault.InvalidRequest, ""},
		{"method a number", `{"jsonrpc":"2.0","id":1,"method":3}`, fault.InvalidRequest, "1"},
		{"method and result", `{"jsonrpc":"2.0","id":1,"method":"x","result":{}}`, fault.InvalidRequest, "1"},
		{"params an array", `{"jsonrpc":"2.0","id":1,"method":"x","params":[1]}`, fault.InvalidRequest, "1"},
		{"params null", `{"jsonrpc":"2.0","id":1,"method":"x","params":null}`, fault.InvalidRequest, "1"},
		{"_meta a string", `{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":"m"}}`, fault.InvalidParams, "1"},
		{"neither", `{"jsonrpc":"2.0","id":1}`, fault.InvalidRequest, "1"},
		{"result and error", `{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}`, fault.InvalidRequest, "1"},
		{"a response without id", `{"jsonrpc":"2.0","result":{}}`, fault.InvalidRequest, ""},
		{"a response with params", `{"jsonrpc":"2.0","id":1,"result":{},"params":{}}`, fault.InvalidRequest, "1"},
		{"an error that is a string", `{"jsonrpc":"2.0","id":1,"error":"x"}`, fault.InvalidRequest, "1"},
		{"an error code with fraction", `{"jsonrpc":"2.0","id":1,"error":{"code":1.5,"message":""}}`, fault.InvalidRequest, "1"},
		{"an error without message", `{"jsonrpc":"2.0","id":1,"error":{"code":1}}`, fault.InvalidRequest, "1"},
		{"Method beside method", `{"jsonrpc":"2.0","id":1,"method":"x","Method":"y"}`, fault.InvalidRequest, "1"},
		{"Name alone", `{"jsonrpc":"2.0","id":1,"method":"x","params":{"Name":"y"}}`, fault.InvalidRequest, "1"},
		{"NAME by escape", `{"jsonrpc":"2.0","id":1,"method":"x","params":{"N\u0041ME":"y"}}`, fault.InvalidRequest, "1"},
		{"taskId with a Kelvin sign", `{"jsonrpc":"2.0","id":1,"method":"x","params":{"tas\u212aId":"y"}}`, fault.InvalidRequest, "1"},
		{"TYPE in ref", `{"jsonrpc":"2.0","id":1,"method":"x","params":{"ref":{"TYPE":"y"}}}`, fault.InvalidRequest, "1"},
		{"ProgressToken in _meta", `{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{"ProgressToken":1}}}`, fault.InvalidRequest, "1"},
		{"invalid JSON before bad JSON-RPC", `{"jsonrpc":"1.0","id":1,"Method":tru}`, fault.Parse, "1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var m Message
			err := Parse([]byte(c.raw), &m)
			var f *fault.Error
			if !errors.As(err, &f) {
				t.Fatalf("got %v", err)
			}
			if f.Code != c.code {
				t.Errorf("got %v, want code %d", f, c.code)
			}
			if got := string(m.ID.Of(m.Raw)); got != c.id {
				t.Errorf("id %q is left, want %q", got, c.id)
			}
		})
	}
}

func TestParseSaysWhere(t *testing.T) {
	var m Message
	err := Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":1,"a":2}}`), &m)
	if got := fault.From(err).Public(); !strings.Contains(got, "byte 53") || !strings.Contains(got, "duplicate") {
		t.Errorf("got %q", got)
	}
	err = Parse([]byte(`{"jsonrpc":"2.0","Id":1,"method":"x"}`), &m)
	if got := fault.From(err).Public(); !strings.Contains(got, "byte 17") || !strings.Contains(got, `"id"`) {
		t.Errorf("got %q", got)
	}
}

func TestEveryDecidedNameHasAField(t *testing.T) {
	var m Message
	for lv, find := range map[level]func([]byte) *Span{paramsLevel: m.param, metaLevel: m.meta, refLevel: m.ref} {
		seen := map[*Span]bool{}
		for _, name := range decided[lv] {
			f := find([]byte(name))
			if f == nil || seen[f] {
				t.Errorf("level %d: %s has no field of its own", lv, name)
			}
			seen[f] = true
		}
	}
}

func TestParseKeepsNothingBetweenMessages(t *testing.T) {
	var m Message
	full := []byte(`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}`)
	if err := Parse(full, &m); err != nil {
		t.Fatal(err)
	}
	for _, raw := range []string{`{"id":1,"error":{"message":"m"}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":1}}`, `{"jsonrpc":"2.0","id":1,"error":{}}`} {
		if err := Parse([]byte(raw), &m); err == nil {
			t.Errorf("%s was accepted", raw)
		}
		if err := Parse(full, &m); err != nil {
			t.Errorf("after %s: %v", raw, err)
		}
	}
}

func TestParseAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools drop what they hold")
	}
	raw := []byte(`{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"a__b","arguments":{"x":[1,2,{"y":"z"}]},"_meta":{"progressToken":1}}}`)
	var m Message
	if n := testing.AllocsPerRun(200, func() {
		if err := Parse(raw, &m); err != nil {
			t.Fatal(err)
		}
	}); n >= 1 {
		t.Errorf("%v allocations", n)
	}
}
