package mcp

import "testing"

func TestCapabilitySetsHaveOneNormalForm(t *testing.T) {
	for _, tc := range []struct{ raw, key string }{
		{`{}`, `{}`},
		{`{"elicitation":{}}`, `{"elicitation":{"form":{}}}`},
		{`{"elicitation":{"url":{}}}`, `{"elicitation":{"url":{}}}`},
		{`{"elicitation":{"url":{},"form":{}},"vendor":1}`, `{"elicitation":{"form":{},"url":{}}}`},
		{`{"sampling":{"tools":{"x":1},"context":{}},"roots":{"listChanged":true}}`, `{"roots":{},"sampling":{"context":{},"tools":{}}}`},
		{`{"sampling":{"tools":{}}}`, `{"sampling":{"tools":{}}}`},
		{`{"roots":null,"sampling":{}}`, `{"sampling":{}}`},
		{`{"tasks":{"list":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`, `{}`},
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

func TestALegacyClientIsPromisedOnlyWhatItCanDo(t *testing.T) {
	const raw = `{"roots":{"listChanged":true},"sampling":{"tools":{},"context":{}},"elicitation":{"form":{},"url":{}},"tasks":{}}`
	const everything = ^ClientCap(0)
	for rev, want := range map[Revision]string{
		V20251125: `{"elicitation":{"form":{},"url":{}},"roots":{},"sampling":{"context":{},"tools":{}}}`,
		V20250618: `{"elicitation":{"form":{}},"roots":{},"sampling":{}}`,
		V20250326: `{"roots":{},"sampling":{}}`,
	} {
		if got := string(modernFromLegacy([]byte(raw), rev, everything)); got != want {
			t.Errorf("%s: %s, want %s", rev, got, want)
		}
		if got := string(ModernFromLegacy([]byte(raw), rev)); got != want {
			t.Errorf("%s: %s is declared, and %s can be asked", rev, got, want)
		}
		if got := string(modernFromLegacy([]byte(raw), rev, CapRoots)); got != `{"roots":{}}` {
			t.Errorf("%s: only roots are relayed, but %s is declared", rev, got)
		}
	}
	if got := string(modernFromLegacy([]byte(`{"elicitation":{"url":{}}}`), V20250618, everything)); got != `{}` {
		t.Errorf("url mode alone must not become form mode: %s", got)
	}
	if got := string(modernFromLegacy([]byte(`{"elicitation":3}`), V20251125, everything)); got != `{}` {
		t.Errorf("unreadable capabilities declare %s", got)
	}
}
