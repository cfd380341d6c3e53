package routing_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// rules say what may differ between a message as it was sent and as it arrived,
// at one object of it. Whatever they do not name must be equal byte for byte,
// white space included. They know nothing of how the gateway edits: both sides
// are cut into members by jsontext, and compared.
type rules struct {
	// ours are members that the gateway may put, take or replace.
	ours func(name string, value []byte) bool
	// changed says how the value of a member may differ.
	changed map[string]func(was, is []byte) error
	// below are the rules of a member that is an object, or an array of them.
	below map[string]*rules
}

// span is a member of an object by offsets into it.
type span struct {
	name                        string
	start, valueStart, valueEnd int
}

// diff returns an error that tells the first difference.
func (r *rules) diff(path string, was, is []byte) error {
	if len(was) > 0 && was[0] == '[' && len(is) > 0 && is[0] == '[' {
		return r.elements(path, was, is)
	}
	if len(was) == 0 || was[0] != '{' {
		return same(path, was, is)
	}
	a, err := members(was)
	if err != nil {
		return fmt.Errorf("%s as sent: %w", path, err)
	}
	b, err := members(is)
	if err != nil {
		return fmt.Errorf("%s as it arrived: %w", path, err)
	}
	x, y := r.kept(was, a), r.kept(is, b)
	if len(x) != len(y) {
		return fmt.Errorf("%s has %d members of the sender's, of %d:\n%s\n%s", path, len(y), len(x), clip(was), clip(is))
	}
	for i := range x {
		m, n := &a[x[i]], &b[y[i]]
		at := path + "." + m.name
		// The name, the colon and the space around it.
		if err := same(at+" (name)", was[m.start:m.valueStart], is[n.start:n.valueStart]); err != nil {
			return err
		}
		if err := r.value(at, m.name, was[m.valueStart:m.valueEnd], is[n.valueStart:n.valueEnd]); err != nil {
			return err
		}
		// What stands between two members that are neighbours on both sides.
		if i > 0 && x[i] == x[i-1]+1 && y[i] == y[i-1]+1 {
			if err := same(at+" (before)", was[a[x[i]-1].valueEnd:m.start], is[b[y[i]-1].valueEnd:n.start]); err != nil {
				return err
			}
		}
		if x[i] == 0 && y[i] == 0 {
			if err := same(at+" (before)", was[:m.start], is[:n.start]); err != nil {
				return err
			}
		}
		if x[i] == len(a)-1 && y[i] == len(b)-1 {
			if err := same(at+" (behind)", was[m.valueEnd:], is[n.valueEnd:]); err != nil {
				return err
			}
		}
	}
	if len(a) == 0 && len(b) == 0 {
		return same(path, was, is)
	}
	return nil
}

func (r *rules) value(at, name string, was, is []byte) error {
	if f := r.changed[name]; f != nil {
		if err := f(was, is); err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		return nil
	}
	if below := r.below[name]; below != nil {
		return below.diff(at, was, is)
	}
	return same(at, was, is)
}

// kept are the indexes of members that belong to the sender. An object that
// holds nothing but ours is ours.
func (r *rules) kept(raw []byte, ms []span) []int {
	var out []int
	for i := range ms {
		value := raw[ms[i].valueStart:ms[i].valueEnd]
		if r.ours != nil && r.ours(ms[i].name, value) {
			continue
		}
		if below := r.below[ms[i].name]; below != nil && below.ours != nil && value[0] == '{' {
			if inner, err := members(value); err == nil && len(below.kept(value, inner)) == 0 {
				continue
			}
		}
		out = append(out, i)
	}
	return out
}

func (r *rules) elements(path string, was, is []byte) error {
	a, err := elements(was)
	if err != nil {
		return fmt.Errorf("%s as sent: %w", path, err)
	}
	b, err := elements(is)
	if err != nil {
		return fmt.Errorf("%s as it arrived: %w", path, err)
	}
	if len(a) != len(b) {
		return fmt.Errorf("%s has %d elements, not %d", path, len(b), len(a))
	}
	endA, endB := 0, 0
	for i := range a {
		at := fmt.Sprintf("%s[%d]", path, i)
		if err := same(at+" (before)", was[endA:a[i][0]], is[endB:b[i][0]]); err != nil {
			return err
		}
		if err := r.diff(at, was[a[i][0]:a[i][1]], is[b[i][0]:b[i][1]]); err != nil {
			return err
		}
		endA, endB = a[i][1], b[i][1]
	}
	return same(path+" (end)", was[endA:], is[endB:])
}

func same(at string, was, is []byte) error {
	if bytes.Equal(was, is) {
		return nil
	}
	return fmt.Errorf("%s was %s and is %s", at, clip(was), clip(is))
}

func clip(b []byte) string {
	if len(b) > 400 {
		return fmt.Sprintf("%q… (%d bytes)", b[:400], len(b))
	}
	return fmt.Sprintf("%q", b)
}

var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// members cuts the object that raw begins and ends with.
func members(raw []byte) ([]span, error) {
	d := jsontext.NewDecoder(bytes.NewReader(raw), lenient...)
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return nil, errors.Join(errors.New("not an object"), err)
	}
	var out []span
	for d.PeekKind() != '}' {
		name, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		end := int(d.InputOffset())
		s := span{start: end - len(name)}
		decoded, err := jsontext.AppendUnquote(nil, name)
		if err != nil {
			return nil, err
		}
		s.name = string(decoded)
		value, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		s.valueEnd = int(d.InputOffset())
		s.valueStart = s.valueEnd - len(value)
		out = append(out, s)
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("there is something behind the object: %w", err)
	}
	return out, nil
}

func elements(raw []byte) ([][2]int, error) {
	d := jsontext.NewDecoder(bytes.NewReader(raw), lenient...)
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	var out [][2]int
	for d.PeekKind() != ']' {
		v, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		end := int(d.InputOffset())
		out = append(out, [2]int{end - len(v), end})
	}
	_, err := d.ReadToken()
	return out, err
}

// find is the raw value at a path of names, nil where there is none.
func find(raw []byte, path ...string) []byte {
	for _, name := range path {
		ms, err := members(raw)
		if err != nil {
			return nil
		}
		var next []byte
		for _, m := range ms {
			if m.name == name {
				next = raw[m.valueStart:m.valueEnd]
			}
		}
		raw = next
	}
	return raw
}

func unquote(raw []byte) string {
	s, err := jsontext.AppendUnquote(nil, raw)
	if err != nil {
		return "not a string: " + string(raw)
	}
	return string(s)
}
