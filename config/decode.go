package config

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// decoder fills a Document from the syntax tree and collects every problem.
type decoder struct {
	file     string
	env      func(string) (string, bool)
	refused  func(template string) bool
	widths   []int            // characters in each line of the file
	places   map[string]place // by path; of values and, with keySuffix, of keys
	problems Problems
	warnings Problems
	broken   bool // nothing sensible can be said about the content
}

// place is where a value stands and how it may be shown.
type place struct {
	line, column int
	raw          string // the text as it was written, before variables
	hidden       bool   // what the value is must not be shown
	bad          bool   // a problem was reported here: checks leave it alone
}

const keySuffix = "\x00key"

func target(doc *Document) reflect.Value { return reflect.ValueOf(doc).Elem() }

// value decodes one node. path is for people, template for the table of refused keys.
func (d *decoder) value(n ast.Node, s *shape, into reflect.Value, path, template string) {
	d.places[path] = d.at(position(n))
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode:
		d.problemAt(n, path, "YAML anchors and aliases are not allowed", "write the value out")
		return
	case *ast.TagNode:
		d.problemAt(n, path, "YAML tags are not allowed", "remove the tag")
		return
	}
	if s.pointer {
		fresh := reflect.New(into.Type().Elem())
		into.Set(fresh)
		into = fresh.Elem()
	}
	switch s.kind {
	case kindStruct:
		d.structure(n, s, into, path, template)
	case kindMap:
		d.mapping(n, s, into, path, template)
	case kindList:
		list, ok := n.(*ast.SequenceNode)
		if !ok {
			d.problemAt(n, path, "must be a list, not "+kindOf(n), "")
			return
		}
		slice := reflect.MakeSlice(into.Type(), len(list.Values), len(list.Values))
		for i, item := range list.Values {
			d.value(item, s.elem, slice.Index(i), path+"["+strconv.Itoa(i)+"]", template+"[]")
		}
		into.Set(slice)
	default:
		d.scalar(n, s, into, path)
	}
}

// pair is one key of a mapping with its value.
type pair struct {
	key   string
	node  ast.Node
	value ast.Node
}

// pairs returns the keys of a mapping, each once; nil and false after a problem.
func (d *decoder) pairs(n ast.Node, path string) ([]pair, bool) {
	var values []*ast.MappingValueNode
	switch m := n.(type) {
	case *ast.MappingNode:
		values = m.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{m}
	default:
		d.problemAt(n, path, "must be a mapping, not "+kindOf(n), "")
		return nil, false
	}
	var out []pair
	first := map[string]int{}
	for _, v := range values {
		var key string
		switch k := v.Key.(type) {
		case *ast.MergeKeyNode:
			d.problemAt(k, path, "YAML merge keys are not allowed", "write the keys out")
			continue
		case *ast.StringNode:
			key = k.Value
		case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
			key = k.GetToken().Value
		default:
			d.problemAt(v.Key, path, "a key must be a plain or quoted word", "")
			continue
		}
		if line, twice := first[key]; twice {
			d.problemAt(v.Key, join(path, key), fmt.Sprintf("is written twice; the first is in line %d", line), "keep one of them")
			continue
		}
		first[key] = d.at(position(v.Key)).line
		d.places[join(path, key)+keySuffix] = d.at(position(v.Key))
		out = append(out, pair{key, v.Key, v.Value})
	}
	return out, true
}

func (d *decoder) structure(n ast.Node, s *shape, into reflect.Value, path, template string) {
	found, ok := d.pairs(n, path)
	if !ok {
		return
	}
	s.fill(into)
	seen := map[string]bool{}
	for _, p := range found {
		at := join(path, p.key)
		i := slices.IndexFunc(s.fields, func(f field) bool { return f.name == p.key })
		if i < 0 {
			hint := ""
			if near := nearest(p.key, s.names()); near != "" {
				hint = "did you mean " + near + "?"
			}
			d.problemAt(p.node, at, "unknown key", hint)
			continue
		}
		seen[p.key] = true
		below := join(template, p.key)
		if d.refused(below) {
			d.problemAt(p.node, at, notAvailable, "")
			continue
		}
		d.value(p.value, s.fields[i].shape, into.Field(s.fields[i].index), at, below)
	}
	for _, f := range s.fields {
		if f.required && !seen[f.name] {
			d.problemFor(path, "", f.name+" is missing", "")
		}
		if f.oneOf != nil {
			d.oneOf(path, f.oneOf, seen)
		}
	}
}

// oneOf reports when none or several of the keys are there.
func (d *decoder) oneOf(path string, keys []string, seen map[string]bool) {
	var there []string
	for _, key := range keys {
		if seen[key] {
			there = append(there, key)
		}
	}
	switch len(there) {
	case 0:
		d.problemFor(path, "", keys[0]+" is missing", "")
	case 1:
	default:
		d.problemFor(path, keySuffix, "holds "+strings.Join(there, " and "), "keep one of them")
	}
}

func (s *shape) names() []string {
	names := make([]string, len(s.fields))
	for i, f := range s.fields {
		names[i] = f.name
	}
	return names
}

func (d *decoder) mapping(n ast.Node, s *shape, into reflect.Value, path, template string) {
	found, ok := d.pairs(n, path)
	if !ok {
		return
	}
	m := reflect.MakeMapWithSize(into.Type(), len(found))
	for _, p := range found {
		fresh := reflect.New(into.Type().Elem()).Elem()
		d.value(p.value, s.elem, fresh, join(path, p.key), join(template, "*"))
		if s.elem.pointer && fresh.IsNil() {
			// Checks walk the map: an entry of the wrong type is an empty one there.
			fresh.Set(reflect.New(fresh.Type().Elem()))
		}
		m.SetMapIndex(reflect.ValueOf(p.key), fresh)
	}
	into.Set(m)
}

// scalar decodes a single value.
func (d *decoder) scalar(n ast.Node, s *shape, into reflect.Value, path string) {
	var text string
	quoted := false
	switch v := n.(type) {
	case *ast.StringNode:
		text = v.Value
		quoted = v.GetToken().Type == token.DoubleQuoteType || v.GetToken().Type == token.SingleQuoteType
	case *ast.LiteralNode:
		text, quoted = v.Value.Value, true
	case *ast.BoolNode:
		if text = v.GetToken().Value; !d.boolean(v, s, &text) {
			d.wrongType(n, s, path)
			return
		}
	case *ast.IntegerNode, *ast.FloatNode:
		if text = n.GetToken().Value; s.kind == kindText && !s.form.number {
			d.wrongType(n, s, path)
			return
		}
	default:
		d.wrongType(n, s, path)
		return
	}
	at := d.places[path]
	at.raw, at.hidden = text, s.form.secret
	expanded, variable, err := expand(text, d.env)
	at.hidden = at.hidden || variable
	d.places[path] = at
	if err != nil {
		d.badVariable(path, err)
		return
	}
	if quoted && !variable && s.kind != kindText {
		d.wrongType(n, s, path)
		return
	}
	if message := s.assign(expanded, into); message != "" {
		d.problemFor(path, "", message+d.shown(path), "")
	}
}

// boolean tells whether true or false may stand here, and turns it into the text
// that it stands for.
func (d *decoder) boolean(n *ast.BoolNode, s *shape, text *string) bool {
	if s.form.boolean {
		return true
	}
	word := Toggle(n.Value).String()
	if !slices.Contains(s.onoff, word) {
		return false
	}
	*text = word
	return true
}

func (d *decoder) badVariable(path string, err error) {
	var missing missingVariable
	if errors.As(err, &missing) {
		d.problemFor(path, "", err.Error(), fmt.Sprintf("set it, or give a default: ${%s:-default}", string(missing)))
		return
	}
	d.problemFor(path, "", err.Error(), "write $${ for the characters ${")
}

var (
	wholeNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)
	anyNumber   = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)
)

// assign sets a value from its text, or says what is wrong without showing it.
func (s *shape) assign(text string, into reflect.Value) string {
	if into.Kind() == reflect.Pointer {
		fresh := reflect.New(into.Type().Elem())
		into.Set(fresh)
		into = fresh.Elem()
	}
	switch s.kind {
	case kindInt:
		if !wholeNumber.MatchString(text) {
			return "must be a whole number"
		}
		v, err := strconv.ParseInt(text, 10, strconv.IntSize)
		if err != nil {
			return "is too large"
		}
		if message := s.between(float64(v)); message != "" {
			return message
		}
		into.SetInt(v)
		return ""
	case kindNumber:
		v, err := strconv.ParseFloat(text, 64)
		if !anyNumber.MatchString(text) || err != nil || math.IsInf(v, 0) {
			return "must be a number"
		}
		if message := s.between(v); message != "" {
			return message
		}
		into.SetFloat(v)
		return ""
	}
	return s.assignText(text, into)
}

func (s *shape) assignText(text string, into reflect.Value) string {
	switch {
	case s.enum != nil && !slices.Contains(s.enum, text):
		return "must be " + s.form.what
	case s.form.notEmpty && text == "":
		return "must not be empty"
	case s.url:
		if !ValidURL(text) {
			return "must be " + s.form.what
		}
	case s.pattern != nil && !s.pattern().MatchString(text):
		return "must be " + s.form.what
	}
	if s.maxlen > 0 && len(text) > s.maxlen {
		return fmt.Sprintf("must be at most %d characters", s.maxlen)
	}
	typed, ours := into.Addr().Interface().(scalar)
	if !ours {
		into.SetString(text)
		return ""
	}
	if err := typed.set(text); err != nil {
		if errors.Is(err, errForm) {
			return "must be " + s.form.what
		}
		return err.Error()
	}
	if size, is := into.Interface().(Size); is {
		return s.between(float64(size))
	}
	return ""
}

func (s *shape) between(v float64) string {
	switch {
	case s.min != nil && s.max != nil && (v < *s.min || v > *s.max):
		return fmt.Sprintf("must be between %g and %g", *s.min, *s.max)
	case s.min != nil && v < *s.min:
		return fmt.Sprintf("must be at least %g", *s.min)
	case s.max != nil && v > *s.max:
		return fmt.Sprintf("must be at most %g", *s.max)
	}
	return ""
}

func (d *decoder) wrongType(n ast.Node, s *shape, path string) {
	hint := ""
	switch n.(type) {
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		if s.kind == kindText && s.enum == nil && s.form.pattern == "" {
			hint = "put it in quotes"
		}
	}
	d.problemAt(n, path, "must be "+s.form.what+", not "+kindOf(n), hint)
}

// shown completes "must be ..." by the value as it was written, when it may be shown.
func (d *decoder) shown(path string) string { return d.quoted(", not ", path) }

// named completes any other message in the same way.
func (d *decoder) named(path string) string { return d.quoted(": ", path) }

func (d *decoder) quoted(before, path string) string {
	at := d.places[path]
	credentials := strings.Contains(at.raw, "@") || strings.Contains(at.raw, "?")
	if at.hidden || at.raw == "" || credentials || len(at.raw) > 80 {
		return ""
	}
	return before + strconv.Quote(at.raw)
}

func join(path, key string) string {
	if !plainKey.MatchString(key) {
		key = strconv.Quote(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

var plainKey = regexp.MustCompile(`^([A-Za-z0-9_.-]{1,64}|\*)$`)

func kindOf(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		return "nothing"
	case *ast.BoolNode:
		return "true or false"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a number"
	case *ast.AliasNode, *ast.AnchorNode:
		return "an alias"
	}
	return "a string"
}
