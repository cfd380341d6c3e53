package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/penstock-mcp/penstock/internal/catalog"
	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/south"
	"github.com/penstock-mcp/penstock/internal/store"
	"github.com/penstock-mcp/penstock/internal/task"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// follows is where listeners hear of tasks, and whose document holds for them. It
// is shared with predecessor and successor.
type follows struct {
	*task.Follows
	now atomic.Pointer[Gateway]
}

// rebind has tasks followed under the document of another gateway.
func (f *follows) rebind(g *Gateway) {
	f.now.Store(g)
	f.Rebind(owners{g})
}

// owners are the upstreams of one gateway, as those who follow their tasks need
// them.
type owners struct{ g *Gateway }

var (
	_ task.Owners    = owners{}
	_ south.TaskSink = (*task.Follow)(nil)
)

// at is the virtual server and the upstream of a key, and the way to it.
func (o owners) at(k task.FollowKey, rec *store.Task) (*server, *member, linker, error) {
	v := o.g.servers[k.Server]
	if v == nil {
		return nil, nil, nil, fmt.Errorf("there is no virtual server %q: %w", k.Server, task.ErrGone)
	}
	m, err := o.g.ownerOf(v, rec)
	if err != nil {
		return v, nil, nil, err
	}
	u := m.at(k.Replica)
	if u == nil {
		return v, m, nil, fault.New(fault.UpstreamUnavailable, "the replica of upstream %q that has the task is not configured any more", m.key)
	}
	return v, m, u, nil
}

// Same implements task.Owners. A child is not listened to but asked: servers on one
// official SDK keep one subscription for a process, and that is of its lists.
func (o owners) Same(k task.FollowKey) any {
	_, m, u, err := o.at(k, &store.Task{Upstream: k.Upstream})
	if err != nil || o.g.doc.Upstreams[m.key].Child() {
		return nil
	}
	if i := u.Info(); i == nil || i.Era != mcp.Modern || !speaksTasks(i.Capabilities) {
		return nil
	}
	return u
}

// Watch implements task.Owners.
func (o owners) Watch(k task.FollowKey, f *task.Follow) task.Watch {
	v, _, u, err := o.at(k, &store.Task{Upstream: k.Upstream})
	if err != nil {
		return nil
	}
	c, _ := k.As.(*caller)
	return u.WatchFor(o.g.within(context.Background(), c), sessionKey(v, k.Principal, ""), f)
}

// Shows implements task.Owners.
func (o owners) Shows(k task.FollowKey, rec *store.Task) bool {
	v, m, _, err := o.at(k, rec)
	if m == nil {
		return !errors.Is(err, task.ErrGone) // its upstream is away, and may come back
	}
	if o.g.policy == nil {
		return true
	}
	c, _ := k.As.(*caller)
	t := v.origin(rec, m)
	return o.g.shows(v, catalog.Scope{Principal: rec.Principal}, o.g.viewer(c, v), &t)
}

// errNoTasks is an upstream that does not speak of tasks now.
var errNoTasks = errors.New("the upstream does not speak of the task as it did when it made it")

// Look implements task.Owners: as tasks/get of the caller, made together with those
// that the caller makes itself.
func (o owners) Look(ctx context.Context, k task.FollowKey, _ *store.Task, id string) (*task.State, error) {
	g := o.g
	rec, _, err := g.tasks.Find(ctx, id, k.Principal)
	switch {
	case errors.Is(err, task.ErrUnknown):
		return nil, task.ErrGone
	case err != nil:
		return nil, err
	case rec.Upstream != k.Upstream, rec.Replica != k.Replica:
		return nil, task.ErrGone // the id is another task's by now
	}
	v, m, u, err := o.at(k, rec)
	if err != nil {
		return nil, err
	}
	if _, ok := m.rate.Take(time.Now()); !ok {
		g.metrics.Limited("upstream")
		return nil, fault.New(fault.RateLimited, "upstream %q has as many calls as it may take", m.key)
	}
	c, _ := k.As.(*caller)
	ctx = g.within(ctx, c)
	key := sessionKey(v, k.Principal, "")
	key.Caps = strings.TrimPrefix(rec.Session, sessionMark)
	link, err := u.Link(ctx, key)
	if err != nil {
		return nil, err
	}
	if (link.Era == mcp.Legacy) != rec.Legacy {
		return nil, errNoTasks
	}
	if rec.Legacy {
		b := g.bridgeOver(v, m, rec, id, link, c)
		b.vigil.Heard(k, id)
		whole, err := b.shared(ctx, v.name, asker{caller: c})
		if err != nil {
			return nil, err
		}
		return g.stateOf(m, rec, id, whole)
	}
	send := func(ctx context.Context) (any, error) {
		began := time.Now()
		whole, err := sendWhole(ctx, link, g.ownTaskRequest(link, mcp.TasksGet, id))
		g.metrics.UpstreamCall(m.key, mcp.TasksGet, callOutcome(err), time.Since(began))
		return whole, err
	}
	flight := task.FlightKey{Hash: rec.Hash, Principal: rec.Principal, Server: v.name, Method: mcp.TasksGet, Modern: true, As: k.As}
	answer, shared, err := g.flights.Do(ctx, flight, send)
	if shared && err == nil {
		// That one began before this look, and may be older than what is known.
		answer, _, err = g.flights.Do(ctx, flight, send)
	}
	if err != nil {
		return nil, err
	}
	return g.stateOf(m, rec, id, answer.([]byte))
}

// stateOf reads an answer to tasks/get.
func (g *Gateway) stateOf(m *member, rec *store.Task, id string, whole []byte) (*task.State, error) {
	var s wire.Answer
	if err := wire.Scan(whole, &s); err != nil {
		return nil, invalid(m, err)
	}
	if s.Error.Ok() {
		switch code := fault.Code(s.ErrorCode); code {
		case fault.InvalidParams, fault.ResourceNotFound, fault.MethodNotFound:
			return nil, task.ErrGone // there it is not known any more
		default:
			return nil, fmt.Errorf("upstream %q refused tasks/get with code %d", m.key, int(code))
		}
	}
	g.tasks.Saw(rec, lifeOf(&s, mcp.Modern))
	return task.ReadState(id, s.Result.Of(whole))
}
