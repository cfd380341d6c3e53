package demo

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

// offer is what a server has, whichever era it speaks.
type offer struct {
	info         string // Implementation, raw JSON
	instructions string
	tools        []tool
	prompts      []prompt
	resources    []resource
	templates    []template
}

// capabilities that follow from what every offer has; nothing here ever changes,
// so no listChanged.
const capabilities = `{"tools":{},"prompts":{},"resources":{},"completions":{}}`

// tool is one tool. Its result is marshalled as structured content and as text;
// an error becomes a result that says isError.
type tool struct {
	name string
	def  string // the list item, raw JSON
	run  func(s *session, args jsontext.Value) (any, error)
}

// prompt is one prompt that makes a single user message of its arguments.
type prompt struct {
	name     string
	def      string
	required []string
	write    func(args map[string]string) string
	complete map[string]func() []string // by argument
}

// resource is one text with a fixed URI.
type resource struct {
	uri, mime string
	def       string
	read      func() string
}

// template is a family of resources, {variable} standing for what follows prefix.
type template struct {
	pattern, prefix, mime string
	variable              string
	def                   string
	read                  func(id string) (text string, ok bool)
	complete              func() []string
}

// answer serves one request of the methods that both eras share. The result is
// raw JSON without anything that only one era knows.
func (o *offer) answer(s *session, method string, params jsontext.Value) ([]byte, *fault.Error) {
	switch method {
	case mcp.ToolsList:
		return list(params, "tools", o.tools, func(t tool) string { return t.def })
	case mcp.PromptsList:
		return list(params, "prompts", o.prompts, func(p prompt) string { return p.def })
	case mcp.ResourcesList:
		return list(params, "resources", o.resources, func(r resource) string { return r.def })
	case mcp.ResourcesTemplates:
		return list(params, "resourceTemplates", o.templates, func(t template) string { return t.def })
	case mcp.ToolsCall:
		return o.callTool(s, params)
	case mcp.PromptsGet:
		return o.getPrompt(params)
	case mcp.ResourcesRead:
		return o.readResource(params)
	case mcp.Complete:
		return o.complete(params)
	}
	return nil, fault.New(fault.MethodNotFound, "unknown method %q", method)
}

// list answers a list request with everything: a page is never full, so no
// cursor is ever handed out and any that comes in is foreign.
func list[T any](params jsontext.Value, key string, items []T, def func(T) string) ([]byte, *fault.Error) {
	var p struct {
		Cursor *string `json:"cursor"`
	}
	if err := decodeParams(params, &p); err != nil {
		return nil, err
	}
	if p.Cursor != nil {
		return nil, fault.New(fault.InvalidParams, "unknown cursor")
	}
	out := append([]byte(`{"`), key...)
	out = append(out, `":[`...)
	for i, item := range items {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, def(item)...)
	}
	return append(out, `]}`...), nil
}

func (o *offer) callTool(s *session, params jsontext.Value) ([]byte, *fault.Error) {
	var p struct {
		Name      string         `json:"name"`
		Arguments jsontext.Value `json:"arguments"`
	}
	if err := decodeParams(params, &p); err != nil {
		return nil, err
	}
	for _, t := range o.tools {
		if t.name != p.Name {
			continue
		}
		if p.Arguments == nil {
			p.Arguments = jsontext.Value("{}")
		}
		got, err := t.run(s, p.Arguments)
		if err != nil {
			return marshal(toolResult{Content: text(err.Error()), IsError: true})
		}
		structured, failure := marshal(got)
		if failure != nil {
			return nil, failure
		}
		return marshal(toolResult{Content: text(string(structured)), Structured: structured})
	}
	return nil, fault.New(fault.InvalidParams, "unknown tool %q", p.Name).WithHint("see tools/list")
}

type toolResult struct {
	Content    []content      `json:"content"`
	Structured jsontext.Value `json:"structuredContent,omitzero"`
	IsError    bool           `json:"isError,omitzero"`
}

type content struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

func text(s string) []content { return []content{{Type: "text", Text: s}} }

func (o *offer) getPrompt(params jsontext.Value) ([]byte, *fault.Error) {
	var p struct {
		Name      string            `json:"name"`
		Arguments map[string]string `json:"arguments"`
	}
	if err := decodeParams(params, &p); err != nil {
		return nil, err
	}
	for _, pr := range o.prompts {
		if pr.name != p.Name {
			continue
		}
		for _, name := range pr.required {
			if p.Arguments[name] == "" {
				return nil, fault.New(fault.InvalidParams, "prompt %q needs the argument %q", p.Name, name)
			}
		}
		type promptMessage struct {
			Role    string  `json:"role"`
			Content content `json:"content"`
		}
		return marshal(struct {
			Messages []promptMessage `json:"messages"`
		}{[]promptMessage{{"user", content{"text", pr.write(p.Arguments)}}}})
	}
	return nil, fault.New(fault.InvalidParams, "unknown prompt %q", p.Name).WithHint("see prompts/list")
}

func (o *offer) readResource(params jsontext.Value) ([]byte, *fault.Error) {
	var p struct {
		URI string `json:"uri"`
	}
	if err := decodeParams(params, &p); err != nil {
		return nil, err
	}
	body, mime, ok := o.lookup(p.URI)
	if !ok {
		data, err := marshal(p)
		if err != nil {
			return nil, err
		}
		return nil, fault.New(fault.ResourceNotFound, "no resource %q", p.URI).WithData(data)
	}
	type contents struct {
		URI  string `json:"uri"`
		MIME string `json:"mimeType"`
		Text string `json:"text"`
	}
	return marshal(struct {
		Contents []contents `json:"contents"`
	}{[]contents{{p.URI, mime, body}}})
}

func (o *offer) lookup(uri string) (body, mime string, ok bool) {
	for _, r := range o.resources {
		if r.uri == uri {
			return r.read(), r.mime, true
		}
	}
	for _, t := range o.templates {
		if len(uri) > len(t.prefix) && uri[:len(t.prefix)] == t.prefix {
			body, ok = t.read(uri[len(t.prefix):])
			return body, t.mime, ok
		}
	}
	return "", "", false
}

// decodeParams reads params into p; absent params are empty ones.
func decodeParams(params jsontext.Value, p any) *fault.Error {
	if params == nil {
		return nil
	}
	if err := json.Unmarshal(params, p); err != nil {
		return fault.Wrap(err, fault.InvalidParams, "the parameters are of the wrong shape: %s", describe(err))
	}
	return nil
}

// decodeArguments reads a tool's arguments; its error is for the caller of the tool.
func decodeArguments(args jsontext.Value, into any) error {
	if err := json.Unmarshal(args, into, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("the arguments do not fit the input schema: %s", describe(err))
	}
	return nil
}

// describe is a decoding error without the names of Go types.
func describe(err error) string {
	var semantic *json.SemanticError
	if !errors.As(err, &semantic) {
		return err.Error()
	}
	if errors.Is(err, json.ErrUnknownName) {
		return fmt.Sprintf("unknown member at %q", semantic.JSONPointer)
	}
	return fmt.Sprintf("wrong type at %q", semantic.JSONPointer)
}

func marshal(v any) ([]byte, *fault.Error) {
	out, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "the result could not be written")
	}
	return out, nil
}
