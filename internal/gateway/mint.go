package gateway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/penstock-mcp/penstock/config"
	"github.com/penstock-mcp/penstock/internal/catalog"
	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/north"
	"github.com/penstock-mcp/penstock/internal/south"
	"github.com/penstock-mcp/penstock/internal/store"
	"github.com/penstock-mcp/penstock/internal/task"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// declaresTasks reports whether a modern request declares the tasks extension.
func (g *Gateway) declaresTasks(x *north.Exchange) bool {
	raw := x.Msg.MetaCaps.Of(x.Msg.Raw)
	return len(g.caps.filter(raw)) != len(raw)
}

// speaksTasks reports whether what an upstream declared has the tasks extension.
func speaksTasks(caps []byte) bool { return len(at(caps, tasksPath)) > 0 }

var tasksPath = []string{"extensions", mcp.ExtensionTasks}

// offerTasks makes room for the task that a call may mint, and has the extension
// declared to the upstream where there is some (DESIGN section 9). Without it the
// upstream answers at once, or says what it needs. A legacy client asks for a task
// by itself, and gets no other answer than one.
func (o *outbound) offerTasks(ctx context.Context, m *member) (*task.Slot, error) {
	if o.x.Method.Name != mcp.ToolsCall {
		return nil, nil
	}
	var wanted bool
	var err error
	switch {
	case o.x.Era == mcp.Modern && o.link.Era == mcp.Legacy:
		wanted, err = o.wantsTask(ctx, m)
	case o.x.Era == mcp.Modern:
		wanted = o.g.declaresTasks(o.x) && m.minting(o.link)
	case o.link.Era == mcp.Legacy:
		wanted, err = o.asksForTask(m)
	}
	if !wanted || err != nil {
		return nil, err
	}
	slot, err := o.g.tasks.Reserve(ctx, o.x.Principal.Key, o.g.taskLimits())
	if err != nil {
		o.g.metrics.Task("not_offered")
		if o.x.Era == mcp.Legacy || o.link.Era == mcp.Legacy && o.t.Tasks == catalog.TaskRequired {
			return nil, noRoom(err, "no more tasks can be remembered now").WithHint("nothing ran; try again later, or call without a task")
		}
		o.withheld = errors.Is(err, task.ErrNoStore)
		return nil, nil
	}
	o.tasks = true
	return slot, nil
}

// noRoom is the error for a task that is not offered, about a bound or the store.
func noRoom(err error, bound string, args ...any) *fault.Error {
	if errors.Is(err, task.ErrNoStore) {
		return fault.Wrap(err, fault.StoreUnavailable, "who owns a task cannot be stored now")
	}
	return fault.Wrap(err, fault.AtCapacity, bound, args...)
}

func (g *Gateway) taskLimits() task.Limits {
	return task.Limits{All: g.doc.Tasks.Max, PerPrincipal: g.doc.Tasks.MaxPerPrincipal}
}

// minting reports whether a link's upstream speaks tasks, and remembers it for as
// long as nothing else is known of the upstream.
func (m *member) minting(l *south.Link) bool {
	caps := l.Capabilities()
	if known := m.tasked.Load(); known != nil && known.revision == l.Revision && bytes.Equal(known.caps, caps) {
		return known.speaks
	}
	known := &taskedCaps{caps: caps, revision: l.Revision}
	if l.Era == mcp.Modern {
		known.speaks = speaksTasks(caps)
	} else {
		known.speaks = l.Revision == mcp.V20251125 && speaksLegacyTasks(caps)
	}
	m.tasked.Store(known)
	return known.speaks
}

// taskedCaps is what a capability set says of tasks.
type taskedCaps struct {
	caps     []byte
	revision mcp.Revision
	speaks   bool
}

// making is what a result says of the task that was made of its call.
type making struct {
	id   []byte // raw; nil: it does not say
	call []byte // raw id of the call
	life task.Life
	poll time.Duration // of the extension: how long nobody is to ask
}

// madeOf tells the task that a result is, in the dialect of its upstream's era: the
// extension's flat one, or the nested one of 2025-11-25. Where none was offered
// there is none.
func madeOf(s *wire.Answer, era mcp.Era, offered offering) (m making, made bool) {
	if !offered.made() {
		return m, false
	}
	if era == mcp.Legacy {
		t := s.Task.Of(s.Raw)
		if len(t) == 0 || t[0] != '{' {
			return m, false
		}
		return making{id: at(t, taskIDPath), call: s.ID.Of(s.Raw), life: lifeIn(t, at(t, ttlPath))}, true
	}
	if !s.ResultType.Ok() {
		return m, false
	}
	if kind, err := wire.String(s.ResultType.Of(s.Raw)); err != nil || kind != "task" {
		return m, false
	}
	return making{id: s.TaskID.Of(s.Raw), life: lifeOf(s, era), poll: pollOf(s.Result.Of(s.Raw))}, true
}

var (
	taskIDPath = []string{"taskId"}
	ttlPath    = []string{"ttl"}
)

// minted answers a call with the task that its upstream made of it: who owns it is
// committed before hooks and before a byte leaves (step 9 of a request's way).
func (g *Gateway) minted(ctx context.Context, x *north.Exchange, v *server, m *member, t *catalog.Target, link *south.Link, s *wire.Answer, made making, whole []byte, plan *wire.Plan) error {
	stored, id, err := g.mint(ctx, x, v, m, t, link, made)
	if err != nil {
		return err
	}
	plan.Default = nil
	plan.Drop = append(plan.Drop[:len(plan.Drop):len(plan.Drop)], asking...)
	if x.Era == mcp.Modern && link.Era == mcp.Legacy {
		whole, err = g.bridgeOver(v, m, stored, id, link, callerOf(x)).adopt(ctx, s, whole)
		plan.Drop = asking
	}
	var shown []byte
	if err == nil {
		shown, err = g.after(ctx, x, v, t, s, whole, true)
	}
	if err == nil && !sameTask(s, x.Era, id) {
		err = g.withheld(x, fault.New(fault.HookFailed, "a hook made another task of the result"))
	}
	if err != nil {
		g.cancelQuietly(ctx, x, v, m, link, id)
		if merr := g.tasks.Mark(context.WithoutCancel(ctx), stored, store.TaskWithheld); merr != nil {
			g.log.Warn("a withheld task is not marked", "upstream", m.key, "error", merr)
		}
		g.metrics.Task("withheld")
		return err
	}
	out, err := plan.Apply(nil, shown)
	if err != nil {
		return invalid(m, err)
	}
	return x.Reply(http.StatusOK, out)
}

// mint commits who owns the task that was made of a call. Where it cannot, the task
// is cancelled and the error says that the tool ran.
func (g *Gateway) mint(ctx context.Context, x *north.Exchange, v *server, m *member, t *catalog.Target, link *south.Link, made making) (stored *store.Task, id string, err error) {
	if id, err = wire.String(made.id); err != nil || !task.ValidID(id) {
		g.metrics.Task("invalid")
		return nil, "", fault.New(fault.InvalidAnswer, "upstream %q made a task of the call and did not say which", m.key).
			WithHint("the tool runs; tell the upstream's owner")
	}
	rec := &store.Task{
		Principal: x.Principal.Key, Server: v.name, Upstream: m.key, Tool: t.ID, Exposed: t.Exposed,
		Legacy: link.Era == mcp.Legacy, Replica: m.replicaOf(link.Upstream),
	}
	if link.Child() {
		rec.Instance = g.storage.Instance
	}
	if x.Era == mcp.Modern && link.Era == mcp.Legacy {
		rec.Session = sessionMark + link.Caps()
	}
	stored, err = g.tasks.Mint(ctx, id, rec, made.life)
	var collision *task.CollisionError
	if errors.As(err, &collision) {
		stored, err = g.collided(ctx, x, v, m, id, rec, made.life, collision.Owner)
	}
	if err != nil {
		return nil, "", g.unminted(ctx, x, v, m, link, id, err)
	}
	if link.Era == mcp.Legacy && x.Session != nil && x.Msg.ProgressToken.Ok() {
		g.tokens.keep(tokenKey{m.key, x.Session.ID, string(made.call)}, x.Msg.ProgressToken.Of(x.Msg.Raw))
	}
	g.metrics.Task("minted")
	x.Trail.Detail = "task minted"
	return stored, id, nil
}

// sameTask reports whether a result is still the task of that id.
func sameTask(s *wire.Answer, era mcp.Era, id string) bool {
	made, ok := madeOf(s, era, forIt)
	now, err := wire.String(made.id)
	return ok && err == nil && now == id
}

// collided deals with an id that this principal already has at another upstream:
// that one is asked once, and gives way when it knows the task no more. An upstream
// under a former key is no other.
func (g *Gateway) collided(ctx context.Context, x *north.Exchange, v *server, m *member, id string, rec *store.Task, life task.Life, owner *store.Task) (*store.Task, error) {
	verdict := task.NoAnswer
	if o, err := g.ownerOf(v, owner); err == nil {
		if o == m {
			return g.tasks.Supplant(ctx, id, rec, life, owner)
		}
		verdict = g.claims(ctx, v, o, owner.Replica, g.taskKey(v, x, owner), id)
	}
	g.metrics.Task("collision")
	if verdict != task.NotMine {
		return nil, fault.New(fault.TaskAmbiguous, "the id of the task is one that you already have at another upstream").
			WithHint("the tool ran, and its task was cancelled; wait until the other task has passed")
	}
	return g.tasks.Supplant(ctx, id, rec, life, owner)
}

// unminted answers for a task that nobody could find again: it is cancelled where
// it was made.
func (g *Gateway) unminted(ctx context.Context, x *north.Exchange, v *server, m *member, link *south.Link, id string, err error) error {
	g.cancelQuietly(ctx, x, v, m, link, id)
	g.metrics.Task("refused")
	x.Trail.Detail = "task refused"
	var f *fault.Error
	switch {
	case errors.As(err, &f):
		return f
	case errors.Is(err, store.ErrFullFor), errors.Is(err, store.ErrFull):
		return fault.Wrap(err, fault.AtCapacity, "no more tasks can be remembered").
			WithHint("the tool ran, and its task was cancelled; try again when others have passed")
	}
	return fault.Wrap(err, fault.StoreUnavailable, "who owns the task cannot be stored now").
		WithHint("the tool ran, and its task was cancelled; try again later")
}

// quietTime bounds a request that nobody waits for.
const quietTime = 10 * time.Second

// cancelQuietly cancels a task that its client will never hear of.
func (g *Gateway) cancelQuietly(ctx context.Context, x *north.Exchange, v *server, m *member, link *south.Link, id string) {
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), quietTime)
	defer cancel()
	a, err := link.Send(within, g.ownTaskRequest(link, mcp.TasksCancel, id))
	if err != nil {
		g.log.Warn("a task that nobody will hear of is not cancelled", "server", v.name, "upstream", m.key, "error", err)
		return
	}
	a.Close()
}

// ownTaskRequest is a request about a task that the gateway makes by itself.
func (g *Gateway) ownTaskRequest(link *south.Link, method, id string) *south.Request {
	return g.ownTaskMessage(link, method, id, nil)
}

// ownTaskMessage is ownTaskRequest with further members of params, raw and each
// behind a comma.
func (g *Gateway) ownTaskMessage(link *south.Link, method, id string, more []byte) *south.Request {
	rid := link.NextID(nil)
	b := append([]byte(`{"jsonrpc":"2.0","id":`), rid...)
	b = append(append(b, `,"method":"`...), method...)
	b = append(b, `","params":{"taskId":`...)
	b = append(wire.AppendString(b, id), more...)
	if link.Era == mcp.Modern {
		b = append(b, `,"_meta":{"`+mcp.MetaProtocolVersion+`":"`...)
		b = append(b, mcp.LatestModern.String()...)
		b = append(b, `","`+mcp.MetaClientInfo+`":`...)
		b = append(b, g.self[mcp.LatestModern]...)
		b = append(b, `,"`+mcp.MetaClientCapabilities+`":{"extensions":{"`+mcp.ExtensionTasks+`":{}}}}`...)
	}
	b = append(b, `}}`...)
	r := &south.Request{Method: method, ID: rid, Body: b, Safe: method == mcp.TasksGet, Beside: true}
	if link.Era == mcp.Modern {
		r.Name = mcp.EncodeHeader(id)
	}
	return r
}

// lifeOf is what a result says of its task's lifetime, in the dialect of its
// upstream's era.
func lifeOf(s *wire.Answer, era mcp.Era) task.Life {
	result := s.Result.Of(s.Raw)
	if era == mcp.Legacy {
		return lifeIn(result, at(result, ttlPath))
	}
	return lifeIn(result, s.TTL.Of(s.Raw))
}

func lifeIn(result, ttl []byte) task.Life {
	var l task.Life
	switch {
	case len(ttl) == 0:
		return l
	case string(ttl) == "null":
		l.Known, l.Unlimited = true, true
	default:
		ms, err := strconv.ParseFloat(string(ttl), 64)
		if err != nil || ms != ms {
			return l
		}
		l.Known = true
		if ms >= float64(maxLife.Milliseconds()) {
			l.Unlimited = true
		} else {
			l.TTL = time.Duration(max(ms, 0)) * time.Millisecond
		}
	}
	if created, err := wire.String(at(result, createdPath)); err == nil {
		if when, err := time.Parse(time.RFC3339Nano, created); err == nil {
			l.Created = when
		}
	}
	return l
}

// maxLife is the longest ttl that is taken for one.
const maxLife = 10 * 365 * 24 * time.Hour

var createdPath = []string{"createdAt"}

// replicaOf is the digest of the address that a task is bound to, and zero where
// an upstream has only one.
func (m *member) replicaOf(u *south.Upstream) [32]byte {
	r, ok := m.south.(*south.Replicas)
	if !ok {
		return [32]byte{}
	}
	for i := range r.Width() {
		if r.At(i) == u {
			return m.addresses[i]
		}
	}
	return [32]byte{}
}

// at is where a task of a replica is reached; nil when there is no such address
// any more.
func (m *member) at(replica [32]byte) linker {
	r, ok := m.south.(*south.Replicas)
	if !ok || replica == [32]byte{} {
		return m.south
	}
	for i, d := range m.addresses {
		if d == replica {
			return r.At(i)
		}
	}
	return nil
}

// linker is an upstream, or one replica of it.
type linker interface {
	Info() *south.Info
	WatchFor(ctx context.Context, key south.SessionKey, sink south.Sink) *south.Watch
	Link(ctx context.Context, key south.SessionKey) (*south.Link, error)
}

// addressDigests are what the replicas of an upstream are known by in records.
func addressDigests(c *config.Upstream) [][32]byte {
	var out [][32]byte
	for _, address := range c.URLs {
		out = append(out, sha256.Sum256([]byte(address)))
	}
	return out
}
