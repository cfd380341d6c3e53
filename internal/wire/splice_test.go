package wire

import (
	"strings"
	"testing"
)

func TestSpliceLeavesOtherBytes(t *testing.T) {
	raw := []byte(`{"id": 1,"x":{} ,"y":null,"z":{"a":1}}`)
	at := func(s string) Span { i := strings.Index(string(raw), s); return Span{i, i + len(s)} }
	got := string(Splice([]byte("> "), raw,
		Edit{Span: at("1"), With: []byte(`"long id"`)},
		InsertMembers(raw, at("{}"), Member{"p", []byte("1")}, Member{"q\"", []byte("2")}),
		InsertMembers(raw, at("null"), Member{"n", []byte("[]")}),
		InsertMembers(raw, at(`{"a":1}`), Member{"b", []byte("0")})))
	if want := `> {"id": "long id","x":{"p":1,"q\"":2} ,"y":{"n":[]},"z":{"b":0,"a":1}}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := string(Splice(nil, raw)); got != string(raw) {
		t.Errorf("no edits: %s", got)
	}
}
