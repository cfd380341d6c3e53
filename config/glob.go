package config

import (
	"errors"
	"unicode/utf8"
)

// Glob is a compiled pattern over names and URIs: `*` stands for any run of
// characters ("/" too), `?` for one character, `[a-z]` and `[!a-z]` for one of a
// class, and `\` takes the next character as it is. It matches the whole text.
//
// The zero Glob matches only the empty text. A Glob is immutable.
type Glob struct {
	text  string
	steps []globStep
}

// globStep matches one character, or any run of them when star is set.
type globStep struct {
	star, any, negate bool
	char              rune
	class             []globRange
}

type globRange struct{ low, high rune }

// ParseGlob compiles a pattern.
func ParseGlob(pattern string) (Glob, error) {
	g := Glob{text: pattern}
	if pattern == "" {
		return Glob{}, errors.New("a glob must not be empty")
	}
	rest := []rune(pattern)
	for len(rest) > 0 {
		c := rest[0]
		rest = rest[1:]
		switch c {
		case '*':
			if n := len(g.steps); n == 0 || !g.steps[n-1].star {
				g.steps = append(g.steps, globStep{star: true})
			}
		case '?':
			g.steps = append(g.steps, globStep{any: true})
		case '\\':
			if len(rest) == 0 {
				return Glob{}, errors.New(`a glob must not end with "\"`)
			}
			g.steps = append(g.steps, globStep{char: rest[0]})
			rest = rest[1:]
		case '[':
			step, after, err := parseClass(rest)
			if err != nil {
				return Glob{}, err
			}
			g.steps, rest = append(g.steps, step), after
		default:
			g.steps = append(g.steps, globStep{char: c})
		}
	}
	return g, nil
}

var errClass = errors.New(`"[" in a glob starts a class such as [a-z] that must be closed and not empty; write \[ for the character`)

func parseClass(rest []rune) (globStep, []rune, error) {
	var step globStep
	if len(rest) > 0 && (rest[0] == '!' || rest[0] == '^') {
		step.negate, rest = true, rest[1:]
	}
	next := func() (rune, bool) {
		if len(rest) > 0 && rest[0] == '\\' {
			rest = rest[1:]
		}
		if len(rest) == 0 {
			return 0, false
		}
		c := rest[0]
		rest = rest[1:]
		return c, true
	}
	for len(rest) > 0 {
		if rest[0] == ']' {
			if len(step.class) == 0 {
				return globStep{}, nil, errClass
			}
			return step, rest[1:], nil
		}
		low, found := next()
		if !found {
			break
		}
		high := low
		if len(rest) > 1 && rest[0] == '-' && rest[1] != ']' {
			rest = rest[1:]
			if high, found = next(); !found || high < low {
				return globStep{}, nil, errClass
			}
		}
		step.class = append(step.class, globRange{low, high})
	}
	return globStep{}, nil, errClass
}

// Match tells whether the whole name matches. The time it takes is bounded by the
// product of both lengths, whatever the pattern.
func (g Glob) Match(name string) bool {
	var (
		step, at         int
		starStep, starAt = -1, 0
	)
	for at < len(name) {
		c, width := utf8.DecodeRuneInString(name[at:])
		switch {
		case step < len(g.steps) && g.steps[step].star:
			starStep, starAt = step, at
			step++
		case step < len(g.steps) && g.steps[step].matches(c):
			step++
			at += width
		case starStep >= 0:
			// The last star takes one character more, and matching goes on behind it.
			_, skipped := utf8.DecodeRuneInString(name[starAt:])
			starAt += skipped
			step, at = starStep+1, starAt
		default:
			return false
		}
	}
	for step < len(g.steps) && g.steps[step].star {
		step++
	}
	return step == len(g.steps)
}

func (s globStep) matches(c rune) bool {
	if s.any {
		return true
	}
	if s.class == nil {
		return c == s.char
	}
	for _, r := range s.class {
		if r.low <= c && c <= r.high {
			return !s.negate
		}
	}
	return s.negate
}

// String is the pattern as it was written.
func (g Glob) String() string { return g.text }

// IsZero tells whether no pattern was written.
func (g Glob) IsZero() bool { return g.text == "" }

// MarshalText is the pattern as it was written.
func (g Glob) MarshalText() ([]byte, error) { return []byte(g.text), nil }

func (Glob) form() form { return form{what: "a glob", notEmpty: true} }

func (g *Glob) set(text string) error {
	compiled, err := ParseGlob(text)
	if err != nil {
		return err
	}
	*g = compiled
	return nil
}

// anyMatch tells whether one of the globs matches one of the names.
func anyMatch(globs []Glob, names []string) bool {
	for _, g := range globs {
		for _, n := range names {
			if g.Match(n) {
				return true
			}
		}
	}
	return false
}

// Offers tells whether a target with these names (all of them: canonical, aliases,
// exposed) passes the filter.
func (f Filter) Offers(names ...string) bool {
	if anyMatch(f.Deny, names) {
		return false
	}
	return f.Allow == nil || anyMatch(f.Allow, names)
}
