package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/penstock-mcp/penstock/config"
	"github.com/penstock-mcp/penstock/internal/audit"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/north"
	"github.com/penstock-mcp/penstock/internal/observe"
)

// recorder is the audit record of a document, kept over reloads that do not
// change it.
type recorder struct {
	log       *audit.Log // nil: nothing is recorded
	engine    *engine    // runs log; nil without one
	doc       *config.Audit
	arguments bool
}

// end writes what was recorded, also where the gateway served and never ran.
func (r *recorder) end(ctx context.Context) {
	if r.log != nil && r.log.Stats().Queued > 0 {
		r.engine.start()
	}
	r.engine.end(ctx)
}

// Record implements north.Gateway: step 12 of a request's way.
func (g *Gateway) Record(x *north.Exchange) {
	t := &x.Trail
	method := x.Msg.Method
	if method == "" {
		method = t.Verb
	}
	d := time.Since(t.Began)
	g.metrics.Request(&observe.RequestFacts{
		Server: x.Server, Method: method, Era: era(x), Outcome: t.Outcome, Code: t.Code, Duration: d, BytesIn: t.In, BytesOut: t.Out,
	})
	if g.audit.log == nil {
		return
	}
	e := audit.Event{
		Time: t.Began, Duration: d, Source: t.Source, Server: x.Server, Method: method,
		Kind: t.Kind, Name: t.Name, Original: t.Original, Upstream: t.Upstream, Via: t.Via,
		Decision: t.Decision, Rule: t.Rule, Outcome: t.Outcome, Code: t.Code, BytesIn: t.In, BytesOut: t.Out,
		RequestID: t.RequestID, TraceID: t.TraceID, Detail: t.Detail,
	}
	if c := callerOf(x); c != nil {
		e.Issuer, e.Tenant, e.Subject, e.Credential = c.Issuer, c.Tenant, c.Subject, c.Credential
	}
	if x.Session != nil {
		// The id itself is half of what it takes to speak in the session.
		sum := sha256.Sum256([]byte(x.Session.ID))
		e.Session = hex.EncodeToString(sum[:6])
	}
	if g.audit.arguments && x.Msg.Raw != nil {
		e.Arguments = x.Msg.Arguments.Of(x.Msg.Raw)
	}
	g.audit.log.Record(&e)
}

func era(x *north.Exchange) string {
	if x.Era == mcp.Modern {
		return "modern"
	}
	return "legacy"
}
