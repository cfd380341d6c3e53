package gateway

import (
	"bytes"
	"context"
	"errors"
	"net/http"

	"github.com/penstock-mcp/penstock/internal/catalog"
	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/north"
	"github.com/penstock-mcp/penstock/internal/relay"
	"github.com/penstock-mcp/penstock/internal/south"
	"github.com/penstock-mcp/penstock/internal/task"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// answer relays an upstream's answer to the client. offered says whether the
// upstream may make a task of the call.
func (g *Gateway) answer(ctx context.Context, x *north.Exchange, v *server, m *member, t *catalog.Target, link *south.Link, a *south.Answer, offered offering) error {
	plan := g.plan(x, v, m, link)
	if x.Era == mcp.Modern && link.Era != mcp.Modern {
		// It has no words for a question; what looks like one was not checked, and
		// its state is not ours to open (checklist 116, 7.3).
		plan.Drop = meaningless
	}
	unseen, err := g.holdForHooks(ctx, x, t, a)
	if err != nil {
		return err
	}
	if a.Rest != nil {
		through, err := passes(x, link, a, &plan, offered.made())
		if err != nil {
			return err
		}
		if through {
			return stream(x, a, &plan)
		}
	}
	whole, err := hold(a)
	if err != nil {
		return err
	}
	s := &a.Scan
	if s.Error.Ok() {
		if offered == withheld && fault.Code(s.ErrorCode) == fault.MissingCapability && needsTask(s) {
			// What is missing is not the client's, who has declared it.
			return fault.New(fault.StoreUnavailable, "upstream %q runs this call as a task only, and who owns a task cannot be stored now", m.key).
				WithHint("nothing ran; try again later")
		}
		return g.upstreamError(x, v, m, t, link, s, whole, &plan)
	}
	if made, ok := madeOf(s, link.Era, offered); ok {
		if offered == forDrive {
			made.id = bytes.Clone(made.id)
			return &drivenError{made}
		}
		return g.minted(ctx, x, v, m, t, link, s, made, whole, &plan)
	}
	if err := g.checkResult(x, m, t, link, s, &plan); err != nil {
		if id, made := unasked(s, link); made { // and nobody will ever ask for it
			g.cancelQuietly(ctx, x, v, m, link, id)
			g.metrics.Task("refused")
		}
		return err
	}
	return g.conclude(ctx, x, v, m, t, s, whole, &plan, unseen)
}

// unasked is the task that an upstream made of a call though none was offered.
func unasked(s *wire.Answer, link *south.Link) (id string, made bool) {
	if link.Era != mcp.Modern {
		return "", false
	}
	m, made := madeOf(s, link.Era, forIt)
	if !made {
		return "", false
	}
	id, err := wire.String(m.id)
	return id, err == nil && task.ValidID(id)
}

// conclude answers a call with the result that ends it. unseen says that the hooks
// let it pass without a look.
func (g *Gateway) conclude(ctx context.Context, x *north.Exchange, v *server, m *member, t *catalog.Target, s *wire.Answer, whole []byte, plan *wire.Plan, unseen bool) (err error) {
	if !unseen {
		if whole, err = g.after(ctx, x, v, t, s, whole, false); err != nil {
			return err
		}
	}
	if s.IsError.Ok() && string(s.IsError.Of(whole)) == "true" {
		x.Trail.Foreign(0)
	}
	if shaped, changed, err := project(x, s, whole); err != nil {
		return fault.Wrap(err, fault.InvalidAnswer, "the result of upstream %q has not the shape that %s promises", m.key, x.Method.Name)
	} else if changed {
		whole = shaped
	}
	buf := getBuffer()
	defer putBuffer(buf)
	out, err := plan.Apply((*buf)[:0], whole)
	if err != nil {
		return invalid(m, err)
	}
	*buf = out
	return x.Reply(http.StatusOK, out)
}

// heldForType is how much of a large answer is held to see what type of result
// it is. A question of more than that is none that a user could be asked.
const heldForType = 1 << 20

// passes reports whether a large answer can stream through: a plain result. One
// whose type does not show early is held for a while; what shows only after
// that, and is not plain, cuts the connection before it is sent.
func passes(x *north.Exchange, link *south.Link, a *south.Answer, plan *wire.Plan, offered bool) (bool, error) {
	if mcp.NeedsWhole(x.Revision) || offered && link.Era == mcp.Legacy {
		// What shows late may be that it is a task.
		return false, nil
	}
	b := wire.Peek(a.Head)
	if b.Kind == wire.Response && !b.Failure && b.ResultType == nil && link.Era == mcp.Modern {
		if ended, err := a.More(heldForType); ended || err != nil {
			return false, err
		}
		b = wire.Peek(a.Head)
	}
	if b.Kind != wire.Response || b.Failure {
		return false, nil
	}
	if b.ID != nil && !a.Answers(b.ID) {
		return false, fault.New(fault.InvalidAnswer, "upstream %q answered another request than was asked", link.Upstream.Key()).
			WithHint("the call may have run; tell the upstream's owner")
	}
	plan.WantID = a.ID()
	// Other than objects, structured content needs a text in its place.
	through := x.Era == mcp.Modern || b.Structured == 0 || b.Structured == '{'
	if link.Era != mcp.Modern {
		return through, nil
	}
	if b.ResultType != nil {
		if kind, err := wire.String(b.ResultType); err != nil || kind != "complete" {
			return false, nil //nolint:nilerr // held whole, it is refused for what it is
		}
	}
	plan.Require, plan.Forbid = complete, asking
	return through, nil
}

// asking are the members of a result that asks its caller. Of a legacy upstream,
// which has no such results, they and the type are meaningless.
var (
	asking      = []string{"requestState", "inputRequests"}
	meaningless = append([]string{"resultType"}, asking...)
)

// invalid names the upstream in an error about its message.
func invalid(m *member, err error) error {
	return fault.Wrap(err, fault.InvalidAnswer, "upstream %q answered with a malformed message", m.key).
		WithHint("the call may have run; tell the upstream's owner")
}

// stream passes a large answer through a window. After its first byte nothing
// but cutting the connection can tell the client of a failure.
func stream(x *north.Exchange, a *south.Answer, plan *wire.Plan) error {
	w, err := x.Begin()
	if err != nil {
		return err
	}
	if _, err := plan.Rewrite(w, a.Head, a.Rest); err != nil {
		var re *wire.ReadError
		if errors.As(err, &re) {
			return a.Fault(re.Err)
		}
		return err
	}
	return x.End()
}

// plan is what is changed in every answer for this client.
func (g *Gateway) plan(x *north.Exchange, v *server, m *member, link *south.Link) wire.Plan {
	p := wire.Plan{ID: x.ID(), MapURI: m.mapURI, LineSafe: x.Framed()}
	if v.tag {
		p.SetMeta = append(p.SetMeta, wire.Member{Name: mcp.MetaOrigin, Value: m.origin})
	}
	if x.Era == mcp.Modern {
		p.SetMeta = append(p.SetMeta, wire.Member{Name: mcp.MetaServerInfo, Value: g.self[mcp.LatestModern]})
		p.Default = complete
		if x.Method.Name == mcp.ResourcesRead {
			p.Default = completeUncached
		}
		return p
	}
	p.DropMeta = serverInfo
	if x.Method.Name == mcp.TasksResult {
		p.SetMeta = append(p.SetMeta, wire.Member{Name: mcp.MetaRelatedTask, Value: relatedTask(x.Msg.TaskID.Of(x.Msg.Raw))})
	}
	if link.Era == mcp.Modern {
		p.Drop = modernOnly
	}
	p.DropNonObject = structured
	return p
}

var (
	complete         = []wire.Member{{Name: "resultType", Value: []byte(`"complete"`)}}
	completeUncached = []wire.Member{complete[0], {Name: "ttlMs", Value: []byte(`0`)}, {Name: "cacheScope", Value: []byte(`"private"`)}}
	serverInfo       = []string{mcp.MetaServerInfo}
	modernOnly       = []string{"resultType", "ttlMs", "cacheScope", "inputRequests", "requestState"}
	structured       = []string{"structuredContent"}
)

// checkResult refuses result types that were not negotiated (checklist 116) and
// seals the state of a question (DESIGN section 8).
func (g *Gateway) checkResult(x *north.Exchange, m *member, t *catalog.Target, link *south.Link, s *wire.Answer, plan *wire.Plan) error {
	if link.Era != mcp.Modern || !s.ResultType.Ok() {
		return nil
	}
	kind, err := wire.String(s.ResultType.Of(s.Raw))
	if err == nil && kind == "complete" {
		return nil
	}
	if err == nil && kind == "input_required" && x.Era == mcp.Legacy && (s.InputRequests.Ok() || s.RequestState.Ok()) {
		return question(s)
	}
	if err != nil || kind != "input_required" || x.Era != mcp.Modern || (!s.InputRequests.Ok() && !s.RequestState.Ok()) {
		return fault.New(fault.InvalidAnswer, "upstream %q answered with a result of type %s, which was not offered to it", m.key, s.ResultType.Of(s.Raw)).
			WithHint("tell the upstream's owner")
	}
	plan.Default = nil // no caching hints on a question (checklist 42)
	if !s.RequestState.Ok() {
		return nil
	}
	state, err := wire.String(s.RequestState.Of(s.Raw))
	if err != nil || len(state) > relay.MaxState {
		return fault.New(fault.InvalidAnswer, "upstream %q sent a requestState that is no string or larger than %d bytes", m.key, relay.MaxState)
	}
	o := outbound{g: g, x: x, v: g.servers[x.Server], t: t, name: targetSpan(x)}
	plan.Set = append(plan.Set, wire.Member{Name: "requestState", Value: wire.AppendString(nil, g.sealer.Seal(state, o.binding()))})
	return nil
}

// targetSpan is where a request names its target.
func targetSpan(x *north.Exchange) wire.Span {
	if x.Method.Header == mcp.FromURI {
		return x.Msg.URI
	}
	return x.Msg.Name
}

// project shapes a result's content for a legacy client (checklist 6.5).
func project(x *north.Exchange, s *wire.Answer, whole []byte) (shaped []byte, changed bool, err error) {
	if x.Era != mcp.Legacy {
		return whole, false, nil
	}
	if !mcp.NeedsWhole(x.Revision) {
		// Most results hold nothing that such a client must not see.
		sc := s.StructuredContent.Of(whole)
		if (len(sc) == 0 || sc[0] == '{') && (x.Revision == mcp.LatestLegacy || !bytes.Contains(whole, icons)) {
			return whole, false, nil
		}
	}
	result, err := mcp.ProjectResult(shapedAs(x), x.Revision, nil, s.Result.Of(whole))
	if err != nil {
		return nil, false, err
	}
	return wire.Splice(nil, whole, wire.Edit{Span: s.Result, With: result}), true, nil
}

// shapedAs is the method whose result a request's result has the shape of.
func shapedAs(x *north.Exchange) string {
	if x.Method.Name == mcp.TasksResult {
		return mcp.ToolsCall
	}
	return x.Method.Name
}

var icons = []byte(`"icons"`)

// upstreamError passes an upstream's own error on, with the few codes that an
// era forbids turned into the ones it has (checklist section 9, T57, T62).
func (g *Gateway) upstreamError(x *north.Exchange, v *server, m *member, t *catalog.Target, link *south.Link, s *wire.Answer, whole []byte, plan *wire.Plan) error {
	status := http.StatusOK
	code := fault.Code(s.ErrorCode)
	switch {
	case code == fault.HeaderMismatch, code == fault.UnsupportedVersion:
		return &staleError{code: code, era: link.Era}
	case code == fault.MissingCapability && link.Era == mcp.Modern && g.drives(x) && needsTask(s):
		return errNeedsTask
	case x.Era == mcp.Modern && code == fault.MethodNotFound:
		status = http.StatusNotFound
	case x.Era == mcp.Modern && code == fault.MissingCapability:
		status = http.StatusBadRequest
	case x.Era == mcp.Modern && code == fault.ResourceNotFound:
		return g.recode(x, s, whole, fault.InvalidParams)
	case x.Era == mcp.Legacy && code == fault.InvalidParams && x.Method.Name == mcp.ResourcesRead && link.Era == mcp.Modern && at(s.ErrorData.Of(whole), uriPath) != nil:
		return g.recode(x, s, whole, fault.ResourceNotFound)
	case x.Era == mcp.Modern && code == urlElicitation && link.Era == mcp.Modern:
		return fault.New(fault.InvalidAnswer, "upstream %q asks for an interaction at a URL in a way that its era does not have", m.key).
			WithHint("tell the upstream's owner")
	case code == urlElicitation:
		o := outbound{g: g, x: x, v: v, t: t, link: link, name: targetSpan(x)}
		if relayed, err := o.elicitURLs(s); !relayed {
			return err
		}
	case x.Era == mcp.Legacy && code == fault.MissingCapability:
		return failed(x, "upstream \""+m.key+"\" needs a capability that this client did not declare")
	}
	x.Trail.Foreign(int(code))
	if !s.ID.Ok() || string(s.ID.Of(whole)) == "null" {
		return x.Reply(status, []byte(`{"jsonrpc":"2.0","id":`), x.ID(), []byte(`,"error":`), s.Error.Of(whole), []byte(`}`))
	}
	out, err := plan.Apply(nil, whole)
	if err != nil {
		return invalid(m, err)
	}
	return x.Reply(status, out)
}

// urlElicitation is URLElicitationRequired of 2025-11-25.
const urlElicitation fault.Code = -32042

// recode relays an error of the upstream under the code of the client's era;
// a modern client also learns the URI (checklist 47).
func (g *Gateway) recode(x *north.Exchange, s *wire.Answer, whole []byte, code fault.Code) error {
	text, err := wire.String(s.ErrorMessage.Of(whole))
	if err != nil {
		text = "resource not found"
	}
	x.Trail.Foreign(int(code))
	e := fault.New(code, "%s", text)
	if uri := x.Msg.URI.Of(x.Msg.Raw); len(uri) > 0 {
		e = e.WithData(append(append([]byte(`{"uri":`), uri...), '}'))
	}
	return e
}

// failed ends a legacy client's call that cannot be completed, for which its era
// has no code (checklist 6.3, 7.5): as a failed tool, or as an error where there
// is no such thing.
func failed(x *north.Exchange, text string) error {
	if x.Method.Name != mcp.ToolsCall {
		return fault.New(fault.Internal, "%s", text)
	}
	x.Trail.Outcome = north.Failed
	result := append([]byte(`{"isError":true,"content":[{"type":"text","text":`), wire.AppendString(nil, text)...)
	return x.Result(append(result, `}]}`...))
}

var uriPath = []string{"uri"}
