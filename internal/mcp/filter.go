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
}

// Members of a filter, as the protocol spells them.
const (
	filterTools     = "toolsListChanged"
	filterPrompts   = "promptsListChanged"
	filterResources = "resourcesListChanged"
	filterURIs      = "resourceSubscriptions"
	filterTasks     = "taskIds"
)

// MaxFilterURIs bounds the resources of one filter.
const MaxFilterURIs = 1000

// errFilter says that a filter has not the form that the protocol gives it.
var errFilter = errors.New("notifications is malformed")

// ParseFilter reads a raw filter. A flag that is false is one that is absent
// (checklist T29), an unknown member asks for something nobody here offers and is
// passed over. tasks reports that tasks are asked for.
func ParseFilter(raw []byte) (f Filter, tasks bool, err error) {
	var buf [8]member
	ms, err := members(raw, buf[:0])
	if err != nil {
		return f, false, fmt.Errorf("%w: %w", errFilter, err)
	}
	for i := range ms {
		name, value := string(ms[i].name), ms[i].raw(raw)
		switch name {
		case filterTools, filterPrompts, filterResources:
			on := string(value) == "true"
			if !on && string(value) != "false" && !isNull(value) {
				return Filter{}, false, fmt.Errorf("%w: %s is not true or false", errFilter, name)
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
			if f.URIs, err = filterStrings(value); err != nil {
				return Filter{}, false, fmt.Errorf("%w: %s: %w", errFilter, name, err)
			}
		case filterTasks:
			tasks = !isNull(value) && string(value) != "[]"
		}
	}
	return f, tasks, nil
}

func filterStrings(raw []byte) ([]string, error) {
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
		if out = append(out, string(s)); len(out) > MaxFilterURIs {
			return nil, fmt.Errorf("more than %d entries", MaxFilterURIs)
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
	return !f.Tools && !f.Prompts && !f.Resources && len(f.URIs) == 0
}

// Equal reports whether two filters ask for the same.
func (f Filter) Equal(o Filter) bool {
	return f.Tools == o.Tools && f.Prompts == o.Prompts && f.Resources == o.Resources && slices.Equal(f.URIs, o.URIs)
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
	if len(f.URIs) > 0 {
		sep()
		dst = append(dst, `"`+filterURIs+`":[`...)
		for i, uri := range f.URIs {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst, _ = jsontext.AppendQuote(dst, uri) // invalid UTF-8 is replaced
		}
		dst = append(dst, ']')
	}
	return append(dst, '}')
}
