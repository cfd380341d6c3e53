package north

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// modern validates a stateless message in the order of checklist T1, and serves it.
func (h *Handler) modern(ctx context.Context, x *Exchange) {
	m := &x.Msg
	if m.Kind == wire.Response {
		h.fail(x, fault.New(fault.InvalidRequest, "a client of %s does not send responses", mcp.LatestModern))
		return
	}
	if m.Kind == wire.Notification {
		// Headers of notifications are undefined in this revision (checklist 15).
		h.accepted(x)
		return
	}
	if err := x.validate(); err != nil {
		h.fail(x, err)
		return
	}
	var err error
	if x.Method.Stream {
		err = h.aloof(ctx, x, h.gw.Serve)
	} else {
		err = h.gw.Serve(ctx, x)
	}
	if err != nil && errors.Is(err, context.Canceled) && ctx.Err() != nil {
		x.Trail.lost(err)
		return // a modern client that hung up has cancelled its request (checklist 35)
	}
	h.done(x, err)
}

// validate checks metadata, version, method and standard headers.
func (x *Exchange) validate() error {
	m := &x.Msg
	version, err := wire.String(m.MetaVersion.Of(m.Raw))
	switch {
	case !m.MetaVersion.Ok():
		return badRequest("params._meta lacks %q", mcp.MetaProtocolVersion)
	case err != nil:
		return badRequest("params._meta[%q] is not a string", mcp.MetaProtocolVersion)
	case !isObject(m.MetaCaps.Of(m.Raw)):
		return badRequest("params._meta lacks the object %q", mcp.MetaClientCapabilities)
	}
	if !x.Headerless {
		header, err := x.single(mcp.HeaderProtocolVersion)
		if err != nil {
			return err
		}
		if header != version {
			return fault.New(fault.HeaderMismatch, "header %s is %q, and params._meta says %q", mcp.HeaderProtocolVersion, header, version)
		}
	}
	if rev, known := mcp.ParseRevision(version); !known || rev.Era() != mcp.Modern {
		return unsupported(version)
	}
	if level := m.MetaLogLevel.Of(m.Raw); level != nil {
		if s, err := wire.String(level); err != nil || !mcp.ValidLogLevel(s) {
			return fault.New(fault.InvalidParams, "params._meta[%q] is not a log level", mcp.MetaLogLevel)
		}
	}
	if x.Method = mcp.LookupMethod([]byte(m.Method)); x.Method == nil || !x.Method.Modern {
		return fault.New(fault.MethodNotFound, "method %q is not served in %s", m.Method, mcp.LatestModern)
	}
	if x.Headerless {
		return nil
	}
	method, err := x.single(mcp.HeaderMethod)
	if err != nil {
		return err
	}
	if method != m.Method {
		return fault.New(fault.HeaderMismatch, "header %s is %q, and the body's method %q", mcp.HeaderMethod, method, m.Method)
	}
	return x.checkName()
}

// checkName compares Mcp-Name with the parameter it repeats (checklist 22).
func (x *Exchange) checkName() error {
	m := &x.Msg
	var span wire.Span
	var param string
	switch x.Method.Header {
	case mcp.NoName:
		return nil
	case mcp.FromName:
		span, param = m.Name, "name"
	case mcp.FromURI:
		span, param = m.URI, "uri"
	case mcp.FromTaskID:
		span, param = m.TaskID, "taskId"
	}
	header, err := x.single(mcp.HeaderName)
	if err != nil {
		return err
	}
	want, err := wire.String(span.Of(m.Raw))
	if err != nil {
		return fault.New(fault.InvalidParams, "params.%s of %s is missing or not a string", param, m.Method)
	}
	got, err := mcp.DecodeHeader(header)
	if err != nil {
		return fault.Wrap(err, fault.HeaderMismatch, "header %s cannot be decoded: %v", mcp.HeaderName, err)
	}
	if got != want {
		return fault.New(fault.HeaderMismatch, "header %s is %q, and params.%s %q", mcp.HeaderName, got, param, want)
	}
	return nil
}

// single returns the one value of a header that every modern request must have.
func (x *Exchange) single(name string) (string, error) {
	switch v := x.Header[name]; len(v) {
	case 1:
		return v[0], nil
	case 0:
		return "", fault.New(fault.HeaderMismatch, "header %s is missing", name)
	default:
		return "", fault.New(fault.HeaderMismatch, "header %s is given %d times", name, len(v))
	}
}

func isObject(raw []byte) bool { return len(raw) > 0 && raw[0] == '{' }

// badRequest is missing metadata: -32602, but with HTTP 400 (checklist 16).
func badRequest(format string, args ...any) error {
	return &statusError{status: http.StatusBadRequest, err: fault.New(fault.InvalidParams, format, args...)}
}

func unsupported(requested string) error {
	data := append([]byte(`{"supported":["`), strings.Join(mcp.Supported(), `","`)...)
	data = append(data, `"],"requested":`...)
	data = wire.AppendString(data, requested)
	data = append(data, '}')
	return fault.New(fault.UnsupportedVersion, "protocol version %q is not supported", requested).WithData(data)
}
