package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Schema returns the JSON Schema (2020-12) of the document, generated from the same
// structs that the loader decodes into. A document that the loader accepts is valid
// against it. The reverse does not hold for what a schema cannot say: references,
// names that collide, files that are missing.
func Schema() ([]byte, error) {
	root := documentShape().schema("")
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "Penstock configuration"
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(root); err != nil {
		return nil, fmt.Errorf("cannot encode the schema: %w", err)
	}
	return out.Bytes(), nil
}

// variablePattern finds a text whose value is known only where it is loaded.
const variablePattern = `\$\{`

func (s *shape) schema(template string) map[string]any {
	switch s.kind {
	case kindStruct:
		return s.structSchema(template)
	case kindMap:
		return map[string]any{
			"type":                 "object",
			"propertyNames":        map[string]any{"minLength": 1},
			"additionalProperties": s.elem.schema(join(template, "*")),
		}
	case kindList:
		return map[string]any{"type": "array", "items": s.elem.schema(template + "[]")}
	case kindInt:
		return orVariable(s.bounded("integer"))
	case kindNumber:
		return orVariable(s.bounded("number"))
	}
	return s.textSchema()
}

func (s *shape) structSchema(template string) map[string]any {
	properties := map[string]any{}
	together := map[string]any{}
	var required []string
	var oneOf []any
	for _, f := range s.fields {
		below := join(template, f.name)
		if unavailableKey(below) {
			properties[f.name] = map[string]any{"not": map[string]any{}, "description": "Not available in this version. " + f.doc}
			continue
		}
		one := f.shape.schema(below)
		one["description"] = f.doc
		if f.fallback != "" {
			one["default"] = f.shape.defaultValue(f.fallback)
		}
		if f.keyed {
			one["propertyNames"] = map[string]any{"pattern": keyForm.String()}
		}
		f.addBounds(one)
		properties[f.name] = one
		if f.required {
			required = append(required, f.name)
		}
		for _, name := range f.oneOf {
			oneOf = append(oneOf, map[string]any{"required": []string{name}})
		}
		if f.with != "" {
			together[f.name] = []string{f.with}
		}
	}
	out := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if required != nil {
		out["required"] = required
	}
	if oneOf != nil {
		out["oneOf"] = oneOf
	}
	if len(together) > 0 {
		out["dependentRequired"] = together
	}
	return out
}

func (f field) addBounds(schema map[string]any) {
	if f.bounds == "" {
		return
	}
	for bound := range strings.SplitSeq(f.bounds, ",") {
		keyword, text, _ := strings.Cut(bound, "=")
		if n, err := strconv.Atoi(text); err == nil {
			schema[keyword] = n
		} else {
			schema[keyword] = text == "true"
		}
	}
}

func (s *shape) bounded(kind string) map[string]any {
	out := map[string]any{"type": kind}
	if s.min != nil {
		out["minimum"] = *s.min
	}
	if s.max != nil {
		out["maximum"] = *s.max
	}
	return out
}

func orVariable(schema map[string]any) map[string]any {
	return map[string]any{"anyOf": []any{schema, map[string]any{"type": "string", "pattern": variablePattern}}}
}

func (s *shape) textSchema() map[string]any {
	if s.enum != nil {
		words := make([]any, 0, len(s.enum)+len(s.onoff))
		for _, e := range s.enum {
			words = append(words, e)
		}
		for _, word := range s.onoff {
			words = append(words, word == "on")
		}
		return orVariable(map[string]any{"enum": words})
	}
	out := map[string]any{"type": "string"}
	if s.form.pattern != "" {
		out["pattern"] = "(?:" + s.form.pattern + ")|" + variablePattern
	}
	if s.form.notEmpty {
		out["minLength"] = 1
	}
	if s.maxlen > 0 && s.pattern != nil {
		out["pattern"] = fmt.Sprintf(`(?:^.{1,%d}$)|%s`, s.maxlen, variablePattern)
		out = map[string]any{"allOf": []any{out, map[string]any{"pattern": "(?:" + s.form.pattern + ")|" + variablePattern}}}
	}
	switch {
	case s.form.boolean:
		return map[string]any{"anyOf": []any{map[string]any{"type": "boolean"}, out}}
	case s.form.number:
		return map[string]any{"anyOf": []any{s.bounded("integer"), out}}
	case len(s.onoff) > 0:
		return map[string]any{"anyOf": []any{out, map[string]any{"const": s.onoff[0] == "on"}}}
	}
	return out
}

func (s *shape) defaultValue(text string) any {
	switch {
	case s.kind == kindInt || s.kind == kindNumber:
		return json.Number(text)
	case s.form.boolean:
		return text == "true" || text == "on"
	}
	return text
}
