package hook

import (
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/penstock-mcp/penstock/internal/fault"
)

func TestAMessageIsOneBoundedLine(t *testing.T) {
	for in, want := range map[string]string{
		"no":                           "no",
		"  spaced\t\r\n":               "spaced",
		"a\nb\x00c\x1b[31md\u0085e":    "a b c [31md e",
		"a\u2028b\u202ec\u2066d":       "a b c d",
		"bad \xff byte":                "bad \ufffd byte",
		"\n\n":                         "",
		strings.Repeat("x", 501):       strings.Repeat("x", 500),
		strings.Repeat("é", 300):       strings.Repeat("é", 250),
		"x" + strings.Repeat("é", 300): "x" + strings.Repeat("é", 249),
	} {
		if got := clean(in, 500); got != want {
			t.Errorf("%q became %q", in, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "s")
		n := rapid.IntRange(1, 40).Draw(t, "n")
		got := clean(s, n)
		if len(got) > n || !utf8.ValidString(got) || strings.ContainsFunc(got, unicode.IsControl) {
			t.Fatalf("%q became %q", s, got)
		}
	})
}

func TestARefusalCarriesTheHooksMessageAndName(t *testing.T) {
	err := refused("dlp", ToolBefore, "no\ncards 100%d")
	if code(err) != fault.HookRefused || public(err) != `no cards 100%d; hook "dlp" refused the call, and nothing ran` {
		t.Error(public(err))
	}
	if p := public(refused("dlp", PromptAfter, "")); !strings.Contains(p, `"dlp"`) || !strings.Contains(p, "the call itself ran") || strings.HasPrefix(p, ";") {
		t.Error(p)
	}
}

func TestAFailureNamesTheHookAndHidesItsCause(t *testing.T) {
	for _, k := range []kind{unreachable, late, tooLarge, unsound} {
		f := &failure{kind: k, err: errors.New("dial 10.0.0.1:9000: " + strings.Repeat("x", 5000))}
		err := failed("dlp", ToolAfter, f)
		p := public(err)
		if code(err) != fault.HookFailed || !strings.Contains(p, `"dlp"`) || strings.Contains(p, "10.0.0.1") || !strings.Contains(p, "the call itself ran") {
			t.Errorf("%s: %s", k, p)
		}
		if !errors.Is(err, f.err) || !strings.Contains(err.Error(), "10.0.0.1") || len(err.Error()) > 1000 {
			t.Errorf("the log reads %s", err)
		}
	}
}
