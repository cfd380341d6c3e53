package demo

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-mcp/penstock/internal/fault"
)

// fixtureTools are what the official tasks scenarios call.
func fixtureTools() []jobTool {
	return []jobTool{
		{
			name: "greet", support: taskForbidden,
			def: `{"name":"greet","description":"Say hello at once.","inputSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"],"additionalProperties":false}}`,
			plan: func(_ func() []jobView, args jsontext.Value) (work, error) {
				var in struct {
					Name string `json:"name"`
				}
				if err := decodeArguments(args, &in); err != nil {
					return work{}, err
				}
				return says("Hello, " + in.Name + "!"), nil
			},
		},
		{
			name: "slow_compute", support: taskOptional,
			def: `{"name":"slow_compute","description":"Compute for some seconds.","inputSchema":{"type":"object","properties":{"seconds":{"type":"number","minimum":0,"maximum":3600},"label":{"type":"string"}},"required":["seconds"],"additionalProperties":false}}`,
			plan: func(_ func() []jobView, args jsontext.Value) (work, error) {
				var in struct {
					Seconds float64 `json:"seconds"`
					Label   string  `json:"label"`
				}
				if err := decodeArguments(args, &in); err != nil {
					return work{}, err
				}
				if in.Seconds < 0 || in.Seconds > 3600 || len(in.Label) > maxJobText {
					return work{}, errors.New("seconds is between 0 and 3600, and a label is short")
				}
				w := says(fmt.Sprintf("computed for %g seconds %s", in.Seconds, in.Label))
				w.stages = []stage{{message: "computing", lasts: time.Duration(in.Seconds * float64(time.Second))}}
				return w, nil
			},
		},
		fixtureFailure("failing_job", "A job whose tool says that it failed.", taskRequired, errors.New("the job failed")),
		fixtureFailure("protocol_error_job", "A job that ends with a JSON-RPC error.", taskRequired, fault.New(fault.Internal, "the job broke")),
		{
			name: "confirm_delete", support: taskRequired,
			def: `{"name":"confirm_delete","description":"Delete a file after asking.","inputSchema":{"type":"object","properties":{"filename":{"type":"string"}},"required":["filename"],"additionalProperties":false}}`,
			plan: func(_ func() []jobView, args jsontext.Value) (work, error) {
				var in struct {
					Filename string `json:"filename"`
				}
				if err := decodeArguments(args, &in); err != nil {
					return work{}, err
				}
				if err := jobText("filename", in.Filename); err != nil {
					return work{}, err
				}
				return work{
					stages: []stage{{message: "looking for the file", asks: []jobQuestion{booleanQuestion("confirm", "Delete "+in.Filename+"?")}}},
					finish: func(answers map[string]jobAnswer) (any, error) {
						if yes, err := boolean(answers["confirm"].Content); err != nil || !yes || !answers["confirm"].accepted() {
							return in.Filename + " was kept", nil
						}
						return in.Filename + " was deleted", nil
					},
				}, nil
			},
		},
		{
			name: "multi_input", support: taskRequired,
			def: `{"name":"multi_input","description":"Ask two questions at once.",` + noArguments + `}`,
			plan: func(_ func() []jobView, args jsontext.Value) (work, error) {
				if err := decodeArguments(args, &struct{}{}); err != nil {
					return work{}, err
				}
				return work{
					stages: []stage{{message: "thinking", asks: []jobQuestion{nameQuestion("name"), booleanQuestion("confirm", "Are you sure?")}}},
					finish: func(answers map[string]jobAnswer) (any, error) {
						if !answers["name"].accepted() || !answers["confirm"].accepted() {
							return nil, errors.New("both questions need an answer")
						}
						who, err := userName(answers["name"].Content)
						return "thank you, " + who, err
					},
				}, nil
			},
		},
		{
			name: "test_tool_with_task", support: taskRequired, first: []jobQuestion{nameQuestion("user_name")},
			def: `{"name":"test_tool_with_task","description":"Ask for a name, then work for it.",` + noArguments + `}`,
			plan: func(_ func() []jobView, args jsontext.Value) (work, error) {
				if err := decodeArguments(args, &struct{}{}); err != nil {
					return work{}, err
				}
				return work{
					stages: []stage{{message: "working", lasts: 300 * time.Millisecond}},
					finish: func(answers map[string]jobAnswer) (any, error) {
						if !answers["user_name"].accepted() {
							return nil, errors.New("nobody gave a name")
						}
						who, err := userName(answers["user_name"].Content)
						return "worked for " + who, err
					},
				}, nil
			},
		},
	}
}

// says is work that is done at once.
func says(what string) work {
	return work{finish: func(map[string]jobAnswer) (any, error) { return what, nil }}
}

func fixtureFailure(name, description string, support taskSupport, err error) jobTool {
	return jobTool{
		name: name, support: support,
		def: `{"name":"` + name + `","description":"` + description + `",` + noArguments + `}`,
		plan: func(_ func() []jobView, args jsontext.Value) (work, error) {
			if err := decodeArguments(args, &struct{}{}); err != nil {
				return work{}, err
			}
			return work{
				stages: []stage{{message: "trying", lasts: time.Second}},
				finish: func(map[string]jobAnswer) (any, error) { return nil, err },
			}, nil
		},
	}
}

func booleanQuestion(name, message string) jobQuestion {
	return jobQuestion{
		name: name, message: message,
		schema: `{"type":"object","properties":{"confirm":{"type":"boolean"}},"required":["confirm"]}`,
		check:  func(content jsontext.Value) error { _, err := boolean(content); return err },
	}
}

func boolean(content jsontext.Value) (bool, error) {
	var in struct {
		Confirm *bool `json:"confirm"`
	}
	if err := json.Unmarshal(content, &in); err != nil || in.Confirm == nil {
		return false, errors.New("confirm is true or false")
	}
	return *in.Confirm, nil
}

func nameQuestion(name string) jobQuestion {
	return jobQuestion{
		name: name, message: "What is your name?",
		schema: `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`,
		check:  func(content jsontext.Value) error { _, err := userName(content); return err },
	}
}

func userName(content jsontext.Value) (string, error) {
	var in struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(content, &in); err != nil {
		return "", errors.New("a name is a text")
	}
	return in.Name, jobText("name", in.Name)
}
