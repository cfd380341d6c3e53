package main

import (
	"encoding/json"
	"fmt"
)

const (
	revision     = "2026-07-28"
	metaVersion  = "io.modelcontextprotocol/protocolVersion"
	metaServer   = "io.modelcontextprotocol/serverInfo"
	metaEnvelope = "penstock/taskExecution" // dev.gaugemesh/taskExecution where the document says spelling: gaugemesh
	tasks        = "io.modelcontextprotocol/tasks"
)

// Codes of JSON-RPC and of the protocol. A refusal with one of them says that
// nothing was begun, and ends a durable task; anything else leaves its outcome
// unknown.
const (
	notFound           = -32601
	invalidParams      = -32602
	missingCapability  = -32021
	unsupportedVersion = -32022
	internalError      = -32603
)

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

func refuse(code int, format string, args ...any) *rpcError {
	return &rpcError{Code: code, Message: fmt.Sprintf(format, args...)}
}

// request is one JSON-RPC request.
type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		TaskID    string          `json:"taskId"`
		Meta      struct {
			Version      string          `json:"io.modelcontextprotocol/protocolVersion"`
			Envelope     json.RawMessage `json:"penstock/taskExecution"`
			Capabilities struct {
				Extensions map[string]json.RawMessage `json:"extensions"`
			} `json:"io.modelcontextprotocol/clientCapabilities"`
		} `json:"_meta"`
	} `json:"params"`
}

// serve answers one message; nil: it needs no answer.
func (w *worker) serve(line []byte) []byte {
	var q request
	var result any
	var refusal *rpcError
	if err := json.Unmarshal(line, &q); err != nil {
		refusal = refuse(-32700, "this is no request")
	} else if q.ID == nil {
		return nil // a notification
	} else {
		result, refusal = w.answer(&q)
	}
	out := map[string]any{"jsonrpc": "2.0", "id": q.ID}
	if refusal != nil {
		out["error"] = refusal
	} else {
		out["result"] = result
	}
	answer, err := json.Marshal(out)
	if err != nil {
		return nil
	}
	return answer
}

func (w *worker) answer(q *request) (any, *rpcError) {
	if v := q.Params.Meta.Version; v != revision {
		r := refuse(unsupportedVersion, "this server speaks %s", revision)
		r.Data = map[string]any{"supported": []string{revision}, "requested": v}
		return nil, r
	}
	info := map[string]any{metaServer: map[string]string{"name": "ledger-go", "version": "1.0.0"}}
	switch q.Method {
	case "server/discover":
		return map[string]any{
			"resultType": "complete", "supportedVersions": []string{revision}, "ttlMs": 60000, "cacheScope": "public", "_meta": info,
			"capabilities": map[string]any{"tools": map[string]any{}, "extensions": map[string]any{tasks: map[string]any{}}},
		}, nil
	case "tools/list":
		return map[string]any{
			"resultType": "complete", "ttlMs": 60000, "cacheScope": "public", "_meta": info, "tools": []json.RawMessage{json.RawMessage(tool)},
		}, nil
	case "tools/call", "tasks/get", "tasks/cancel":
	default:
		return nil, refuse(notFound, "unknown method %q", q.Method)
	}
	if _, ok := q.Params.Meta.Capabilities.Extensions[tasks]; !ok {
		r := refuse(missingCapability, "every call here is a task")
		r.Data = map[string]any{"requiredCapabilities": map[string]any{"extensions": map[string]any{tasks: map[string]any{}}}}
		return nil, r
	}
	if q.Method == "tools/call" {
		return w.call(q)
	}
	t := w.find(q.Params.TaskID)
	if t == nil {
		return nil, refuse(invalidParams, "Task not found")
	}
	if q.Method == "tasks/cancel" {
		return map[string]string{"resultType": "complete"}, w.cancel(t)
	}
	return w.detailed(t), nil
}

const tool = `{"name":"append_entry","description":"Append a line to the ledger.","inputSchema":{"type":"object","properties":{` +
	`"text":{"type":"string","minLength":1,"maxLength":200},"seconds":{"type":"number","minimum":0,"maximum":30,"description":"To think first"}},` +
	`"required":["text"],"additionalProperties":false},"annotations":{"readOnlyHint":false,"destructiveHint":false,"idempotentHint":false}}`
