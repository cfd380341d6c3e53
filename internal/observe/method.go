package observe

import (
	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

// foreign is the label of a code that the catalogue does not have: an upstream sent it.
const foreign = "upstream"

// methodLabel is a method of the protocol, or other: a client can send any text.
func methodLabel(s string) string {
	var space [64]byte // longer than any of them, so that a client's text is not copied
	if len(s) > len(space) {
		return other
	}
	if m := mcp.LookupMethod(space[:copy(space[:], s)]); m != nil {
		return m.Name
	}
	for _, n := range notifications {
		if s == n {
			return n
		}
	}
	return other
}

var notifications = []string{
	mcp.Initialized, mcp.Cancelled, mcp.Progress, mcp.LogMessage, mcp.RootsListChanged, mcp.Acknowledged,
	mcp.ResourceUpdated, mcp.ElicitationDone, mcp.Tools.Changed(), mcp.Prompts.Changed(), mcp.Resources.Changed(),
}

// codeLabel is the catalogue's name of a code, "" for none.
func codeLabel(code int) string {
	if code == 0 {
		return ""
	}
	if e, ok := fault.Lookup(fault.Code(code)); ok {
		return e.Name
	}
	return foreign
}
