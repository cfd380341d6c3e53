package mcp

// ProjectImplementation appends an Implementation object (serverInfo or
// clientInfo) to dst with the members that revision rev knows (checklist 6.5):
// icons, description and websiteUrl came with 2025-11-25, title with 2025-06-18.
// Everything else keeps its bytes.
func ProjectImplementation(rev Revision, dst, impl []byte) []byte {
	if rev > V20250618 {
		return append(dst, impl...)
	}
	return without(dst, impl, func(name []byte) bool {
		switch string(name) {
		case "icons", "description", "websiteUrl":
			return true
		case "title":
			return rev <= V20250326
		}
		return false
	})
}
