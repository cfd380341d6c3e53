package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/penstock-mcp/penstock/internal/catalog"
	"github.com/penstock-mcp/penstock/internal/durable"
	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// submit begins a durable task (contract 1.2 for the order of what is checked here,
// 2.2 for the rest). The tool that it is for is judged, shown to the hooks and rated
// like that of a direct call.
func (c *metaCall) submit(ctx context.Context) error {
	g, x, v := c.g, c.x, c.v
	if x.Era != mcp.Modern || !g.declaresTasks(x) {
		return c.fail("TASK_CLIENT_CAPABILITY_REQUIRED")
	}
	if !g.durableThere(v) {
		return c.fail("TASK_DURABLE_ROUTE_UNAVAILABLE")
	}
	arguments, task := c.args["arguments"], c.args["task"]
	if len(arguments) == 0 || arguments[0] != '{' {
		return c.fail("TASK_ARGUMENTS_REQUIRED")
	}
	if len(task) == 0 {
		return c.fail("TASK_SUBMISSION_REQUIRED")
	}
	alias, ok := c.text("alias")
	if !ok {
		return c.fail("CAPABILITY_NOT_FOUND")
	}
	t, _, found, err := c.target(ctx, alias)
	if err != nil {
		return err
	}
	if !found {
		return c.fail("CAPABILITY_NOT_FOUND")
	}
	c.aimed(&t)
	if _, ok := g.durable.sources.Source(t.Upstream); !ok {
		return c.fail("TASK_UPSTREAM_UNSUPPORTED")
	}
	if err := x.Retarget(alias, arguments); err != nil {
		return err
	}
	if err := g.authorize(ctx, x, v, &t, alias); err != nil {
		return err
	}
	rewrote, err := g.before(ctx, x, v, &t)
	if err != nil {
		return err
	}
	if rewrote {
		return fault.New(fault.HookFailed, "a hook rewrote the arguments of a submission, which is bound to those that were sent").
			WithHint("nothing ran; tell the gateway's operator")
	}
	if err := g.admitUpstream(x, v.byKey[t.Upstream]); err != nil {
		return err
	}
	d, found, err := c.bound(ctx, &t, alias) // as it is now: the hooks took their time
	if err != nil {
		return err
	}
	if !found {
		return c.fail("CAPABILITY_NOT_FOUND")
	}
	lease, _ := c.text("leaseId")
	x.StayAlive()
	out, err := g.durable.Submit(ctx, &durable.Submit{
		Caller: c.who, Spelling: c.words, Target: d, LeaseID: lease, Arguments: x.Msg.Arguments.Of(x.Msg.Raw), Task: task,
	})
	x.Rest()
	if err != nil {
		return c.refused(err)
	}
	g.metrics.Task("submitted")
	return c.made(ctx, &t, out)
}

// durableThere reports whether some upstream of a virtual server may have durable
// tasks, as far as is known.
func (g *Gateway) durableThere(v *server) bool {
	for _, key := range v.meta.upstreams {
		if _, ok := g.durable.sources.Source(key); ok {
			return true
		}
	}
	return false
}

// made answers with the task that was made of a submission, as the hooks let it
// pass. One that they withhold is cancelled: nobody will ever ask for it.
func (c *metaCall) made(ctx context.Context, t *catalog.Target, result json.RawMessage) error {
	g, x, v := c.g, c.x, c.v
	whole, s, err := enclosed(x.ID(), result)
	if err != nil {
		return err
	}
	id, _ := wire.String(s.TaskID.Of(whole)) // ours, always there
	if whole, err = g.after(ctx, x, v, t, &s, whole, true); err != nil {
		if _, cerr := g.durable.Cancel(context.WithoutCancel(ctx), c.who, id); cerr != nil && !errors.Is(cerr, durable.ErrNoTask) {
			g.log.Warn("a durable task that nobody will hear of is not cancelled", "server", v.name, "task", id, "error", cerr)
		}
		g.metrics.Task("withheld")
		return err
	}
	plan := g.ownPlan(x, v, t.Upstream)
	out, err := plan.Apply(nil, whole)
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, out)
}

// enclosed is a result of the gateway's own as a message.
func enclosed(id, result []byte) ([]byte, wire.Answer, error) {
	b := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	b = append(append(append(b, `,"result":`...), result...), '}')
	var s wire.Answer
	err := wire.Scan(b, &s)
	return b, s, err
}
