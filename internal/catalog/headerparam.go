package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/wire"
)

const (
	annotation     = "x-mcp-header"
	maxSchemaDepth = 64
)

// headerParams reads the x-mcp-header annotations of an inputSchema. Any
// annotation that breaks a rule makes the whole tool invalid (checklist 109,
// T13): the header must be a token, unlike any other of the tool but for its
// case; its property a string, integer or boolean, reached from the root
// through `properties` alone.
func headerParams(schema []byte) ([]HeaderParam, error) {
	// An escape could hide the annotation's name.
	if !bytes.Contains(schema, []byte(annotation)) && !bytes.Contains(schema, []byte(`\u`)) {
		return nil, nil
	}
	w := schemaWalk{}
	if err := w.schema(schema, nil, true, 0); err != nil {
		return nil, err
	}
	return w.found, nil
}

type schemaWalk struct{ found []HeaderParam }

// schema walks one schema; reachable is false where the way to it left the
// chain of properties.
func (w *schemaWalk) schema(raw []byte, path []string, reachable bool, depth int) error {
	if len(raw) == 0 || raw[0] != '{' {
		return nil // true and false are schemas too
	}
	if depth > maxSchemaDepth {
		return errors.New("the schema nests too deeply")
	}
	var header, kind []byte
	err := each(raw, func(name string, value []byte) error {
		switch name {
		case annotation:
			if header != nil {
				return errors.New("two annotations of one property")
			}
			header = value
		case "type":
			kind = value
		case "properties":
			return w.named(value, path, reachable, depth)
		case "$defs", "definitions", "patternProperties", "dependentSchemas":
			return w.named(value, nil, false, depth)
		case "const", "default", "enum", "examples":
			// Values, not schemas: what they hold annotates nothing.
		default:
			return w.elsewhere(value, depth)
		}
		return nil
	})
	if err != nil || header == nil {
		return err
	}
	return w.annotated(header, kind, path, reachable)
}

// named walks an object whose members are schemas by name.
func (w *schemaWalk) named(raw []byte, path []string, reachable bool, depth int) error {
	if len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	return each(raw, func(name string, value []byte) error {
		return w.schema(value, append(slices.Clip(path), name), reachable, depth+1)
	})
}

// elsewhere walks a keyword that may hold a schema or a list of them.
func (w *schemaWalk) elsewhere(raw []byte, depth int) error {
	if len(raw) > 0 && raw[0] == '[' {
		var inner error
		err := wire.Elements(raw, func(element []byte) bool {
			inner = w.schema(element, nil, false, depth+1)
			return inner == nil
		})
		return errors.Join(inner, err)
	}
	return w.schema(raw, nil, false, depth+1)
}

func (w *schemaWalk) annotated(header, kind []byte, path []string, reachable bool) error {
	name, err := wire.String(header)
	if err != nil || !token(name) {
		return fmt.Errorf("%s is no header name", header)
	}
	if !reachable || len(path) == 0 {
		return fmt.Errorf("%q is not on a property that is reached through properties alone", name)
	}
	typ, err := wire.String(kind)
	if err != nil || (typ != "string" && typ != "integer" && typ != "boolean") {
		return fmt.Errorf("%q is on a property that is no string, integer or boolean", name)
	}
	for i := range w.found {
		if strings.EqualFold(w.found[i].Header, name) {
			return fmt.Errorf("%q is used twice", name)
		}
	}
	w.found = append(w.found, HeaderParam{Header: name, Path: slices.Clone(path), Type: typ})
	return nil
}

// token reports whether s is an RFC 9110 token.
func token(s string) bool {
	for i := range len(s) {
		c := s[i]
		alnum := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !alnum && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}

// HeaderParams reads the x-mcp-header annotations of a whole tool object.
func HeaderParams(tool []byte) ([]HeaderParam, error) {
	it, err := parseItem(mcp.Tools, tool, reading{headers: true})
	if err != nil {
		return nil, err
	}
	return it.params, nil
}
