package south

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"
)

// stdHop is net/http's transport behind the same interface, for TLS, HTTP/2
// and proxies.
type stdHop struct {
	t      *http.Transport
	header http.Header // o.static; its values are shared by all requests
	bad    error       // what is wrong with o.static
}

func newStdHop(o hopOptions) hop {
	o = o.withDefaults()
	h := &stdHop{
		t: &http.Transport{
			MaxIdleConns:           o.maxIdle,
			MaxIdleConnsPerHost:    o.maxIdle,
			IdleConnTimeout:        o.idleTimeout,
			DisableCompression:     true, // answers are spliced
			ReadBufferSize:         16 << 10,
			WriteBufferSize:        8 << 10,
			TLSHandshakeTimeout:    10 * time.Second,
			TLSClientConfig:        o.tls,
			ForceAttemptHTTP2:      o.scheme == "https",
			DialContext:            o.dial,
			MaxResponseHeaderBytes: int64(o.maxHeaderBytes),
		},
		header: make(http.Header, len(o.static)),
	}
	if o.proxy != nil {
		h.t.Proxy = http.ProxyURL(o.proxy)
	}
	for _, f := range o.static {
		h.bad = errors.Join(h.bad, checkField(f))
		h.header.Add(f.name, f.value)
	}
	return h
}

func (h *stdHop) closeIdle() { h.t.CloseIdleConnections() }

func (h *stdHop) do(ctx context.Context, r *hopRequest) (*hopResponse, error) {
	if err := errors.Join(h.bad, checkFields(r.fields)); err != nil {
		return nil, fmt.Errorf("request not sent: %w", err)
	}
	var sent atomic.Bool
	b := &stdBody{}
	b.request.fence = r.fence
	req := h.request(ctx, r, &sent, &b.request)
	resp, err := h.t.RoundTrip(req)
	if err == nil && resp.StatusCode == http.StatusSwitchingProtocols {
		_ = resp.Body.Close()
		err = errSwitch
	}
	if held := b.request.refused(); held != nil {
		// The head may have gone ahead; without its body it is no request.
		b.request.end()
		if err == nil {
			_ = resp.Body.Close()
		}
		return nil, held
	}
	r.sent = r.sent || sent.Load()
	if err != nil {
		b.request.end()
		return nil, gaveUp(ctx, "round trip", err)
	}
	b.ReadCloser = resp.Body
	return &hopResponse{
		status:          resp.StatusCode,
		contentType:     resp.Header.Get("Content-Type"),
		contentEncoding: resp.Header.Get("Content-Encoding"),
		session:         resp.Header.Get("Mcp-Session-Id"),
		location:        resp.Header.Get("Location"),
		retryAfter:      resp.Header.Get("Retry-After"),
		length:          resp.ContentLength,
		body:            b,
	}, nil
}

// request builds the request for the transport. sent is set when its head is
// being written or its body was taken.
func (h *stdHop) request(ctx context.Context, r *hopRequest, sent *atomic.Bool, pieces *pieces) *http.Request {
	hd := make(http.Header, len(h.header)+len(r.fields))
	for k, v := range h.header {
		hd[k] = v[:len(v):len(v)] // so that adding a field copies
	}
	for _, f := range r.fields {
		hd.Add(f.name, f.value)
	}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	req := (&http.Request{
		Method: r.verb, URL: r.url, Host: r.url.Host, Header: hd,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
	if len(r.body) > 0 {
		again := func() (io.ReadCloser, error) { return &piece{of: pieces, rest: r.body, sent: sent}, nil }
		req.Body, _ = again()
		req.GetBody, req.ContentLength = again, int64(len(r.body))
	} else if r.body != nil {
		req.Body = http.NoBody
	}
	return req
}

// stdBody is a response's body that also ends the transport's use of the
// request's body, which may outlast the response.
type stdBody struct {
	io.ReadCloser
	request pieces
	closed  bool
}

// Read reads as the transport does, and fails after Close.
func (b *stdBody) Read(p []byte) (int, error) {
	if b.closed {
		return 0, errBodyClosed
	}
	return b.ReadCloser.Read(p)
}

// Close ends the exchange; the request's body is not looked at afterwards.
func (b *stdBody) Close() error {
	b.closed = true
	err := b.ReadCloser.Close()
	b.request.end()
	if err != nil {
		return fmt.Errorf("closing the response: %w", err)
	}
	return nil
}

// pieces is the right to read the request's body.
type pieces struct {
	mu    sync.Mutex // guards what follows; held while bytes of the body are copied
	ended bool
	fence func() error // asked before the first byte; nil: there is none
	held  error        // what it said
}

// refused is what the fence said, if it held the request back.
func (s *pieces) refused() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}

func (s *pieces) end() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
}

// piece is one reader of the request's body. It has no WriteTo on purpose: that
// would hand the bytes themselves to the network.
type piece struct {
	of     *pieces
	rest   []byte
	sent   *atomic.Bool
	passed bool // the fence
}

// Read copies the next bytes, while the exchange lasts.
func (p *piece) Read(dst []byte) (int, error) {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	if p.of.ended {
		return 0, errors.New("the exchange has ended")
	}
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	if p.of.held == nil && !p.passed {
		p.of.held = passFence(p.of.fence)
	}
	if p.of.held != nil {
		return 0, p.of.held
	}
	p.passed = true
	p.sent.Store(true)
	n := copy(dst, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// Close does nothing: the bytes belong to the caller.
func (*piece) Close() error { return nil }
