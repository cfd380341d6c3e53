package config

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// shape describes what may stand at one place of the document. It is derived from
// the structs once; the decoder, the defaults and the schema all walk it.
type shape struct {
	kind    shapeKind
	pointer bool    // the Go field is a pointer to what is described
	fields  []field // of a struct
	elem    *shape  // of a list or map

	form     form                  // of a text, with pattern and what from the tags where given
	pattern  func() *regexp.Regexp // compiled when a value is first held against it; nil: any text
	enum     []string
	onoff    []string // texts of on and off that a boolean stands for
	url      bool
	maxlen   int
	min, max *float64
}

type shapeKind int

const (
	kindStruct shapeKind = iota
	kindMap
	kindList
	kindText   // string, or a scalar type of ours
	kindInt    // int
	kindNumber // float64
)

type field struct {
	index    int
	name     string
	doc      string
	fallback string
	required bool
	with     string   // another key that must be there too
	oneOf    []string // keys, this one first, of which exactly one must be there
	keyed    bool     // a map whose keys follow keyForm
	bounds   string   // keywords for the schema, as "maxProperties=1,uniqueItems=true"
	shape    *shape
}

// documentShape is the shape of the whole document.
var documentShape = sync.OnceValue(func() *shape {
	return shapeOf(reflect.TypeFor[Document](), "")
})

var scalarType = reflect.TypeFor[scalar]()

// shapeOf panics on a type or tag that it does not know: that is a mistake in a
// struct of this package, found by every test and every start.
func shapeOf(t reflect.Type, tag reflect.StructTag) *shape {
	if reflect.PointerTo(t).Implements(scalarType) {
		s := &shape{kind: kindText, form: reflect.New(t).Interface().(scalar).form()}
		return s.refine(tag)
	}
	switch t.Kind() {
	case reflect.Pointer:
		s := shapeOf(t.Elem(), tag)
		s.pointer = true
		return s
	case reflect.Struct:
		s := &shape{kind: kindStruct}
		for i := range t.NumField() {
			f := t.Field(i)
			name := f.Tag.Get("yaml")
			if name == "-" || !f.IsExported() {
				continue
			}
			s.fields = append(s.fields, field{
				index: i, name: name,
				doc:      f.Tag.Get("doc"),
				fallback: f.Tag.Get("default"),
				required: f.Tag.Get("required") == "true" && f.Tag.Get("oneof") == "",
				oneOf:    alternatives(f.Tag.Get("oneof")),
				with:     f.Tag.Get("with"),
				keyed:    f.Tag.Get("keyed") == "true",
				bounds:   f.Tag.Get("bounds"),
				shape:    shapeOf(f.Type, f.Tag),
			})
		}
		return s
	case reflect.Map:
		return &shape{kind: kindMap, elem: shapeOf(t.Elem(), tag)}
	case reflect.Slice:
		return &shape{kind: kindList, elem: shapeOf(t.Elem(), tag)}
	case reflect.String:
		s := &shape{kind: kindText, form: form{what: "a string", notEmpty: tag.Get("required") == "true"}}
		return s.refine(tag)
	case reflect.Int:
		return (&shape{kind: kindInt, form: form{what: "a whole number"}}).refine(tag)
	case reflect.Float64:
		return (&shape{kind: kindNumber, form: form{what: "a number"}}).refine(tag)
	}
	panic(fmt.Sprintf("config: no shape for %s", t))
}

func alternatives(tag string) []string {
	if tag == "" {
		return nil
	}
	return strings.Split(tag, ",")
}

var urlForm = regexp.MustCompile(`^[hH][tT][tT][pP][sS]?://[^\s/?#@]+([/?][^\s#]*)?$`)

func (s *shape) refine(tag reflect.StructTag) *shape {
	if enum := tag.Get("enum"); enum != "" {
		s.enum = strings.Split(enum, ",")
		for _, e := range s.enum {
			if e == "on" || e == "off" {
				s.onoff = append(s.onoff, e)
			}
		}
		s.form.what = "one of " + strings.Join(s.enum, ", ")
	}
	if onoff := tag.Get("onoff"); onoff != "" {
		s.onoff = append(s.onoff, onoff)
	}
	if tag.Get("format") == "http-url" {
		s.url = true
		s.form.pattern = urlForm.String()
		s.form.what = "an absolute http or https URL without user name and fragment"
	}
	if pattern := tag.Get("pattern"); pattern != "" {
		s.form.pattern = pattern
		if s.form.what == "a string" {
			s.form.what = "of the form " + pattern
		}
	}
	if s.form.pattern != "" {
		form := s.form.pattern
		s.pattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(form) })
	}
	if n := tag.Get("maxlen"); n != "" {
		s.maxlen = int(mustNumber(n))
	}
	if n := tag.Get("min"); n != "" {
		v := mustNumber(n)
		s.min = &v
	}
	if n := tag.Get("max"); n != "" {
		v := mustNumber(n)
		s.max = &v
	}
	return s
}

func mustNumber(text string) float64 {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(err)
	}
	return v
}
