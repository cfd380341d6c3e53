package wire

// Answer is what Scan finds in a message of an upstream that is held whole in
// memory. It may be a response, and as well a request or a notification that
// the upstream sent within a stream. Spans index Raw; types of members are not
// checked, but for those of the envelope.
type Answer struct {
	Raw []byte // aliases what was given to Scan

	ID, Method, Params, Result, Error Span

	ErrorCode               int64 // of error.code, when Error is there
	ErrorMessage, ErrorData Span

	// Members of result.
	ResultType, Meta, TTL, CacheScope, NextCursor                              Span // TTL is ttlMs
	TaskID, Task, RequestState, InputRequests                                  Span
	IsError, StructuredContent, Content, Contents, Messages                    Span
	ProtocolVersion, SupportedVersions, Capabilities, ServerInfo, Instructions Span // of initialize and server/discover
	MetaServerInfo                                                             Span // result._meta

	ProgressToken, RequestID Span // params.progressToken, params.requestId
	ParamsMeta               Span // params._meta
}

// Kind tells what the message is.
func (a *Answer) Kind() Kind {
	switch {
	case a.Result.Ok() || a.Error.Ok():
		return Response
	case a.Method.Ok() && a.ID.Ok():
		return Request
	case a.Method.Ok():
		return Notification
	}
	return Unknown
}

// Reset empties the answer, so that it holds no bytes and can be used again.
func (a *Answer) Reset() { *a = Answer{} }

// result returns the field for a member of result, or nil.
func (a *Answer) result(name []byte) *Span {
	switch string(name) {
	case "resultType":
		return &a.ResultType
	case "_meta":
		return &a.Meta
	case "ttlMs":
		return &a.TTL
	case "cacheScope":
		return &a.CacheScope
	case "nextCursor":
		return &a.NextCursor
	case "taskId":
		return &a.TaskID
	case "task":
		return &a.Task
	case "requestState":
		return &a.RequestState
	case "inputRequests":
		return &a.InputRequests
	case "isError":
		return &a.IsError
	case "structuredContent":
		return &a.StructuredContent
	case "content":
		return &a.Content
	case "contents":
		return &a.Contents
	case "messages":
		return &a.Messages
	case "protocolVersion":
		return &a.ProtocolVersion
	case "supportedVersions":
		return &a.SupportedVersions
	case "capabilities":
		return &a.Capabilities
	case "serverInfo":
		return &a.ServerInfo
	case "instructions":
		return &a.Instructions
	}
	return nil
}
