package fault

import (
	"net/http"
	"sort"
)

// Code is a JSON-RPC error code. Codes between -31999 and -31000 are ours.
type Code int

// The codes of JSON-RPC and of the protocol that the gateway itself answers
// with (checklist section 9).
const (
	Parse              Code = -32700
	InvalidRequest     Code = -32600
	MethodNotFound     Code = -32601
	InvalidParams      Code = -32602
	Internal           Code = -32603
	HeaderMismatch     Code = -32020
	MissingCapability  Code = -32021
	UnsupportedVersion Code = -32022
	ResourceNotFound   Code = -32002 // legacy clients only
	SessionNotFound    Code = -32001 // body of the HTTP 404 that ends a legacy session
)

// Our own codes (DESIGN section 13).
const (
	UpstreamUnavailable Code = -31001
	UpstreamTimeout     Code = -31002
	ConnectionLost      Code = -31003
	PolicyDenied        Code = -31004
	RateLimited         Code = -31005
	TaskAmbiguous       Code = -31006
	InvalidAnswer       Code = -31007
	TooLarge            Code = -31008
	AtCapacity          Code = -31009
	Elsewhere           Code = -31010
	NotAcceptable       Code = -31011
	BadMediaType        Code = -31012
	ForbiddenOrigin     Code = -31013
	Unauthenticated     Code = -31014
	StoreUnavailable    Code = -31015
	InsufficientScope   Code = -31016
	HookRefused         Code = -31017
	HookFailed          Code = -31018
	CredentialFailed    Code = -31019
	AuditUnavailable    Code = -31020
	IdentityUnavailable Code = -31021
)

// Entry is what the catalogue knows of a code.
type Entry struct {
	Code   Code
	Name   string // stable, for logs and metrics
	HTTP   int    // status towards a modern client; a legacy client gets Legacy
	Legacy int    // status towards a legacy client
	Retry  bool   // whether the same request may succeed later, unchanged
	Advice string // what a reader can do
}

var catalogue = map[Code]Entry{
	Parse:              {Name: "parse_error", HTTP: 400, Legacy: 400, Advice: "send one valid JSON-RPC message in UTF-8, without duplicate member names"},
	InvalidRequest:     {Name: "invalid_request", HTTP: 400, Legacy: 400, Advice: "send a JSON-RPC 2.0 request or notification"},
	MethodNotFound:     {Name: "method_not_found", HTTP: 404, Legacy: 200, Advice: "use a method that server/discover or initialize advertises"},
	InvalidParams:      {Name: "invalid_params", HTTP: 200, Legacy: 200, Advice: "correct the parameters; the message names them"},
	Internal:           {Name: "internal_error", HTTP: 200, Legacy: 200, Advice: "see the gateway's log under the request's time"},
	HeaderMismatch:     {Name: "header_mismatch", HTTP: 400, Legacy: 400, Advice: "make the MCP headers equal to the body"},
	MissingCapability:  {Name: "missing_capability", HTTP: 400, Legacy: 200, Advice: "declare the capability that data.requiredCapabilities names"},
	UnsupportedVersion: {Name: "unsupported_version", HTTP: 400, Legacy: 400, Advice: "use a version of data.supported"},
	ResourceNotFound:   {Name: "resource_not_found", HTTP: 200, Legacy: 200, Advice: "list resources and templates again"},
	SessionNotFound:    {Name: "session_not_found", HTTP: 404, Legacy: 404, Advice: "send initialize again"},

	UpstreamUnavailable: {Name: "upstream_unavailable", HTTP: 200, Legacy: 200, Retry: true, Advice: "try again; the upstream was not reached and nothing ran"},
	UpstreamTimeout:     {Name: "upstream_timeout", HTTP: 200, Legacy: 200, Advice: "the call was sent and may have run; check before sending it again"},
	ConnectionLost:      {Name: "connection_lost", HTTP: 200, Legacy: 200, Advice: "the call was sent and may have run; check before sending it again"},
	PolicyDenied:        {Name: "denied_by_policy", HTTP: 200, Legacy: 200, Advice: "ask the operator for access"},
	RateLimited:         {Name: "rate_limited", HTTP: http.StatusTooManyRequests, Legacy: http.StatusTooManyRequests, Retry: true, Advice: "wait as long as Retry-After says"},
	TaskAmbiguous:       {Name: "task_ambiguous", HTTP: 200, Legacy: 200, Advice: "two upstreams claim this task id; wait until one of the tasks has passed, or ask the operator"},
	InvalidAnswer:       {Name: "invalid_answer", HTTP: 200, Legacy: 200, Advice: "the upstream broke the protocol; tell its owner"},
	TooLarge:            {Name: "too_large", HTTP: http.StatusRequestEntityTooLarge, Legacy: http.StatusRequestEntityTooLarge, Advice: "send or ask for less, or raise the limit"},
	AtCapacity:          {Name: "at_capacity", HTTP: http.StatusServiceUnavailable, Legacy: http.StatusServiceUnavailable, Retry: true, Advice: "try again later"},
	Elsewhere:           {Name: "lives_elsewhere", HTTP: 200, Legacy: 200, Retry: true, Advice: "try again; another instance holds it"},
	NotAcceptable:       {Name: "not_acceptable", HTTP: http.StatusNotAcceptable, Legacy: http.StatusNotAcceptable, Advice: "accept application/json or text/event-stream"},
	BadMediaType:        {Name: "unsupported_media_type", HTTP: http.StatusUnsupportedMediaType, Legacy: http.StatusUnsupportedMediaType, Advice: "send Content-Type: application/json"},
	ForbiddenOrigin:     {Name: "forbidden_origin", HTTP: http.StatusForbidden, Legacy: http.StatusForbidden, Advice: "name the host or origin in allowed_hosts or allowed_origins"},
	Unauthenticated:     {Name: "unauthenticated", HTTP: http.StatusUnauthorized, Legacy: http.StatusUnauthorized, Advice: "send a valid token or API key as Authorization: Bearer; WWW-Authenticate tells where to get one"},
	StoreUnavailable:    {Name: "store_unavailable", HTTP: http.StatusServiceUnavailable, Legacy: http.StatusServiceUnavailable, Retry: true, Advice: "try again; the gateway's store does not answer"},
	InsufficientScope:   {Name: "insufficient_scope", HTTP: http.StatusForbidden, Legacy: http.StatusForbidden, Advice: "get a token with the scopes that WWW-Authenticate names"},
	HookRefused:         {Name: "refused_by_hook", HTTP: 200, Legacy: 200, Advice: "read the message; a hook of the operator's decided so"},
	HookFailed:          {Name: "hook_failed", HTTP: 200, Legacy: 200, Retry: true, Advice: "try again; a hook that has to agree gave no answer"},
	CredentialFailed:    {Name: "credential_failed", HTTP: 200, Legacy: 200, Retry: true, Advice: "the gateway got no credential for the upstream and nothing ran; sign in again, or ask the operator"},
	AuditUnavailable:    {Name: "audit_unavailable", HTTP: http.StatusServiceUnavailable, Legacy: http.StatusServiceUnavailable, Retry: true, Advice: "try again later; nothing is served that cannot be recorded"},
	IdentityUnavailable: {Name: "identity_unavailable", HTTP: http.StatusServiceUnavailable, Legacy: http.StatusServiceUnavailable, Retry: true, Advice: "try again; the keys of the token's issuer are not known yet"},
}

// Lookup returns what the catalogue knows of a code; ok is false for a code
// that is not the gateway's to send.
func Lookup(c Code) (e Entry, ok bool) {
	e, ok = catalogue[c]
	e.Code = c
	return e, ok
}

// Name is the code's stable name, or "unknown".
func (c Code) Name() string {
	if e, ok := catalogue[c]; ok {
		return e.Name
	}
	return "unknown"
}

// All returns the catalogue in order of code, highest first.
func All() []Entry {
	out := make([]Entry, 0, len(catalogue))
	for c := range catalogue {
		e, _ := Lookup(c)
		out = append(out, e)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Code > out[j].Code })
	return out
}
