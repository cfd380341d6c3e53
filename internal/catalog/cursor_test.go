package catalog

import (
	"encoding/base64"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

func TestPropertyACursorOpensOnlyWhereItWasMade(t *testing.T) {
	s := serve(t, newFleet(), nil)
	other := serve(t, newFleet(), func(o *Options) { o.Name = "defaul" })
	rapid.Check(t, func(t *rapid.T) {
		last := rapid.String().Draw(t, "last")
		kind := mcp.Kind(rapid.IntRange(0, int(mcp.NumKinds)-1).Draw(t, "kind"))
		public := rapid.Bool().Draw(t, "public")
		who := [32]byte{rapid.Byte().Draw(t, "who")}
		cursor := s.seal(&who, kind, public, last)
		got, pub, err := s.open(&who, kind, cursor)
		if err != nil || got != last || pub != public {
			t.Fatalf("got %q %v %v", got, pub, err)
		}
		wrong := [32]byte{who[0] + 1}
		if _, _, err := s.open(&wrong, kind, cursor); err == nil {
			t.Fatal("another principal opens it")
		}
		if _, _, err := s.open(&who, (kind+1)%mcp.NumKinds, cursor); err == nil {
			t.Fatal("another kind opens it")
		}
		if _, _, err := other.open(&who, kind, cursor); err == nil {
			t.Fatal("another server opens it")
		}
		raw, _ := base64.RawURLEncoding.DecodeString(cursor)
		raw[rapid.IntRange(0, len(raw)-1).Draw(t, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if _, _, err := s.open(&who, kind, base64.RawURLEncoding.EncodeToString(raw)); err == nil {
			t.Fatal("an altered cursor opens")
		}
	})
}

func FuzzCursor(f *testing.F) {
	s := serve(f, newFleet(), nil)
	who := [32]byte{1}
	f.Add(s.seal(&who, mcp.Tools, true, "a__b"))
	f.Add("")
	f.Add("AQA")
	f.Fuzz(func(t *testing.T, cursor string) {
		last, public, err := s.open(&who, mcp.Tools, cursor)
		if err != nil {
			if codeOf(err) != fault.InvalidParams {
				t.Fatalf("got %v", err)
			}
			return
		}
		if s.seal(&who, mcp.Tools, public, last) != cursor {
			t.Fatalf("%q opens although it was never made", cursor)
		}
	})
}
