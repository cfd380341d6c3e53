package config

import (
	"fmt"
	"regexp"
	"strings"
)

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expand replaces ${NAME} and ${NAME:-default} by the environment and $${ by ${.
// A variable that is set and empty is empty, and the default where one is given.
// It tells whether the result holds anything from a variable, because such a text
// is never shown. Its errors name variables, never values.
func expand(text string, env func(string) (string, bool)) (out string, variable bool, err error) {
	if !strings.Contains(text, "${") {
		return text, false, nil
	}
	var b strings.Builder
	for {
		i := strings.Index(text, "${")
		if i < 0 {
			b.WriteString(text)
			return b.String(), variable, nil
		}
		if i > 0 && text[i-1] == '$' {
			b.WriteString(text[:i-1] + "${")
			text = text[i+2:]
			continue
		}
		b.WriteString(text[:i])
		inner, rest, closed := strings.Cut(text[i+2:], "}")
		if !closed {
			return "", variable, fmt.Errorf("has a ${ without its }")
		}
		name, fallback, hasFallback := strings.Cut(inner, ":-")
		if !variableName.MatchString(name) {
			return "", variable, fmt.Errorf("has a ${ that is followed by no name of a variable")
		}
		variable = true
		value, set := env(name)
		switch {
		case hasFallback && value == "":
			value = fallback
		case !set:
			return "", variable, missingVariable(name)
		}
		b.WriteString(value)
		text = rest
	}
}

// missingVariable is a variable that is not set and has no default.
type missingVariable string

func (m missingVariable) Error() string {
	return "the environment variable " + string(m) + " is not set"
}
