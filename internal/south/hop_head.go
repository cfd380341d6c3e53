package south

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// maxInformational bounds the 1xx responses before the answer.
const maxInformational = 5

var (
	errStatusLine = errors.New("malformed status line")
	errFieldLine  = errors.New("malformed header line")
	errFraming    = errors.New("the response's length is ambiguous")
)

// framing is what a response's head says about the body and the connection.
type framing struct {
	length  int64 // declared; -1: not
	chunked bool
	coded   bool // Transfer-Encoding was there
	old     bool // HTTP/1.0
	close   bool
	keep    time.Duration // what the peer says it keeps an idle connection; -1: nothing
}

// readHead reads a response's head, and the 1xx responses before it, into x.
// It is strict: of two readings of one response none is taken (RFC 9112
// section 6.3).
func (c *plainConn) readHead(x *hopResponse, budget int) (framing, error) {
	for range maxInformational + 1 {
		*x = hopResponse{length: -1}
		f, err := c.readOneHead(x, &budget)
		if err != nil {
			return f, err
		}
		if x.status == 101 {
			return f, errSwitch
		}
		if x.status >= 200 {
			return f, nil
		}
	}
	return framing{}, errors.New("too many informational responses")
}

func (c *plainConn) readOneHead(x *hopResponse, budget *int) (framing, error) {
	f := framing{length: -1, keep: -1}
	l, err := c.line(budget)
	if err != nil {
		return f, err
	}
	if x.status, f.old, err = statusLine(trimCR(l)); err != nil {
		return f, err
	}
	for {
		if l, err = c.line(budget); err != nil {
			return f, err
		}
		if l = trimCR(l); len(l) == 0 {
			break
		}
		name, value, err := splitField(l)
		if err != nil {
			return f, err
		}
		if err := f.note(x, name, value); err != nil {
			return f, err
		}
	}
	if f.coded && (f.length >= 0 || f.old) {
		return f, errFraming
	}
	return f, nil
}

// line returns the next line without its LF, valid until the next read. The
// budget is what the lines of a head may be long together.
func (c *plainConn) line(budget *int) ([]byte, error) {
	for seen := 0; ; {
		if i := bytes.IndexByte(c.in[c.r+seen:c.w], '\n'); i >= 0 {
			l := c.in[c.r : c.r+seen+i]
			if *budget -= len(l) + 1; *budget < 0 {
				return nil, errHeaderTooLarge
			}
			c.r += len(l) + 1
			return l, nil
		}
		if seen = c.w - c.r; seen >= *budget {
			return nil, errHeaderTooLarge
		}
		err := c.fill()
		if errors.Is(err, errBufferFull) {
			c.in = append(c.in, make([]byte, len(c.in))...)
			continue
		}
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
	}
}

func trimCR(l []byte) []byte {
	if n := len(l); n > 0 && l[n-1] == '\r' {
		return l[:n-1]
	}
	return l
}

// statusLine reads "HTTP/1.1 200 OK".
func statusLine(l []byte) (status int, old bool, err error) {
	const lead = len("HTTP/1.1 200")
	if len(l) < lead || string(l[:7]) != "HTTP/1." || l[7]&^1 != '0' || l[8] != ' ' || (len(l) > lead && l[lead] != ' ') {
		return 0, false, errStatusLine
	}
	for _, d := range l[9:lead] {
		if d < '0' || d > '9' {
			return 0, false, errStatusLine
		}
		status = status*10 + int(d-'0')
	}
	for _, d := range l[lead:] {
		if isControl(d) {
			return 0, false, errStatusLine
		}
	}
	if status < 100 {
		return 0, false, errStatusLine
	}
	return status, l[7] == '0', nil
}

// splitField splits a header line. A folded line begins with white space, which
// no name does, so it is refused with everything else that is no field.
func splitField(l []byte) (name, value []byte, err error) {
	i := 0
	for i < len(l) && isToken[l[i]] {
		i++
	}
	if i == 0 || i == len(l) || l[i] != ':' {
		return nil, nil, errFieldLine
	}
	name, value = l[:i], trimSpace(l[i+1:])
	for _, b := range value {
		if isControl(b) {
			return nil, nil, fmt.Errorf("%s: %w", name, errHeaderValue)
		}
	}
	return name, value, nil
}

func trimSpace(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for n := len(b); n > 0 && (b[n-1] == ' ' || b[n-1] == '\t'); n-- {
		b = b[:n-1]
	}
	return b
}

// note keeps what one field says, when it is one of those that matter.
func (f *framing) note(x *hopResponse, name, value []byte) error {
	switch len(name) {
	case 8:
		if fold(name, "location") {
			keep(&x.location, value)
		}
	case 10:
		if fold(name, "connection") {
			f.close = f.close || hasClose(value)
		} else if fold(name, "keep-alive") {
			f.keep = keepTime(value)
		}
	case 11:
		if fold(name, "retry-after") {
			keep(&x.retryAfter, value)
		}
	case 12:
		if fold(name, "content-type") {
			keep(&x.contentType, value)
		}
	case 14:
		if fold(name, "content-length") {
			n, err := contentLength(value)
			if err != nil || (f.length >= 0 && f.length != n) {
				return errFraming
			}
			f.length = n
		} else if fold(name, "mcp-session-id") {
			keep(&x.session, value)
		}
	case 16:
		if fold(name, "content-encoding") {
			keep(&x.contentEncoding, value)
		}
	case 17:
		if fold(name, "transfer-encoding") {
			if f.coded || !fold(value, "chunked") {
				return errFraming
			}
			f.coded, f.chunked = true, true
		}
	}
	return nil
}

// fold tells whether b is lower, ignoring the case of ASCII letters.
func fold(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// keep sets dst to the field's value unless an earlier line did. The values
// that nearly every response has are not allocated.
func keep(dst *string, value []byte) {
	if *dst != "" {
		return
	}
	switch string(value) {
	case "application/json":
		*dst = "application/json"
	case "text/event-stream":
		*dst = "text/event-stream"
	case "application/json; charset=utf-8":
		*dst = "application/json; charset=utf-8"
	case "text/event-stream; charset=utf-8":
		*dst = "text/event-stream; charset=utf-8"
	default:
		*dst = string(value)
	}
}

func hasClose(value []byte) bool {
	for v := range strings.SplitSeq(string(value), ",") {
		if strings.EqualFold(strings.Trim(v, " \t"), "close") {
			return true
		}
	}
	return false
}

// keepTime reads "timeout=5, max=100". What is no such promise is none.
func keepTime(value []byte) time.Duration {
	for v := range strings.SplitSeq(string(value), ",") {
		s, ok := strings.CutPrefix(strings.ToLower(strings.Trim(v, " \t")), "timeout=")
		if !ok {
			continue
		}
		if n, err := strconv.ParseUint(s, 10, 31); err == nil {
			return time.Duration(n) * time.Second
		}
	}
	return -1
}

// contentLength reads digits alone: a sign, a list or white space within is
// where implementations differ.
func contentLength(v []byte) (n int64, err error) {
	if len(v) == 0 || len(v) > 18 {
		return 0, errFraming
	}
	for _, d := range v {
		if d < '0' || d > '9' {
			return 0, errFraming
		}
		n = n*10 + int64(d-'0')
	}
	return n, nil
}
