package hook

import "github.com/penstock-mcp/penstock/internal/mcp"

// Event is a moment of a call at which hooks are asked.
type Event uint8

// The events, as the document lists them.
const (
	ToolBefore Event = iota
	ToolAfter
	PromptBefore
	PromptAfter
	ResourceBefore
	ResourceAfter
	numEvents
)

var eventNames = [numEvents]string{
	"tool.before", "tool.after", "prompt.before", "prompt.after", "resource.before", "resource.after",
}

// String is the event as the document and the hooks spell it.
func (e Event) String() string {
	if e >= numEvents {
		return "unknown"
	}
	return eventNames[e]
}

// ParseEvent returns the event that is spelled so, exactly.
func ParseEvent(s string) (Event, bool) {
	for e, name := range eventNames {
		if name == s {
			return Event(e), true
		}
	}
	return 0, false
}

// Before is the event before something of the kind is called. A resource is a
// resource, whether a list or a template told of it.
func Before(k mcp.Kind) Event {
	switch k {
	case mcp.Tools:
		return ToolBefore
	case mcp.Prompts:
		return PromptBefore
	default:
		return ResourceBefore
	}
}

// After is the event after something of the kind was called.
func After(k mcp.Kind) Event { return Before(k) + 1 }

// after reports whether there is a result to judge.
func (e Event) after() bool { return e&1 == 1 }
