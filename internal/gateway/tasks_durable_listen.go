package gateway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/penstock-mcp/penstock/internal/durable"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/store"
	"github.com/penstock-mcp/penstock/internal/task"
	"github.com/penstock-mcp/penstock/internal/wire"
)

const (
	// routeLook is how often a durable task is looked at while somebody listens for
	// it and nothing is heard of it.
	routeLook = time.Second
	// routeLookTime bounds one look.
	routeLookTime = 10 * time.Second
)

// routeEars are who listens for which durable tasks in this process. They are shared
// with predecessor and successor.
type routeEars struct {
	mu sync.Mutex // guards by
	by map[string]map[*routeEar]struct{}
}

func newRouteEars() *routeEars { return &routeEars{by: map[string]map[*routeEar]struct{}{}} }

// changed has everybody who listens for a task look at it. It does not block.
func (e *routeEars) changed(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for ear := range e.by[id] {
		ear.kick()
	}
}

// routeEar listens for the durable tasks of one subscription. One goroutine of its
// own looks at them: what it drives is told to others, too, so that a look is also
// the poll without which a deadline would not be kept.
type routeEar struct {
	ears  *routeEars
	t     *teller
	who   durable.Caller
	nudge func()
	ids   []string // not changed after start
	soon  chan struct{}
	stop  context.CancelFunc
	done  chan struct{}

	mu   sync.Mutex // guards told
	told []routeTold
}

// routeTold is what a listener is to be told of a task: its state, or that nothing
// more will be told.
type routeTold struct {
	id     string
	origin *durable.Target
	state  json.RawMessage
	err    error
}

// listenRoutes begins to listen. It must be closed.
func (e *routeEars) listenRoutes(ctx context.Context, t *teller, who durable.Caller, ids []string, nudge func()) *routeEar {
	ear := &routeEar{ears: e, t: t, who: who, nudge: nudge, ids: ids, soon: make(chan struct{}, 1), done: make(chan struct{})}
	e.mu.Lock()
	for _, id := range ids {
		if e.by[id] == nil {
			e.by[id] = map[*routeEar]struct{}{}
		}
		e.by[id][ear] = struct{}{}
	}
	e.mu.Unlock()
	ctx, ear.stop = context.WithCancel(ctx)
	go func() {
		defer close(ear.done)
		ear.run(ctx)
	}()
	return ear
}

// close ends the listening. It may be called on nil.
func (r *routeEar) close() {
	if r == nil {
		return
	}
	r.ears.mu.Lock()
	for _, id := range r.ids {
		delete(r.ears.by[id], r)
		if len(r.ears.by[id]) == 0 {
			delete(r.ears.by, id)
		}
	}
	r.ears.mu.Unlock()
	r.stop()
	<-r.done
}

func (r *routeEar) kick() {
	select {
	case r.soon <- struct{}{}:
	default:
	}
}

// run looks at the tasks until all of them have ended, or ctx has.
func (r *routeEar) run(ctx context.Context) {
	open := map[string][sha256.Size]byte{}
	for _, id := range r.ids {
		open[id] = [sha256.Size]byte{}
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for len(open) > 0 {
		select {
		case <-ctx.Done():
			return
		case <-r.soon:
		case <-timer.C:
		}
		for _, id := range r.ids {
			if last, is := open[id]; is && r.look(ctx, id, &last) {
				delete(open, id)
			} else if is {
				open[id] = last
			}
		}
		timer.Reset(routeLook)
	}
}

// look looks at one task and reports whether there is nothing more to be told of it.
func (r *routeEar) look(ctx context.Context, id string, last *[sha256.Size]byte) (over bool) {
	ctx, cancel := context.WithTimeout(ctx, routeLookTime)
	defer cancel()
	g := r.t.follows.now.Load() // whose document holds now
	state, origin, err := g.durableLook(ctx, r.t, r.who, id)
	switch {
	case errors.Is(err, durable.ErrNoTask), errors.Is(err, errHidden):
		r.tell(routeTold{id: id, origin: origin, err: err})
		return true
	case err != nil:
		return false // it is asked again
	}
	var seen struct {
		Status  string `json:"status"`
		Message string `json:"statusMessage"`
	}
	if json.Unmarshal(state, &seen) != nil {
		return true
	}
	if now := sha256.Sum256(stateDigest(state)); now != *last {
		*last = now
		r.tell(routeTold{id: id, origin: origin, state: state})
	}
	switch seen.Status {
	case "completed", "failed", "cancelled":
		return true
	}
	return false
}

// stateDigest is what makes one state of a task another: all of it but for the time.
func stateDigest(state json.RawMessage) []byte {
	var members map[string]json.RawMessage
	if json.Unmarshal(state, &members) != nil {
		return state
	}
	delete(members, "lastUpdatedAt")
	b, err := json.Marshal(members)
	if err != nil {
		return state
	}
	return b
}

// tell keeps what the listener is to be told: of each task the last.
func (r *routeEar) tell(n routeTold) {
	r.mu.Lock()
	kept := false
	for i := range r.told {
		if r.told[i].id == n.id {
			r.told[i], kept = n, true
		}
	}
	if !kept {
		r.told = append(r.told, n)
	}
	r.mu.Unlock()
	r.nudge()
}

// take is what is to be told now. It may be called on nil.
func (r *routeEar) take() []routeTold {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.told
	r.told = nil
	return out
}

// followedRoutes are those of the ids that are durable tasks of this caller, which it
// may see, and the others.
func (g *Gateway) followedRoutes(ctx context.Context, t *teller, who durable.Caller, ids []string) (routes, others []string, err error) {
	v := g.servers[t.x.Server]
	for _, id := range ids {
		if g.durable == nil || !durable.IsPublicID(id) {
			others = append(others, id)
			continue
		}
		origin, err := g.durable.Origin(ctx, who, id)
		if errors.Is(err, durable.ErrNoTask) {
			others = append(others, id)
			continue
		}
		if err != nil {
			return nil, nil, durableFault(t.x, err)
		}
		_, target, err := g.durableOrigin(v, &origin)
		if err != nil {
			continue // there is nobody who could be asked
		}
		if !g.shows(v, g.scope(t.x), g.sees(t.x, v), target) {
			g.metrics.Task("denied")
			continue
		}
		routes = append(routes, id)
	}
	return routes, others, nil
}

// routes tells of the durable tasks that have changed.
func (t *teller) routes(ctx context.Context) error {
	for _, told := range t.routeEar.take() {
		began := time.Now()
		g := t.follows.now.Load()
		about := &task.Told{ID: told.id, Rec: &store.Task{}}
		if told.origin != nil {
			about.Rec.Tool, about.Key.Upstream = told.origin.Tool, told.origin.Upstream
		}
		msg, err := []byte(nil), told.err
		if err == nil {
			msg, err = g.routeChanged(ctx, t, &told)
		}
		if err != nil {
			g.log.Debug("a durable task is not told of any more", "task", told.id, "error", err)
			g.recordTold(t.x, about, began, 0, err)
			continue
		}
		if err := t.send(msg); err != nil {
			return err
		}
		g.metrics.Task("notified")
		g.recordTold(t.x, about, began, len(msg), nil)
	}
	return nil
}

// routeChanged is notifications/tasks of a durable task, judged and shown to the
// hooks as the answer to tasks/get is.
func (g *Gateway) routeChanged(ctx context.Context, t *teller, told *routeTold) ([]byte, error) {
	v := g.servers[t.x.Server]
	if v == nil {
		return nil, errHidden
	}
	m, target, err := g.durableOrigin(v, told.origin)
	if err != nil {
		return nil, err
	}
	if !g.shows(v, g.scope(t.x), g.sees(t.x, v), target) {
		return nil, errHidden
	}
	whole, s, err := enclosed([]byte("0"), told.state)
	if err != nil {
		return nil, err
	}
	if whole, err = g.inlined(ctx, t.x, v, m, target, &s, whole); err != nil {
		return nil, err
	}
	tags := []wire.Member{{Name: mcp.MetaSubscriptionID, Value: t.tag}}
	if v.tag {
		tags = append(tags, wire.Member{Name: mcp.MetaOrigin, Value: m.origin})
	}
	params, err := detailed(bytes.TrimSpace(s.Result.Of(whole)), tags)
	if err != nil {
		return nil, err
	}
	b := append(t.buf[:0], `{"jsonrpc":"2.0","method":"`+mcp.TasksChanged+`","params":`...)
	return append(append(b, params...), '}'), nil
}
