package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// MaxFileBytes is the size beyond which a document is refused unread.
const MaxFileBytes = 1 << 20

// maxNesting bounds the brackets that may be open at one place; the deepest
// document that means anything needs five levels.
const maxNesting = 64

// Load reads the document at path, with variables from the environment of the
// process. The error is Problems when the document is at fault, and the error of
// the file system (wrapped) when it cannot be read.
func Load(path string) (*Document, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the configuration: %w", err)
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.LimitReader(file, MaxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("cannot read the configuration: %w", err)
	}
	return Parse(path, data, os.LookupEnv)
}

// Parse reads a document from memory. name stands in problems as the file; env
// answers for variables, as os.LookupEnv does. Problems found are all of them,
// in the order of the file; with any of them there is no document. Files that the
// document names (certificates) are looked for.
func Parse(name string, data []byte, env func(string) (string, bool)) (*Document, error) {
	return parse(name, data, env, unavailableKey)
}

func parse(name string, data []byte, env func(string) (string, bool), refused func(string) bool) (*Document, error) {
	d := &decoder{file: name, env: env, refused: refused, places: map[string]place{}}
	data = quoteMemory(data)
	d.measure(data)
	d.places[""] = place{line: 1, column: 1}
	doc := &Document{}
	documentShape().fill(target(doc))
	if body := d.body(data); body != nil {
		d.value(body, documentShape(), target(doc), "", "")
	}
	if !d.broken {
		doc.complete()
		d.check(doc)
	}
	return d.finish(doc)
}

// body returns the one mapping that the bytes hold, or nil after a problem.
// Empty bytes and a file of comments are a document without keys: also nil.
func (d *decoder) body(data []byte) ast.Node {
	if len(data) > MaxFileBytes {
		d.fail("the document is larger than 1 MiB")
		return nil
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if !utf8.Valid(data) {
		line, column := d.position(data, firstInvalid(data))
		d.failAt(line, column, "the document is not valid UTF-8")
		return nil
	}
	if nesting(data) > maxNesting {
		d.fail("the document is nested too deeply")
		return nil
	}
	file, err := parseYAML(data)
	if err != nil {
		var syntax *yaml.SyntaxError
		if errors.As(err, &syntax) {
			at := d.at(syntax.GetToken().Position)
			d.failAt(at.line, at.column, "not valid YAML: "+syntax.GetMessage())
			return nil
		}
		d.fail("not valid YAML")
		return nil
	}
	var body ast.Node
	for _, one := range file.Docs {
		if one.Body == nil {
			continue
		}
		if one.Body.Type() == ast.DirectiveType {
			d.problemAt(one.Body, "", "YAML directives are not allowed", "remove the line that starts with %")
			d.broken = true
			continue
		}
		if body != nil {
			d.problemAt(one.Body, "", "the file holds several documents", `keep one, without "---" between`)
			d.broken = true
			return nil
		}
		body = one.Body
	}
	return body
}

// parseYAML turns a panic of the parser into an error: the parser is a library that
// reads what an operator typed, and a reload must survive every file.
func parseYAML(data []byte) (file *ast.File, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("the parser gave up")
		}
	}()
	// Duplicates are allowed here because the decoder reports all of them.
	return parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
}

// nesting is at least the depth that one line or an open bracket can bring about:
// brackets, and the indicators of lists and keys that follow each other in a line.
// Strings and comments count too, which no sensible document notices.
func nesting(data []byte) int {
	depth, run, deepest := 0, 0, 0
	for i, c := range data {
		switch c {
		case '[', '{':
			depth++
		case ']', '}':
			depth = max(0, depth-1)
		case '\n':
			run = 0
		case ',':
			if depth > 0 {
				run = 0 // what follows stands beside what was before
			}
		case '-', '?', ':', '!', '&':
			if i+1 < len(data) && (data[i+1] == ' ' || data[i+1] == '\t') || c == '!' || c == '&' {
				run++
			}
		}
		deepest = max(deepest, depth, run)
	}
	return deepest
}

func firstInvalid(data []byte) int {
	for i := 0; i < len(data); {
		r, width := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && width == 1 {
			return i
		}
		i += width
	}
	return len(data)
}
