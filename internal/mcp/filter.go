package mcp

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// Filter is what a listener wants to hear of: the notifications member of a
// subscriptions/listen and of its acknowledgement (checklist 58 to 61), and as
// well what a legacy session hears. The zero value is nothing.
type Filter struct {
	Tools, Prompts, Resources bool     // list_changed; Resources stands for templates, too
	URIs                      []string // resources/updated; sorted, each once
	TaskIDs                   []string // notifications/tasks; sorted, each once
}

// Members of a filter, as the protocol spells them.
const (
	filterTools     = "toolsListChanged"
	filterPrompts   = "promptsListChanged"
	filterResources = "resourcesListChanged"
	filterURIs      = "resourceSubscriptions"
	filterTasks     = "taskIds"
)

// Bounds of one filter.
const (
	MaxFilterURIs    = 1000 // resources
	MaxFilterTasks   = 1024 // tasks
	MaxFilterTaskLen = 2048 // bytes of a task id
)

// errFilter says that a filter has not the form that the protocol gives it.
var errFilter = errors.New("notifications is malformed")

// ParseFilter reads a raw filter. A flag that is false is one that is absent
// (checklist T29), an unknown member asks for something nobody here offers and is
// passed over. An empty array of tasks is one that is absent, too.
func ParseFilter(raw []byte) (f Filter, err error) {
	var buf [8]member
	ms, err := members(raw, buf[:0])
	if err != nil {
		return f, fmt.Errorf("%w: %w", errFilter, err)
	}
	for i := range ms {
		name, value := string(ms[i].name), ms[i].raw(raw)
		switch name {
		case filterTools, filterPrompts, filterResources:
			on := string(value) == "true"
			if !on && string(value) != "false" && !isNull(value) {
				return Filter{}, fmt.Errorf("%w: %s is not true or false", errFilter, name)
			}
			switch name {
			case filterTools:
				f.Tools = on
			case filterPrompts:
				f.Prompts = on
			default:
				f.Resources = on
			}
		case filterURIs:
			if f.URIs, err = filterStrings(value, MaxFilterURIs, 0); err != nil {
				return Filter{}, fmt.Errorf("%w: %s: %w", errFilter, name, err)
			}
		case filterTasks:
			if f.TaskIDs, err = filterStrings(value, MaxFilterTasks, MaxFilterTaskLen); err != nil {
				return Filter{}, fmt.Errorf("%w: %s: %w", errFilter, name, err)
			}
		}
	}
	return f, nil
}

// filterStrings reads at most so many strings, each of at most longest bytes; 0 is
// any length.
func filterStrings(raw []byte, most, longest int) ([]string, error) {
	if isNull(raw) {
		return nil, nil
	}
	if len(raw) == 0 || raw[0] != '[' {
		return nil, errors.New("not an array")
	}
	var out []string
	for p := skipSpace(raw, 1); p < len(raw) && raw[p] != ']'; p = skipSpace(raw, p) {
		end := skipValue(raw, p)
		if end < 0 || raw[p] != '"' {
			return nil, errors.New("not an array of strings")
		}
		s, err := jsontext.AppendUnquote(nil, raw[p:end])
		if err != nil {
			return nil, err
		}
		if longest > 0 && len(s) > longest {
			return nil, fmt.Errorf("an entry of more than %d bytes", longest)
		}
		if out = append(out, string(s)); len(out) > most {
			return nil, fmt.Errorf("more than %d entries", most)
		}
		if p = skipSpace(raw, end); p < len(raw) && raw[p] == ',' {
			p++
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// Empty reports whether the filter asks for nothing.
func (f Filter) Empty() bool {
	return !f.Tools && !f.Prompts && !f.Resources && len(f.URIs) == 0 && len(f.TaskIDs) == 0
}

// Equal reports whether two filters ask for the same.
func (f Filter) Equal(o Filter) bool {
	return f.Tools == o.Tools && f.Prompts == o.Prompts && f.Resources == o.Resources &&
		slices.Equal(f.URIs, o.URIs) && slices.Equal(f.TaskIDs, o.TaskIDs)
}

// List reports whether list_changed of a kind is asked for.
func (f Filter) List(k Kind) bool {
	switch k {
	case Tools:
		return f.Tools
	case Prompts:
		return f.Prompts
	}
	return f.Resources
}

// WithList is f that also asks for list_changed of a kind.
func (f Filter) WithList(k Kind) Filter {
	switch k {
	case Tools:
		f.Tools = true
	case Prompts:
		f.Prompts = true
	default:
		f.Resources = true
	}
	return f
}

// HasURI reports whether exactly that resource is asked for.
func (f Filter) HasURI(uri string) bool {
	_, ok := slices.BinarySearch(f.URIs, uri)
	return ok
}

// HasTask reports whether exactly that task is asked for.
func (f Filter) HasTask(id string) bool {
	_, ok := slices.BinarySearch(f.TaskIDs, id)
	return ok
}

// Append writes the filter as the raw object of the protocol.
func (f Filter) Append(dst []byte) []byte {
	dst = append(dst, '{')
	sep := func() {
		if dst[len(dst)-1] != '{' {
			dst = append(dst, ',')
		}
	}
	for _, flag := range [...]struct {
		on   bool
		name string
	}{{f.Tools, filterTools}, {f.Prompts, filterPrompts}, {f.Resources, filterResources}} {
		if flag.on {
			sep()
			dst = append(append(append(dst, '"'), flag.name...), `":true`...)
		}
	}
	for _, list := range [...]struct {
		name string
		all  []string
	}{{filterURIs, f.URIs}, {filterTasks, f.TaskIDs}} {
		if len(list.all) == 0 {
			continue
		}
		sep()
		dst = append(append(append(dst, '"'), list.name...), `":[`...)
		for i, entry := range list.all {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst, _ = jsontext.AppendQuote(dst, entry) // invalid UTF-8 is replaced
		}
		dst = append(dst, ']')
	}
	return append(dst, '}')
}
