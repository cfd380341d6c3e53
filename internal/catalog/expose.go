package catalog

import "github.com/penstock-mcp/penstock/internal/mcp"

// allows judges a target under all its names at once (DESIGN section 11), so
// that no alias and no short form escapes a rule.
func (e *Expose) allows(names ...string) bool {
	for _, pattern := range e.Deny {
		for _, name := range names {
			if mcp.Glob(pattern, name) {
				return false
			}
		}
	}
	if len(e.Allow) == 0 {
		return true
	}
	for _, pattern := range e.Allow {
		for _, name := range names {
			if mcp.Glob(pattern, name) {
				return true
			}
		}
	}
	return false
}

func (e *Expose) empty() bool { return len(e.Allow) == 0 && len(e.Deny) == 0 }
