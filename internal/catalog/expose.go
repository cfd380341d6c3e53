package catalog

import "unicode/utf8"

// allows judges a target under all its names at once (DESIGN section 11), so
// that no alias and no short form escapes a rule.
func (e *Expose) allows(names ...string) bool {
	for _, pattern := range e.Deny {
		for _, name := range names {
			if glob(pattern, name) {
				return false
			}
		}
	}
	if len(e.Allow) == 0 {
		return true
	}
	for _, pattern := range e.Allow {
		for _, name := range names {
			if glob(pattern, name) {
				return true
			}
		}
	}
	return false
}

func (e *Expose) empty() bool { return len(e.Allow) == 0 && len(e.Deny) == 0 }

// glob matches a whole name: * is any run of characters, ? is one, everything
// else is itself. Its time is bounded by the product of the two lengths.
func glob(pattern, name string) bool {
	p, n := 0, 0
	star, resume := -1, 0 // the last * and where in name to try again
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, resume = p, n
			p++
			continue
		case p < len(pattern) && pattern[p] == '?':
			_, size := utf8.DecodeRuneInString(name[n:])
			p++
			n += size
			continue
		case p < len(pattern) && pattern[p] == name[n]:
			p++
			n++
			continue
		}
		if star < 0 {
			return false
		}
		p = star + 1
		resume++
		n = resume
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}
