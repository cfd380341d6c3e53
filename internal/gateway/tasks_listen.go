package gateway

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/penstock-mcp/penstock/internal/audit"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/north"
	"github.com/penstock-mcp/penstock/internal/task"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// followed begins to listen for those of the ids that are this caller's tasks, and
// returns them. Each is one look-up, whoever has it; nobody is asked for an id that
// is not known: it is not acknowledged (DESIGN section 9).
func (g *Gateway) followed(ctx context.Context, x *north.Exchange, ear *task.Ear, ids []string) (known []string, err error) {
	v := g.servers[x.Server]
	for _, id := range ids {
		if !task.ValidID(id) {
			continue
		}
		rec, foreign, err := g.tasks.Find(ctx, id, x.Principal.Key)
		switch {
		case errors.Is(err, task.ErrUnknown) && foreign:
			g.metrics.Task("foreign")
			continue
		case errors.Is(err, task.ErrUnknown):
			g.metrics.Task("unknown")
			continue
		case err != nil:
			return nil, err
		}
		m, err := g.ownerOf(v, rec)
		if err != nil {
			continue // there is nobody who could be heard or asked
		}
		if t := v.origin(rec, m); !g.shows(v, g.scope(x), g.sees(x, v), &t) {
			g.metrics.Task("denied")
			continue
		}
		ear.Add(task.FollowKey{
			Server: v.name, Upstream: rec.Upstream, Replica: rec.Replica, Principal: rec.Principal, As: callerOf(x),
		}, rec, id)
		known = append(known, id)
	}
	return known, nil
}

// tasks tells of the tasks that have changed.
func (t *teller) tasks(ctx context.Context) error {
	if t.ear == nil {
		return nil
	}
	for _, told := range t.ear.Take() {
		began := time.Now()
		g := t.follows.now.Load() // whose document holds now
		msg, err := g.taskChanged(ctx, t, &told)
		if err != nil {
			t.ear.Drop(told.ID)
			g.log.Debug("a task is not told of any more", "upstream", told.Key.Upstream, "error", err)
			g.recordTold(t.x, &told, began, 0, err)
			continue
		}
		if err := t.send(msg); err != nil {
			return err
		}
		g.metrics.Task("notified")
		g.recordTold(t.x, &told, began, len(msg), nil)
	}
	return nil
}

// errHidden ends what a caller hears of a task from a tool that is not theirs now.
var errHidden = errors.New("the tool that the task came from is not allowed any more")

// taskChanged is notifications/tasks as this client may see it: judged and shown to
// the hooks as the answer to tasks/get is.
func (g *Gateway) taskChanged(ctx context.Context, t *teller, told *task.Told) ([]byte, error) {
	v := g.servers[t.x.Server]
	if v == nil {
		return nil, errHidden
	}
	rec, _, err := g.tasks.Find(ctx, told.ID, told.Rec.Principal)
	if errors.Is(err, task.ErrUnknown) {
		return nil, err
	}
	if err != nil {
		rec = told.Rec // while the store is away, what it said last holds
	}
	m, err := g.ownerOf(v, rec)
	if err != nil {
		return nil, err
	}
	origin := v.origin(rec, m)
	if !g.shows(v, g.scope(t.x), g.sees(t.x, v), &origin) {
		g.metrics.Task("denied")
		return nil, errHidden
	}
	whole := append([]byte(`{"jsonrpc":"2.0","id":0,"result":`), told.State.Raw...)
	whole = append(whole, '}')
	var s wire.Answer
	if err := wire.Scan(whole, &s); err != nil {
		return nil, invalid(m, err)
	}
	g.tasks.Saw(rec, lifeOf(&s, mcp.Modern))
	if whole, err = g.inlined(ctx, t.x, v, m, &origin, &s, whole); err != nil {
		return nil, err
	}
	if m.mapURI != nil {
		plan := wire.Plan{MapURI: m.mapURI}
		if whole, err = plan.Apply(nil, whole); err != nil {
			return nil, invalid(m, err)
		}
		if err := wire.Scan(whole, &s); err != nil {
			return nil, invalid(m, err)
		}
	}
	tags := []wire.Member{{Name: mcp.MetaSubscriptionID, Value: t.tag}}
	if v.tag {
		tags = append(tags, wire.Member{Name: mcp.MetaOrigin, Value: m.origin})
	}
	params, err := detailed(bytes.TrimSpace(s.Result.Of(whole)), tags)
	if err != nil {
		return nil, invalid(m, err)
	}
	b := append(t.buf[:0], `{"jsonrpc":"2.0","method":"`+mcp.TasksChanged+`","params":`...)
	return append(append(b, params...), '}'), nil
}

// detailed is a result of tasks/get, or params of a notification, as params of one:
// without a type, and with the tags of this hop.
func detailed(raw []byte, tags []wire.Member) ([]byte, error) {
	all := wire.Span{Start: 0, End: len(raw)}
	var meta []byte
	if err := wire.Members(raw, func(n, v []byte) bool {
		if isMeta(n) {
			meta = v
		}
		return true
	}); err != nil {
		return nil, err
	}
	edits, err := wire.DropMembers(nil, raw, all, func(n []byte) bool { return isMeta(n) || isName(n, "resultType") })
	if err != nil {
		return nil, err
	}
	kept := wire.Splice(nil, raw, edits...)
	with := wire.InsertMembers(kept, wire.Span{Start: 0, End: len(kept)}, wire.Member{Name: "_meta", Value: retagged(meta, tags)})
	return wire.Splice(nil, kept, with), nil
}

// retagged is retag for tags that take the place of what the upstream says there.
func retagged(meta []byte, tags []wire.Member) []byte {
	if len(meta) == 0 || meta[0] != '{' {
		meta = []byte(`{}`)
	}
	kept := without(meta, func(n []byte) bool {
		return reserved(n) || slices.ContainsFunc(tags, func(t wire.Member) bool { return isName(n, t.Name) })
	})
	return wire.Splice(nil, kept, wire.InsertMembers(kept, wire.Span{Start: 0, End: len(kept)}, tags...))
}

// recordTold is the record of a task that a listener was told of, or is not any more.
func (g *Gateway) recordTold(x *north.Exchange, told *task.Told, began time.Time, size int, err error) {
	if g.audit.log == nil {
		return
	}
	e := audit.Event{
		Time: began, Duration: time.Since(began), Source: x.Trail.Source, Server: x.Server, Method: mcp.TasksChanged,
		Kind: "task", Name: told.ID, Original: told.Rec.Tool, Upstream: told.Key.Upstream,
		Outcome: north.OK, BytesOut: int64(size), RequestID: x.Trail.RequestID, TraceID: x.Trail.TraceID,
	}
	switch {
	case errors.Is(err, errHidden):
		e.Decision, e.Outcome, e.Detail = "hidden", north.Refused, err.Error()
	case err != nil:
		e.Outcome, e.Detail = north.Refused, "the listener is told no more of the task"
	case g.policy != nil:
		e.Decision = "allow"
	}
	if c := callerOf(x); c != nil {
		e.Issuer, e.Tenant, e.Subject, e.Credential = c.Issuer, c.Tenant, c.Subject, c.Credential
	}
	g.audit.log.Record(&e)
}
