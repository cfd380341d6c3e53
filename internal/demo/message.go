package demo

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

// maxBody bounds one request, in bytes.
const maxBody = 1 << 20

// message is one JSON-RPC message from a client.
type message struct {
	Version string         `json:"jsonrpc"`
	ID      jsontext.Value `json:"id,omitzero"`
	Method  string         `json:"method,omitzero"`
	Params  jsontext.Value `json:"params,omitzero"`
}

// parseMessage reads one message strictly. A message without id is a
// notification, one without method a response.
func parseMessage(raw []byte) (*message, *fault.Error) {
	var m message
	if err := json.Unmarshal(raw, &m); err != nil {
		var syntactic *jsontext.SyntacticError
		if errors.As(err, &syntactic) {
			return nil, fault.Wrap(err, fault.Parse, "the body is not valid JSON")
		}
		return nil, fault.Wrap(err, fault.InvalidRequest, "the body is not a JSON-RPC message")
	}
	if m.Version != "2.0" {
		return nil, fault.New(fault.InvalidRequest, "jsonrpc must be \"2.0\"")
	}
	if k := m.ID.Kind(); k != 0 && k != '"' && (k != '0' || bytes.ContainsAny(m.ID, ".eE")) {
		return nil, fault.New(fault.InvalidRequest, "an id is a string or an integer")
	}
	if m.Params != nil && m.Params.Kind() != '{' {
		return nil, fault.New(fault.InvalidParams, "params must be an object")
	}
	return &m, nil
}

// readBody checks what every POST has in common, and returns its body. When it
// reports false it has answered.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	if origin := r.Header.Get("Origin"); origin != "" && !loopback(origin) {
		http.Error(w, "this origin may not call a demo server", http.StatusForbidden)
		return nil, false
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		http.Error(w, "send Content-Type: application/json", http.StatusUnsupportedMediaType)
		return nil, false
	}
	if asJSON, asStream, _ := mcp.Accepts(r.Header.Values("Accept")); !asJSON && !asStream {
		http.Error(w, "accept application/json or text/event-stream", http.StatusNotAcceptable)
		return nil, false
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			http.Error(w, fmt.Sprintf("a request has at most %d bytes", maxBody), http.StatusRequestEntityTooLarge)
		} else {
			http.Error(w, "the body could not be read", http.StatusBadRequest)
		}
		return nil, false
	}
	return body, true
}

// loopback reports whether an Origin names this machine (checklist 2).
func loopback(origin string) bool {
	u, err := url.Parse(origin)
	if err != nil {
		return false
	}
	if u.Hostname() == "localhost" {
		return true
	}
	ip := net.ParseIP(u.Hostname())
	return ip != nil && ip.IsLoopback()
}

// response is one JSON-RPC response as raw JSON. An absent id is left out, as
// for a message whose id could not be read.
func response(id jsontext.Value, result []byte, failure *fault.Error) []byte {
	out := []byte(`{"jsonrpc":"2.0"`)
	if id != nil {
		out = append(out, `,"id":`...)
		out = append(out, id...)
	}
	if failure == nil {
		out = append(out, `,"result":`...)
		out = append(out, result...)
		return append(out, '}')
	}
	out = fmt.Appendf(out, `,"error":{"code":%d,"message":`, int(failure.Code))
	quoted, err := jsontext.AppendQuote(nil, failure.Public())
	if err != nil {
		quoted = []byte(`"error"`) // a name in the message was not UTF-8
	}
	out = append(out, quoted...)
	if failure.Data != nil {
		out = append(out, `,"data":`...)
		out = append(out, failure.Data...)
	}
	return append(out, '}', '}')
}

// write sends one body in the form that the client accepts; both being fine,
// preferStream decides. An error status is always sent as JSON.
func write(w http.ResponseWriter, r *http.Request, status int, body []byte, preferStream bool) {
	asJSON, asStream, _ := mcp.Accepts(r.Header.Values("Accept"))
	if status == http.StatusOK && asStream && (preferStream || !asJSON) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("X-Accel-Buffering", "no")
		// Nothing in the body was copied from a client but the id, and neither a
		// number nor a strictly parsed string holds a line end.
		_, _ = fmt.Fprintf(w, "event: message\ndata: %s\n\n", body)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
