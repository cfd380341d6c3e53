package wire

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-mcp/penstock/internal/fault"
)

func TestSplitBatch(t *testing.T) {
	got, err := SplitBatch([]byte(" [ {\"a\":1} ,2\n, [3] ] "), 3)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{`{"a":1}`, "2", "[3]"}, strings.Split(joinWith(got, "|"), "|")); d != "" {
		t.Error(d)
	}
	for raw, code := range map[string]fault.Code{
		`[]`: fault.InvalidRequest, `[1,2,3,4]`: fault.InvalidRequest, `{}`: fault.InvalidRequest, `3`: fault.InvalidRequest,
		`[1`: fault.Parse, `[1,]`: fault.Parse, `[1]x`: fault.Parse, `[{"a":1,"a":1}]`: fault.Parse, ``: fault.Parse, "[\"\xff\"]": fault.Parse,
	} {
		if _, err := SplitBatch([]byte(raw), 3); err == nil || fault.From(err).Code != code {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

func joinWith(parts [][]byte, sep string) string {
	s := make([]string, len(parts))
	for i := range parts {
		s[i] = string(parts[i])
	}
	return strings.Join(s, sep)
}

func TestIsBatch(t *testing.T) {
	for raw, want := range map[string]bool{"": false, " ": false, "\r\n\t [": true, "{": false, "x[": false} {
		if IsBatch([]byte(raw)) != want {
			t.Errorf("%q", raw)
		}
	}
}
