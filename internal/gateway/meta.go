package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/penstock-mcp/penstock/config"
	"github.com/penstock-mcp/penstock/internal/catalog"
	"github.com/penstock-mcp/penstock/internal/durable"
	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/north"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// metaTools are the gateway's own tools on one virtual server: those of durable
// tasks (DESIGN section 10), where an upstream of it may have some.
//
// What an upstream or an alias calls by one of their names keeps it: the tool of
// the gateway is then neither listed nor called by it.
type metaTools struct {
	upstreams []string // that have durable
	// shadowed tells that something else may have one of the names: under namespaced
	// naming with its usual separator nothing has, but an alias.
	shadowed bool
}

// metaOf are the gateway's own tools on a virtual server, nil where there are none.
func (g *Gateway) metaOf(c *config.Server) *metaTools {
	if g.durable == nil {
		return nil
	}
	m := &metaTools{shadowed: c.Naming == config.NamingPrefixed || c.Naming == config.NamingPassthrough || c.Separator != "" && c.Separator != "__"}
	for _, key := range c.Upstreams {
		if g.doc.Upstreams[key].Durable != nil {
			m.upstreams = append(m.upstreams, key)
		}
	}
	if len(m.upstreams) == 0 {
		return nil
	}
	for name := range c.Aliases {
		if _, verb := durable.SpellingOfTool(name); verb != "" {
			m.shadowed = true
		}
	}
	return m
}

// metaCall is one call of such a tool.
type metaCall struct {
	g     *Gateway
	x     *north.Exchange
	v     *server
	words durable.Spelling
	verb  string
	id    string // as the client called it
	who   durable.Caller
	args  map[string]json.RawMessage
}

// metaCalled is the call of a tool of the gateway's own that a request is, or nil
// where the name is none, or not this caller's, or somebody else's.
func (g *Gateway) metaCalled(ctx context.Context, x *north.Exchange, v *server, id string) *metaCall {
	words, verb := durable.SpellingOfTool(id)
	if verb == "" || x.Method.Name != mcp.ToolsCall || !g.metaReached(x, v) || g.metaShadowed(ctx, x, v, id) {
		return nil
	}
	return &metaCall{g: g, x: x, v: v, words: words, verb: verb, id: id, who: g.durableCaller(x)}
}

// metaReached reports whether the caller could see anything of an upstream that has
// durable: to anybody else these tools do not exist.
func (g *Gateway) metaReached(x *north.Exchange, v *server) bool {
	who := g.sees(x, v)
	for _, key := range v.meta.upstreams {
		if who == nil || who.Reaches(key, mcp.Tools) {
			return true
		}
	}
	return false
}

// metaShadowed reports whether a name is that of a tool of an upstream's, or an alias.
func (g *Gateway) metaShadowed(ctx context.Context, x *north.Exchange, v *server, name string) bool {
	if !v.meta.shadowed {
		return false
	}
	t, err := v.catalog.Resolve(ctx, g.scope(x), mcp.Tools, name)
	return err == nil && t.Known || err != nil && t.Upstream != ""
}

// serve answers the call.
func (c *metaCall) serve(ctx context.Context) error {
	c.x.Trail.Kind, c.x.Trail.Name = "tool", c.id
	raw := c.x.Msg.Arguments.Of(c.x.Msg.Raw)
	if len(raw) == 0 {
		raw = []byte(`{}`)
	}
	if err := json.Unmarshal(raw, &c.args); err != nil || c.args == nil {
		return fault.New(fault.InvalidParams, "params.arguments is not an object")
	}
	switch c.verb {
	case "search":
		return c.search(ctx)
	case "describe":
		return c.describe(ctx)
	case "lease":
		return c.lease(ctx)
	case "invoke":
		return c.invoke(ctx)
	case "submit":
		return c.submit(ctx)
	case "release":
		return c.release(ctx)
	}
	return fault.New(fault.Internal, "the tool %q is not served", c.verb)
}

// text is a string argument; ok is false where it is missing or something else.
func (c *metaCall) text(name string) (s string, ok bool) {
	raw, there := c.args[name]
	if !there || len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	return s, json.Unmarshal(raw, &s) == nil
}

// answer is the call's result with structured content.
func (c *metaCall) answer(structured []byte) error { return c.result(structured, false) }

// fail is a tool's own error: a result with a code of the contract.
func (c *metaCall) fail(code string) error { return c.g.toolError(c.x, c.words.Code(code)) }

// refused answers with what the room of durable tasks refused, on the channel that
// the contract has for it.
func (c *metaCall) refused(err error) error {
	var r *durable.Refusal
	if errors.As(err, &r) && r.Channel == durable.ToolError {
		if r.Cause != nil {
			c.g.log.Warn("durable tasks", "code", r.Code, "error", r.Cause)
		}
		return c.g.toolError(c.x, r.Code)
	}
	return durableFault(c.x, err)
}

// durableFault is a refusal as an error of the protocol.
func durableFault(x *north.Exchange, err error) error {
	var r *durable.Refusal
	if !errors.As(err, &r) {
		return err
	}
	x.Trail.Detail = r.Code
	code := fault.InvalidParams
	if r.Channel == durable.Failure {
		code = fault.Internal
	}
	return fault.Wrap(r.Cause, code, "%s", r.Code)
}

// toolError is a result that says by a code what was refused.
func (g *Gateway) toolError(x *north.Exchange, code string) error {
	x.Trail.Outcome, x.Trail.Detail = north.Refused, code
	c := metaCall{g: g, x: x}
	return c.result(append(wire.AppendString([]byte(`{"code":`), code), '}'), true)
}

// result answers with structured content, and the same as text for clients that
// know nothing else.
func (c *metaCall) result(structured []byte, isError bool) error {
	b := append([]byte(`{"jsonrpc":"2.0","id":`), c.x.ID()...)
	b = append(b, `,"result":{"content":[{"type":"text","text":`...)
	b = wire.AppendString(b, string(structured))
	b = append(append(b, `}],"structuredContent":`...), structured...)
	if isError {
		b = append(b, `,"isError":true`...)
	}
	if c.x.Era == mcp.Modern {
		b = append(b, `,"resultType":"complete","_meta":{"`+mcp.MetaServerInfo+`":`...)
		b = append(append(b, c.g.self[mcp.LatestModern]...), '}')
	}
	b = append(b, `}}`...)
	var s wire.Answer
	if err := wire.Scan(b, &s); err != nil {
		return err
	}
	whole, _, err := project(c.x, &s, b)
	if err != nil {
		return err
	}
	return c.x.Reply(http.StatusOK, whole)
}

// target finds a tool by a name that the caller sees it under, and tells what it is
// to durable tasks. found is false for one that does not exist, is hidden, or is in
// no list.
func (c *metaCall) target(ctx context.Context, alias string) (t catalog.Target, d durable.Target, found bool, err error) {
	t, err = c.v.catalog.Resolve(ctx, c.g.scope(c.x), mcp.Tools, alias)
	if err != nil {
		if c.g.unresolved(c.x, c.v, &t, alias, err) == err && fault.From(err).Code == fault.UpstreamUnavailable {
			return t, d, false, err
		}
		return t, d, false, ctx.Err()
	}
	if !c.g.shows(c.v, c.g.scope(c.x), c.g.sees(c.x, c.v), &t) {
		return t, d, false, nil
	}
	d, found, err = c.bound(ctx, &t, alias)
	return t, d, found, err
}

// bound is a target as a lease and a binding name it.
func (c *metaCall) bound(ctx context.Context, t *catalog.Target, alias string) (d durable.Target, found bool, err error) {
	tool, capability, err := c.g.capabilityOf(ctx, c.v, c.g.scope(c.x), t, true)
	if err != nil || tool == nil {
		return d, false, err
	}
	return durable.Target{
		Alias: alias, Upstream: t.Upstream, Tool: t.ID, Server: c.v.name, Capability: capability, Effect: durable.EffectOf(tool),
	}, true, nil
}

// capabilityOf is a tool as its upstream describes it, and its identity: as the
// connection for durable tasks knows it, and else as its list has it. tool is nil
// where neither does. connect says that a connection is worth waiting for.
func (g *Gateway) capabilityOf(ctx context.Context, v *server, scope catalog.Scope, t *catalog.Target, connect bool) (tool json.RawMessage, c durable.Capability, err error) {
	doc := g.doc.Upstreams[t.Upstream]
	c = durable.Capability{Source: t.Upstream, Kind: "tool", NativeIdentity: durable.NativeIdentity(t.ID)}
	if g.durable != nil && doc.Durable != nil {
		if src := g.durable.sources.of(g, t.Upstream); src != nil {
			conn := src.live()
			if conn == nil && connect {
				within, cancel := context.WithTimeout(ctx, time.Duration(g.doc.Limits.ListTimeout))
				conn, _ = src.connect(within) // without one its list has to do
				cancel()
			}
			if conn != nil {
				tool, _ = conn.Tool(t.ID)
				c.Revision, c.Configuration = mcp.LatestModern.String(), conn.Configuration()
			}
		}
	}
	if tool == nil {
		tool = v.catalog.Raw(scope, t)
	}
	if tool == nil {
		return nil, c, ctx.Err()
	}
	if c.Revision == "" {
		if i := v.byKey[t.Upstream].south.Info(); i != nil {
			c.Revision = i.Revision.String()
		}
		if c.Configuration, err = configurationOf(doc); err != nil {
			return nil, c, err
		}
	}
	c.Schema, err = durable.SumJSON(tool)
	return tool, c, err
}
