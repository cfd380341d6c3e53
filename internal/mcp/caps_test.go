package mcp

import (
	"strings"
	"testing"
)

func TestCapabilitySetsHaveOneNormalForm(t *testing.T) {
	for _, tc := range []struct{ raw, key string }{
		{`{}`, `{}`},
		{`{"elicitation":{}}`, `{"elicitation":{"form":{}}}`},
		{`{"elicitation":{"url":{}}}`, `{"elicitation":{"url":{}}}`},
		{`{"elicitation":{"url":{},"form":{}},"vendor":1}`, `{"elicitation":{"form":{},"url":{}}}`},
		{`{"sampling":{"tools":{"x":1},"context":{}},"roots":{"listChanged":true}}`, `{"roots":{},"sampling":{"context":{},"tools":{}}}`},
		{`{"sampling":{"tools":{}}}`, `{"sampling":{"tools":{}}}`},
		{`{"roots":null,"sampling":{}}`, `{"sampling":{}}`},
		{`{"tasks":{"list":{}},"extensions":{"io.modelcontextprotocol/tasks":{},"a/b":{}}}`, `{}`},
		{
			`{"roots":{},"extensions":{"io.modelcontextprotocol\/ui":{ "z":[ "\u0061" ],"mimeTypes":["text/html;profile=mcp-app"],"n":9007199254740993 }}}`,
			`{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"],"n":9007199254740993,"z":["a"]}},"roots":{}}`,
		},
		{`{"extensions":{"io.modelcontextprotocol/ui":{}}}`, `{"extensions":{"io.modelcontextprotocol/ui":{}}}`},
		{`{"extensions":{"io.modelcontextprotocol/ui":true}}`, `{}`},
		{`{"extensions":{"io.modelcontextprotocol/ui":{"a":1,"a":2}}}`, `{}`},
		{`{"extensions":{"io.modelcontextprotocol/ui":{"a":"` + strings.Repeat("x", 4000) + `"}}}`, `{}`},
	} {
		c, err := ParseClientCaps([]byte(tc.raw))
		if err != nil {
			t.Errorf("%s: %v", tc.raw, err)
			continue
		}
		if c.Key() != tc.key {
			t.Errorf("%s: key %s, want %s", tc.raw, c.Key(), tc.key)
		}
		again, err := ParseClientCaps([]byte(tc.key))
		if err != nil || again.Key() != tc.key {
			t.Errorf("%s: the normal form is not stable: %s, %v", tc.key, again.Key(), err)
		}
	}
}

func TestMalformedCapabilitiesAreErrors(t *testing.T) {
	for _, raw := range []string{``, `[]`, `null`, `{"roots":true}`, `{"elicitation":[]}`, `{"extensions":"x"}`} {
		if c, err := ParseClientCaps([]byte(raw)); err == nil {
			t.Errorf("%s: %s", raw, c.Key())
		}
	}
	if c, err := ParseClientCaps(nil); err != nil || c.Key() != "{}" {
		t.Errorf("absent: %s, %v", c.Key(), err)
	}
}

func TestCapabilitiesAnswerWhatTheyHold(t *testing.T) {
	c, err := ParseClientCaps([]byte(`{"elicitation":{"url":{}},"extensions":{"a/b":{},"c/d":null}}`))
	if err != nil {
		t.Fatal(err)
	}
	if !c.Has(CapElicitation|CapElicitationURL) || c.Has(CapElicitationForm) || c.Has(CapElicitation|CapRoots) {
		t.Error(c.Key())
	}
	if !c.HasExtension("a/b") || c.HasExtension("c/d") || c.HasExtension("e/f") {
		t.Error(string(c.Extensions()))
	}
	if (ClientCaps{}).HasExtension("a/b") {
		t.Error("the empty set has an extension")
	}
}

func TestDroppedExtensionsLeaveTheRestAlone(t *testing.T) {
	for _, tc := range []struct{ raw, want string }{
		{`{"extensions":{"io.modelcontextprotocol/tasks":{}, "a/b":{"x":1.0}},"roots": {}}`, `{"extensions":{"a/b":{"x":1.0}},"roots": {}}`},
		{`{ "extensions" : {"io.modelcontextprotocol/tasks":{}} }`, `{ "extensions" : {} }`},
		{`{"extensions":{"io.modelcontextprotocol\/tasks":{}}}`, `{"extensions":{}}`},
	} {
		if got := string(FilterModern([]byte(tc.raw), ExtensionTasks)); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.raw, got, tc.want)
		}
	}
	for _, raw := range []string{`{}`, `{"extensions":{"a/b":{}}}`, `{"extensions":null}`, `{"sampling":{"io.modelcontextprotocol/tasks":1}}`, `[`} {
		in := []byte(raw)
		if got := FilterModern(in, ExtensionTasks); &got[0] != &in[0] || len(got) != len(in) {
			t.Errorf("%s was copied to %s", raw, got)
		}
	}
}

// Checklist 7.1, X4; the interfaces of MCP Apps are no question.
func TestALegacyClientIsPromisedOnlyWhatItCanDo(t *testing.T) {
	const (
		ui  = `"extensions":{"io.modelcontextprotocol/ui":{"m":1}}`
		raw = `{"roots":{"listChanged":true},"sampling":{"tools":{},"context":{}},"elicitation":{"form":{},"url":{}},"tasks":{},` + ui + `}`
	)
	for rev, want := range map[Revision][2]string{
		V20260728: {`{"elicitation":{"form":{},"url":{}},` + ui + `,"roots":{},"sampling":{"context":{},"tools":{}}}`, `{` + ui + `}`},
		V20251125: {`{"elicitation":{"form":{},"url":{}},` + ui + `,"roots":{},"sampling":{"context":{},"tools":{}}}`, `{` + ui + `}`},
		V20250618: {`{"elicitation":{"form":{}},` + ui + `,"roots":{},"sampling":{}}`, `{` + ui + `}`},
		V20250326: {`{"roots":{},"sampling":{}}`, `{}`},
	} {
		if got := string(ModernFromLegacy([]byte(raw), rev, true)); got != want[0] {
			t.Errorf("%s: %s, want %s", rev, got, want[0])
		}
		if got := string(ModernFromLegacy([]byte(raw), rev, false)); got != want[1] {
			t.Errorf("%s, not to be asked: %s, want %s", rev, got, want[1])
		}
	}
	if got := string(ModernFromLegacy([]byte(`{"elicitation":{"url":{}}}`), V20250618, true)); got != `{}` {
		t.Errorf("url mode alone must not become form mode: %s", got)
	}
	if got := string(ModernFromLegacy([]byte(`{"elicitation":3}`), V20251125, true)); got != `{}` {
		t.Errorf("unreadable capabilities declare %s", got)
	}
}
