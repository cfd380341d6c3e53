package main

// era is the era of the protocol that a client or an upstream speaks.
type era string

const (
	legacy era = "legacy" // sessions that begin with initialize
	modern era = "modern" // stateless, with metadata in each request
)

// revision is the protocol version that stands for the era.
func (e era) revision() string {
	if e == legacy {
		return "2025-11-25"
	}
	return "2026-07-28"
}

// modernMeta is what every modern request carries in its params.
const modernMeta = `"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},` +
	`"io.modelcontextprotocol/clientCapabilities":`

const (
	headerVersion = "Mcp-Protocol-Version"
	headerMethod  = "Mcp-Method"
	headerName    = "Mcp-Name"
	headerSession = "Mcp-Session-Id"
)
