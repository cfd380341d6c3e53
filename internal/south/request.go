package south

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sort"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

// Fields that every POST and every GET has. They are not changed.
var (
	postFields = []field{{"Content-Type", "application/json"}, {"Accept", "application/json, text/event-stream"}}
	getFields  = []field{{"Accept", "text/event-stream"}}
)

// staticFields are the header lines of every request to one upstream. It must
// not compress: answers are spliced (envoyproxy/ai-gateway#1938).
func staticFields(h http.Header) []field {
	fs := []field{{"User-Agent", "penstock"}, {"Accept-Encoding", "identity"}}
	for name, values := range h {
		for _, v := range values {
			fs = append(fs, field{name, v})
		}
	}
	sort.Slice(fs, func(i, j int) bool { return fs[i].name < fs[j].name })
	return fs
}

// maxRedirects bounds how often one request follows its upstream to another path.
const maxRedirects = 2

// head are the headers of one message that its caller decides.
type head struct {
	method, name, version, session, lastEventID string
	authorization, trace                        string
	params                                      []Param
	fence                                       func() error
}

// Param is one Mcp-Param header, ready for the wire.
type Param struct{ Name, Value string }

// fields appends the header lines of one request.
func (h *head) fields(fs []field, verb string) []field {
	switch verb {
	case http.MethodPost:
		fs = append(fs, postFields...)
	case http.MethodGet:
		fs = append(fs, getFields...)
	}
	for _, f := range [...]field{
		{mcp.HeaderProtocolVersion, h.version},
		{mcp.HeaderSession, h.session},
		{mcp.HeaderMethod, h.method},
		{mcp.HeaderName, h.name},
		{"Last-Event-Id", h.lastEventID},
		{"Authorization", h.authorization},
		{"Traceparent", h.trace},
	} {
		if f.value != "" {
			fs = append(fs, f)
		}
	}
	for _, p := range h.params {
		fs = append(fs, field{p.Name, p.Value})
	}
	return fs
}

// message sends one HTTP request to the endpoint. With a body it is a POST.
// It follows a redirect within the endpoint's own origin and no other.
func (u *Upstream) message(ctx context.Context, verb string, body []byte, h *head) (*hopResponse, error) {
	if u.o.Authorize != nil {
		return u.authorized(ctx, verb, body, h)
	}
	return u.send(ctx, verb, body, h)
}

func (u *Upstream) send(ctx context.Context, verb string, body []byte, h *head) (*hopResponse, error) {
	endpoint := u.endpoint.Load()
	var space [10]field
	fields := h.fields(space[:0], verb)
	for hops := 0; ; hops++ {
		r := hopRequest{verb: verb, url: endpoint, fields: fields, body: body, fence: h.fence}
		resp, err := u.hop.do(ctx, &r)
		if err != nil {
			return nil, u.transportFault(ctx, err, r.sent)
		}
		if resp.status != http.StatusTemporaryRedirect && resp.status != http.StatusPermanentRedirect {
			return resp, nil
		}
		to, err := sameOrigin(endpoint, resp.location)
		drain(resp.body)
		if err != nil || hops == maxRedirects {
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

// errDeadline is the cause of a context that ended because a call took too long.
var errDeadline = errors.New("the call's deadline passed")

// transportFault turns an error of the transport into ours. What matters to
// the caller is whether anything may have run.
func (u *Upstream) transportFault(ctx context.Context, err error, sent bool) error {
	if fenced(err) {
		return err
	}
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
