package config

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// measure remembers how long the lines are, so that no position lies outside.
func (d *decoder) measure(data []byte) {
	for line := range bytes.Lines(data) {
		d.widths = append(d.widths, utf8.RuneCount(bytes.TrimRight(line, "\r\n")))
	}
	if len(d.widths) == 0 {
		d.widths = []int{0}
	}
}

// position turns an offset into line and column.
func (d *decoder) position(data []byte, offset int) (line, column int) {
	before := data[:offset]
	start := bytes.LastIndexByte(before, '\n') + 1
	return bytes.Count(before, []byte("\n")) + 1, utf8.RuneCount(before[start:]) + 1
}

// at is a position of the parser, moved into the file where the parser points
// beyond it (as it does for a value that is not there).
func (d *decoder) at(p *token.Position) place {
	if p == nil {
		return place{line: 1, column: 1}
	}
	line := min(max(p.Line, 1), len(d.widths))
	return place{line: line, column: min(max(p.Column, 1), d.widths[line-1]+1)}
}

// position of a node: a mapping starts at its first key, where the parser points
// at a colon.
func position(n ast.Node) *token.Position {
	switch m := n.(type) {
	case *ast.MappingNode:
		if !m.IsFlowStyle && len(m.Values) > 0 {
			return position(m.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return position(m.Key)
	}
	if t := n.GetToken(); t != nil {
		return t.Position
	}
	return nil
}

func (d *decoder) fail(message string) { d.failAt(1, 1, message) }

// failAt reports a problem after which the content says nothing.
func (d *decoder) failAt(line, column int, message string) {
	d.broken = true
	d.problems = append(d.problems, Problem{File: d.file, Line: line, Column: column, Message: message})
}

func (d *decoder) problemAt(n ast.Node, path, message, hint string) {
	at := d.at(position(n))
	d.problems = append(d.problems, Problem{d.file, at.line, at.column, path, message, hint})
	at.bad = true
	d.places[path] = at
}

// problemFor reports a problem of the value at path, or of its key with keySuffix.
func (d *decoder) problemFor(path, suffix, message, hint string) {
	at, known := d.find(path + suffix)
	p := Problem{File: d.file, Path: path, Message: message, Hint: hint}
	if known {
		p.Line, p.Column = at.line, at.column
	}
	d.problems = append(d.problems, p)
	at.bad = true
	d.places[path] = at
	if suffix != "" {
		d.places[path+suffix] = at
	}
}

func (d *decoder) warnFor(path, suffix, message, hint string) {
	p := Problem{File: d.file, Path: path, Message: message, Hint: hint}
	if at, known := d.find(path + suffix); known {
		p.Line, p.Column = at.line, at.column
	}
	d.warnings = append(d.warnings, p)
}

// find returns the place of a path, or of the nearest thing around it.
func (d *decoder) find(path string) (place, bool) {
	for {
		if at, known := d.places[path]; known && at.line > 0 {
			return at, true
		}
		path = strings.TrimSuffix(path, keySuffix)
		if at, known := d.places[path]; known && at.line > 0 {
			return at, true
		}
		cut := max(strings.LastIndexByte(path, '.'), strings.LastIndexByte(path, '['))
		if cut < 0 {
			at, known := d.places[""]
			return at, known && at.line > 0
		}
		path = path[:cut]
	}
}

// bad tells whether a problem was reported for exactly this value.
func (d *decoder) bad(path string) bool { return d.places[path].bad }

// finish returns the document with its warnings, or the problems, sorted.
func (d *decoder) finish(doc *Document) (*Document, error) {
	if len(d.problems) > 0 {
		d.problems.sort()
		return nil, d.problems
	}
	d.warnings.sort()
	doc.Warnings = d.warnings
	return doc, nil
}
