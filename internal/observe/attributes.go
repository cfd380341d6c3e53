package observe

// The names of span attributes, as OpenTelemetry's conventions for MCP have them
// where they have one. A span is named for the method, followed by the tool or
// prompt: "tools/call add".
//
// Some values come from peers. A span, unlike a metric, may hold names of tools
// and URIs; it never holds arguments, results, tokens or subjects.
const (
	AttrMethod        = "mcp.method.name"          // required on every span of a request
	AttrProtocol      = "mcp.protocol.version"     // the revision spoken
	AttrSession       = "mcp.session.id"           // a digest: the id itself opens the session
	AttrResource      = "mcp.resource.uri"         // of resources/read, subscribe, unsubscribe
	AttrRPCSystem     = "rpc.system"               // always RPCSystem
	AttrRPCMethod     = "rpc.method"               // the same as AttrMethod, for back ends that only know RPC
	AttrStatusCode    = "rpc.response.status_code" // the JSON-RPC error code, as text; only with an error
	AttrRequestID     = "jsonrpc.request.id"       // of this hop's message, as text
	AttrErrorType     = "error.type"               // only with an error: the catalogue's name, or ToolError
	AttrTool          = "gen_ai.tool.name"         // of tools/call
	AttrPrompt        = "gen_ai.prompt.name"       // of prompts/get
	AttrOperation     = "gen_ai.operation.name"    // ExecuteTool with tools/call, absent otherwise
	AttrTransport     = "network.transport"        // tcp for HTTP, pipe for stdio
	AttrHTTPStatus    = "http.response.status_code"
	AttrServerAddress = "server.address" // of an upstream, on the span of a call

	AttrServer    = "penstock.server"     // the virtual server
	AttrUpstream  = "penstock.upstream"   // the upstream's key
	AttrRule      = "penstock.rule"       // how the name was found
	AttrOutcome   = "penstock.outcome"    // as in the metrics
	AttrRequest   = "penstock.request.id" // the id in errors and logs
	AttrHook      = "penstock.hook"
	AttrEra       = "penstock.era"
	AttrPrincipal = "penstock.principal" // a digest, never the subject
)

// Values of the attributes above.
const (
	RPCSystem   = "jsonrpc"
	ToolError   = "tool_error" // error.type of a result with isError
	ExecuteTool = "execute_tool"
	OverTCP     = "tcp"
	OverPipe    = "pipe"
)
