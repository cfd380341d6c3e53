package wire

import (
	"testing"

	"pgregory.net/rapid"
)

// slowStringEnd is stringEnd one byte at a time.
func slowStringEnd(b []byte, i int, escaped bool) (int, bool, bool) {
	for ; i < len(b); i++ {
		switch {
		case escaped:
			escaped = false
		case b[i] == '\\':
			escaped = true
		case b[i] == '"':
			return i + 1, false, true
		}
	}
	return len(b), escaped, false
}

func TestStringEndEqualsOneByteAtATime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.SampledFrom([]byte(`\\\\"a!#[]^`+"\xa2\xdc\x23\x5d\x00\xff")), 0, 60).Draw(t, "b")
		i := rapid.IntRange(0, len(b)).Draw(t, "i")
		escaped := rapid.Bool().Draw(t, "escaped")
		end, esc, ok := stringEnd(b, i, escaped)
		wantEnd, wantEsc, wantOK := slowStringEnd(b, i, escaped)
		if end != wantEnd || esc != wantEsc || ok != wantOK {
			t.Fatalf("%q from %d: got %d %v %v, want %d %v %v", b, i, end, esc, ok, wantEnd, wantEsc, wantOK)
		}
	})
}

func TestSkipGoesOnInThePiecesThatCome(t *testing.T) {
	raw := []byte(`{"a":["\\\"]",{"b":"}\\"},-1.5e3],"\\":[[]]}, rest`)
	const want = len(`{"a":["\\\"]",{"b":"}\\"},-1.5e3],"\\":[[]]}`)
	for cut := 1; cut < want; cut++ {
		var k skipper
		k.begin(inBracket)
		if end, done := k.skip(raw[:cut], 1); done || end != cut {
			t.Fatalf("cut at %d: ended at %d, %v", cut, end, done)
		}
		if end, done := k.skip(raw[cut:], 0); !done || end != want-cut {
			t.Fatalf("cut at %d: ended at %d, %v", cut, end, done)
		}
	}
}

func TestSkipEqualsOneByteAtATime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.SampledFrom([]byte(`\\""{[[{}]a!;=Z`+"\n\r\xdb\xfb\x00")), 0, 120).Draw(t, "b")
		start := skipper{
			depth: rapid.IntRange(1, 12).Draw(t, "depth"), str: rapid.Bool().Draw(t, "str"),
			esc: rapid.Bool().Draw(t, "esc"), lines: rapid.Bool().Draw(t, "lines"),
		}
		whole, slow, pieces := start, start, start
		end, done := whole.skip(b, 0)
		slowEnd, slowDone := slow.bracketsTail(b, 0)
		if end != slowEnd || done != slowDone {
			t.Fatalf("%q: got %d %v, want %d %v", b, end, done, slowEnd, slowDone)
		}
		if !done && whole != slow {
			t.Fatalf("%q: got %+v, want %+v", b, whole, slow)
		}
		cut := rapid.IntRange(0, len(b)).Draw(t, "cut")
		at, ok := pieces.skip(b[:cut], 0)
		if !ok {
			at, ok = pieces.skip(b[cut:], 0)
			at += cut
		}
		if at != end || ok != done {
			t.Fatalf("%q cut at %d: got %d %v, want %d %v", b, cut, at, ok, end, done)
		}
	})
}
