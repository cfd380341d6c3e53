package wire

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/penstock-mcp/penstock/internal/fault"
)

func TestScanFindsEveryMember(t *testing.T) {
	var members, meta []string
	for _, name := range scannedNames {
		if key, ok := strings.CutPrefix(name, "result._meta."); ok {
			meta = append(meta, `"`+key+`":{"n":"]"}`)
		} else if key, ok := strings.CutPrefix(name, "result."); ok && key != "_meta" {
			members = append(members, `"`+key+`": ["`+key+`\"}",{}]`)
		}
	}
	for _, raw := range []string{
		` {"result":{` + joinStrings(members) + `,"_meta":{"x":1,` + joinStrings(meta) + `}},"vendor":[{"id":2}],"id":9007199254740993,"jsonrpc":"2.0"}` + "\n",
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"\"","requestId":1e1,"_meta":{},"p":[]}}`,
		`{"jsonrpc":"2.0","id":null,"error":{"message":"m","code":-32602,"data":{"code":"}"}}}`,
	} {
		var a Answer
		if err := Scan([]byte(raw), &a); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		want, err := refSpans([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, foundSpans(&a)); d != "" {
			t.Errorf("%s: %s", raw, d)
		}
	}
	var a Answer
	if err := Scan([]byte(`{"jsonrpc":"2.0","id":1,"error":{"code":-32602}}`), &a); err != nil || a.ErrorCode != -32602 || a.Kind() != Response {
		t.Errorf("%d, %v", a.ErrorCode, err)
	}
}

func TestScanTellsKinds(t *testing.T) {
	for raw, want := range map[string]Kind{
		`{"jsonrpc":"2.0","id":1,"result":{}}`:                           Response,
		`{"jsonrpc":"2.0","id":1,"method":"ping"}`:                       Request,
		`{"jsonrpc":"2.0","method":"notifications/message","params":[]}`: Notification,
	} {
		var a Answer
		if err := Scan([]byte(raw), &a); err != nil || a.Kind() != want {
			t.Errorf("%s: %v, %v", raw, a.Kind(), err)
		}
		a.Reset()
		if a.Kind() != Unknown {
			t.Error("Reset leaves something")
		}
	}
}

func TestScanRefuses(t *testing.T) {
	for _, raw := range []string{
		``, ` `, `[]`, `3`, `{`, `{"jsonrpc":"2.0","id":1}`, `{"jsonrpc":"2.0","result":{}`, `{"jsonrpc":"2.0","result":{}}x`,
		`{"result":{}}`, `{"jsonrpc":"1.0","result":{}}`, `{"jsonrpc":2.0,"result":{}}`, `{"jsonrpc":"2.0","result":null}`, `{"jsonrpc":"2.0","result":[]}`,
		`{"jsonrpc":"2.0","result":{},"error":{"code":1}}`, `{"jsonrpc":"2.0","method":"x","result":{}}`,
		`{"jsonrpc":"2.0","result":{},"result":{}}`, `{"jsonrpc":"2.0","result":{},"r\u0065sult":{}}`,
		`{"jsonrpc":"2.0","result":{"a":1,"a":2}}`, `{"jsonrpc":"2.0","result":{"_meta":{"a":1,"\u0061":2}}}`,
		`{"jsonrpc":"2.0","error":{"code":1,"code":2}}`, `{"jsonrpc":"2.0","error":{"code":"1"}}`, `{"jsonrpc":"2.0","error":{}}`,
		`{"jsonrpc":"2.0","error":{"code":1.0}}`, `{"jsonrpc":"2.0","error":{"code":99999999999999999999}}`, `{"jsonrpc":"2.0","error":"x"}`,
		`{"jsonrpc":"2.0","result":{"a"}}`, `{"jsonrpc":"2.0","result":{"a":}}`, `{"jsonrpc":"2.0","result":{"a":1,}}`, `{"jsonrpc":"2.0","result":{,}}`,
		`{"jsonrpc":"2.0","result":{"a":1 2}}`, `{"jsonrpc":"2.0","result":{"a":+1}}`, `{"jsonrpc":"2.0","result":{"a":"x`, `{"jsonrpc":"2.0","result":{"a":[`,
		"{\"jsonrpc\":\"2.0\",\"result\":{\"\xff\":1}}", "{\"jsonrpc\":\"2.0\",\"result\":{\"\n\":1}}", `{"jsonrpc":"2.0","result":{"\x":1}}`,
	} {
		var a Answer
		err := Scan([]byte(raw), &a)
		var f *fault.Error
		if !errors.As(err, &f) || f.Code != fault.InvalidAnswer {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

func TestScanBoundsTheMembersItRemembers(t *testing.T) {
	many := func(n int) []byte {
		b := []byte(`{"jsonrpc":"2.0","result":{`)
		for i := range n {
			b = strconv.AppendInt(append(b, '"'), int64(i), 10)
			b = append(b, `":0,`...)
		}
		return append(b[:len(b)-1], `}}`...)
	}
	var a Answer
	if err := Scan(many(maxMembers), &a); err != nil {
		t.Error(err)
	}
	if err := Scan(many(maxMembers+1), &a); err == nil {
		t.Error("more members than there is room for are accepted")
	}
	if err := Scan([]byte(strings.Replace(string(many(1000)), `"999"`, `"7"`, 1)), &a); err == nil {
		t.Error("a duplicate among many names is accepted")
	}
}

func TestScanAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools drop what they hold")
	}
	for _, kind := range bodies {
		raw := kind.make(1 << 10)
		var a Answer
		if n := testing.AllocsPerRun(200, func() {
			if err := Scan(raw, &a); err != nil {
				t.Fatal(err)
			}
		}); n >= 1 {
			t.Errorf("%s: %v allocations", kind.name, n)
		}
	}
}

func TestScanEqualsTheReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { compareScan(t, []byte(generator{t}.message())) })
}

// failer is what compareScan needs of a test.
type failer interface {
	Fatalf(format string, args ...any)
}

// compareScan holds Scan against jsontext: where that accepts, the spans are
// equal; where only Scan accepts, the fault lies inside a skipped value.
func compareScan(t failer, raw []byte) {
	var a Answer
	err := Scan(raw, &a)
	want, wantErr := refSpans(raw)
	switch {
	case wantErr == nil && err != nil:
		t.Fatalf("%q: refused: %v", raw, err)
	case wantErr == nil:
		if d := cmp.Diff(want, foundSpans(&a)); d != "" {
			t.Fatalf("%q: %s", raw, d)
		}
	case err == nil:
		if _, err := refSpans(skeleton(raw)); err != nil {
			t.Fatalf("%q: accepted, but its skeleton %q is not", raw, skeleton(raw))
		}
	}
}

// skeleton puts 0 in the place of each value that Scan skips. It walks a
// message that Scan has accepted.
func skeleton(raw []byte) []byte {
	s := scanner{b: raw}
	s.space()
	var edits []Edit
	var level func(path string)
	level = func(path string) {
		_ = s.object(nil, func(name []byte) error {
			p := path + "." + string(name)
			c := s.peek()
			if c == '{' && (p == ".result" || p == ".params" || p == ".error" || p == ".result._meta") {
				level(p)
				return nil
			}
			at, err := s.value()
			if p != ".jsonrpc" && p != ".error.code" {
				edits = append(edits, Edit{at, []byte("0")})
			}
			return err
		})
	}
	level("")
	return Splice(nil, raw, edits...)
}

func TestMembersAndElements(t *testing.T) {
	var got []string
	err := Members([]byte(" {\"a\\n\" : [1,\"]\"] ,\"b\":{\"c\":\"}\"}, \"\":tru }\n"), func(name, value []byte) bool {
		got = append(got, string(name), string(value))
		return true
	})
	if d := cmp.Diff([]string{`a\n`, `[1,"]"]`, "b", `{"c":"}"}`, "", "tru"}, got); d != "" || err != nil {
		t.Error(d, err)
	}
	got = nil
	err = Elements([]byte(" [ 1 ,{\"a\":[]},\"x,\"\t] "), func(value []byte) bool {
		got = append(got, string(value))
		return true
	})
	if d := cmp.Diff([]string{"1", `{"a":[]}`, `"x,"`}, got); d != "" || err != nil {
		t.Error(d, err)
	}
	n := 0
	stop := func([]byte) bool { n++; return false }
	if err := Elements([]byte(`[1,2,oops`), stop); err != nil || n != 1 {
		t.Errorf("stopped after %d, %v", n, err)
	}
	if err := Members([]byte(`{"a":1,"b":`), func(_, v []byte) bool { return stop(v) }); err != nil || n != 2 {
		t.Errorf("stopped after %d, %v", n, err)
	}
	all := func([]byte) bool { return true }
	for _, raw := range []string{``, `{}`, `[`, `[1`, `[1,]`, `[,1]`, `[1]]`, `[1 2]`, `[}`} {
		if err := Elements([]byte(raw), all); err == nil {
			t.Errorf("%s is an array", raw)
		}
	}
	for _, raw := range []string{``, `[]`, `{`, `{"a"`, `{"a":1`, `{"a":1,}`, `{,}`, `{"a":1}}`, `{"a" 1}`, `{"a":1 "b":2}`, `{1:1}`} {
		if err := Members([]byte(raw), func(_, v []byte) bool { return all(v) }); err == nil {
			t.Errorf("%s is an object", raw)
		}
	}
	for _, raw := range []string{` [ ] `, `[]`} {
		if err := Elements([]byte(raw), all); err != nil {
			t.Error(err)
		}
	}
}
