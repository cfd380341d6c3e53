package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"unsafe"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// item is one entry of an upstream's list: its bytes as they came, and where
// in them stands what a naming rule may change. Immutable.
type item struct {
	raw    []byte
	id     string // name, uri or uriTemplate
	name   string // of a resource or template; "" when it has none
	idAt   wire.Span
	nameAt wire.Span
	ui     []uiPointer
	params []HeaderParam

	notes    []byte    // a tool's annotations, a raw object; nil: none
	tasks    string    // a tool's taskSupport, where its upstream makes tasks of calls; "": forbidden
	noTasks  bool      // it has an execution, and its upstream makes no tasks of calls
	schemaAt wire.Span // of a tool's inputSchema
	noSchema bool      // it is absent or null
}

// uiPointer is a ui:// URI in a tool's _meta (MCP Apps, checklist T59).
type uiPointer struct {
	at  wire.Span
	uri string
}

// parseItem reads one entry. The error says in public words why it cannot be
// listed.
func parseItem(kind mcp.Kind, raw []byte, how reading) (*item, error) {
	// One broken entry would make the whole merged list unreadable. Duplicate
	// names inside a schema do harm to nobody's decision, so they pass.
	if !jsontext.Value(raw).IsValid(jsontext.AllowDuplicateNames(true)) {
		return nil, errors.New("is not valid JSON")
	}
	it := &item{raw: raw}
	var id, name, meta, notes []byte
	err := each(raw, func(member string, value []byte) error {
		slot := (*[]byte)(nil)
		switch member {
		case kind.ID():
			slot = &id
		case "name":
			slot = &name
		case "_meta":
			slot = &meta
		case "annotations":
			if kind != mcp.Tools {
				return nil // they tell about content, and nothing is decided by them
			}
			slot = &notes
		case "inputSchema":
			if kind == mcp.Tools {
				if it.schemaAt.Ok() {
					return errors.New("has two members inputSchema")
				}
				it.schemaAt = spanIn(raw, value)
			}
			return nil
		case "execution":
			if kind == mcp.Tools {
				it.execution(value, how.tasks)
			}
			return nil
		default:
			return nil
		}
		if *slot != nil {
			return fmt.Errorf("has two members %q", member)
		}
		*slot = value
		return nil
	})
	if err != nil {
		return nil, err
	}
	if it.id, err = wire.String(id); err != nil || it.id == "" {
		return nil, fmt.Errorf("has no %s that is a non-empty string", kind.ID())
	}
	it.idAt = spanIn(raw, id)
	if kind == mcp.Resources || kind == mcp.Templates {
		if it.name, err = wire.String(name); err == nil {
			it.nameAt = spanIn(raw, name)
		}
	}
	if kind != mcp.Tools {
		return it, nil
	}

	if len(notes) > 0 && notes[0] == '{' {
		it.notes = notes
	}
	it.ui = uiPointers(raw, meta)
	schema := it.schemaAt.Of(raw)
	it.noSchema = schema == nil || string(schema) == "null"
	if !it.noSchema && how.headers {
		if it.params, err = headerParams(schema); err != nil {
			return nil, fmt.Errorf("has an invalid x-mcp-header: %w", err)
		}
	}
	return it, nil
}

// reading says how the items of a list are read.
type reading struct {
	headers bool // the rules of x-mcp-header apply
	tasks   bool // the upstream makes tasks of calls, as 2025-11-25 has them
}

// execution notes whether a call of the tool may be a task (2025-11-25). Of two
// members the last counts, and what is not known forbids it.
func (it *item) execution(value []byte, tasks bool) {
	if !tasks {
		it.noTasks = true
		return
	}
	it.tasks = ""
	_ = each(value, func(name string, v []byte) error { // what is no object allows nothing
		if name == "taskSupport" {
			if s, err := wire.String(v); err == nil && (s == TaskOptional || s == TaskRequired) {
				it.tasks = s
			}
		}
		return nil
	})
}

// uiPointers finds _meta.ui.resourceUri and _meta["ui/resourceUri"].
func uiPointers(raw, meta []byte) []uiPointer {
	if meta == nil || !bytes.Contains(meta, []byte("esourceUri")) && bytes.IndexByte(meta, '\\') < 0 {
		return nil
	}
	var out []uiPointer
	add := func(value []byte) {
		if uri, err := wire.String(value); err == nil {
			out = append(out, uiPointer{spanIn(raw, value), uri})
		}
	}
	// A _meta that is not an object points nowhere.
	_ = each(meta, func(member string, value []byte) error {
		switch member {
		case "ui/resourceUri":
			add(value)
		case "ui":
			_ = each(value, func(member string, value []byte) error {
				if member == "resourceUri" {
					add(value)
				}
				return nil
			})
		}
		return nil
	})
	return out
}

// each is wire.Members with decoded names and a callback that can fail.
func each(obj []byte, yield func(name string, value []byte) error) error {
	var inner error
	err := wire.Members(obj, func(name, value []byte) bool {
		decoded := string(name)
		if bytes.IndexByte(name, '\\') >= 0 {
			quoted := make([]byte, 0, len(name)+2)
			quoted = append(append(append(quoted, '"'), name...), '"')
			if decoded, inner = wire.String(quoted); inner != nil {
				return false
			}
		}
		inner = yield(decoded, value)
		return inner == nil
	})
	if inner != nil {
		return inner
	}
	return err
}

// spanIn is the place of part, a sub-slice of whole that is not empty.
func spanIn(whole, part []byte) wire.Span {
	start := int(uintptr(unsafe.Pointer(unsafe.SliceData(part))) - uintptr(unsafe.Pointer(unsafe.SliceData(whole))))
	return wire.Span{Start: start, End: start + len(part)}
}
