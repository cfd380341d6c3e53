package north

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/store"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// maxDeclared bounds what a client may leave in its session record.
const maxDeclared = 16 << 10

// legacy serves a message of the revisions with sessions.
func (h *Handler) legacy(ctx context.Context, x *Exchange) {
	m := &x.Msg
	if m.Kind == wire.Request && m.Method == mcp.Initialize && len(x.Header[mcp.HeaderSession]) == 0 {
		h.done(x, h.initialize(ctx, x))
		return
	}
	if err := h.resume(ctx, x); err != nil {
		h.fail(x, err)
		return
	}
	if m.Kind != wire.Request {
		if m.Kind == wire.Notification && m.Method == mcp.Cancelled {
			h.cancel(x.Session.ID, m.RequestID.Of(m.Raw))
		}
		if m.Kind == wire.Response {
			h.responded(x)
		}
		h.accepted(x)
		return
	}
	if out, ok := x.out.(*httpReply); ok && out.stream && h.resumable(x) {
		h.serveKept(x, out)
		return
	}
	h.done(x, h.serveLegacy(x))
}

// serveLegacy serves one request within a session.
func (h *Handler) serveLegacy(x *Exchange) error {
	if x.Msg.Method == mcp.Initialize {
		return fault.New(fault.InvalidRequest, "this session is initialized").WithHint("send initialize without a session id to begin another")
	}
	if x.Method = mcp.LookupMethod([]byte(x.Msg.Method)); x.Method == nil || !x.Method.Legacy {
		return fault.New(fault.MethodNotFound, "method %q is not served", x.Msg.Method)
	}
	return h.attend(x)
}

// resume finds the session of a request and checks that it is the caller's
// (checklist 88, 89, T4, T54).
func (h *Handler) resume(ctx context.Context, x *Exchange) error {
	ids := x.Header[mcp.HeaderSession]
	if len(ids) != 1 || ids[0] == "" {
		return &statusError{status: http.StatusBadRequest, err: fault.New(fault.InvalidRequest, "header %s is required once", mcp.HeaderSession).
			WithHint("send initialize first, and repeat the session id it answers with; or send the metadata of %s", mcp.LatestModern)}
	}
	s, err := h.sessions.Get(ctx, ids[0])
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return StoreFault(err, "the session cannot be read")
	}
	if err != nil || s.Server != x.Server || s.Principal != x.Principal.Key {
		return fault.New(fault.SessionNotFound, "no such session").WithHint("send initialize again")
	}
	x.Session, x.Revision = s, s.Revision
	if v := x.Header[mcp.HeaderProtocolVersion]; len(v) > 0 {
		if rev, known := mcp.ParseRevision(v[0]); len(v) > 1 || !known || rev.Era() != mcp.Legacy {
			return unsupported(v[0])
		}
	}
	return nil
}

// StoreFault tells a client of a store that fails; whatever it asked for, nothing
// ran. A passing outage is told apart from a fault of ours.
func StoreFault(err error, what string) error {
	if errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrNoSpace) {
		return fault.Wrap(err, fault.StoreUnavailable, "%s now", what).WithHint("try again")
	}
	return fault.Wrap(err, fault.Internal, "%s", what)
}

// initialize opens a session (checklist 84, 87).
func (h *Handler) initialize(ctx context.Context, x *Exchange) error {
	m := &x.Msg
	asked, err := wire.String(m.ProtocolVersion.Of(m.Raw))
	if err != nil {
		return fault.New(fault.InvalidParams, "params.protocolVersion is missing or not a string")
	}
	if !isObject(m.Capabilities.Of(m.Raw)) {
		return fault.New(fault.InvalidParams, "params.capabilities is missing or not an object")
	}
	if n := len(m.Capabilities.Of(m.Raw)) + len(m.ClientInfo.Of(m.Raw)); n > maxDeclared {
		return fault.New(fault.InvalidParams, "params.capabilities and params.clientInfo hold %d bytes, and %d are kept", n, maxDeclared)
	}
	rev, known := mcp.ParseRevision(asked)
	if !known || rev.Era() != mcp.Legacy {
		rev = mcp.LatestLegacy
	}
	x.Revision = rev
	result, err := h.gw.Describe(ctx, x.Server, x.Principal, rev)
	if err != nil {
		return err
	}
	s := &store.Session{
		ID: rand.Text(), Server: x.Server, Principal: x.Principal.Key, Revision: rev,
		Capabilities: append([]byte(nil), m.Capabilities.Of(m.Raw)...),
		Created:      time.Now(),
	}
	if info := m.ClientInfo.Of(m.Raw); isObject(info) {
		s.ClientInfo = append([]byte(nil), info...)
	}
	evicted, err := h.sessions.Create(ctx, s)
	if evicted != nil {
		h.over(evicted)
		h.o.Log.Info("idle session made room for another of its caller", "principal", x.Principal.Name)
	}
	switch {
	case errors.Is(err, store.ErrFull):
		return fault.Wrap(err, fault.AtCapacity, "no more sessions are kept here").WithHint("try again later, or raise limits.sessions")
	case errors.Is(err, store.ErrFullFor):
		return fault.Wrap(err, fault.AtCapacity, "this caller has too many sessions").WithHint("end some with DELETE, or raise limits.sessions_per_principal")
	case err != nil:
		return StoreFault(err, "the session cannot be stored")
	}
	x.Session = s
	if a, ok := x.out.(*httpReply); ok {
		a.w.Header()[mcp.HeaderSession] = []string{s.ID}
	}
	return x.Result(result)
}

// delete ends exactly one session (checklist 82, DESIGN section 7).
func (h *Handler) delete(w http.ResponseWriter, r *http.Request, server string) {
	x := exchanges.Get().(*Exchange)
	x.Server, x.Header, x.Era, x.sessions = server, r.Header, mcp.Legacy, h.sessions
	x.out = &httpReply{w: w, rc: http.NewResponseController(w), json: true, deadline: h.o.WriteTimeout}
	x.Trail.Began, x.Trail.Source, x.Trail.Verb = time.Now(), source(r), http.MethodDelete
	defer x.free()
	defer h.record(x)
	defer h.survive(x)
	p, err := h.gw.Identify(r)
	if err != nil {
		h.fail(x, err)
		return
	}
	x.Principal = p
	if err := h.gw.Admit(x); err != nil {
		h.fail(x, err)
		return
	}
	if err := h.resume(r.Context(), x); err != nil {
		h.fail(x, err)
		return
	}
	if err := h.sessions.Delete(r.Context(), x.Session.ID); err != nil {
		if errors.Is(err, store.ErrNotFound) {
			err = fault.New(fault.SessionNotFound, "no such session")
		} else {
			err = StoreFault(err, "the session cannot be ended")
		}
		h.fail(x, err)
		return
	}
	h.endCalls(x.Session.ID)
	h.over(x.Session)
	w.WriteHeader(http.StatusNoContent)
}
