package config

import (
	"regexp"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestSizesAreBytes(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "7": 7, "7B": 7, "64KiB": 65536, "4MiB": 4 << 20, "2GiB": 2 << 30, "9223372036854775807": 1<<63 - 1} {
		var s Size
		if err := s.set(text); err != nil || s.Bytes() != want {
			t.Errorf("%q is %d, %v", text, s, err)
		}
	}
	for _, text := range []string{"", "B", "-1", "+1", "1.5MiB", "4MB", "4 MiB", "9223372036854775808", "9007199254740993GiB", "1_000"} {
		var s Size
		if err := s.set(text); err == nil {
			t.Errorf("%q is accepted as %d", text, s)
		}
	}
}

func TestSizeReadsWhatItPrints(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Size(rapid.Int64Min(0).Draw(t, "bytes"))
		var got Size
		if err := got.set(want.String()); err != nil || got != want {
			t.Fatalf("%s reads as %d, %v", want, got, err)
		}
	})
}

func TestRatesAreEventsPerTime(t *testing.T) {
	for text, want := range map[string]Rate{"10/s": {10, time.Second}, "600/m": {600, time.Minute}, "1/h": {1, time.Hour}} {
		var r Rate
		if err := r.set(text); err != nil || r != want || r.String() != text {
			t.Errorf("%q is %v, %v", text, r, err)
		}
	}
	for _, text := range []string{"", "10", "0/s", "-1/s", "1/d", "/s", "01/s", "1/ s", "9999999999/s"} {
		var r Rate
		if err := r.set(text); err == nil {
			t.Errorf("%q is accepted as %v", text, r)
		}
	}
}

// The pattern of a scalar goes into the schema: what set accepts has to match it.
func TestScalarsAcceptNothingBeyondTheirPattern(t *testing.T) {
	fresh := map[string]func() scalar{
		"duration": func() scalar { return new(Duration) },
		"size":     func() scalar { return new(Size) },
		"toggle":   func() scalar { return new(Toggle) },
		"rate":     func() scalar { return new(Rate) },
		"store":    func() scalar { return new(Store) },
	}
	for name, zero := range fresh {
		pattern := regexp.MustCompile(zero().form().pattern)
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				text := rapid.StringMatching(`[-+]?[0-9]{0,4}(\.[0-9]{1,2})?(ns|us|ms|s|m|h|B|KiB|MiB|/s|/m|/h|on|off|true|sqlite:x|memory:|postgres://h/d)?`).Draw(t, "text")
				if zero().set(text) == nil && !pattern.MatchString(text) {
					t.Fatalf("%q is accepted and does not match %s", text, pattern)
				}
			})
		})
	}
}

func TestGlobsMatchTheWholeName(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"*", "", true},
		{"*", "a/b://c", true},
		{"gh__*", "gh__x", true},
		{"gh__*", "xgh__x", false},
		{"*delete*", "undelete_it", true},
		{"a?c", "abc", true},
		{"a?c", "ac", false},
		{"a?c", "aéc", true},
		{"[a-c]x", "bx", true},
		{"[!a-c]x", "bx", false},
		{"[^a-c]x", "dx", true},
		{`\*`, "*", true},
		{`\*`, "a", false},
		{`[\]]`, "]", true},
		{"[a-]", "-", true},
		{"a*b*c", "aXbYc", true},
		{"a*b*c", "aXcYb", false},
		{"deploy", "Deploy", false},
		{"file:///*.md", "file:///a/b.md", true},
		{"**", "x", true},
		{"*a", "aaab", false},
		{"*ab", "aab", true},
	} {
		g, err := ParseGlob(c.pattern)
		if err != nil {
			t.Fatalf("%q: %v", c.pattern, err)
		}
		if got := g.Match(c.name); got != c.want {
			t.Errorf("%q matches %q: %v", c.pattern, c.name, got)
		}
		if g.String() != c.pattern {
			t.Errorf("%q prints as %q", c.pattern, g)
		}
	}
	for _, pattern := range []string{"", "[", "[a", "[]", "[!]", "[z-a]", `a\`, `[\`, "[a-"} {
		if _, err := ParseGlob(pattern); err == nil {
			t.Errorf("%q is accepted", pattern)
		}
	}
}

// The same match, by a regular expression, for globs of every form.
func TestGlobAgreesWithARegularExpression(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "*", "?", "[ab]", "[!a]", "."}), 1, 8).Draw(t, "parts")
		name := rapid.StringMatching(`[ab.é]{0,10}`).Draw(t, "name")
		glob, expression := "", "(?s)^"
		for _, p := range parts {
			glob += p
			switch p {
			case "*":
				expression += ".*"
			case "?":
				expression += "."
			case "[!a]":
				expression += "[^a]"
			case ".":
				expression += `\.`
			default:
				expression += p
			}
		}
		g, err := ParseGlob(glob)
		if err != nil {
			t.Fatal(err)
		}
		if want := regexp.MustCompile(expression + "$").MatchString(name); g.Match(name) != want {
			t.Fatalf("%q matches %q: %v", glob, name, !want)
		}
	})
}

func TestFilterDenyWinsAndAnEmptyAllowOffersNothing(t *testing.T) {
	glob := func(pattern string) Glob {
		g, err := ParseGlob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	for _, c := range []struct {
		filter Filter
		names  []string
		want   bool
	}{
		{Filter{}, []string{"x"}, true},
		{Filter{Allow: []Glob{}}, []string{"x"}, false},
		{Filter{Allow: []Glob{glob("deploy")}}, []string{"jobs__start", "deploy"}, true},
		{Filter{Allow: []Glob{glob("*")}, Deny: []Glob{glob("jobs__*")}}, []string{"jobs__start", "deploy"}, false},
	} {
		if got := c.filter.Offers(c.names...); got != c.want {
			t.Errorf("%v offers %v: %v", c.filter, c.names, got)
		}
	}
}

func TestNearestWordIsTheLikelyOne(t *testing.T) {
	candidates := []string{"sessions", "sessions_per_principal", "url", "urls", "era"}
	for word, want := range map[string]string{"sesions": "sessions", "ur": "url", "URL": "", "utl": "url", "ear": "era", "zzz": "", "": "", "x": ""} {
		if got := nearest(word, candidates); got != want {
			t.Errorf("nearest to %q is %q, want %q", word, got, want)
		}
	}
}
