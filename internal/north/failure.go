package north

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// statusError is an error whose HTTP status differs from its code's usual one.
type statusError struct {
	status int
	err    error
}

func (s *statusError) Error() string { return s.err.Error() }
func (s *statusError) Unwrap() error { return s.err }

// done ends an exchange: with nothing when it was answered, and otherwise with
// the error, or by cutting a connection that has begun an answer.
func (h *Handler) done(x *Exchange, err error) {
	switch {
	case err == nil:
	case errors.Is(err, errCancelled) && !x.out.begun():
		x.Trail.lost(err)
		h.accepted(x)
	case errors.Is(err, errCancelled):
		x.Trail.lost(err)
		x.out.abort()
	case errors.Is(err, ErrStreamsEnd) && x.out.begun(): // its goodbye was the last of it
	case IsGone(err):
		x.Trail.lost(err)
		h.o.Log.Debug("client gone before its answer", "server", x.Server, "method", x.Msg.Method, "error", err)
		x.out.abort()
	case x.out.broken():
		x.Trail.fail(fault.From(err))
		h.log(x, fault.From(err))
		x.out.abort()
	default:
		h.fail(x, err)
	}
}

// fail is the one place where an error becomes a JSON-RPC error and an HTTP
// status (DESIGN section 13).
func (h *Handler) fail(x *Exchange, err error) {
	if IsGone(err) {
		x.Trail.lost(err)
		x.out.abort()
		return
	}
	f := fault.From(err)
	x.Trail.fail(f)
	h.log(x, f)
	if hd := x.header(); hd != nil {
		h.advise(hd, x, err, f)
	}
	entry, _ := fault.Lookup(f.Code)
	status := entry.HTTP
	if x.Era == mcp.Legacy {
		status = entry.Legacy
	}
	var s *statusError
	if errors.As(err, &s) {
		status = s.status
	}
	if werr := x.out.whole(status, errorBody(x.ID(), f)); werr != nil && !IsGone(werr) {
		h.o.Log.Error("error not written", "error", werr)
	}
}

// survive turns a panic while serving x into an error of that request alone.
// It is deferred; a connection that is being cut on purpose goes on being cut.
func (h *Handler) survive(x *Exchange) {
	p := recover()
	if p == nil {
		return
	}
	if p == http.ErrAbortHandler { //nolint:errorlint // net/http compares it so, too
		panic(p)
	}
	f := h.panicked(x, p)
	if x.out.broken() {
		x.out.abort()
	}
	h.fail(x, f)
}

func (h *Handler) panicked(x *Exchange, p any) *fault.Error {
	x.Trail.Outcome = Panicked
	h.o.Log.Error("panic while serving", "request", h.requestID(x), "server", x.Server, "method", x.Msg.Method, "panic", p, "stack", string(debug.Stack()))
	f := fault.New(fault.Internal, "the gateway failed while serving this request")
	if id := h.requestID(x); id != "" {
		return f.WithHint("tell its operator: request %s", id)
	}
	return f.WithHint("tell its operator")
}

// turnAway refuses a request before it is known who sends it.
func (h *Handler) turnAway(w http.ResponseWriter, r *http.Request, server string, err error) {
	x := &Exchange{Server: server, Header: r.Header}
	x.Trail.Began, x.Trail.Source = time.Now(), source(r)
	x.Trail.fail(fault.From(err))
	h.refuse(w, x, err)
	h.record(x)
}

// refuse answers a request that was turned away before it was read.
func (h *Handler) refuse(w http.ResponseWriter, x *Exchange, err error) {
	f := fault.From(err)
	entry, _ := fault.Lookup(f.Code)
	h.o.Log.Warn("request refused", "request", h.requestID(x), "source", x.Trail.Source, "code", f.Code.Name(), "error", f)
	b := errorBody(nil, f)
	hd := w.Header()
	h.advise(hd, x, err, f)
	hd["Content-Type"] = jsonType
	hd["Content-Length"] = []string{strconv.Itoa(len(b))}
	w.WriteHeader(entry.HTTP)
	n, _ := w.Write(b) // a client that is gone reads no refusal
	x.Trail.Out = int64(n)
}

// errorBody is a JSON-RPC error message; without an id it has none (checklist 27).
func errorBody(id []byte, f *fault.Error) []byte {
	b := []byte(`{"jsonrpc":"2.0"`)
	if len(id) > 0 && jsontext.Value(id).IsValid() {
		b = append(b, `,"id":`...)
		b = append(b, id...)
	}
	b = append(b, `,"error":{"code":`...)
	b = strconv.AppendInt(b, int64(f.Code), 10)
	b = append(b, `,"message":`...)
	b = wire.AppendString(b, f.Public())
	if f.Data != nil {
		b = append(b, `,"data":`...)
		b = append(b, f.Data...)
	}
	return append(b, `}}`...)
}

func (h *Handler) log(x *Exchange, f *fault.Error) {
	level := slog.LevelInfo
	switch f.Code {
	case fault.Internal, fault.InvalidAnswer:
		level = slog.LevelError
	case fault.UpstreamUnavailable, fault.UpstreamTimeout, fault.ConnectionLost, fault.AtCapacity:
		level = slog.LevelWarn
	}
	if !h.o.Log.Enabled(context.Background(), level) {
		return
	}
	caller := ""
	if x.Principal != nil {
		caller = x.Principal.Name
	}
	h.o.Log.Log(context.Background(), level, "request failed", "request", h.requestID(x), "server", x.Server, "principal", caller, "method", x.Msg.Method, "code", f.Code.Name(), "error", f)
}

// header is where headers of the answer go, or nil where there are none.
func (x *Exchange) header() http.Header {
	switch a := x.out.(type) {
	case *httpReply:
		return a.w.Header()
	case *keptReply:
		return a.w.Header()
	}
	return nil
}

// accepted answers a notification or response: 202 without a body.
func (h *Handler) accepted(x *Exchange) {
	a, ok := x.out.(*httpReply)
	if k, kept := x.out.(*keptReply); kept {
		a, ok = k.httpReply, true
	}
	if ok && !a.started {
		a.started = true
		a.w.WriteHeader(http.StatusAccepted)
	}
}
