package mcp

import "unicode/utf8"

// Glob matches the whole name of a tool, prompt or resource: * is any run of
// characters (also of "/"), ? is one, everything else is itself. The lists that a
// document exposes and the rules of its policy speak it. Its time is bounded by the
// product of the two lengths: only the last * is ever tried again.
func Glob(pattern, name string) bool {
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
