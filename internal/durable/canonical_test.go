package durable

import (
	"strings"
	"testing"
)

// TestCanonical holds the canonical form to the rules of the contract (2.4).
func TestCanonical(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"members by the bytes of their names", `{"b":1,"a":2,"é":3,"z":4,"":5,"A":6}`, `{"":5,"A":6,"a":2,"b":1,"z":4,"é":3}`},
		// U+FF5E sorts before U+1F600 in UTF-8, and behind it in UTF-16.
		{"not by UTF-16", `{"😀":1,"～":2}`, `{"～":2,"😀":1}`},
		{"no space", " { \"a\" : [ 1 , 2 ] , \"b\" : { } } ", `{"a":[1,2],"b":{}}`},
		{"nested", `[{"b":{"d":1,"c":2},"a":[]}]`, `[{"a":[],"b":{"c":2,"d":1}}]`},
		{"the last of a repeated name", `{"a":1,"a":2}`, `{"a":2}`},
		{"what is escaped", `"\"\\\b\f\n\r\t\u0000\u001F\u007f"`, `"\"\\\b\f\n\r\t\u0000\u001f` + "\x7f\""},
		{"what is not", `"\/<>&\u003c\u2028\u2029é\u00e9"`, "\"/<>&<\u2028\u2029éé\""},
		{"a pair of surrogates", `"\ud83d\ude00"`, `"😀"`},
		{"integers as they are", `[0,-1,9007199254740993,9223372036854775807,-9223372036854775808,18446744073709551615]`, `[0,-1,9007199254740993,9223372036854775807,-9223372036854775808,18446744073709551615]`},
		{"a point makes a float", `[1.0,1e0,10E-1,-2.50]`, `[1.0,1.0,1.0,-2.5]`},
		{"beyond 64 bits", `[18446744073709551616,-9223372036854775809]`, `[1.8446744073709552e19,-9.223372036854776e18]`},
		{"zeros", `[0.0,-0.0,-0,0e5]`, `[0.0,-0.0,-0.0,0.0]`},
		{"large", `[1e15,1e16,123456789012345680.0,1.5e300,1e21]`, `[1000000000000000.0,1e16,1.2345678901234568e17,1.5e300,1e21]`},
		{"small", `[0.1,0.001,0.00001,0.000001,1e-7,1.25e-9,5e-324]`, `[0.1,0.001,0.00001,1e-6,1e-7,1.25e-9,5e-324]`},
		{"words", `[true,false,null]`, `[true,false,null]`},
	} {
		got, err := Canonical([]byte(c.in))
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %s became %s (%v), want %s", c.name, c.in, got, err, c.want)
			continue
		}
		if again, err := Canonical(got); err != nil || string(again) != string(got) {
			t.Errorf("%s: %s is not its own canonical form: %s (%v)", c.name, got, again, err)
		}
	}
	for _, in := range []string{``, `{`, `{} {}`, `[1,]`, `01`, `1e999`, `nul`, "\"\xff\"", "\"\x01\"", strings.Repeat("[", 20000)} {
		if got, err := Canonical([]byte(in)); err == nil {
			t.Errorf("%.20q became %.40s", in, got)
		}
	}
}

// TestDigest reads and writes digests as the contract says.
func TestDigest(t *testing.T) {
	d := Sum([]byte("{}"))
	const text = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
	if d.String() != text {
		t.Errorf("the digest of {} is %s", d)
	}
	for _, s := range []string{text, "sha256:" + strings.ToUpper(text[7:])} {
		if got, err := ParseDigest(s); err != nil || got != d {
			t.Errorf("%s read as %s, %v", s, got, err)
		}
	}
	for _, s := range []string{"", text[7:], text[:70], text + "0", "SHA256:" + text[7:], "sha256:" + strings.Repeat("g", 64), " " + text} {
		if _, err := ParseDigest(s); err == nil {
			t.Errorf("%q was read", s)
		}
	}
}

// FuzzCanonical: whatever is JSON has one canonical form, which is JSON.
func FuzzCanonical(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5,"x\u2028"],"b":null}`, `-0`, `1e400`, `"\ud800"`, `{"a":{"a":{"a":1e-7}}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		one, err := Canonical(in)
		if err != nil {
			return
		}
		two, err := Canonical(one)
		if err != nil || string(two) != string(one) {
			t.Fatalf("%q: %q, then %q (%v)", in, one, two, err)
		}
	})
}
