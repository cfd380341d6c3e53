package south

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

var dialer = &net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}

// Header values that every request shares. net/http does not change them.
var (
	jsonType     = []string{"application/json"}
	acceptBoth   = []string{"application/json, text/event-stream"}
	acceptStream = []string{"text/event-stream"}
	identity     = []string{"identity"} // an upstream must not compress: answers are spliced (envoyproxy/ai-gateway#1938)
	agent        = []string{"penstock"}
)

// maxRedirects bounds how often one request follows its upstream to another path.
const maxRedirects = 2

// payload is a request body that knows whether any of it was taken: before
// that, nothing can have run at the upstream.
type payload struct {
	bytes.Reader
	raw   []byte
	taken *atomic.Bool
}

func (p *payload) Read(b []byte) (int, error) {
	p.taken.Store(true)
	return p.Reader.Read(b)
}

// WriteTo is how the transport takes the body in one piece.
func (p *payload) WriteTo(w io.Writer) (int64, error) {
	p.taken.Store(true)
	return p.Reader.WriteTo(w)
}

func (*payload) Close() error { return nil }

func (p *payload) again() (io.ReadCloser, error) {
	q := &payload{raw: p.raw, taken: p.taken}
	q.Reset(q.raw)
	return q, nil
}

// head are the headers of one message that its caller decides.
type head struct {
	method, name, version, session, lastEventID string
	params                                      []Param
	trace                                       string
}

// Param is one Mcp-Param header, ready for the wire.
type Param struct{ Name, Value string }

// message sends one HTTP request to the endpoint. With a body it is a POST.
// It follows a redirect within the endpoint's own origin and no other.
func (u *Upstream) message(ctx context.Context, verb string, body []byte, h *head) (*http.Response, error) {
	endpoint := u.endpoint.Load()
	for hop := 0; ; hop++ {
		var taken atomic.Bool
		resp, err := u.transport.RoundTrip(u.request(ctx, verb, endpoint, body, h, &taken))
		if err != nil {
			return nil, u.transportFault(ctx, err, taken.Load())
		}
		if resp.StatusCode != http.StatusTemporaryRedirect && resp.StatusCode != http.StatusPermanentRedirect {
			return resp, nil
		}
		to, err := sameOrigin(endpoint, resp.Header.Get("Location"))
		drain(resp.Body)
		if err != nil || hop == maxRedirects {
			return nil, fault.Wrap(err, fault.InvalidAnswer, "upstream %q redirects away from its own origin", u.o.Key).
				WithHint("set its url to the address it redirects to")
		}
		endpoint = to
		u.endpoint.Store(to)
	}
}

func sameOrigin(from *url.URL, location string) (*url.URL, error) {
	to, err := from.Parse(location)
	if err != nil {
		return nil, fmt.Errorf("redirect: %w", err)
	}
	if location == "" || to.Scheme != from.Scheme || to.Host != from.Host {
		return nil, fmt.Errorf("redirect to another origin: %s", to.Redacted())
	}
	return to, nil
}

func (u *Upstream) request(ctx context.Context, verb string, endpoint *url.URL, body []byte, h *head, taken *atomic.Bool) *http.Request {
	n := 6 + len(u.o.Header) + len(h.params)
	hd := make(http.Header, n+5)
	for k, v := range u.o.Header {
		hd[k] = v
	}
	hd["User-Agent"] = agent
	hd["Accept-Encoding"] = identity
	// One array backs the single values of this request.
	vals := make([]string, 0, 5+len(h.params))
	set := func(k, v string) {
		if v != "" {
			vals = append(vals, v)
			hd[k] = vals[len(vals)-1 : len(vals) : len(vals)]
		}
	}
	set(mcp.HeaderProtocolVersion, h.version)
	set(mcp.HeaderSession, h.session)
	set(mcp.HeaderMethod, h.method)
	set(mcp.HeaderName, h.name)
	set("Traceparent", h.trace)
	for _, p := range h.params {
		vals = append(vals, p.Value)
		hd[p.Name] = vals[len(vals)-1 : len(vals) : len(vals)]
	}
	r := (&http.Request{
		Method: verb, URL: endpoint, Host: endpoint.Host, Header: hd,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
	switch verb {
	case http.MethodPost:
		hd["Content-Type"] = jsonType
		hd["Accept"] = acceptBoth
		p := &payload{raw: body, taken: taken}
		p.Reset(body)
		r.Body, r.GetBody, r.ContentLength = p, p.again, int64(len(body))
	case http.MethodGet:
		hd["Accept"] = acceptStream
		set("Last-Event-Id", h.lastEventID)
	}
	return r
}

// errDeadline is the cause of a context that ended because a call took too long.
var errDeadline = errors.New("the call's deadline passed")

// transportFault turns an error of the transport into ours. What matters to
// the caller is whether anything may have run.
func (u *Upstream) transportFault(ctx context.Context, err error, sent bool) error {
	if cause := context.Cause(ctx); cause != nil {
		if errors.Is(cause, errDeadline) {
			if !sent {
				return u.fail(fault.Wrap(err, fault.UpstreamUnavailable, "upstream %q was not reached in time", u.o.Key).WithHint("nothing ran; try again"))
			}
			return u.fail(fault.Wrap(err, fault.UpstreamTimeout, "upstream %q did not answer in time", u.o.Key).
				WithHint("the call may have run; check before sending it again"))
		}
		return fmt.Errorf("call given up: %w", cause)
	}
	if !sent {
		return u.fail(fault.Wrap(err, fault.UpstreamUnavailable, "upstream %q cannot be reached", u.o.Key).WithHint("nothing ran; try again"))
	}
	return u.fail(fault.Wrap(err, fault.ConnectionLost, "the connection to upstream %q was lost", u.o.Key).
		WithHint("the call may have run; check before sending it again"))
}

// drain reads what little is left of a body, so that its connection can be used again.
func drain(b io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, b, 4<<10)
	_ = b.Close()
}
