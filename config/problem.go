package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong, or unwise, at one place of a document.
// It never holds a secret or a value that came from the environment.
type Problem struct {
	File    string // as it was named; empty: the place is not in a file
	Line    int    // from 1; 0: no place in the file
	Column  int    // from 1, in characters; 0: no place in the file
	Path    string // such as "upstreams.github.url"; empty: the whole document
	Message string
	Hint    string // what to do; may be empty
}

// Error is "file:line:col: path: message; hint" without the parts that are absent.
func (p Problem) Error() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File)
		if p.Line > 0 {
			fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
		}
		b.WriteString(": ")
	}
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.Message)
	if p.Hint != "" {
		b.WriteString("; " + p.Hint)
	}
	return b.String()
}

// Problems are all the problems of one document, in the order of the file. It is
// the error that Load and Parse return.
type Problems []Problem

// Error prints one problem a line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

func (ps Problems) sort() {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}
