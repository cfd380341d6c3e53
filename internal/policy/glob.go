package policy

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

// maxGlob bounds a glob, so that the time of a match is bounded by it and by
// the length of the name.
const maxGlob = 1024

// shape is a form of glob that is matched without walking it.
type shape uint8

const (
	general  shape = iota
	anything       // *
	exact          // no wildcard
	prefix         // text*
	suffix         // *text
)

// pattern is a compiled glob: * is any run of characters (also of "/"), ? is
// one character, everything else is itself.
type pattern struct {
	shape shape
	ends  ends
	text  string // what to compare with; the whole glob where it is general
}

// ends are the first and the last byte that a name has to have. Most names of
// a list fit few of the globs of a policy, and differ in one of the two.
type ends struct {
	hasFirst, hasLast bool
	first, last       byte
}

func newEnds(glob string) (e ends) {
	if glob == "" {
		return e
	}
	if b := glob[0]; b != '*' && b != '?' {
		e.hasFirst, e.first = true, b
	}
	if b := glob[len(glob)-1]; b != '*' && b != '?' {
		e.hasLast, e.last = true, b
	}
	return e
}

func newPattern(glob string) pattern {
	p := newShape(glob)
	p.ends = newEnds(glob)
	return p
}

func newShape(glob string) pattern {
	wild := strings.IndexAny(glob, "*?")
	switch {
	case wild < 0:
		return pattern{shape: exact, text: glob}
	case strings.Trim(glob, "*") == "":
		return pattern{shape: anything}
	case wild == len(glob)-1 && glob[wild] == '*':
		return pattern{shape: prefix, text: glob[:wild]}
	case glob[0] == '*' && !strings.ContainsAny(glob[1:], "*?"):
		return pattern{shape: suffix, text: glob[1:]}
	}
	return pattern{shape: general, text: glob}
}

func newPatterns(globs []string) []pattern {
	if globs == nil {
		return nil
	}
	out := make([]pattern, len(globs))
	for i, glob := range globs {
		out[i] = newPattern(glob)
	}
	return out
}

func (p *pattern) matches(name string) bool {
	switch p.shape {
	case anything:
		return true
	case exact:
		return name == p.text
	case prefix:
		return strings.HasPrefix(name, p.text)
	case suffix:
		return strings.HasSuffix(name, p.text)
	}
	return mcp.Glob(p.text, name)
}

// fits reports whether one of the patterns matches. No patterns (nil) ask for
// nothing and fit everything.
func fits(patterns []pattern, name string) bool {
	return patterns == nil || anyOf(patterns, name)
}

func anyOf(patterns []pattern, name string) bool {
	if name == "" {
		return slices.ContainsFunc(patterns, func(p pattern) bool { return p.matches(name) })
	}
	first, last := name[0], name[len(name)-1]
	for i := range patterns {
		p := &patterns[i]
		if p.ends.hasFirst && p.ends.first != first || p.ends.hasLast && p.ends.last != last {
			continue
		}
		if p.matches(name) {
			return true
		}
	}
	return false
}

// covers reports whether every name that narrow matches is one that wide
// matches. It may miss that this is so, and never claims it wrongly.
func covers(wide, narrow string) bool {
	// The narrow glob is read as a name in which a * stands for a run of
	// anything and a ? for one character: only a * of the wide glob swallows
	// a *, and only a wildcard swallows a ?.
	w, n := 0, 0
	star, resume := -1, 0
	for n < len(narrow) {
		switch {
		case w < len(wide) && wide[w] == '*':
			star, resume = w, n
			w++
			continue
		case w < len(wide) && wide[w] == '?' && narrow[n] != '*':
			_, size := utf8.DecodeRuneInString(narrow[n:])
			w++
			n += size
			continue
		case w < len(wide) && wide[w] == narrow[n] && narrow[n] != '*' && narrow[n] != '?':
			w++
			n++
			continue
		}
		if star < 0 {
			return false
		}
		w = star + 1
		resume++
		n = resume
	}
	for w < len(wide) && wide[w] == '*' {
		w++
	}
	return w == len(wide)
}
