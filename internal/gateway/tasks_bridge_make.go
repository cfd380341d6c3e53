package gateway

import (
	"bytes"
	"context"
	"strconv"
	"time"

	"github.com/penstock-mcp/penstock/internal/catalog"
	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/north"
	"github.com/penstock-mcp/penstock/internal/south"
	"github.com/penstock-mcp/penstock/internal/task"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// wantsTask reports whether a modern client's call at a legacy upstream is to be made a
// task: the client has to declare tasks, and the tool to allow them. A tool that runs
// as a task alone is driven for any other client where the document wants that, and
// not called where it does not (checklist 8.5, ML).
func (o *outbound) wantsTask(ctx context.Context, m *member) (bool, error) {
	if !m.minting(o.link) {
		return false, nil
	}
	declared := o.g.declaresTasks(o.x)
	switch o.g.runsAsTask(ctx, o.x, o.v, o.t) {
	case catalog.TaskRequired:
		if !declared && !o.g.drives(o.x) {
			return false, fault.New(fault.MissingCapability, "upstream %q runs this call as a task only, and this request does not declare %s", o.t.Upstream, mcp.ExtensionTasks).
				WithData([]byte(`{"requiredCapabilities":{"extensions":{"` + mcp.ExtensionTasks + `":{}}}}`))
		}
		o.driven = !declared
		return true, nil
	case catalog.TaskOptional:
		return declared && o.g.doc.Tasks.Optional == "task", nil
	}
	return false, nil
}

// drivesHere reports whether a modern client's call at a legacy upstream is one that
// wantsTask has driven. Its client cannot be asked within it, and so the upstream is
// told.
func (g *Gateway) drivesHere(ctx context.Context, x *north.Exchange, v *server, m *member, t *catalog.Target, link *south.Link) bool {
	return x.Era == mcp.Modern && link.Era == mcp.Legacy && g.drives(x) && !g.declaresTasks(x) && m.minting(link) &&
		g.runsAsTask(ctx, x, v, t) == catalog.TaskRequired
}

// runsAsTask is what a tool says of tasks, which is in its list only.
func (g *Gateway) runsAsTask(ctx context.Context, x *north.Exchange, v *server, t *catalog.Target) string {
	if t.Known || t.Tasks != "" {
		return t.Tasks
	}
	if err := v.catalog.Refresh(ctx, g.scope(x), t.Kind, t.Upstream); err != nil {
		return ""
	}
	now, err := v.catalog.Resolve(ctx, g.scope(x), t.Kind, t.Exposed)
	if err == nil && now.Upstream == t.Upstream && now.ID == t.ID {
		t.Tasks = now.Tasks
	}
	return t.Tasks
}

// taskWish is params.task as a legacy upstream gets it for a modern client, which has no
// say in it.
func (g *Gateway) taskWish() []byte {
	if g.doc.Tasks.TTL <= 0 {
		return emptyObject
	}
	b := strconv.AppendInt([]byte(`{"ttl":`), time.Duration(g.doc.Tasks.TTL).Milliseconds(), 10)
	return append(b, '}')
}

const (
	// Until a new task can be looked up it is looked for so often, and so long apart.
	confirmTries = 4
	confirmWait  = 150 * time.Millisecond
)

// adopt is the answer that makes a task, as the extension has it: not before the task
// can be looked up (checklist 67).
func (b *bridge) adopt(ctx context.Context, s *wire.Answer, whole []byte) ([]byte, error) {
	if err := b.confirm(ctx); err != nil {
		return nil, err
	}
	state, err := task.Created(s.Result.Of(whole))
	if err != nil {
		return nil, invalid(b.m, err)
	}
	out := enveloped(`,"result":`, state)
	if err := wire.Scan(out, s); err != nil {
		return nil, invalid(b.m, err)
	}
	b.vigil.Saw(bytes.Clone(at(whole, createdTaskPath)), b.link.Standing())
	if !b.link.Child() {
		b.watch()
	}
	return out, nil
}

var createdTaskPath = []string{"result", "task"}

// confirm looks a new task up. Of one that cannot be asked about now, the id is worth
// more to the client than an error: it may be asked about later.
func (b *bridge) confirm(ctx context.Context) error {
	for try := 1; ; try++ {
		whole, err := b.ask(ctx, mcp.TasksGet)
		if err != nil {
			return nil //nolint:nilerr // as said
		}
		var s wire.Answer
		if err := wire.Scan(whole, &s); err != nil {
			return invalid(b.m, err)
		}
		if !s.Error.Ok() {
			_, err := b.read(&s, bytes.TrimSpace(s.Result.Of(whole)))
			return err
		}
		if !unknownThere(&s) || try == confirmTries {
			break
		}
		select {
		case <-time.After(confirmWait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return fault.New(fault.InvalidAnswer, "upstream %q made a task of the call, and does not know it", b.m.key).
		WithHint("the tool ran; tell the upstream's owner")
}
