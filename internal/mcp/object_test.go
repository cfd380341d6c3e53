package mcp

import (
	"bytes"
	"io"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

type pair struct{ Name, Value string }

// strictMembers is what jsontext sees.
func strictMembers(src []byte) ([]pair, error) {
	d := jsontext.NewDecoder(bytes.NewReader(src))
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	var out []pair
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		p := pair{Name: name.String()}
		value, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		p.Value = string(value)
		out = append(out, p)
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return nil, errShape
	}
	return out, nil
}

func TestBrokenObjectsAreRefused(t *testing.T) {
	for _, src := range []string{``, `{`, `[]`, `{"a"}`, `{"a":}`, `{"a":1`, `{"a":1,}`, `{"a" 1}`, `{"a":[}`, `{"a`, `{"\q":1}`, `{a:1}`} {
		if ms, err := members([]byte(src), nil); err == nil {
			t.Errorf("%s: %v", src, ms)
		}
	}
}

func FuzzMembersAreThoseThatTheStrictParserSees(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":1}`, ` { "a\"" : [1,{"b":"]"}] , "c":"\\" } `, `{"\u0061":null}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		v := jsontext.Value(src)
		if !v.IsValid() || v.Kind() != '{' {
			return
		}
		want, err := strictMembers(src)
		if err != nil {
			t.Fatal(err)
		}
		ms, err := members(src, nil)
		if err != nil {
			t.Fatalf("%s: %v", src, err)
		}
		var got []pair
		for i := range ms {
			got = append(got, pair{string(ms[i].name), string(ms[i].raw(src))})
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("%s: %s", src, d)
		}
	})
}
