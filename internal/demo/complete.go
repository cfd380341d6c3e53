package demo

import (
	"sort"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-mcp/penstock/internal/fault"
)

// maxCompletions is how many values one completion may hold, by the protocol.
const maxCompletions = 100

// complete answers completion/complete for an argument of a prompt or the
// variable of a template.
func (o *offer) complete(params jsontext.Value) ([]byte, *fault.Error) {
	var p struct {
		Ref struct {
			Type string `json:"type"`
			Name string `json:"name"`
			URI  string `json:"uri"`
		} `json:"ref"`
		Argument struct {
			Name  string `json:"name"`
			Value string `json:"value"`
		} `json:"argument"`
	}
	if err := decodeParams(params, &p); err != nil {
		return nil, err
	}
	var source func() []string
	known := false
	switch p.Ref.Type {
	case "ref/prompt":
		for _, pr := range o.prompts {
			if pr.name == p.Ref.Name {
				known, source = true, pr.complete[p.Argument.Name]
			}
		}
	case "ref/resource":
		for _, t := range o.templates {
			if t.pattern == p.Ref.URI {
				known = true
				if t.variable == p.Argument.Name {
					source = t.complete
				}
			}
		}
	}
	if !known {
		return nil, fault.New(fault.InvalidParams, "nothing to complete: no such prompt or template")
	}
	values := []string{}
	if source != nil {
		for _, v := range source() {
			if strings.HasPrefix(strings.ToLower(v), strings.ToLower(p.Argument.Value)) {
				values = append(values, v)
			}
		}
	}
	sort.Strings(values)
	total := len(values)
	type completion struct {
		Values  []string `json:"values"`
		Total   int      `json:"total"`
		HasMore bool     `json:"hasMore"`
	}
	return marshal(struct {
		Completion completion `json:"completion"`
	}{completion{values[:min(total, maxCompletions)], total, total > maxCompletions}})
}
