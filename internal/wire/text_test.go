package wire

import (
	"strings"
	"testing"
)

func TestStringDecodes(t *testing.T) {
	for raw, want := range map[string]string{`""`: "", `"a\u00e9\n\/"`: "aé\n/", `"` + strings.Repeat("x", 1000) + `"`: strings.Repeat("x", 1000)} {
		if got, err := String([]byte(raw)); err != nil || got != want {
			t.Errorf("%s: %q, %v", raw, got, err)
		}
	}
	for _, raw := range []string{``, `1`, `null`, `"`, `"a`, `"\x"`, `"a"b`, "\"\xff\"", "\"\n\""} {
		if got, err := String([]byte(raw)); err == nil {
			t.Errorf("%q became %q", raw, got)
		}
	}
}

func TestAppendStringEscapesTheLeast(t *testing.T) {
	got := string(AppendString([]byte("x"), "<a&b>\"\\\n\u2028é\xff"))
	if want := "x\"<a&b>\\\"\\\\\\n\u2028é\ufffd\""; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
