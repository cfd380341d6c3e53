// Package mcp holds the protocol's vocabulary: methods, revisions, reserved
// _meta keys, capability sets, headers with their base64 sentinel, and the
// projection of results to what a revision allows. It does no I/O and imports
// no other room.
package mcp

// Reserved _meta keys (checklist, constants).
const (
	MetaProtocolVersion    = "io.modelcontextprotocol/protocolVersion"
	MetaClientCapabilities = "io.modelcontextprotocol/clientCapabilities"
	MetaClientInfo         = "io.modelcontextprotocol/clientInfo"
	MetaLogLevel           = "io.modelcontextprotocol/logLevel"
	MetaServerInfo         = "io.modelcontextprotocol/serverInfo"
	MetaSubscriptionID     = "io.modelcontextprotocol/subscriptionId"
	MetaProgressToken      = "progressToken"
	MetaOrigin             = "penstock/upstream"
	MetaPartial            = "penstock/partial"
	MetaRelatedTask        = "io.modelcontextprotocol/related-task"
	ExtensionTasks         = "io.modelcontextprotocol/tasks"
	ExtensionUI            = "io.modelcontextprotocol/ui"
)

// HTTP headers, in canonical form so that they can be used as map keys.
const (
	HeaderProtocolVersion = "Mcp-Protocol-Version"
	HeaderMethod          = "Mcp-Method"
	HeaderName            = "Mcp-Name"
	HeaderParamPrefix     = "Mcp-Param-"
	HeaderSession         = "Mcp-Session-Id"
)
