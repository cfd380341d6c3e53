package config

import (
	"errors"
	"strings"
)

var (
	errOpenQuote = errors.New("has a quote that is not closed")
	errLoneSlash = errors.New("ends in a backslash")
	errNoWord    = errors.New("is empty")
)

// splitWords splits a command line as a shell splits words: at white space, with
// single and double quotes and backslashes. Nothing is expanded, and no shell
// ever sees it: $, ~, *, | and the like stand for themselves.
func splitWords(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	within := false // a word has begun
	quote := rune(0)
	escaped := false
	for _, r := range line {
		switch {
		case escaped:
			if quote == '"' && !strings.ContainsRune("\"\\$`", r) {
				word.WriteRune('\\')
			}
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, within = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, within = r, true
		case r == ' ' || r == '\t' || r == '\n' || r == '\r':
			if within {
				words = append(words, word.String())
				word.Reset()
				within = false
			}
		default:
			word.WriteRune(r)
			within = true
		}
	}
	switch {
	case quote != 0:
		return nil, errOpenQuote
	case escaped:
		return nil, errLoneSlash
	}
	if within {
		words = append(words, word.String())
	}
	if len(words) == 0 {
		return nil, errNoWord
	}
	return words, nil
}
