package observe

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// w3c says the same as the parser, in the words of the specification.
func w3c(s string) bool {
	m := regexp.MustCompile(`^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[\x21\x23-\x5b\x5d-\x7e]*)?$`).FindStringSubmatch(s)
	return m != nil && m[1] != "ff" && strings.Trim(m[2], "0") != "" && strings.Trim(m[3], "0") != "" && len(s) <= maxParent &&
		(m[1] != "00" || m[5] == "")
}

const (
	aTrace = "0af7651916cd43dd8448eb211c80319c"
	aSpan  = "b7ad6b7169203331"
)

func TestTraceparentsOfTheSpecification(t *testing.T) {
	for s, want := range map[string]bool{
		"00-" + aTrace + "-" + aSpan + "-01":                              true,
		"00-" + aTrace + "-" + aSpan + "-00":                              true,
		"00-" + aTrace + "-" + aSpan + "-ff":                              true,
		"cc-" + aTrace + "-" + aSpan + "-01":                              true,
		"cc-" + aTrace + "-" + aSpan + "-01-what-the-future-brings":       true,
		"cc-" + aTrace + "-" + aSpan + "-01-":                             true,
		"cc-" + aTrace + "-" + aSpan + `-01-a","x":"`:                     false,
		"cc-" + aTrace + "-" + aSpan + "-01.what":                         false,
		"cc-" + aTrace + "-" + aSpan + "-01-a\r\nx: y":                    false,
		"cc-" + aTrace + "-" + aSpan + "-01-" + strings.Repeat("a", 1000): false,
		"00-" + aTrace + "-" + aSpan + "-01-more":                         false,
		"ff-" + aTrace + "-" + aSpan + "-01":                              false,
		"0-" + aTrace + "-" + aSpan + "-01":                               false,
		"00-" + strings.ToUpper(aTrace) + "-" + aSpan + "-01":             false,
		"00-" + aTrace + "-" + strings.ToUpper(aSpan) + "-01":             false,
		"00-" + strings.Repeat("0", 32) + "-" + aSpan + "-01":             false,
		"00-" + aTrace + "-" + strings.Repeat("0", 16) + "-01":            false,
		"00-" + aTrace + "-" + aSpan + "-0":                               false,
		"00-" + aTrace + "-" + aSpan + "-0g":                              false,
		"00-" + aTrace + "_" + aSpan + "-01":                              false,
		" 00-" + aTrace + "-" + aSpan + "-01":                             false,
		"00-" + aTrace + "-" + aSpan + "-01 ":                             false,
		"":                                                                false,
	} {
		if got := ParseTraceparent(s); got != want {
			t.Errorf("%q: %v, want %v", s, got, want)
		}
		if w3c(s) != want {
			t.Errorf("%q: the specification's words say %v", s, !want)
		}
	}
}

func TestTraceparentIsParsedAsTheSpecificationSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hex := func(n int) string {
			return rapid.StringOfN(rapid.RuneFrom([]rune("0123456789abcdef")), n, n, n).Draw(t, "hex")
		}
		s := []byte(hex(2) + "-" + hex(32) + "-" + hex(16) + "-" + hex(2) + rapid.SampledFrom([]string{"", "", "-", "-x", "x"}).Draw(t, "tail"))
		for range rapid.IntRange(0, 2).Draw(t, "changes") {
			s[rapid.IntRange(0, len(s)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		}
		if got, want := ParseTraceparent(string(s)), w3c(string(s)); got != want {
			t.Fatalf("%q: %v, want %v", s, got, want)
		}
	})
}

func TestTraceparentIsWrittenAsItWasRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bytes := func(n int) []byte { return rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "bytes") }
		s := fmt.Sprintf("00-%x-%x-%x", bytes(16), bytes(8), bytes(1))
		r, ok := parseTraceparent(s)
		if !ok {
			t.Skip("only zeros")
		}
		if got := string(appendTraceparent(nil, r.trace, r.span, r.flags)); got != s {
			t.Fatalf("%s became %s", s, got)
		}
	})
}

func FuzzParseTraceparent(f *testing.F) {
	f.Add("00-" + aTrace + "-" + aSpan + "-01")
	f.Add("cc-" + aTrace + "-" + aSpan + "-01-more")
	f.Add("00-" + strings.Repeat("0", 32) + "-" + aSpan + "-01")
	f.Fuzz(func(t *testing.T, s string) {
		got := ParseTraceparent(s)
		if want := w3c(s); got != want {
			t.Errorf("%q: %v, want %v", s, got, want)
		}
		var none *Tracer
		if south := string(none.Start(s, "", "x").AppendTraceparent(nil)); got && south != s || !got && south != "" {
			t.Errorf("%q goes south as %q", s, south)
		}
	})
}

func TestParsingATraceparentDoesNotAlloc(t *testing.T) {
	s := "00-" + aTrace + "-" + aSpan + "-01"
	steady(t, "ParseTraceparent", func() { ParseTraceparent(s) })
}
