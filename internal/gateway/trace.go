package gateway

import (
	"context"
	"strconv"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/north"
	"github.com/penstock-mcp/penstock/internal/observe"
	"github.com/penstock-mcp/penstock/internal/south"
	"github.com/penstock-mcp/penstock/internal/wire"
)

const (
	headerTraceparent = "Traceparent"
	headerTracestate  = "Tracestate"
)

// trace begins the span of a request. What a message says of its trace counts
// before what its headers say, for the message is the caller's own.
func (g *Gateway) trace(x *north.Exchange) observe.Span {
	parent, state := "", ""
	if m := &x.Msg; m.Traceparent.Ok() {
		if s, err := wire.String(m.Traceparent.Of(m.Raw)); err == nil {
			parent = s
		}
	} else if v := x.Header[headerTraceparent]; len(v) == 1 {
		parent = v[0]
		if v := x.Header[headerTracestate]; len(v) == 1 {
			state = v[0]
		}
	}
	if parent == "" && g.tracer == nil {
		return observe.Span{}
	}
	span := g.tracer.Start(parent, state, x.Msg.Method)
	x.Span, x.Trail.TraceID = span, span.TraceID()
	return span
}

// traced ends the span of a request with what became of it.
func (g *Gateway) traced(span observe.Span, x *north.Exchange, err error) {
	span.Set(observe.AttrMethod, x.Msg.Method)
	span.Set(observe.AttrRPCSystem, observe.RPCSystem)
	span.Set(observe.AttrRPCMethod, x.Msg.Method)
	span.Set(observe.AttrProtocol, x.Revision.String())
	span.Set(observe.AttrServer, x.Server)
	t := &x.Trail
	if t.Upstream != "" {
		span.Set(observe.AttrUpstream, t.Upstream)
	}
	switch {
	case x.Method != nil && x.Method.Name == mcp.ToolsCall:
		span.Rename(named(x, t.Name))
		span.Set(observe.AttrTool, t.Name)
		span.Set(observe.AttrOperation, observe.ExecuteTool)
	case x.Method != nil && x.Method.Name == mcp.PromptsGet:
		span.Rename(named(x, t.Name))
		span.Set(observe.AttrPrompt, t.Name)
	case t.Kind == singular[mcp.Resources]:
		span.Set(observe.AttrResource, t.Name)
	}
	switch {
	case err != nil:
		f := fault.From(err)
		span.Set(observe.AttrErrorType, f.Code.Name())
		span.Set(observe.AttrStatusCode, strconv.Itoa(int(f.Code)))
		span.Fail(f.Message)
	case t.Outcome == north.Error && t.Code != 0:
		span.Set(observe.AttrStatusCode, strconv.Itoa(t.Code))
		span.Fail("")
	case t.Outcome == north.Error:
		span.Set(observe.AttrErrorType, observe.ToolError)
		span.Fail("")
	}
	span.End()
}

// named is the name of a span: its method, and the tool or prompt.
func named(x *north.Exchange, target string) string {
	if target == "" || x.Method.Name != mcp.ToolsCall && x.Method.Name != mcp.PromptsGet {
		return x.Msg.Method
	}
	return x.Msg.Method + " " + target
}

// leg begins the span of a call to an upstream, about a target as that knows it.
func leg(x *north.Exchange, l *south.Link, target string) observe.Span {
	span, ok := x.Span.(observe.Span)
	if !ok {
		return observe.Span{}
	}
	child := span.Child(x.Msg.Method)
	if child.Sampled() {
		child.Rename(named(x, target))
		child.Set(observe.AttrMethod, x.Msg.Method)
		child.Set(observe.AttrUpstream, l.Upstream.Key())
		child.Set(observe.AttrEra, l.Era.String())
	}
	return child
}

// land ends the span of a call to an upstream.
func land(span observe.Span, err error) {
	if !span.Sampled() {
		return
	}
	if err != nil {
		f := fault.From(err)
		span.Set(observe.AttrErrorType, f.Code.Name())
		span.Fail(f.Message)
	}
	span.End()
}

// endTraces delivers what was traced, within ctx.
func (g *Gateway) endTraces(ctx context.Context) {
	if err := g.tracer.Close(ctx); err != nil {
		g.log.Debug("traces not delivered at the end", "error", err)
	}
}
