package auth

import (
	"encoding/hex"
	"testing"
)

func TestPrincipalKeyIsSHA256OverLengthPrefixedParts(t *testing.T) {
	// Eight bytes of length, big endian, before each part: "i", "t", "s".
	got := Key("i", "t", "s")
	const want = "899217e4233cd18673ede175614e3c08291a4cdc6d3b7a1e86835ca708aa27ee"
	if h := hex.EncodeToString(got[:]); h != want {
		t.Errorf("key %s, want %s", h, want)
	}
}

func TestPrincipalKeysOfDifferentCallersDiffer(t *testing.T) {
	seen := map[[32]byte][3]string{}
	for _, who := range [][3]string{
		{IssuerLocal, "", "local"},
		{IssuerAnonymous, "", "anonymous"},
		{"a", "b", "c"},
		{"ab", "", "c"},
		{"a", "bc", ""},
		{"", "ab", "c"},
		{"", "", "abc"},
		{"abc", "", ""},
		{"a", "", "bc"},
		{"", "", ""},
		{"a\x00", "b", "c"},
	} {
		k := Key(who[0], who[1], who[2])
		if other, taken := seen[k]; taken {
			t.Errorf("%q and %q share a key", who, other)
		}
		seen[k] = who
	}
}

func TestWhatIsKeptWithAPrincipalIsMadeOnce(t *testing.T) {
	p := plain("i", "s")
	first := p.Keep(func() any { return new(int) })
	if first != p.Keep(func() any { return new(int) }) {
		t.Error("made twice")
	}
	if q := plain("i", "s"); q.Keep(func() any { return new(int) }) == first {
		t.Error("shared by two principals")
	}
}
