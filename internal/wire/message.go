package wire

// Kind tells the three kinds of JSON-RPC messages apart.
type Kind uint8

// The kinds. Unknown is a message that Parse refused before it could tell.
const (
	Unknown Kind = iota
	Request
	Notification
	Response
)

// String is the kind in lower case, for logs.
func (k Kind) String() string {
	return [...]string{"unknown", "request", "notification", "response"}[k]
}

// Message is one JSON-RPC message, parsed strictly and once (DESIGN section 3).
//
// Every span is an offset into Raw and covers the raw JSON value: strings with
// their quotes, and not decoded (String does that). Parse checks the types of
// the envelope alone; a member of params can have any type, and is the
// caller's to check.
type Message struct {
	Raw    []byte // the message; aliases what was given to Parse
	Kind   Kind
	Method string // decoded; "" for a Response

	ID, MethodSpan, Params, Result, Error Span

	// Members of params.
	Name, URI, Cursor, TaskID, Task, Arguments, Meta    Span
	RequestState, InputResponses, Level                 Span
	ProtocolVersion, Capabilities, ClientInfo           Span
	RequestID, Reason                                   Span // of notifications/cancelled
	ProgressTokenParam                                  Span // of notifications/progress
	Notifications                                       Span // of subscriptions/listen
	Ref, RefType, RefName, RefURI                       Span // params.ref and its members (completion)
	MetaVersion, MetaCaps, MetaClientInfo, MetaLogLevel Span // params._meta: what a modern request declares
	MetaServerInfo, MetaSubscription, ProgressToken     Span // params._meta
	Traceparent                                         Span // params._meta
}

// Reset empties the message, so that it holds no bytes and can be used again.
func (m *Message) Reset() { *m = Message{} }

// param returns the field for a member of params, or nil.
func (m *Message) param(name []byte) *Span {
	switch string(name) {
	case "name":
		return &m.Name
	case "uri":
		return &m.URI
	case "cursor":
		return &m.Cursor
	case "taskId":
		return &m.TaskID
	case "task":
		return &m.Task
	case "arguments":
		return &m.Arguments
	case "_meta":
		return &m.Meta
	case "requestState":
		return &m.RequestState
	case "inputResponses":
		return &m.InputResponses
	case "level":
		return &m.Level
	case "protocolVersion":
		return &m.ProtocolVersion
	case "capabilities":
		return &m.Capabilities
	case "clientInfo":
		return &m.ClientInfo
	case "requestId":
		return &m.RequestID
	case "reason":
		return &m.Reason
	case "notifications":
		return &m.Notifications
	case "ref":
		return &m.Ref
	case "progressToken":
		return &m.ProgressTokenParam
	}
	return nil
}

// meta returns the field for a member of params._meta, or nil.
func (m *Message) meta(name []byte) *Span {
	switch string(name) {
	case "io.modelcontextprotocol/protocolVersion":
		return &m.MetaVersion
	case "io.modelcontextprotocol/clientCapabilities":
		return &m.MetaCaps
	case "io.modelcontextprotocol/clientInfo":
		return &m.MetaClientInfo
	case "io.modelcontextprotocol/logLevel":
		return &m.MetaLogLevel
	case "io.modelcontextprotocol/serverInfo":
		return &m.MetaServerInfo
	case "io.modelcontextprotocol/subscriptionId":
		return &m.MetaSubscription
	case "progressToken":
		return &m.ProgressToken
	case "traceparent":
		return &m.Traceparent
	}
	return nil
}

// ref returns the field for a member of params.ref, or nil.
func (m *Message) ref(name []byte) *Span {
	switch string(name) {
	case "type":
		return &m.RefType
	case "name":
		return &m.RefName
	case "uri":
		return &m.RefURI
	}
	return nil
}
