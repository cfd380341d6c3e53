package hostile_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

// page answers a list with one page; next is the raw cursor or "".
func (x *exchange) page(kind, next string, items ...string) {
	tail := ""
	if next != "" {
		tail = `,"nextCursor":` + next
	}
	if x.u.legacy == "" {
		tail += `,"ttlMs":60000,"cacheScope":"public"`
	}
	x.result(`{"` + kind + `":[` + strings.Join(items, ",") + `]` + tail + `}`)
}

// message is a response to this request around raw members.
func (x *exchange) message(member string) string {
	return `{"jsonrpc":"2.0","id":` + x.ID + `,` + member + `}`
}

// result answers with a raw result object, as JSON.
func (x *exchange) result(raw string) {
	if x.u.legacy == "" && strings.HasPrefix(raw, "{") && !strings.Contains(raw, `"resultType"`) {
		sep := ","
		if strings.TrimSpace(raw[1:]) == "}" {
			sep = ""
		}
		raw = `{"resultType":"complete"` + sep + raw[1:]
	}
	x.body(http.StatusOK, "application/json", x.message(`"result":`+raw))
}

// fail answers with an error, with the status that its era has for it.
func (x *exchange) fail(code int, text string) {
	status := http.StatusOK
	if x.u.legacy == "" && code == -32601 {
		status = http.StatusNotFound
	}
	x.body(status, "application/json", x.message(fmt.Sprintf(`"error":{"code":%d,"message":%s}`, code, quote(text))))
}

// body answers with exact bytes.
func (x *exchange) body(status int, media, text string) {
	if media != "" {
		x.w.Header().Set("Content-Type", media)
	} else {
		x.w.Header()["Content-Type"] = nil // net/http must not guess one
	}
	x.w.WriteHeader(status)
	_, _ = io.WriteString(x.w, text)
}

// stream starts an event stream and writes raw pieces, each flushed.
func (x *exchange) stream(pieces ...string) {
	if x.w.Header().Get("Content-Type") == "" {
		x.w.Header().Set("Content-Type", "text/event-stream")
		x.w.WriteHeader(http.StatusOK)
	}
	for _, p := range pieces {
		_, _ = io.WriteString(x.w, p)
		_ = http.NewResponseController(x.w).Flush()
	}
}

// event is one message as an event of a stream.
func event(message string) string { return "event: message\ndata: " + message + "\n\n" }

// answer sends a whole message as JSON or as an event.
func (x *exchange) answer(sse bool, message string) {
	if sse {
		x.stream(event(message))
		return
	}
	x.body(http.StatusOK, "application/json", message)
}

// hang does nothing until the gateway hangs up or the upstream ends.
func (x *exchange) hang() {
	select {
	case <-x.r.Context().Done():
	case <-x.u.closed:
	}
}

// reset cuts the connection in the middle of whatever was sent.
func (x *exchange) reset() {
	if x.w.Header().Get("Content-Type") != "" {
		_ = http.NewResponseController(x.w).Flush()
	}
	c, _, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// bytes answers with exact bytes on the connection, head included, and closes it.
func (x *exchange) bytes(raw string) {
	c, _, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		x.u.t.Errorf("hijack: %v", err)
		return
	}
	_, _ = io.WriteString(c, raw)
	_ = c.Close()
}
