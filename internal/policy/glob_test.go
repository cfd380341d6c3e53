package policy

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestGlobs(t *testing.T) {
	for _, c := range []struct {
		glob, name string
		want       bool
	}{
		{"*", "", true},
		{"*", "a/b://c", true},
		{"**", "a", true},
		{"?", "é", true},
		{"?", "ab", false},
		{"?", "", false},
		{"a*", "a", true},
		{"a*", "ba", false},
		{"*a", "ba", true},
		{"*a", "ab", false},
		{"a*c", "abcbc", true},
		{"a*c", "ab", false},
		{"a*a", "a", false},
		{"*b*", "abc", true},
		{"[a-z]", "b", false},
		{"[a-z]", "[a-z]", true},
		{`\*`, "*", false},
		{"A", "a", false},
		{"file:///*/x?", "file:///a/b/xy", true},
		{"", "", true},
		{"", "a", false},
	} {
		p := newPattern(c.glob)
		if got := anyOf([]pattern{p}, c.name); got != c.want || p.matches(c.name) != c.want {
			t.Errorf("%q on %q: %v", c.glob, c.name, got)
		}
	}
}

// The forms that are matched without walking mean what the general one means.
func TestEveryShapeOfGlobMeansTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := rapid.StringMatching(`[abé*?]{0,5}`).Draw(t, "glob")
		name := rapid.StringMatching(`[abé]{0,5}`).Draw(t, "name")
		if got, want := anyOf([]pattern{newPattern(g)}, name), modelGlob(g, name); got != want {
			t.Fatalf("%q on %q: %v", g, name, got)
		}
	})
}

func TestAGlobEndsSoon(t *testing.T) {
	p := newPattern(strings.Repeat("*a", maxGlob/2-1) + "*b")
	start := time.Now()
	if p.matches(strings.Repeat("a", 20_000)) {
		t.Error("matched")
	}
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("took %v", took)
	}
}
