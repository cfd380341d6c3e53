package relay

import (
	"testing"
	"time"
)

func TestSealedStateOpensOnlyWhereItBelongs(t *testing.T) {
	now := time.Unix(1000, 0)
	clock := func() time.Time { return now }
	s, err := NewSealer([][]byte{[]byte("new"), []byte("old")}, time.Minute, clock)
	if err != nil {
		t.Fatal(err)
	}
	old, _ := NewSealer([][]byte{[]byte("old")}, time.Minute, clock)
	b := Binding{Principal: [32]byte{1}, Server: "default", Method: "tools/call", Name: "x", Upstream: "u"}
	for _, state := range []string{"", "plain", "\x00\"ü"} {
		for _, by := range []*Sealer{s, old} {
			if got, err := s.Open(by.Seal(state, b), b); err != nil || got != state {
				t.Errorf("state %q came back as %q, %v", state, got, err)
			}
		}
	}
	sealed := s.Seal("secret", b)
	for what, other := range map[string]Binding{
		"principal": {[32]byte{2}, "default", "tools/call", "x", "u"},
		"server":    {[32]byte{1}, "other", "tools/call", "x", "u"},
		"method":    {[32]byte{1}, "default", "prompts/get", "x", "u"},
		"name":      {[32]byte{1}, "default", "tools/call", "y", "u"},
		"upstream":  {[32]byte{1}, "default", "tools/call", "x", "v"},
		"boundary":  {[32]byte{1}, "default", "tools/call", "xu", ""},
	} {
		if _, err := s.Open(sealed, other); err == nil {
			t.Errorf("state opened with another %s", what)
		}
	}
	for i := range len(sealed) {
		bent := []byte(sealed)
		bent[i] ^= 1
		if _, err := s.Open(string(bent), b); err == nil {
			t.Fatalf("state opened with byte %d altered", i)
		}
	}
	now = now.Add(2 * time.Minute)
	if _, err := s.Open(sealed, b); err == nil {
		t.Error("state opened after its time")
	}
}
