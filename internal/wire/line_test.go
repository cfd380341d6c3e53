package wire

import (
	"testing"

	"github.com/penstock-mcp/penstock/internal/fault"
)

func TestLineSafe(t *testing.T) {
	raw := []byte(`{"a":"x\n"}`)
	if got, err := LineSafe(nil, raw); err != nil || &got[0] != &raw[0] {
		t.Errorf("a message without line ends is copied: %v", err)
	}
	got, err := LineSafe([]byte("scratch"), []byte("{\r\n\"a\\\"\":\n[1,\r\"\\\\\"]\n}\n"))
	if err != nil || string(got) != "{  \"a\\\"\": [1, \"\\\\\"] } " {
		t.Errorf("%q, %v", got, err)
	}
	for _, raw := range []string{"{\"a\":\"x\ny\"}", "{\"a\r\":1}", "[\"\\\n\"]", "[\n\"a"} {
		if got, err := LineSafe(nil, []byte(raw)); err == nil || fault.From(err).Code != fault.InvalidAnswer {
			t.Errorf("%q became %q, %v", raw, got, err)
		}
	}
}
