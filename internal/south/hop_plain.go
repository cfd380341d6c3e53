package south

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	// aheadBody is how much of a request's body is written before the answer is
	// awaited. More than that is written while the response is read, for an
	// upstream may answer without reading it.
	aheadBody = 64 << 10
	// refusalGrace is how long an answer is awaited from an upstream that
	// stopped reading the request.
	refusalGrace = 250 * time.Millisecond
)

// plainHop is HTTP/1.1 over cleartext connections of its own: no goroutine per
// connection, no header maps, one write and mostly one read per call. A
// response is read on its caller's goroutine.
type plainHop struct {
	o      hopOptions
	static []byte // the lines of o.static
	bad    error  // what is wrong with o.static
	idle   idleConns
}

func newPlainHop(o hopOptions) hop {
	o = o.withDefaults()
	h := &plainHop{o: o, idle: idleConns{max: o.maxIdle, timeout: o.idleTimeout}}
	for _, f := range o.static {
		h.bad = errors.Join(h.bad, checkField(f))
		h.static = appendField(h.static, f)
	}
	return h
}

func (h *plainHop) closeIdle() { h.idle.closeAll() }

func (h *plainHop) do(ctx context.Context, r *hopRequest) (*hopResponse, error) {
	uri := r.url.RequestURI()
	if err := errors.Join(h.bad, checkRequest(r, uri)); err != nil {
		return nil, fmt.Errorf("request not sent: %w", err)
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, gaveUp(ctx, "before sending", err)
		}
		c, reused, err := h.connect(ctx, r.url)
		if err != nil {
			return nil, gaveUp(ctx, "connecting", err)
		}
		if err := passFence(r.fence); err != nil {
			c.close()
			return nil, err
		}
		resp, err := h.exchange(ctx, c, r, uri)
		if err != nil && reused && !r.sent && ctx.Err() == nil {
			continue // the peer closed it just now; at last a new one is dialled
		}
		return resp, err
	}
}

// checkRequest refuses what cannot be written as one request.
func checkRequest(r *hopRequest, uri string) error {
	if r.url.Scheme != "http" {
		return fmt.Errorf("%q is not served in cleartext", r.url.Scheme)
	}
	if r.url.Host == "" {
		return errors.New("the URL has no host")
	}
	for _, s := range [...]string{r.verb, r.url.Host, uri} {
		for i := 0; i < len(s); i++ {
			if s[i] <= ' ' || s[i] >= 0x7f {
				return errors.New("the verb or the URL holds a character that must be escaped")
			}
		}
	}
	return checkFields(r.fields)
}

// connect returns an idle connection that is still open, or a new one.
func (h *plainHop) connect(ctx context.Context, u *url.URL) (c *plainConn, reused bool, err error) {
	for {
		c := h.idle.take(u.Host)
		if c == nil {
			break
		}
		if !c.expired() && c.alive() {
			return c, true, nil
		}
		c.close()
	}
	port := u.Port()
	if port == "" {
		port = "80"
	}
	nc, err := h.o.dial(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return nil, false, err
	}
	return newPlainConn(nc, u.Host), false, nil
}

// plainResponse is a response and its body in one piece.
type plainResponse struct {
	hopResponse
	plain plainBody
}

// exchange sends the request on c and reads the head of the response. c is
// given back or closed by the response's body, or here after an error.
func (h *plainHop) exchange(ctx context.Context, c *plainConn, r *hopRequest, uri string) (*hopResponse, error) {
	x := &plainResponse{plain: plainBody{pool: &h.idle, c: c, ctx: ctx}}
	b := &x.plain
	if call, ok := ctx.(*callContext); ok && call.arm(c.interrupt) {
		b.call = call
	} else if ctx.Done() != nil {
		b.stop = context.AfterFunc(ctx, c.interrupt)
	}
	c.out = h.appendHead(c.out[:0], r, uri)
	n, rest, werr := c.send(r.body)
	r.sent = r.sent || n > 0
	switch {
	case werr != nil && n == 0:
		b.finish(false)
		return nil, gaveUp(ctx, "sending", werr)
	case werr != nil:
		// It may have answered before it stopped reading.
		_ = c.nc.SetReadDeadline(time.Now().Add(refusalGrace))
	case len(rest) > 0:
		b.sent = make(chan error, 1)
		go sendRest(c.nc, rest, b.sent)
	}
	f, err := c.readHead(&x.hopResponse, h.o.maxHeaderBytes)
	if err != nil {
		b.finish(false)
		if werr != nil {
			return nil, gaveUp(ctx, "sending", werr)
		}
		return nil, gaveUp(ctx, "waiting for the response", err)
	}
	x.body = b
	b.begin(&x.hopResponse, f, r.verb, h.o.maxHeaderBytes)
	b.reuse = b.reuse && werr == nil
	if b.kind == bodyNone {
		b.err = io.EOF
		b.finish(b.reuse)
	}
	return &x.hopResponse, nil
}

// begin decides how the body ends (RFC 9112 section 6.3).
func (b *plainBody) begin(x *hopResponse, f framing, verb string, maxTrailer int) {
	b.reuse, b.keep = !f.close && !f.old, f.keep
	x.length = f.length
	switch {
	case verb == "HEAD":
	case x.status == 204 || x.status == 304:
		x.length = 0
	case f.chunked:
		b.kind, b.k.trailer = bodyChunked, maxTrailer
	case f.length > 0:
		b.kind, b.left = bodyLength, f.length
	case f.length < 0:
		b.kind, b.reuse = bodyUntilClose, false
	}
}

// appendHead appends the request's head up to its empty line.
func (h *plainHop) appendHead(dst []byte, r *hopRequest, uri string) []byte {
	dst = append(dst, r.verb...)
	dst = append(dst, ' ')
	dst = append(dst, uri...)
	dst = append(dst, " HTTP/1.1\r\n"...)
	dst = appendField(dst, field{"Host", withoutZone(r.url.Host)})
	dst = append(dst, h.static...)
	for _, f := range r.fields {
		dst = appendField(dst, f)
	}
	if r.body != nil || r.verb == "POST" || r.verb == "PUT" || r.verb == "PATCH" {
		dst = append(dst, "Content-Length: "...)
		dst = strconv.AppendInt(dst, int64(len(r.body)), 10)
		dst = append(dst, "\r\n"...)
	}
	return append(dst, "\r\n"...)
}

func appendField(dst []byte, f field) []byte {
	dst = append(dst, f.name...)
	dst = append(dst, ": "...)
	dst = append(dst, f.value...)
	return append(dst, "\r\n"...)
}

// withoutZone removes an IPv6 zone, which means nothing to another machine.
func withoutZone(host string) string {
	if i := strings.IndexByte(host, '%'); i > 0 && host[0] == '[' {
		if j := strings.IndexByte(host, ']'); j > i {
			return host[:i] + host[j:]
		}
	}
	return host
}

// send writes the head in c.out and the body, up to aheadBody of it, in one
// go, and returns how much of both was written and what of the body is left.
func (c *plainConn) send(body []byte) (n int64, rest []byte, err error) {
	if len(body) <= inlineBody {
		c.out = append(c.out, body...)
		n, err := c.nc.Write(c.out)
		return int64(n), nil, err
	}
	now := body[:min(len(body), aheadBody)]
	both := net.Buffers{c.out, now}
	n, err = both.WriteTo(c.nc)
	return n, body[len(now):], err
}

// sendRest writes on while the response is read. It ends with the connection
// at the latest, and the response's body waits for it.
func sendRest(nc net.Conn, rest []byte, sent chan<- error) {
	_, err := nc.Write(rest)
	sent <- err
}
