package config

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

func compiledSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("penstock.json", parsed); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile("penstock.json")
	if err != nil {
		t.Fatalf("the schema is not one: %v", err)
	}
	return compiled
}

// asJSON turns a document into what a validator of JSON Schema looks at.
func asJSON(t *testing.T, text string) any {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(strings.TrimPrefix(text, "\xef\xbb\xbf")))
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if value == nil { // a file of comments has no keys
		return map[string]any{}
	}
	return value
}

func TestSchemaAcceptsWhatTheLoaderAccepts(t *testing.T) {
	schema := compiledSchema(t)
	for name, text := range goodDocuments {
		t.Run(name, func(t *testing.T) {
			if err := schema.Validate(asJSON(t, text)); err != nil {
				t.Errorf("the schema refuses it: %v", err)
			}
		})
	}
}

func TestSchemaRefusesWhatItCanSay(t *testing.T) {
	schema := compiledSchema(t)
	for name, bad := range badDocuments {
		if bad.unseen {
			continue
		}
		t.Run(name, func(t *testing.T) {
			if err := schema.Validate(asJSON(t, bad.text)); err == nil {
				t.Error("the schema accepts it")
			}
		})
	}
}

// Each refused value on its own, so that one refusal does not hide another that is missing.
func TestSchemaAndLoaderJudgeSingleValuesAlike(t *testing.T) {
	schema := compiledSchema(t)
	values := []string{
		`0`, `1`, `200`, `1001`, `-1`, `1.5`, `true`, `false`, `on`, `off`, `""`, `"5"`, `abc`, `auto`, `modern`, `namespaced`,
		`10s`, `1h30m`, `10`, `10x`, `4MiB`, `4MB`, `64KiB`, `7B`, `[]`, `{}`, `[a]`, `{a: b}`, `{x: 1}`,
		`"http://h/"`, `"https://h:1/x?y=z"`, `"http://u@h/"`, `"ftp://h/"`, `"memory:"`, `"sqlite:x"`, `"sqlite:"`, `"unix:x"`, `"${V:-x}"`,
		`"__"`, `"a b"`, `"-a"`, `"/mcp"`, `"*"`, `null`,
	}
	places := []string{
		"allow_anonymous: %", "state: %", "admin: %", "limits: {sessions: %}", "limits: {cache_bytes: %}", "limits: %", "keys: %", "keys: {ring: %}",
		"upstreams: %", "upstreams: {a: %}", "upstreams: {a: {url: %}}", "upstreams: {a: {url: 'http://h/', era: %}}", "upstreams: {a: {url: 'http://h/', owner: %}}",
		"upstreams: {a: {url: 'http://h/', breaker: {failures: %}}}", "upstreams: {a: {url: 'http://h/', breaker: {open: %}}}",
		"upstreams: {a: {url: 'http://h/', namespace: %}}", "upstreams: {a: {url: 'http://h/', headers: %}}", "upstreams: {a: {url: 'http://h/', command: %}}", "upstreams: {a: {command: %}}",
		"upstreams: {a: {command: [sh], dir: %}}", "upstreams: {a: {command: [sh], env: %}}", "upstreams: {a: {command: [sh], restart: %}}",
		"servers: {default: %}", "servers: {default: {page_size: %}}", "servers: {default: {origin_tag: %}}", "servers: {default: {naming: %}}",
		"servers: {default: {expose: %}}", "servers: {default: {expose: {tools: %}}}", "servers: {default: {instructions: %}}", "tasks: %", "policy: %",
	}
	for _, place := range places {
		for _, value := range values {
			text := strings.Replace(place, "%", value, 1)
			if strings.Contains(value, "${") {
				continue // the schema does not know what a variable holds
			}
			_, loaderErr := Parse("p", []byte(text), none)
			schemaErr := schema.Validate(asJSON(t, text))
			if (loaderErr == nil) != (schemaErr == nil) {
				t.Errorf("%s: loader says %v, schema says %v", text, loaderErr, schemaErr)
			}
		}
	}
}

func TestSchemaHasEveryKeyWithADescription(t *testing.T) {
	text, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	var root map[string]any
	if err := json.Unmarshal(text, &root); err != nil {
		t.Fatal(err)
	}
	for _, template := range templates(documentShape(), "") {
		node := find(root, strings.Split(strings.ReplaceAll(template, "[]", ".[]"), "."))
		if node == nil {
			t.Errorf("%s is not in the schema", template)
			continue
		}
		if description, _ := node["description"].(string); description == "" {
			t.Errorf("%s has no description", template)
		}
	}
}

// find follows a template through the schema; a key that is refused ends the way.
func find(node map[string]any, steps []string) map[string]any {
	for _, step := range steps {
		if node["not"] != nil {
			return node
		}
		var next any
		switch step {
		case "*":
			next = node["additionalProperties"]
		case "[]":
			next = node["items"]
		default:
			properties, _ := node["properties"].(map[string]any)
			next = properties[step]
		}
		found, ok := next.(map[string]any)
		if !ok {
			return nil
		}
		node = found
	}
	return node
}

func TestOperatorsPageNamesEveryKeyWithItsDefault(t *testing.T) {
	data, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	var walk func(s *shape, template string)
	walk = func(s *shape, template string) {
		for _, f := range s.fields {
			at := join(template, f.name)
			name := strings.ReplaceAll(strings.ReplaceAll(at, "aliases.*", "aliases.ALIAS"), "servers.*", "servers.NAME")
			row := "| `" + strings.ReplaceAll(name, "*", "KEY") + "` | "
			if f.fallback != "" && !unavailableKey(at) {
				row += "`" + f.fallback + "` | "
			}
			section := "\n## `" + name + "`\n"
			if !strings.Contains(page, row) && !strings.Contains(page, section) {
				t.Errorf("docs/configuration.md has no row %q", row)
			}
			if unavailableKey(at) {
				continue
			}
			inner, below := f.shape, at
			switch inner.kind {
			case kindMap:
				inner, below = inner.elem, at+".*"
			case kindList:
				inner, below = inner.elem, at+"[]"
			}
			walk(inner, below)
		}
	}
	walk(documentShape(), "")
}
