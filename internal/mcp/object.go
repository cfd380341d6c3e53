package mcp

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// errShape says that bytes are not the JSON that the caller took them for.
var errShape = errors.New("malformed JSON")

// member is one member of an object, as positions in its source.
type member struct {
	name       []byte // unquoted; into the source unless it held escapes
	start, end int    // from the name's quote to the end of the value
	value      int    // where the value begins
}

func (m *member) raw(src []byte) []byte { return src[m.value:m.end] }

// members appends the members of the one object in src to into. It passes over
// values by string ends and brackets alone (DESIGN section 3), so it costs
// little on large ones, and what it accepts is not thereby proven to be JSON.
func members(src []byte, into []member) ([]member, error) {
	p := skipSpace(src, 0)
	if p >= len(src) || src[p] != '{' {
		return into, fmt.Errorf("%w: not an object", errShape)
	}
	for p = skipSpace(src, p+1); ; p = skipSpace(src, p+1) {
		if p < len(src) && src[p] == '}' && len(into) == 0 {
			return into, nil
		}
		m := member{start: p}
		p = skipString(src, p)
		if p < 0 {
			return into, fmt.Errorf("%w: a member needs a name", errShape)
		}
		var err error
		if m.name, err = unquote(src[m.start:p]); err != nil {
			return into, err
		}
		if p = skipSpace(src, p); p >= len(src) || src[p] != ':' {
			return into, fmt.Errorf("%w: no colon after %q", errShape, m.name)
		}
		m.value = skipSpace(src, p+1)
		if p = skipValue(src, m.value); p < 0 {
			return into, fmt.Errorf("%w: no value for %q", errShape, m.name)
		}
		m.end = p
		into = append(into, m)
		if p = skipSpace(src, p); p >= len(src) || (src[p] != ',' && src[p] != '}') {
			return into, fmt.Errorf("%w: object is not closed", errShape)
		}
		if src[p] == '}' {
			return into, nil
		}
	}
}

// span is a range of bytes in a source.
type span struct{ start, end int }

// locate is where the value of the first member with that name stands; ok is
// false where there is none, or src is not an object.
func locate(src []byte, name string) (s span, ok bool) {
	var buf [16]member
	ms, err := members(src, buf[:0])
	if err != nil {
		return span{}, false
	}
	for i := range ms {
		if string(ms[i].name) == name {
			return span{ms[i].value, ms[i].end}, true
		}
	}
	return span{}, false
}

// find returns the raw value of the first member with that name, or nil.
func find(src []byte, name string) []byte {
	s, ok := locate(src, name)
	if !ok {
		return nil
	}
	return src[s.start:s.end]
}

// elements appends the spans of the elements of the one array in src to into.
func elements(src []byte, into []span) ([]span, error) {
	p := skipSpace(src, 0)
	if p >= len(src) || src[p] != '[' {
		return into, fmt.Errorf("%w: not an array", errShape)
	}
	for p = skipSpace(src, p+1); ; p = skipSpace(src, p+1) {
		if p < len(src) && src[p] == ']' && len(into) == 0 {
			return into, nil
		}
		e := span{start: p}
		if p = skipValue(src, p); p < 0 {
			return into, fmt.Errorf("%w: an element is missing", errShape)
		}
		e.end = p
		into = append(into, e)
		if p = skipSpace(src, p); p >= len(src) || (src[p] != ',' && src[p] != ']') {
			return into, fmt.Errorf("%w: array is not closed", errShape)
		}
		if src[p] == ']' {
			return into, nil
		}
	}
}

func skipSpace(src []byte, p int) int {
	for p < len(src) && (src[p] == ' ' || src[p] == '\t' || src[p] == '\n' || src[p] == '\r') {
		p++
	}
	return p
}

// skipString returns the position after the string that begins at p, or -1.
func skipString(src []byte, p int) int {
	if p >= len(src) || src[p] != '"' {
		return -1
	}
	first := p + 1
	for p = first; ; p++ {
		i := bytes.IndexByte(src[p:], '"')
		if i < 0 {
			return -1
		}
		p += i
		escapes := 0
		for q := p - 1; q >= first && src[q] == '\\'; q-- {
			escapes++
		}
		if escapes%2 == 0 {
			return p + 1
		}
	}
}

// skipValue returns the position after the value that begins at p, or -1.
func skipValue(src []byte, p int) int {
	if p >= len(src) {
		return -1
	}
	switch src[p] {
	case '"':
		return skipString(src, p)
	case '{', '[':
		for depth := 0; p < len(src); p++ {
			switch src[p] {
			case '"':
				if p = skipString(src, p); p < 0 {
					return -1
				}
				p--
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return p + 1
				}
			}
		}
		return -1
	}
	first := p
	for p < len(src) && bytes.IndexByte([]byte(" \t\r\n,:]}[{\""), src[p]) < 0 {
		p++
	}
	if p == first {
		return -1
	}
	return p
}

// unquote returns the text of a raw string, without copying where it holds no
// escapes.
func unquote(raw []byte) ([]byte, error) {
	if len(raw) < 2 || raw[0] != '"' {
		return nil, fmt.Errorf("%w: not a string", errShape)
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1], nil
	}
	out, err := jsontext.AppendUnquote(nil, raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errShape, err)
	}
	return out, nil
}

// The raw value's kind, by its first byte; it has no space around it.
func isObject(raw []byte) bool { return len(raw) > 0 && raw[0] == '{' }
func isArray(raw []byte) bool  { return len(raw) > 0 && raw[0] == '[' }
func isNull(raw []byte) bool   { return string(raw) == "null" }
