package config

import "regexp"

// Glob is a pattern over whole names and URIs: `*` stands for any run of characters
// ("/" too), `?` for one character, and everything else for itself. Whoever matches
// names reads it with String.
type Glob string

// String is the pattern.
func (g Glob) String() string { return string(g) }

// globForm leaves out what other dialects give a meaning: a pattern such as [a-z]
// or {a,b} that quietly matched itself would expose what its author meant to deny.
var globForm = regexp.MustCompile(`^[^\[\]{}\\]+$`)

func (Glob) form() form {
	return form{what: `a glob of * and ?, without [...], {...} and \`, pattern: globForm.String(), notEmpty: true}
}

func (g *Glob) set(text string) error {
	if !globForm.MatchString(text) {
		return errForm
	}
	*g = Glob(text)
	return nil
}
