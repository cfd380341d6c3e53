package hook

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

func TestAnswersAreReadAsDocumented(t *testing.T) {
	for raw, want := range map[string]Verdict{
		`{"decision":"allow"}`:                                            {},
		" {\n\"decision\" : \"allow\" }\r\n":                              {},
		`{"d\u0065cision":"\u0061llow"}`:                                  {},
		`{"decision":"deny"}`:                                             {Deny: true},
		`{"decision":"deny","message":"no \u00e9"}`:                       {Deny: true, Message: "no é"},
		`{"message":"late","decision":"allow"}`:                           {Message: "late"},
		`{"decision":"allow","arguments":{}}`:                             {Arguments: []byte(`{}`)},
		`{"arguments": {"n":9007199254740993} ,"decision":"allow"}`:       {Arguments: []byte(`{"n":9007199254740993}`)},
		`{"decision":"allow","result":{"f":1.0, "e":1e400}}`:              {Result: []byte(`{"f":1.0, "e":1e400}`)},
		`{"decision":"allow","reason":{"decision":"deny"},"x":null,"":1}`: {},
		`{"decision":"allow","decisions":"deny"}`:                         {},
	} {
		v, err := parseAnswer([]byte(raw))
		if err != nil || v.Deny != want.Deny || v.Message != want.Message || !bytes.Equal(v.Arguments, want.Arguments) || !bytes.Equal(v.Result, want.Result) {
			t.Errorf("%s: %+v, %v", raw, v, err)
		}
	}
}

func TestAnythingElseIsNoAnswer(t *testing.T) {
	for _, raw := range []string{
		``, ` `, `null`, `true`, `"allow"`, `[]`, `[{"decision":"allow"}]`, `{`, `{}`, `{"decision"}`, `{"decision":}`,
		`{"decision":"allow"`, `{"decision":"allow",}`, `{"decision":"allow"}}`, `{"decision":"allow"}{}`, `{"decision":"allow"} x`,
		"{\"decision\":\"allow\"}\x00", "\xef\xbb\xbf{\"decision\":\"allow\"}",
		`{"decision":"Allow"}`, `{"decision":"allow "}`, `{"decision":"denied"}`, `{"decision":""}`, `{"decision":true}`,
		`{"decision":null}`, `{"decision":["allow"]}`, `{"decision":{"allow":true}}`, `{"decision":1}`,
		`{"decision":"allow","decision":"deny"}`, `{"decision":"deny","d\u0065cision":"allow"}`, `{"decision":"allow","x":1,"x":1}`,
		`{"decision":"allow","arguments":{"a":1,"a":2}}`, `{"decision":"allow","x":[{"a":1,"a":2}]}`,
		`{"Decision":"allow"}`, `{"decision":"allow","DECISION":"deny"}`, `{"decision":"allow","Arguments":{}}`,
		`{"decision":"allow","arGuments":{}}`, `{"decision":"allow","Message":""}`, `{"decision":"allow","RESULT":{}}`,
		"{\"decision\":\"allow\",\"deci\u017fion\":\"deny\"}", `{"decision":"allow","\u0044ecision":"deny"}`,
		`{"decision":"deny","message":null}`, `{"decision":"deny","message":1}`, `{"decision":"allow","message":{}}`,
		"{\"decision\":\"deny\",\"message\":\"\xff\"}", `{"decision":"deny","message":"\ud800"}`, "{\"decision\":\"deny\",\"message\":\"\n\"}",
		"{\"decision\":\"allow\",\"x\xff\":1}", "{\"decision\":\"allow\",\"arguments\":{\"\xff\":1}}",
		`{'decision':'allow'}`, `{decision:"allow"}`, `{"decision":"allow"/**/}`, `{"decision":"allow","n":01}`, `{"decision":"allow","n":NaN}`,
		`{"decision":"allow","x":` + strings.Repeat(`[`, 20000) + strings.Repeat(`]`, 20000) + `}`,
	} {
		if v, err := parseAnswer([]byte(raw)); err == nil {
			t.Errorf("%.80s was taken for %+v", raw, v)
		}
	}
}

func TestAVerdictHasToFitTheEvent(t *testing.T) {
	obj := []byte(`{"a":1}`)
	for name, c := range map[string]struct {
		v             Verdict
		before, after bool
	}{
		"allow":                 {Verdict{}, true, true},
		"deny":                  {Verdict{Deny: true, Message: "m"}, true, true},
		"arguments":             {Verdict{Arguments: obj}, true, false},
		"result":                {Verdict{Result: obj}, false, true},
		"both":                  {Verdict{Arguments: obj, Result: obj}, false, false},
		"deny with arguments":   {Verdict{Deny: true, Arguments: obj}, false, false},
		"deny with a result":    {Verdict{Deny: true, Result: obj}, false, false},
		"arguments are null":    {Verdict{Arguments: []byte(`null`)}, false, false},
		"arguments are a list":  {Verdict{Arguments: []byte(`[]`)}, false, false},
		"arguments are nothing": {Verdict{Arguments: []byte{}}, false, false},
		"the result is text":    {Verdict{Result: []byte(`"x"`)}, false, false},
		"the result is too big": {Verdict{Result: []byte(`{"a":"` + strings.Repeat("x", 100) + `"}`)}, false, false},
	} {
		for e, want := range map[Event]bool{ToolBefore: c.before, ToolAfter: c.after, PromptBefore: c.before, PromptAfter: c.after, ResourceBefore: c.before, ResourceAfter: c.after} {
			if err := c.v.check(e, 100); (err == nil) != want {
				t.Errorf("%s at %s: %v", name, e, err)
			}
		}
	}
}

// genObject draws a strict JSON object, spelled in ways that decoding would lose.
func genObject() *rapid.Generator[string] {
	value := rapid.OneOf(
		rapid.SampledFrom([]string{`null`, `true`, `9007199254740993`, `1.0`, `1e400`, `-0`, `"\u003c<\/"`, `{}`, `[ 1 , 2 ]`, `{"b":1,"a":{"x": 1}}`, `"é"`}),
		rapid.Map(rapid.String(), func(s string) string { return string(must(jsontext.AppendQuote(nil, strings.ToValidUTF8(s, "?")))) }),
	)
	return rapid.Custom(func(t *rapid.T) string {
		names := rapid.SliceOfDistinct(rapid.StringMatching(`[a-zA-Z]{0,9}`), rapid.ID[string]).Draw(t, "names")
		space := rapid.SampledFrom([]string{"", " ", "\n\t"}).Draw(t, "space")
		var b strings.Builder
		b.WriteString("{" + space)
		for i, n := range names {
			if i > 0 {
				b.WriteString("," + space)
			}
			b.WriteString(`"` + n + `":` + space + value.Draw(t, "value"))
		}
		b.WriteString("}")
		return b.String()
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestWhatAnAnswerRewritesComesAsItIsSpelled(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		obj := genObject().Draw(t, "object")
		for _, member := range []string{"arguments", "result"} {
			v, err := parseAnswer([]byte(`{"x":[],"` + member + `":` + obj + `,"decision":"allow"}`))
			if err != nil {
				t.Fatal(err)
			}
			if got := string(v.Arguments) + string(v.Result); got != obj {
				t.Fatalf("%s became %s", obj, got)
			}
		}
	})
}

// What is accepted is strict JSON of the documented shape: another parser reads
// the same decision from it, and nothing that contradicts it.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		`{"decision":"allow"}`, `{"decision":"deny","message":"m"}`, `{"decision":"allow","arguments":{"a":[1,{"b":null}]}}`,
		`{"decision":"allow","result":{"a":1e400},"x":"\u0000"}`, ` {"x":{},"decision":"allow"} `, `{"decision":"allow","decision":"deny"}`,
		`{"Decision":"deny","decision":"allow"}`, "{\"decision\":\"allow\",\"\xff\":1}", `{"decision":"allow"}x`, `[]`, ``,
	} {
		f.Add([]byte(seed), byte(0))
		f.Add([]byte(seed), byte(1))
	}
	f.Fuzz(func(t *testing.T, raw []byte, event byte) {
		e := Event(event % byte(numEvents))
		before := bytes.Clone(raw)
		v, err := parseAnswer(raw)
		if err == nil {
			err = v.check(e, 1<<20)
		}
		if !bytes.Equal(raw, before) {
			t.Fatalf("%q was changed to %q", before, raw)
		}
		if err != nil {
			_ = err.Error()
			return
		}
		if !jsontext.Value(raw).IsValid() {
			t.Fatalf("%q is not strict", raw)
		}
		var o map[string]json.RawMessage
		if err := json.Unmarshal(raw, &o); err != nil {
			t.Fatalf("%q: %v", raw, err)
		}
		for name := range o {
			for _, ours := range answerMembers {
				if name != ours && strings.EqualFold(name, ours) {
					t.Fatalf("%q has %q", raw, name)
				}
			}
		}
		var decision string
		if err := json.Unmarshal(o["decision"], &decision); err != nil || (decision != "allow" && decision != "deny") || (decision == "deny") != v.Deny {
			t.Fatalf("%q is read as deny=%v", raw, v.Deny)
		}
		if !bytes.Equal(o["arguments"], v.Arguments) || !bytes.Equal(o["result"], v.Result) {
			t.Fatalf("%q rewrites %q and %q", raw, v.Arguments, v.Result)
		}
		for _, part := range [][]byte{v.Arguments, v.Result} {
			if part != nil && (strictObject(part) != nil || v.Deny) {
				t.Fatalf("%q rewrites %q", raw, part)
			}
		}
		if (v.Arguments != nil && e.after()) || (v.Result != nil && !e.after()) {
			t.Fatalf("%q at %s", raw, e)
		}
	})
}
