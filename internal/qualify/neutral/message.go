package neutral

import (
	"bytes"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

// maxMessage bounds one line, in bytes.
const maxMessage = 1 << 20

// message is one JSON-RPC message from the client.
type message struct {
	Version string         `json:"jsonrpc"`
	ID      jsontext.Value `json:"id,omitzero"`
	Method  string         `json:"method,omitzero"`
	Params  jsontext.Value `json:"params,omitzero"`
}

// executionKey is where the envelope stands in _meta, on the way in and out.
const executionKey = "penstock/taskExecution"

// meta is what the protocol wants in every request, and the envelope.
type meta struct {
	Version      string         `json:"io.modelcontextprotocol/protocolVersion"`
	Capabilities jsontext.Value `json:"io.modelcontextprotocol/clientCapabilities"`
	Execution    jsontext.Value `json:"penstock/taskExecution"`
}

// read reads one request. A notification and a response have neither request nor
// refusal.
func read(line []byte) (*message, *meta, *fault.Error) {
	m := &message{}
	if err := json.Unmarshal(line, m); err != nil {
		return &message{}, nil, fault.Wrap(err, fault.Parse, "this is no JSON-RPC message")
	}
	switch {
	case m.Version != "2.0":
		return m, nil, fault.New(fault.InvalidRequest, "jsonrpc must be \"2.0\"")
	case m.ID == nil || m.Method == "":
		return nil, nil, nil
	case m.ID.Kind() != '"' && (m.ID.Kind() != '0' || bytes.ContainsAny(m.ID, ".eE")):
		return &message{}, nil, fault.New(fault.InvalidRequest, "an id is a string or an integer")
	}
	var p struct {
		Meta meta `json:"_meta"`
	}
	if err := json.Unmarshal(m.Params, &p); err != nil {
		return m, nil, fault.Wrap(err, fault.InvalidParams, "params must be an object with _meta")
	}
	if p.Meta.Version == "" || p.Meta.Capabilities.Kind() != '{' {
		return m, nil, fault.New(fault.InvalidParams, "_meta must hold %s and %s", mcp.MetaProtocolVersion, mcp.MetaClientCapabilities)
	}
	if p.Meta.Version != mcp.LatestModern.String() {
		return m, nil, fault.New(fault.UnsupportedVersion, "this server speaks %s only", mcp.LatestModern).
			WithData([]byte(`{"supported":["` + mcp.LatestModern.String() + `"]}`))
	}
	return m, &p.Meta, nil
}

// decode reads the params of a method strictly.
func decode(raw []byte, v any) *fault.Error {
	if err := json.Unmarshal(raw, v); err != nil {
		return fault.Wrap(err, fault.InvalidParams, "the params are not what the method wants")
	}
	return nil
}

// response is one line of the answer to a request.
func response(id jsontext.Value, result any, failure *fault.Error) ([]byte, error) {
	type rpcError struct {
		Code    int            `json:"code"`
		Message string         `json:"message"`
		Data    jsontext.Value `json:"data,omitzero"`
	}
	out := struct {
		Version string         `json:"jsonrpc"`
		ID      jsontext.Value `json:"id,omitzero"`
		Result  any            `json:"result,omitzero"`
		Error   *rpcError      `json:"error,omitzero"`
	}{Version: "2.0", ID: id, Result: result}
	if failure != nil {
		out.Result, out.Error = nil, &rpcError{int(failure.Code), failure.Public(), failure.Data}
	}
	line, err := json.Marshal(out)
	if err != nil {
		return nil, err
	}
	return append(line, '\n'), nil
}
