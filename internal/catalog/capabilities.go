package catalog

import (
	"bytes"
	"slices"

	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// Relay says which notifications the gateway relays; what it does not relay is
// not advertised.
type Relay struct {
	ListChanged, Subscribe, Tasks bool
	// Legacy are the raw capabilities.tasks of the upstreams that make tasks of
	// calls as 2025-11-25 has them; NoList leaves tasks.list out, for a caller who
	// cannot be told from others.
	Legacy [][]byte
	NoList bool
}

// MergeCapabilities is the union of what upstreams declared, as far as the
// gateway serves it (S20 to S25): completions, logging, prompts, resources,
// tools, from 2025-11-25 on the MCP Apps extension, for clients of that revision its
// tasks, and for modern clients the tasks extension, where an upstream has tasks of
// either dialect. caps are raw
// capabilities objects; one that is no object declares nothing. listChanged
// follows relay alone, so that an upstream that comes late is announced;
// subscribe also needs an upstream that has it. The result is a raw object,
// the same for the same declarations in whatever order.
func MergeCapabilities(caps [][]byte, rev mcp.Revision, relay Relay) []byte {
	declared := map[string]bool{}
	subscribe, tasks := false, false
	var ui [][]byte
	for _, c := range caps {
		// What stands before a fault counts; the rest was never declared.
		_ = each(c, func(name string, value []byte) error {
			if len(value) == 0 || value[0] != '{' {
				return nil
			}
			declared[name] = true
			switch name {
			case "resources":
				subscribe = subscribe || member(value, "subscribe", "true") != nil
			case "extensions":
				if v := member(value, mcp.ExtensionUI, ""); v != nil && v[0] == '{' {
					ui = append(ui, v)
				}
				if v := member(value, mcp.ExtensionTasks, ""); v != nil && v[0] == '{' {
					tasks = true
				}
			}
			return nil
		})
	}

	out := []byte{'{'}
	add := func(name string, value ...string) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(wire.AppendString(out, name), ":{"...)
		for i, v := range value {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(out, v...)
		}
		out = append(out, '}')
	}
	var changes []string
	if relay.ListChanged {
		changes = []string{`"listChanged":true`}
	}
	if declared["completions"] {
		add("completions")
	}
	var extensions []string
	if len(ui) > 0 && rev >= mcp.V20251125 {
		// Settings that upstreams do not share are nobody's to promise.
		settings := ui[0]
		for _, other := range ui[1:] {
			if !bytes.Equal(other, settings) {
				settings = []byte("{}")
			}
		}
		extensions = append(extensions, string(append(append(wire.AppendString(nil, mcp.ExtensionUI), ':'), settings...)))
	}
	if (tasks || callsAreTasks(relay)) && relay.Tasks && rev.Era() == mcp.Modern {
		extensions = append(extensions, `"`+mcp.ExtensionTasks+`":{}`)
	}
	if len(extensions) > 0 {
		add("extensions", extensions...)
	}
	if declared["logging"] {
		add("logging")
	}
	if declared["prompts"] {
		add("prompts", changes...)
	}
	if declared["resources"] {
		offered := changes
		if subscribe && relay.Subscribe {
			offered = append(slices.Clip(changes), `"subscribe":true`)
		}
		add("resources", offered...)
	}
	if offered := legacyTasks(relay); len(offered) > 0 && rev == mcp.V20251125 {
		add("tasks", offered...)
	}
	if declared["tools"] {
		add("tools", changes...)
	}
	return append(out, '}')
}

// callsAreTasks reports whether some upstream makes tasks of calls, as 2025-11-25 has
// them.
func callsAreTasks(relay Relay) bool {
	return slices.ContainsFunc(relay.Legacy, func(c []byte) bool {
		return isObject(member(member(member(c, "requests", ""), "tools", ""), "call", ""))
	})
}

// legacyTasks are the members of capabilities.tasks that some upstream declared,
// as far as the gateway serves them.
func legacyTasks(relay Relay) (out []string) {
	list, cancel, call := false, false, false
	for _, c := range relay.Legacy {
		list = list || isObject(member(c, "list", ""))
		cancel = cancel || isObject(member(c, "cancel", ""))
		call = call || isObject(member(member(member(c, "requests", ""), "tools", ""), "call", ""))
	}
	if cancel {
		out = append(out, `"cancel":{}`)
	}
	if list && !relay.NoList {
		out = append(out, `"list":{}`)
	}
	if call {
		out = append(out, `"requests":{"tools":{"call":{}}}`)
	}
	return out
}

func isObject(raw []byte) bool { return len(raw) > 0 && raw[0] == '{' }

// member returns a member's raw value, nil where it is absent or, unless equal
// is empty, another than equal.
func member(obj []byte, name, equal string) (found []byte) {
	_ = each(obj, func(n string, value []byte) error { // what is no object has no members
		if n == name && (equal == "" || string(value) == equal) {
			found = value
		}
		return nil
	})
	return found
}
