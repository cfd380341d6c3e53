package wire

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var seeds = []string{
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{"progressToken":"x"},"ref":{"type":"t"}}}`,
	`{"jsonrpc":"2.0","id":"\u0061","result":{"content":[{"type":"text","text":"\\\"}"}],"_meta":{"io.modelcontextprotocol/serverInfo":{}}}}`,
	"{\"result\":{ \"_meta\":null,\"contents\":[{\"uri\":\"ui:\\/\\/x\"}],\r\n\"messages\":[{\"content\":{\"resource\":{\"uri\":\"a://b\"}}}]},\"jsonrpc\":\"2.0\",\"id\":-0}\n",
	`{"jsonrpc":"2.0","id":null,"error":{"code":-32002,"message":"m","data":{"uri":"a://b"}}}`,
	`[{"jsonrpc":"2.0","method":"x"}, {"a":[1,2,"]"]}]`,
	`{"a":1,"a":2}`, `{"a":[}`, "{\"a\":\"\xff\"}", `{"a\ud800":1}`,
}

func seed(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
}

// FuzzParse: what Parse accepts, encoding/json reads the same.
func FuzzParse(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		var m Message
		if err := Parse(raw, &m); err != nil {
			if m.Kind != Unknown {
				t.Fatal("a refused message has a kind")
			}
			return
		}
		var std struct {
			JSONRPC *string         `json:"jsonrpc"`
			ID      json.RawMessage `json:"id"`
			Method  string          `json:"method"`
			Params  struct {
				Name   json.RawMessage `json:"name"`
				URI    json.RawMessage `json:"uri"`
				TaskID json.RawMessage `json:"taskId"`
				Meta   struct {
					Token json.RawMessage `json:"progressToken"`
				} `json:"_meta"`
			} `json:"params"`
		}
		if err := json.Unmarshal(raw, &std); err != nil {
			t.Fatalf("encoding/json refuses: %v", err)
		}
		got := []string{m.Method, string(m.ID.Of(raw)), string(m.Name.Of(raw)), string(m.URI.Of(raw)), string(m.TaskID.Of(raw)), string(m.ProgressToken.Of(raw))}
		want := []string{std.Method, string(std.ID), string(std.Params.Name), string(std.Params.URI), string(std.Params.TaskID), string(std.Params.Meta.Token)}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatal(d)
		}
	})
}

// FuzzScan: see compareScan.
func FuzzScan(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, raw []byte) { compareScan(t, raw) })
}

// FuzzRewrite: the output is the same however the message is cut, equals the
// reference where jsontext reads the message, and without a change the message.
func FuzzRewrite(f *testing.F) {
	for i, s := range seeds {
		f.Add([]byte(s), byte(i), byte(37*i+7))
	}
	f.Fuzz(func(t *testing.T, raw []byte, cut, which byte) {
		plan := &Plan{LineSafe: which&1 != 0}
		if which&2 != 0 {
			plan.ID = []byte(`"new"`)
		}
		if which&4 != 0 {
			plan.Set = []Member{{"resultType", []byte(`"complete"`)}}
			plan.Default = []Member{{"x", []byte(`[1]`)}}
		}
		if which&8 != 0 {
			plan.Drop = []string{"content", "x", "a"}
		}
		if which&16 != 0 {
			plan.DropNonObject = []string{"_meta", "y"}
		}
		if which&32 != 0 {
			plan.SetMeta = []Member{{"o", []byte(`"k"`)}}
		}
		if which&64 != 0 {
			plan.DropMeta = []string{"progressToken", "a"}
		}
		if which&128 != 0 {
			plan.MapURI = mapURI
		}
		whole, err := plan.Apply(nil, raw)
		var out bytes.Buffer
		head := int(cut) % (len(raw) + 1)
		_, streamErr := plan.Rewrite(&out, raw[:head], &chunked{bytes.Clone(raw[head:]), []int{1 + int(cut)%7, 1 + int(which)%11}})
		if (err == nil) != (streamErr == nil) {
			t.Fatalf("%q: whole %v, streamed %v", raw, err, streamErr)
		}
		ref, refErr := refRewrite(plan, raw)
		if err != nil {
			if refErr == nil {
				t.Fatalf("%q: refused: %v", raw, err)
			}
			return
		}
		if !bytes.Equal(whole, out.Bytes()) {
			t.Fatalf("%q: whole %q, streamed %q", raw, whole, out.Bytes())
		}
		if refErr == nil && !bytes.Equal(whole, ref) {
			t.Fatalf("%q: got %q, want %q", raw, whole, ref)
		}
		if plan.LineSafe && hasEOL(whole) {
			t.Fatalf("%q: a line end in %q", raw, whole)
		}
		if which == 0 && !bytes.Equal(whole, raw) {
			t.Fatalf("%q became %q", raw, whole)
		}
	})
}

// FuzzLineSafe: the output never holds a line end, and means what the input means.
func FuzzLineSafe(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := bytes.Clone(raw)
		got, err := LineSafe(nil, raw)
		if !bytes.Equal(before, raw) {
			t.Fatal("the input was changed")
		}
		var in, out any
		inErr := json.Unmarshal(raw, &in)
		if err != nil {
			if inErr == nil {
				t.Fatalf("%q: refused: %v", raw, err)
			}
			return
		}
		if hasEOL(got) {
			t.Fatalf("%q: a line end in %q", raw, got)
		}
		outErr := json.Unmarshal(got, &out)
		if (inErr == nil) != (outErr == nil) || !cmp.Equal(in, out) {
			t.Fatalf("%q became %q", raw, got)
		}
	})
}

// FuzzSplitBatch: what it accepts is an array to encoding/json too, with the same elements.
func FuzzSplitBatch(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := SplitBatch(raw, 16)
		if err != nil {
			return
		}
		if !IsBatch(raw) {
			t.Fatalf("%q was split, but is no batch", raw)
		}
		var want []json.RawMessage
		if err := json.Unmarshal(raw, &want); err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) {
			t.Fatalf("%d elements, want %d", len(got), len(want))
		}
		for i := range want {
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("%q, want %q", got[i], want[i])
			}
		}
	})
}
