package task

import (
	"testing"

	"github.com/penstock-mcp/penstock/internal/wire"
)

func TestATaskIsToldAsTheExtensionHasIt(t *testing.T) {
	for in, want := range map[string]string{
		`{"taskId":"a","status":"failed","ttl":1,"pollInterval":2}`:         `{"taskId":"a","status":"completed","ttlMs":1,"pollIntervalMs":2,"result":{}}`,
		`{"\u0074tl":5,"result":1,"r\u0065sult":2,"x":1.0,"_meta":{"y":1}}`: `{"ttlMs":5,"x":1.0,"result":{},"_meta":{"y":1}}`,
		` { "status" : "x" , "_meta" : 7 } `:                                `{"status":"completed","ttlMs":null,"result":{}}`,
	} {
		got, err := Detailed([]byte(in), "completed", wire.Member{Name: "result", Value: []byte(`{}`)})
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, %v", in, got, err)
		}
	}
	if got, err := Detailed([]byte(`[1]`), ""); err == nil {
		t.Errorf("what is no task: %s", got)
	}
}

func TestWhatMakesATaskIsToldAsTheExtensionHasIt(t *testing.T) {
	in := `{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"a"},"io.modelcontextprotocol/model-immediate-response":"soon"},"resultType":"complete","own":9007199254740993,` +
		`"taskId":"b","task":{"taskId":"a","status":"working","ttl":null},"ttlMs":3}`
	want := `{"resultType":"task","taskId":"a","status":"working","ttlMs":null,"own":9007199254740993,"_meta":{"io.modelcontextprotocol/model-immediate-response":"soon"}}`
	if got, err := Created([]byte(in)); err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
}

func TestAnInlinedResultIsComplete(t *testing.T) {
	in := `{"content":[ 1e400 ],"resultType":"task","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"a"}},"requestState":"x"}`
	if got, err := Completed([]byte(in)); err != nil || string(got) != `{"resultType":"complete","content":[ 1e400 ]}` {
		t.Errorf("%s, %v", got, err)
	}
}

func FuzzDetailed(f *testing.F) {
	f.Add([]byte(`{"taskId":"a","ttl":1.5e3,"pollInterval":-1,"_meta":{"a":1}}`))
	f.Add([]byte(`{"ttl":1e999999999}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		out, err := Detailed(raw, "working")
		if err != nil {
			return
		}
		if err := wire.Members(out, func(name, value []byte) bool {
			if n := string(name); n == "ttl" || n == "pollInterval" || n == "result" {
				t.Errorf("%s is left in %s", n, out)
			}
			return true
		}); err != nil {
			t.Errorf("%s is no object: %v", out, err)
		}
	})
}
