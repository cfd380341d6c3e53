package north

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// Outcomes of a request.
const (
	OK        = "ok"        // answered with a result
	Error     = "error"     // answered with an error, or an isError, of the upstream's own
	Refused   = "refused"   // turned away by a rule or a limit, or malformed; nothing ran
	Failed    = "failed"    // something broke on its way
	Cancelled = "cancelled" // its client wants no answer, or is gone
	Panicked  = "panic"     // the gateway broke
)

// Trail is what is known of one request once it is over (DESIGN section 2, step
// 12). What stands in the first part north fills in; the rest is the rooms'.
type Trail struct {
	Began     time.Time
	Source    string // the client's address, without port; "" for stdio
	In        int64  // bytes of the message
	Out       int64  // bytes of the answer and what came before it
	Code      int    // of the JSON-RPC error it was answered with; 0: none
	Outcome   string
	RequestID string // "" until something had to be told apart by it
	Verb      string // of an HTTP request that carries no message: "GET", "DELETE"

	Kind, Name, Original, Upstream string // the target, as far as it is known
	Via                            string // the gateway's own tool that named the target; ""
	Decision, Rule                 string // of the policy
	Detail                         string // a few words
	TraceID                        string
}

// Foreign notes that the answer is an error, or an isError, of the upstream's own.
func (t *Trail) Foreign(code int) { t.Outcome, t.Code = Error, code }

// refusals are the codes after which nothing ran because of what was asked, or by
// whom.
var refusals = map[fault.Code]bool{
	fault.Parse: true, fault.InvalidRequest: true, fault.MethodNotFound: true, fault.InvalidParams: true,
	fault.HeaderMismatch: true, fault.MissingCapability: true, fault.UnsupportedVersion: true, fault.ResourceNotFound: true,
	fault.SessionNotFound: true, fault.PolicyDenied: true, fault.RateLimited: true, fault.AtCapacity: true,
	fault.NotAcceptable: true, fault.BadMediaType: true, fault.ForbiddenOrigin: true, fault.Unauthenticated: true,
	fault.InsufficientScope: true, fault.HookRefused: true, fault.AuditUnavailable: true,
}

// fail notes the error that a request is answered with.
func (t *Trail) fail(f *fault.Error) {
	t.Code = int(f.Code)
	switch {
	case t.Outcome == Panicked, t.Outcome == Error: // it is known better
	case refusals[f.Code]:
		t.Outcome = Refused
	default:
		t.Outcome = Failed
	}
}

// lost notes a request whose answer went nowhere.
func (t *Trail) lost(err error) {
	if t.Outcome = Failed; err == nil || errors.Is(err, errCancelled) || errors.Is(err, context.Canceled) || IsGone(err) {
		t.Outcome = Cancelled
	}
}

// source is the client's address without its port.
func source(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// record hands a request that is over to who writes it down. A notification or a
// response that was taken asks for nothing, and is none; nor is a batch, whose
// messages are recorded each.
func (h *Handler) record(x *Exchange) {
	t := &x.Trail
	if t.Outcome == "" {
		if x.parts || x.Msg.Kind != wire.Request && t.Verb == "" {
			return
		}
		t.Outcome = OK
	}
	if x.out != nil {
		t.Out = x.out.sent()
	}
	h.gw.Record(x)
}

// requestID names a request in what is said of it.
func (h *Handler) requestID(x *Exchange) string {
	if x.Trail.RequestID == "" && h.o.RequestID != nil {
		x.Trail.RequestID = h.o.RequestID()
	}
	return x.Trail.RequestID
}
