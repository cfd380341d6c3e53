package mcp

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

const everyCap = `{"elicitation":{"form":{},"url":{}},"roots":{},"sampling":{"context":{},"tools":{}}}`

func question(t *testing.T, method, caps string, rev Revision, params string) (string, bool) {
	t.Helper()
	c, err := ParseClientCaps([]byte(caps))
	if err != nil {
		t.Fatal(err)
	}
	var raw []byte
	if params != "" {
		raw = []byte(params)
	}
	q, ok := ProjectQuestion(method, c, rev, raw)
	if ok && params != "" && !jsontext.Value(q.Params).IsValid() {
		t.Errorf("%s became what is no JSON: %s", params, q.Params)
	}
	return string(q.Params), ok
}

// Checklist 6.3, 6.5: a form as an older client reads it, all else byte for byte.
func TestFormsAreShapedForTheRevision(t *testing.T) {
	const field = `"requestedSchema": {"type":"object", "properties": {"n":{"type":"integer","default":9007199254740993}, `
	for _, tc := range []struct{ name, params, older string }{
		{"plain", `{"message":"\u0061", ` + field + `"e":{"type":"string","enum":["a"],"enumNames":["A"],"format":"email"}},"required":["n"] } }`, ""},
		{"mode", `{ "mode":"form", "message":"m" }`, `{ "message":"m" }`},
		{"mode at the end", `{"message":"m","mode":"form"}`, `{"message":"m"}`},
		{"mode null", `{"mode":null,"x":1}`, `{"x":1}`},
		{
			"titles",
			`{"message":"m",` + field + `"c":{"type":"string","title":"T","oneOf":[ {"const":"r\u0065d","title":"R \"1\""},{"title":"G","const":"g"},{"const":"b"} ], "default":"g"}}}}`,
			`{"message":"m",` + field + `"c":{"type":"string","title":"T","enum":["r\u0065d","g","b"],"enumNames":["R \"1\"","G","b"], "default":"g"}}}}`,
		},
		{"none of a newer revision", `{` + field + `"a":{"oneOf":[{"type":"string"},{"type":"null"}]},"b":{"anyOf":[{"const":"x"}]}, "c":1}}}`, ""},
		{"task", `{"task":{"ttl":1},"message":"m"}`, `{"message":"m"}`},
	} {
		want := tc.older
		if want == "" {
			want = tc.params
		}
		if got, ok := question(t, CreateElicitation, everyCap, V20250618, tc.params); !ok || got != want {
			t.Errorf("%s: %v %s, want %s", tc.name, ok, got, want)
		}
		if got, ok := question(t, CreateElicitation, everyCap, V20251125, tc.params); tc.name != "task" && (!ok || got != tc.params) {
			t.Errorf("%s, 2025-11-25: %v %s", tc.name, ok, got)
		}
		if got, ok := question(t, CreateElicitation, everyCap, V20250326, tc.params); ok {
			t.Errorf("%s: 2025-03-26 is asked %s", tc.name, got)
		}
	}
}

// X4: what an older revision has no way to ask.
func TestWhatARevisionCannotPutIsNotAsked(t *testing.T) {
	form := func(property string) string {
		return `{"mode":"form","message":"m","requestedSchema":{"type":"object","properties":{"a":{"type":"string"},"c":` + property + `}}}`
	}
	message := func(content string) string {
		return `{"messages":[{"role":"user","content":` + content + `}],"maxTokens":1}`
	}
	for _, tc := range []struct{ method, params string }{
		{CreateElicitation, form(`{"type":"array","items":{"type":"string","enum":["a"]}}`)},
		{CreateElicitation, form(`{"type":"arr\u0061y","items":{"anyOf":[{"const":"a","title":"A"}]}}`)},
		{CreateElicitation, form(`{"type":"string","oneOf":[{"const":1,"title":"A"}]}`)},
		{CreateElicitation, form(`{"type":"string","oneOf":[{"const":"a"},{"type":"null"}]}`)},
		{CreateElicitation, form(`{"type":"string","oneOf":[{"const":"a"}],"enum":["a"]}`)},
		{CreateElicitation, `{"mode":"url","message":"m","url":"https://h","elicitationId":"1"}`},
		{CreateMessage, `{"messages":[],"maxTokens":1,"tools":[]}`},
		{CreateMessage, `{"messages":[],"maxTokens":1,"toolChoice":{"mode":"none"}}`},
		{CreateMessage, message(`[{"type":"text","text":"t"}]`)},
		{CreateMessage, message(`{"type":"tool_use","id":"1","name":"n","input":{}}`)},
		{CreateMessage, message(`{"type":"tool_resul\u0074","toolUseId":"1","content":[]}`)},
	} {
		if got, ok := question(t, tc.method, everyCap, V20250618, tc.params); ok {
			t.Errorf("2025-06-18 is asked %s", got)
		}
		if got, ok := question(t, tc.method, everyCap, V20251125, tc.params); !ok || got != tc.params {
			t.Errorf("2025-11-25: %v %s, want %s", ok, got, tc.params)
		}
		if got, ok := question(t, tc.method, `{"elicitation":{},"sampling":{}}`, V20251125, tc.params); ok && (tc.method == CreateMessage || tc.params[9] == 'u') {
			t.Errorf("asked without having declared it: %s", got)
		}
	}
	for _, rev := range []Revision{V20250326, V20250618, V20251125} {
		for _, tc := range []struct{ method, params string }{{CreateMessage, message(`{"type":"text","text":"tool_use"}`)}, {ListRoots, ""}, {ListRoots, `{"_meta":{}}`}} {
			if got, ok := question(t, tc.method, everyCap, rev, tc.params); !ok || got != tc.params {
				t.Errorf("%s: %v %s, want %s", rev, ok, got, tc.params)
			}
		}
	}
}

// DESIGN section 3: no question is judged by one reading and asked in another.
func TestAQuestionWithTwoReadingsIsNotAsked(t *testing.T) {
	for _, tc := range []struct{ method, params string }{
		{CreateElicitation, `{"mode":"form","mode":"url","message":""}`},
		{CreateElicitation, `{"Mode":"url","message":""}`},
		{CreateElicitation, `{"mode":"voice","message":""}`},
		{CreateElicitation, `{"mode":1}`},
		{CreateElicitation, `{"requestedSchema":{"properties":{"a":{"type":"string","type":"array"}}}}`},
		{CreateElicitation, `[]`},
		{CreateElicitation, ``},
		{CreateMessage, `{"messages":[],"TOOLS":[]}`},
		{CreateMessage, ``},
		{"tools/list", `{}`},
	} {
		if got, ok := question(t, tc.method, everyCap, V20251125, tc.params); ok {
			t.Errorf("%s %s is asked as %s", tc.method, tc.params, got)
		}
	}
}

func TestAnElicitationGetsOurIDAndNoOther(t *testing.T) {
	for params, want := range map[string]string{
		`{"mode":"url","url":"u"}`:               `{"mode":"url","url":"u","elicitationId":"ours"}`,
		`{"elicitationId":"theirs", "url":"u" }`: `{"url":"u","elicitationId":"ours" }`,
		`{"\u0065licitationId":"theirs"}`:        `{"elicitationId":"ours"}`,
		`{ }`:                                    `{"elicitationId":"ours" }`,
	} {
		if got := string(WithElicitationID([]byte(params), "ours")); got != want {
			t.Errorf("%s: %s, want %s", params, got, want)
		}
	}
}
