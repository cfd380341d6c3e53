package mcp

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// The requests of a server to its client.
const (
	CreateMessage     = "sampling/createMessage"
	CreateElicitation = "elicitation/create"
	ListRoots         = "roots/list"
)

// Modes of an elicitation.
const (
	modeForm = "form"
	modeURL  = "url"
)

// Question is a server's request in the shape that one client reads.
type Question struct {
	Params []byte // raw; nil where the request had none
	URL    bool   // it sends the user to a URL
}

// ProjectQuestion shapes a server's request for a legacy client of revision rev
// that declared caps (checklist 6.3, 6.5, 52, 100). ok is false where the client
// cannot be asked: it did not declare what the question needs, or its revision
// has no way to put it (X4). Whatever is kept, keeps its bytes.
func ProjectQuestion(method string, caps ClientCaps, rev Revision, params []byte) (q Question, ok bool) {
	caps = caps.For(rev)
	if params != nil && !decidable(params) {
		return q, false
	}
	mode := ""
	switch method {
	case CreateElicitation:
		if mode, ok = elicitationMode(params); !ok {
			return q, false
		}
	case CreateMessage:
		if params == nil || usesTools(params) && !caps.Has(CapSamplingTools) {
			return q, false
		}
	}
	if !caps.CanBeAsked(method, mode) {
		return q, false
	}
	q = Question{Params: params, URL: mode == modeURL}
	if params == nil {
		return q, true
	}
	if method == CreateElicitation && rev < V20251125 {
		if q.Params, ok = olderForm(params); !ok {
			return Question{}, false
		}
	}
	// A client that declared tasks to us would take this for one, and no server
	// was promised that (checklist 7.4, X8).
	q.Params = without(nil, q.Params, func(name []byte) bool { return string(name) == "task" })
	return q, true
}

// decisive are the members that say what a question needs of its client.
var decisive = [...]string{"mode", "requestedSchema", "messages", "tools", "toolChoice", "task"}

// decidable reports whether params can be read in one way only: an object, no
// name twice at any depth, and none that a lenient reader takes for a decisive
// one (DESIGN section 3).
func decidable(params []byte) bool {
	if !isObject(params) || !jsontext.Value(params).IsValid() {
		return false
	}
	var buf [16]member
	ms, err := members(params, buf[:0])
	if err != nil {
		return false
	}
	for i := range ms {
		for _, name := range decisive {
			if got := string(ms[i].name); got != name && strings.EqualFold(got, name) {
				return false
			}
		}
	}
	return true
}

// elicitationMode is the mode of an elicitation; absent means a form.
func elicitationMode(params []byte) (mode string, ok bool) {
	if params == nil {
		return "", false
	}
	raw := find(params, "mode")
	if raw == nil || isNull(raw) {
		return modeForm, true
	}
	switch text(raw) {
	case modeForm:
		return modeForm, true
	case modeURL:
		return modeURL, true
	}
	return "", false
}

// usesTools reports whether a sampling request has what only a client with
// sampling.tools reads: tools, a choice among them, their uses and results, or
// more than one content block in a message (checklist 6.3).
func usesTools(params []byte) bool {
	for _, name := range [...]string{"tools", "toolChoice"} {
		if v := find(params, name); v != nil && !isNull(v) {
			return true
		}
	}
	messages := find(params, "messages")
	if !isArray(messages) {
		return false // the client says what it thinks of that
	}
	var buf [16]span
	es, err := elements(messages, buf[:0])
	if err != nil {
		return true
	}
	for _, e := range es {
		content := find(messages[e.start:e.end], "content")
		if isArray(content) {
			return true
		}
		switch text(find(content, "type")) {
		case "tool_use", "tool_result":
			return true
		}
	}
	return false
}

// text is what a raw string says; "" where it is none.
func text(raw []byte) string {
	s, err := unquote(raw)
	if err != nil {
		return ""
	}
	return string(s)
}

// olderForm makes a form of 2025-11-25 one of 2025-06-18: there is no mode, and
// titles of choices stand beside them. ok is false where the form asks for
// something that the older one has not.
func olderForm(params []byte) (form []byte, ok bool) {
	form, ok = eachMember(params, func(m *member, value []byte) (e edit, ok bool) {
		switch string(m.name) {
		case "mode":
			return edit{drop: true}, true
		case "requestedSchema":
			e.value, ok = eachMember(value, olderProperties)
			return e, ok
		}
		return edit{}, true
	})
	if form == nil {
		form = params
	}
	return form, ok
}

// olderProperties projects the properties of a form's schema.
func olderProperties(m *member, value []byte) (e edit, ok bool) {
	if string(m.name) != "properties" {
		return edit{}, true
	}
	e.value, ok = eachMember(value, func(_ *member, property []byte) (e edit, ok bool) {
		e.value, ok = olderProperty(property)
		return e, ok
	})
	return e, ok
}

// olderProperty projects one field of a form; nil means that it needs no change.
// A choice of several is not representable, and neither is one whose options
// are more than a value and its title.
func olderProperty(property []byte) (shaped []byte, ok bool) {
	if !isObject(property) {
		return nil, true
	}
	if text(find(property, "type")) == "array" || find(property, "items") != nil {
		return nil, false
	}
	options := find(property, "oneOf")
	if options == nil || !namesValues(options) {
		return nil, true // whatever it is, it is not of a newer revision
	}
	if find(property, "enum") != nil || find(property, "enumNames") != nil {
		return nil, false
	}
	choices, ok := titledChoices(options)
	if !ok {
		return nil, false
	}
	return eachMember(property, func(m *member, _ []byte) (edit, bool) {
		if string(m.name) != "oneOf" {
			return edit{}, true
		}
		return edit{renamed: "enum", value: choices}, true
	})
}

// namesValues reports whether any of the options is a single value, as those of
// a titled choice are.
func namesValues(options []byte) bool {
	var buf [16]span
	es, err := elements(options, buf[:0])
	if err != nil {
		return false
	}
	for _, e := range es {
		if find(options[e.start:e.end], "const") != nil {
			return true
		}
	}
	return false
}

// titledChoices turns [{const,title}] into the value of an enum, with the member
// enumNames behind it.
func titledChoices(options []byte) (value []byte, ok bool) {
	var buf [16]span
	es, err := elements(options, buf[:0])
	if err != nil {
		return nil, false
	}
	values, names := []byte{'['}, []byte{'['}
	for i, e := range es {
		option := options[e.start:e.end]
		constant, title := find(option, "const"), find(option, "title")
		if len(constant) == 0 || constant[0] != '"' {
			return nil, false
		}
		if len(title) == 0 || title[0] != '"' {
			title = constant
		}
		if i > 0 {
			values, names = append(values, ','), append(names, ',')
		}
		values, names = append(values, constant...), append(names, title...)
	}
	values = append(values, `],"enumNames":`...)
	return append(append(values, names...), ']'), true
}

// eachMember returns the object src with each member as project says; nil where
// nothing changes, or src is no object. ok is false as soon as project's is.
func eachMember(src []byte, project func(m *member, value []byte) (e edit, ok bool)) (out []byte, ok bool) {
	var mbuf [16]member
	var ebuf [16]edit
	ms, err := members(src, mbuf[:0])
	if err != nil {
		return nil, true
	}
	edits, changed := ebuf[:0], false
	for i := range ms {
		e, ok := project(&ms[i], ms[i].raw(src))
		if !ok {
			return nil, false
		}
		changed = changed || e.drop || e.value != nil
		edits = append(edits, e)
	}
	if !changed {
		return nil, true
	}
	return splice(nil, src, ms, edits, nil), true
}

// WithElicitationID returns the params of an elicitation with the id that the
// protocol of 2025-11-25 asks for in url mode, which a modern server does not
// give (checklist 100, T38).
func WithElicitationID(params []byte, id string) []byte {
	const name = "elicitationId"
	params = without(nil, params, func(n []byte) bool { return string(n) == name })
	ms, err := members(params, nil)
	if err != nil {
		return params
	}
	add, _ := jsontext.AppendQuote([]byte(`"`+name+`":`), id) // invalid UTF-8 is replaced
	return splice(nil, params, ms, make([]edit, len(ms)), add)
}
