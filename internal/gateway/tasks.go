package gateway

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/penstock-mcp/penstock/internal/catalog"
	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/limit"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/north"
	"github.com/penstock-mcp/penstock/internal/south"
	"github.com/penstock-mcp/penstock/internal/store"
	"github.com/penstock-mcp/penstock/internal/store/memory"
	"github.com/penstock-mcp/penstock/internal/task"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// tasking makes what remembers tasks; a successor goes on with the predecessor's.
func (g *Gateway) tasking(before *Gateway) error {
	var err error
	if g.ids, err = task.NewVault(g.keys.ring); err != nil {
		return err
	}
	if before != nil {
		g.tasks, g.flights, g.follows, g.vigils = before.tasks, before.flights, before.follows, before.vigils
	} else {
		records := g.storage.Tasks
		if records == nil {
			records = memory.NewTasks(g.doc.Tasks.Max, g.doc.Tasks.MaxPerPrincipal, time.Now)
		}
		g.tasks = task.New(task.Options{
			Store: records, Grace: time.Duration(g.doc.Tasks.Grace), UnlimitedTTL: time.Duration(g.doc.Tasks.UnlimitedTTL),
			Seal: g.ids.Seal, Log: g.log,
		})
		g.flights, g.follows = &task.Flights{}, &follows{Follows: task.NewFollows(g.log)}
		g.vigils = task.NewVigils(task.VigilOptions{Stir: g.follows.Stir})
		g.keeping = newEngine("tasks", g.log, g.tasks.Run)
	}
	if g.keeping == nil {
		g.keeping = before.keeping
	}
	searches := limit.New(limit.Options{PerPrincipal: limit.Rate(g.doc.Tasks.ProbeRate)})
	g.locator = task.NewLocator(task.LocatorOptions{
		Within: time.Duration(g.doc.Limits.ListTimeout), MissTTL: time.Duration(g.doc.Tasks.MissTTL),
		Admit: func(principal *[32]byte, now time.Time) (time.Duration, bool) {
			wait, scope := searches.Admit(principal, now)
			return wait, scope == ""
		},
	})
	return nil
}

// task serves tasks/get, tasks/update, tasks/result and tasks/cancel: to the upstream that minted
// the task, for whom it was minted, and in the upstream's own words.
func (g *Gateway) task(ctx context.Context, x *north.Exchange, v *server) error {
	m := &x.Msg
	if x.Era == mcp.Modern && !g.declaresTasks(x) {
		// Before the look-up: what is not declared tells nothing of ids (T72).
		return fault.New(fault.MissingCapability, "%s needs the extension %s, which this request does not declare", m.Method, mcp.ExtensionTasks).
			WithData([]byte(`{"requiredCapabilities":{"extensions":{"` + mcp.ExtensionTasks + `":{}}}}`))
	}
	if err := g.servesTasks(x, v); err != nil {
		return err
	}
	id, err := wire.String(m.TaskID.Of(m.Raw))
	if err != nil {
		return fault.New(fault.InvalidParams, "params.taskId is missing or not a string")
	}
	x.Trail.Kind, x.Trail.Name = "task", id
	if served, err := g.durableTask(ctx, x, v, id); served || err != nil {
		return err
	}
	rec, err := g.owned(ctx, x, v, id)
	if err != nil {
		return err
	}
	mem, err := g.ownerOf(v, rec)
	if err != nil {
		return err
	}
	t := v.origin(rec, mem)
	x.Trail.Upstream, x.Trail.Original = mem.key, rec.Tool
	if !g.shows(v, g.scope(x), g.sees(x, v), &t) {
		x.Trail.Decision, x.Trail.Detail = "hidden", "the tool that the task came from is not allowed any more"
		g.metrics.Task("denied")
		return unknownTask(x)
	}
	if g.policy != nil {
		x.Trail.Decision = "allow"
	}
	if err := g.admitUpstream(x, mem); err != nil {
		return err
	}
	if x.Method.Name == mcp.TasksResult {
		return g.awaitOwner(ctx, x, v, mem, rec, &t, id)
	}
	return g.askOwner(ctx, x, v, mem, rec, &t, id)
}

// unknownTask is the one answer for an id that nobody has, that somebody else has,
// and that may not be used any more (DESIGN section 9).
func unknownTask(x *north.Exchange) error {
	if x.Era == mcp.Legacy {
		return fault.New(fault.ResourceNotFound, "Task not found")
	}
	return fault.New(fault.InvalidParams, "Task not found")
}

// owned finds the record of an id, or looks for its owner.
func (g *Gateway) owned(ctx context.Context, x *north.Exchange, v *server, id string) (*store.Task, error) {
	if !task.ValidID(id) {
		return nil, unknownTask(x)
	}
	rec, known, err := g.tasks.Find(ctx, id, x.Principal.Key)
	if err == nil && !rec.Legacy && x.Era == mcp.Legacy {
		return nil, unknownTask(x) // there are no words for it in this client's dialect
	}
	if !errors.Is(err, task.ErrUnknown) {
		return rec, err
	}
	if known {
		g.metrics.Task("foreign")
		// The client learns nothing of it, the operator does.
		x.Trail.Decision, x.Trail.Detail = "hidden", "the task is not this caller's, or withheld from it"
	} else {
		g.metrics.Task("unknown")
	}
	return g.locate(ctx, x, v, id, known)
}

// ownerOf is the upstream of a record on this virtual server. One that is not
// configured any more is away, and not a task that does not exist.
func (g *Gateway) ownerOf(v *server, rec *store.Task) (*member, error) {
	if m := v.byKey[rec.Upstream]; m != nil {
		return m, nil
	}
	for _, m := range v.members {
		if slices.Contains(g.doc.Upstreams[m.key].Formerly, rec.Upstream) {
			return m, nil
		}
	}
	return nil, fault.New(fault.UpstreamUnavailable, "the upstream that has the task is not served here now").
		WithHint("the task is not lost; try again later")
}

// origin is the tool that a task came from, as policy judges it. What was located
// came from no tool that is known, and only rules for all tools of its upstream are
// about it.
func (v *server) origin(rec *store.Task, m *member) catalog.Target {
	t := v.catalog.ToolOf(m.key, rec.Tool)
	if rec.Exposed != "" && !slices.Contains(t.Names, rec.Exposed) {
		t.Names = append(slices.Clone(t.Names), rec.Exposed)
	}
	return t
}

// reach is the way to the owner of a task.
func (g *Gateway) reach(ctx context.Context, x *north.Exchange, v *server, m *member, rec *store.Task) (*south.Link, error) {
	u := m.at(rec.Replica)
	if u == nil {
		return nil, fault.New(fault.UpstreamUnavailable, "the replica of upstream %q that has the task is not configured any more", m.key).
			WithHint("the task is not lost; tell the gateway's operator")
	}
	link, err := u.Link(ctx, g.taskKey(v, x, rec))
	if err != nil {
		return nil, err
	}
	if (link.Era == mcp.Legacy) != rec.Legacy {
		return nil, fault.New(fault.UpstreamUnavailable, "upstream %q speaks another revision than when it made the task", m.key).
			WithHint("the task cannot be asked about now")
	}
	return link, nil
}

// askOwner sends a request about a task to its owner and answers with what that
// says. Concurrent identical polls are one call.
func (g *Gateway) askOwner(ctx context.Context, x *north.Exchange, v *server, m *member, rec *store.Task, t *catalog.Target, id string) error {
	link, err := g.reach(ctx, x, v, m, rec)
	if err != nil {
		return err
	}
	if x.Era == mcp.Modern && rec.Legacy {
		whole, err := g.bridged(ctx, x, g.bridgeOver(v, m, rec, id, link, callerOf(x)))
		if err != nil {
			return err
		}
		return g.answerTask(ctx, x, v, m, rec, t, link, whole)
	}
	aimed := *t
	aimed.ID, aimed.Exposed, aimed.Params = id, id, nil
	buf := getBuffer()
	defer putBuffer(buf)
	o := outbounds.Get().(*outbound)
	defer o.free()
	o.g, o.x, o.v, o.t, o.link, o.name, o.tasks = g, x, v, &aimed, link, x.Msg.TaskID, true
	span := leg(x, link, "")
	if x.Span != nil {
		o.trace = span.AppendTraceparent(nil)
	}
	if err := o.build((*buf)[:0]); err != nil {
		return err
	}
	*buf = o.body
	r := south.Request{
		Method: x.Method.Name, ID: o.id, Body: o.body, Safe: x.Method.Safe, Traceparent: string(o.trace), OnEvent: m.stray, Beside: true,
	}
	if link.Era == mcp.Modern {
		r.Name = mcp.EncodeHeader(id)
	}
	method := x.Method.Name
	send := func(ctx context.Context) (any, error) {
		began := time.Now()
		whole, err := sendWhole(ctx, link, &r)
		g.metrics.UpstreamCall(m.key, method, callOutcome(err), time.Since(began))
		land(span, err)
		return whole, err
	}
	asking := asker{caller: callerOf(x)}
	if x.Session != nil {
		asking.session = x.Session.ID // an upstream may tie a task to the session
	}
	var answer any
	if method == mcp.TasksGet {
		answer, _, err = g.flights.Do(ctx, task.FlightKey{
			Hash: rec.Hash, Principal: rec.Principal, Server: v.name, Method: method, Modern: x.Era == mcp.Modern, As: asking,
		}, send)
	} else {
		g.flights.Close(rec.Hash)
		answer, err = send(ctx)
		g.flights.Close(rec.Hash)
	}
	if err != nil {
		return err
	}
	return g.answerTask(ctx, x, v, m, rec, t, link, answer.([]byte))
}

// asker is for whom alone an upstream answers a poll.
type asker struct {
	caller  *caller
	session string
}

// sendWhole sends a request and holds its whole answer, in memory of its own.
func sendWhole(ctx context.Context, link *south.Link, r *south.Request) ([]byte, error) {
	a, err := link.Send(ctx, r)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	whole, err := hold(a)
	if err != nil {
		return nil, err
	}
	return bytes.Clone(whole), nil
}

// answerTask answers a request about a task with its owner's own answer. whole is
// shared with others who asked the same.
func (g *Gateway) answerTask(ctx context.Context, x *north.Exchange, v *server, m *member, rec *store.Task, t *catalog.Target, link *south.Link, whole []byte) error {
	var s wire.Answer
	if err := wire.Scan(whole, &s); err != nil {
		return invalid(m, err)
	}
	plan := g.plan(x, v, m, link)
	if x.Era == mcp.Modern {
		// What is said of a task is complete, and asks for no retry (checklist 66, 76).
		plan.Drop = append(plan.Drop, "requestState")
		if s.ResultType.Ok() && !isFinal(&s) {
			plan.Set, plan.Default = append(plan.Set, complete...), nil
		}
	}
	if s.Error.Ok() {
		return g.taskError(x, v, m, t, link, &s, whole, &plan)
	}
	if err := ofTask(x, m, &s, whole); err != nil {
		return err
	}
	g.tasks.Saw(rec, lifeOf(&s, x.Era)) // in whose dialect it is by now
	if x.Method.Name == mcp.TasksGet && x.Era == mcp.Modern {
		var err error
		if whole, err = g.inlined(ctx, x, v, m, t, &s, whole); err != nil {
			return err
		}
	}
	out, err := plan.Apply(nil, whole)
	if err != nil {
		return invalid(m, err)
	}
	return x.Reply(http.StatusOK, out)
}

// ofTask refuses an answer about another task than was asked about.
func ofTask(x *north.Exchange, m *member, s *wire.Answer, whole []byte) error {
	if !s.TaskID.Ok() {
		if x.Method.Name != mcp.TasksGet {
			return nil // an acknowledgement
		}
		return fault.New(fault.InvalidAnswer, "upstream %q answered tasks/get without a task", m.key).WithHint("tell the upstream's owner")
	}
	asked, aerr := wire.String(x.Msg.TaskID.Of(x.Msg.Raw))
	got, gerr := wire.String(s.TaskID.Of(whole))
	if aerr != nil || gerr != nil || asked != got {
		return fault.New(fault.InvalidAnswer, "upstream %q answered for another task", m.key).WithHint("tell the upstream's owner")
	}
	return nil
}

// taskError passes an owner's own error on.
func (g *Gateway) taskError(x *north.Exchange, v *server, m *member, t *catalog.Target, link *south.Link, s *wire.Answer, whole []byte, plan *wire.Plan) error {
	return misaddressed(m, g.upstreamError(x, v, m, t, link, s, whole, plan))
}

// inlined is a poll's answer with the result of the tool within it as the tool's
// own answer would have it: shown to the hooks, and with its identifiers mapped.
func (g *Gateway) inlined(ctx context.Context, x *north.Exchange, v *server, m *member, t *catalog.Target, s *wire.Answer, whole []byte) ([]byte, error) {
	outer := s.Result.Of(whole)
	var where wire.Span
	if err := wire.MemberSpans(outer, func(name []byte, at wire.Span) bool {
		if isName(name, "result") {
			where = at
		}
		return true
	}); err != nil {
		return nil, invalid(m, err)
	}
	inner := where.Of(outer)
	if len(inner) == 0 || string(inner) == "null" {
		return whole, nil
	}
	if inner[0] != '{' {
		return nil, fault.New(fault.InvalidAnswer, "upstream %q answered with a task whose result is no object", m.key).
			WithHint("tell the upstream's owner")
	}
	msg := append([]byte(`{"jsonrpc":"2.0","id":0,"result":`), inner...)
	msg = append(msg, '}')
	var is wire.Answer
	if err := wire.Scan(msg, &is); err != nil {
		return nil, invalid(m, err)
	}
	// Whatever type it claims to be of, it leaves as the result of the tool.
	msg, err := g.after(ctx, x, v, t, &is, msg, true)
	if err != nil {
		return nil, err
	}
	if m.mapURI != nil {
		plan := wire.Plan{MapURI: m.mapURI}
		mapped, err := plan.Apply(nil, msg)
		if err != nil {
			return nil, invalid(m, err)
		}
		if msg = mapped; wire.Scan(msg, &is) != nil {
			return nil, invalid(m, nil)
		}
	}
	now := is.Result.Of(msg)
	if bytes.Equal(now, inner) {
		return whole, nil
	}
	start := s.Result.Start + where.Start
	out := wire.Splice(nil, whole, wire.Edit{Span: wire.Span{Start: start, End: start + len(inner)}, With: now})
	if err := wire.Scan(out, s); err != nil {
		return nil, invalid(m, err)
	}
	return out, nil
}
