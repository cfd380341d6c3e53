package gateway

import (
	"bytes"
	"context"
	"strings"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/north"
	"github.com/penstock-mcp/penstock/internal/south"
	"github.com/penstock-mcp/penstock/internal/store"
	"github.com/penstock-mcp/penstock/internal/task"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// bridge serves a task of a legacy upstream to a modern client: it speaks of it as the
// extension does, and asks as 2025-11-25 does (checklist 8.5, ML).
type bridge struct {
	g     *Gateway
	m     *member
	rec   *store.Task
	id    string
	link  *south.Link
	vigil *task.Vigil
	who   *caller
	trace string // traceparent of the client's request; ""
}

// sessionMark begins what a record says of the session that has its task: what that
// declares. Of one caller and upstream there is one session for each such set.
const sessionMark = "caps"

// taskKey is the key of the session that a task was made in, as far as its record says
// so; else that of the client's own.
func (g *Gateway) taskKey(v *server, x *north.Exchange, rec *store.Task) south.SessionKey {
	if caps, ok := strings.CutPrefix(rec.Session, sessionMark); ok {
		key := sessionKey(v, rec.Principal, "")
		key.Caps = caps
		return key
	}
	return g.southKey(v, x)
}

// bridgeOver makes a bridge over a link that leads to the task.
func (g *Gateway) bridgeOver(v *server, m *member, rec *store.Task, id string, link *south.Link, who *caller) *bridge {
	return &bridge{
		g: g, m: m, rec: rec, id: id, link: link, who: who,
		vigil: g.vigils.Of(task.VigilKey{Server: v.name, Hash: rec.Hash, Principal: rec.Principal}),
	}
}

// bridged serves a modern client's request about a task of a legacy upstream.
func (g *Gateway) bridged(ctx context.Context, x *north.Exchange, b *bridge) ([]byte, error) {
	span := leg(x, b.link, "")
	if x.Span != nil {
		b.trace = string(span.AppendTraceparent(nil))
	}
	whole, err := b.serve(ctx, x)
	land(span, err)
	return whole, err
}

// serve returns the answer as a modern upstream would give it.
func (b *bridge) serve(ctx context.Context, x *north.Exchange) ([]byte, error) {
	switch x.Method.Name {
	case mcp.TasksGet:
		return b.shared(ctx, x.Server, asker{caller: b.who})
	case mcp.TasksUpdate:
		b.g.flights.Close(b.rec.Hash)
		defer b.g.flights.Close(b.rec.Hash)
		return acknowledged, b.update(ctx, x)
	}
	b.g.flights.Close(b.rec.Hash)
	defer b.g.flights.Close(b.rec.Hash)
	return b.cancel(ctx)
}

var acknowledged = enveloped(`,"result":`, emptyObject)

// shared is detail, made once for all who ask at a time.
func (b *bridge) shared(ctx context.Context, server string, as any) ([]byte, error) {
	answer, _, err := b.g.flights.Do(ctx, task.FlightKey{
		Hash: b.rec.Hash, Principal: b.rec.Principal, Server: server, Method: mcp.TasksGet, Modern: true, As: as,
	}, func(ctx context.Context) (any, error) { return b.detail(ctx) })
	if err != nil {
		return nil, err
	}
	return answer.([]byte), nil
}

// ask sends one request about the task and returns its whole answer.
func (b *bridge) ask(ctx context.Context, method string) ([]byte, error) {
	r := b.g.ownTaskRequest(b.link, method, b.id)
	r.Traceparent, r.OnEvent = b.trace, b.m.stray
	began := time.Now()
	whole, err := sendWhole(ctx, b.link, r)
	b.g.metrics.UpstreamCall(b.m.key, method, callOutcome(err), time.Since(began))
	return whole, err
}

const (
	// askTime is how long tasks/get waits for the question of a task that needs input.
	askTime = time.Second
	// resultTime is how long it waits for a result that is on its way already.
	resultTime = 2 * time.Second
)

// detail is the answer to tasks/get as the extension has it: with what the task asks,
// or what came of it, inlined.
func (b *bridge) detail(ctx context.Context) ([]byte, error) {
	if ended := b.vigil.Ended(); ended != nil {
		return enveloped(`,"result":`, ended), nil
	}
	for again := false; ; again = true {
		whole, err := b.ask(ctx, mcp.TasksGet)
		if err != nil {
			return nil, err
		}
		var s wire.Answer
		if err := wire.Scan(whole, &s); err != nil {
			return nil, invalid(b.m, err)
		}
		if s.Error.Ok() {
			return b.vanished(whole, &s)
		}
		now := bytes.TrimSpace(s.Result.Of(whole))
		status, err := b.read(&s, now)
		if err != nil {
			return nil, err
		}
		switch status {
		case "working", "input_required":
			if !again && b.vigil.Came() != nil {
				continue // it has ended since
			}
			return b.running(ctx, now, status)
		case "completed", "failed":
			whole, over, err := b.final(ctx, now, status, again)
			if over || err != nil {
				return whole, err
			}
		case "cancelled":
			return b.end(now, status)
		default:
			return nil, fault.New(fault.InvalidAnswer, "upstream %q has a task of the unknown status %q", b.m.key, status).WithHint("tell the upstream's owner")
		}
	}
}

// read notes how the upstream says that the task stands.
func (b *bridge) read(s *wire.Answer, now []byte) (status string, err error) {
	if got, err := wire.String(s.TaskID.Of(s.Raw)); err != nil || got != b.id {
		return "", fault.New(fault.InvalidAnswer, "upstream %q answered for another task", b.m.key).WithHint("tell the upstream's owner")
	}
	if status, err = wire.String(at(now, statusPath)); err != nil {
		return "", invalid(b.m, err)
	}
	b.vigil.Saw(bytes.Clone(now), b.link.Standing())
	b.g.tasks.Saw(b.rec, lifeOf(s, mcp.Legacy))
	return status, nil
}

// running is a task that has not ended: with what it asks, or at work. What needs
// input and does not say which is at work for all that the client can do.
func (b *bridge) running(ctx context.Context, now []byte, status string) ([]byte, error) {
	if came := b.vigil.Came(); came != nil {
		var s wire.Answer
		if err := wire.Scan(came, &s); err == nil && s.Result.Ok() {
			return b.completed(now, &s)
		}
		b.vigil.Discard() // it answered before the task has ended
	}
	waits := status == "input_required"
	if waits || !b.link.Child() {
		b.watch()
	}
	asked := b.vigil.Requests(waits)
	if waits && asked == nil {
		within, cancel := context.WithTimeout(ctx, askTime)
		b.vigil.Asked(within)
		cancel()
		asked = b.vigil.Requests(waits)
	}
	if asked == nil {
		return b.told(now, "working")
	}
	return b.told(now, "input_required", wire.Member{Name: "inputRequests", Value: asked})
}

// final is a task that has ended, with what came of it. over is false where the
// upstream is to be asked for the task again: it may have forgotten it meanwhile.
func (b *bridge) final(ctx context.Context, now []byte, status string, again bool) (whole []byte, over bool, err error) {
	within, cancel := context.WithTimeout(ctx, resultTime)
	answer := b.vigil.Outcome(within)
	cancel()
	var s wire.Answer
	if answer == nil || wire.Scan(answer, &s) != nil || s.Error.Ok() {
		// An error that came while the task was at work may not be the task's.
		if answer, err = b.ask(ctx, mcp.TasksResult); err != nil {
			return nil, true, err
		}
		if err := wire.Scan(answer, &s); err != nil {
			return nil, true, invalid(b.m, err)
		}
	}
	if s.Result.Ok() {
		whole, err = b.completed(now, &s)
		return whole, true, err
	}
	if unknownThere(&s) && !again {
		b.vigil.Discard()
		return nil, false, nil
	}
	if status == "failed" {
		whole, err = b.end(now, status, wire.Member{Name: "error", Value: s.Error.Of(answer)})
		return whole, true, err
	}
	b.vigil.Discard()
	return answer, true, nil // it does not tell what came of the task
}

// unknownThere reports whether an error may say that an upstream does not know a task.
func unknownThere(s *wire.Answer) bool {
	code := fault.Code(s.ErrorCode)
	return code == fault.InvalidParams || code == fault.ResourceNotFound
}

// completed is a task with its result: also one of a tool that says it failed, for the
// extension keeps failures for errors of the protocol.
func (b *bridge) completed(now []byte, s *wire.Answer) ([]byte, error) {
	result, err := task.Completed(s.Result.Of(s.Raw))
	if err != nil {
		return nil, invalid(b.m, err)
	}
	return b.end(now, "completed", wire.Member{Name: "result", Value: result})
}

// end is told for a task that does not change any more.
func (b *bridge) end(now []byte, status string, more ...wire.Member) ([]byte, error) {
	state, err := task.Detailed(now, status, more...)
	if err != nil {
		return nil, invalid(b.m, err)
	}
	until := b.rec.Expires
	if until.IsZero() {
		until = time.Now().Add(endedFor)
	}
	b.vigil.End(state, until)
	return enveloped(`,"result":`, state), nil
}

// endedFor is how long the end of a task is remembered that is kept without an end.
const endedFor = time.Hour

func (b *bridge) told(now []byte, status string, more ...wire.Member) ([]byte, error) {
	state, err := task.Detailed(now, status, more...)
	if err != nil {
		return nil, invalid(b.m, err)
	}
	return enveloped(`,"result":`, state), nil
}

// vanished answers for a task that its upstream does not know, or does not tell of. One
// whose result came before is complete. One that went with its session has failed, and
// is told so once (checklist 8.5).
func (b *bridge) vanished(whole []byte, s *wire.Answer) ([]byte, error) {
	seen, standing := b.vigil.Seen()
	if !unknownThere(s) || seen == nil {
		return whole, nil
	}
	var r wire.Answer
	if came := b.vigil.Came(); came != nil && wire.Scan(came, &r) == nil && r.Result.Ok() {
		return b.completed(seen, &r)
	}
	b.g.vigils.Forget(b.vigil)
	if standing == b.link.Standing() {
		return whole, nil
	}
	failure := []byte(`{"code":-32603,"message":"the upstream lost the task with the session or the process that had it"}`)
	return b.told(seen, "failed", wire.Member{Name: "error", Value: failure})
}

// cancel cancels the task where the upstream lets that happen. One that has ended is
// acknowledged all the same, as the extension has it.
func (b *bridge) cancel(ctx context.Context) ([]byte, error) {
	if b.vigil.Ended() != nil || len(at(b.link.Capabilities(), cancelPath)) == 0 {
		return acknowledged, nil
	}
	whole, err := b.ask(ctx, mcp.TasksCancel)
	if err != nil {
		return nil, err
	}
	var s wire.Answer
	if err := wire.Scan(whole, &s); err != nil {
		return nil, invalid(b.m, err)
	}
	if !s.Error.Ok() {
		b.vigil.Quit()
		return acknowledged, nil
	}
	if !unknownThere(&s) {
		return whole, nil
	}
	look, err := b.ask(ctx, mcp.TasksGet)
	if err != nil {
		return nil, err
	}
	var now wire.Answer
	if err := wire.Scan(look, &now); err != nil {
		return nil, invalid(b.m, err)
	}
	if got, err := wire.String(now.TaskID.Of(look)); now.Error.Ok() || err != nil || got != b.id {
		return whole, nil
	}
	return acknowledged, nil
}

var cancelPath = []string{"tasks", "cancel"}
