package policy

import "github.com/penstock-mcp/penstock/internal/mcp"

// Reaches reports whether there could be anything of a kind that the caller sees at
// an upstream: some rule allows something of it, whatever that is called. It is for
// what is told of an upstream as a whole, such as that it is away.
func (v *View) Reaches(server, upstream string, kind mcp.Kind) bool {
	if v == nil {
		return true
	}
	return len(v.lane(server, upstream).kinds[kindOf(kind)].allow) > 0
}
