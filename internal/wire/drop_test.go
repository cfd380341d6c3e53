package wire

import (
	"strings"
	"testing"
)

func TestDroppedMembersTakeTheirCommaWithThem(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{}`, `{}`},
		{`{"x1":1}`, `{}`},
		{`{ "x1" : 1 }`, `{  }`},
		{`{"a":1,"x1":{"x":","},"b":2}`, `{"a":1,"b":2}`},
		{`{"x1":1,"a":1}`, `{"a":1}`},
		{`{"x1":1, "x2":[1,2], "a":1 , "x3":"\"" }`, `{"a":1 }`},
		{`{"a":1,"x1":1,"x2":2}`, `{"a":1}`},
		{`{"x1":1,"x2":2}`, `{}`},
		{`{"\u0078y":1,"b":2}`, `{"b":2}`},
		{`{"a":1}`, `{"a":1}`},
	} {
		raw := []byte(`[` + c.in + `]`)
		edits, err := DropMembers(nil, raw, Span{1, len(raw) - 1}, func(n []byte) bool { return strings.HasPrefix(string(n), "x") })
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
			continue
		}
		if got := string(Splice(nil, raw, edits...)); got != `[`+c.want+`]` {
			t.Errorf("%s: got %s, want [%s]", c.in, got, c.want)
		}
	}
}
