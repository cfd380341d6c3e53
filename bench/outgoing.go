package main

import (
	"fmt"
	"net"
	"strconv"
)

// outgoing makes the answers of one connection. Its buffers are used again.
type outgoing struct {
	head, body []byte
	parts      [4][]byte
}

// begin starts a JSON-RPC answer with the id and the name of its last member.
func (o *outgoing) begin(id []byte, member string) {
	o.body = append(o.body[:0], `{"jsonrpc":"2.0","id":`...)
	o.body = append(o.body, id...)
	o.add(`,"`, member, `":`)
}

func (o *outgoing) add(parts ...string) {
	for _, p := range parts {
		o.body = append(o.body, p...)
	}
}

// status answers without a body.
func (o *outgoing) status(conn net.Conn, status string) error {
	o.head = append(o.head[:0], "HTTP/1.1 "...)
	o.head = append(o.head, status...)
	o.head = append(o.head, "\r\nContent-Length: 0\r\n\r\n"...)
	_, err := conn.Write(o.head)
	return err
}

// send sends the body, then large (which is not copied) and the end.
func (o *outgoing) send(conn net.Conn, status, session string, large []byte, end ...string) error {
	length := len(o.body) + len(large)
	for _, e := range end {
		length += len(e)
	}
	o.head = append(o.head[:0], "HTTP/1.1 "...)
	o.head = append(o.head, status...)
	if session != "" {
		o.head = append(o.head, "\r\n"+headerSession+": "...)
		o.head = append(o.head, session...)
	}
	o.head = append(o.head, "\r\nContent-Type: application/json\r\nContent-Length: "...)
	o.head = strconv.AppendInt(o.head, int64(length), 10)
	o.head = append(o.head, "\r\n\r\n"...)
	o.head = append(o.head, o.body...)
	if len(large) <= 16<<10 { // one copy is cheaper than a vectored write
		o.head = append(o.head, large...)
		for _, e := range end {
			o.head = append(o.head, e...)
		}
		_, err := conn.Write(o.head)
		return err
	}
	o.body = o.body[:0]
	o.add(end...)
	buffers := net.Buffers(append(o.parts[:0], o.head, large, o.body))
	_, err := buffers.WriteTo(conn)
	return err
}

// stream sends the body as the last event of an event stream, each event in a
// chunk and a write of its own, as a server that works does. Progress precedes
// it where the request named a token.
func (o *outgoing) stream(conn net.Conn, token []byte) error {
	const begin = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n"
	o.head = append(o.head[:0], begin...)
	if len(token) > 0 {
		for i := range progressEvents {
			event := fmt.Sprintf("event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":%s,\"progress\":%d,\"total\":%d}}\n\n",
				token, i+1, progressEvents)
			o.chunk(event)
			if _, err := conn.Write(o.head); err != nil {
				return err
			}
			o.head = o.head[:0]
		}
	}
	o.chunk("event: message\ndata: ", string(o.body), "\n\n")
	o.head = append(o.head, "0\r\n\r\n"...)
	_, err := conn.Write(o.head)
	return err
}

func (o *outgoing) chunk(parts ...string) {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	o.head = strconv.AppendInt(o.head, int64(n), 16)
	o.head = append(o.head, "\r\n"...)
	for _, p := range parts {
		o.head = append(o.head, p...)
	}
	o.head = append(o.head, "\r\n"...)
}
