package relay

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

// Resource is a subscription to one resource: what its upstream calls it, and
// under which identifier the listener knows it.
type Resource struct{ Upstream, URI, Exposed string }

// Update is a resources/updated. Params is the upstream's own raw object, or nil
// where it is the gateway that says so; it is shared and read-only.
type Update struct {
	URI    string // as the listener knows it
	Params []byte
}

// Listener is one client that listens. What it is told waits for it: a
// list_changed of each kind once, an update of each resource once, so many in
// all as the board's queue holds. It is safe for concurrent use.
type Listener struct {
	board *Board
	wake  chan struct{} // capacity 1

	// Guarded by Board.mu.
	group     *group
	filter    mcp.Filter // its lists
	resources []Resource
	closed    bool

	mu      sync.Mutex // guards what follows; taken under Board.mu, never around it
	changed [mcp.NumKinds]bool
	updates []Update
	end     error // why nothing more will come
}

// Why a listener is told nothing more.
var (
	ErrSlow  = errors.New("relay: the listener does not keep up, and has missed some")
	ErrEnded = errors.New("relay: what was listened to is not there any more")
)

// Listen begins to listen: from now on nothing is missed that an upstream says
// after it has confirmed. filter names the lists; its URIs and tasks do not count.
func (b *Board) Listen(v View, filter mcp.Filter, resources []Resource) *Listener {
	l := &Listener{board: b, wake: make(chan struct{}, 1), filter: filter}
	b.mu.Lock()
	defer b.mu.Unlock()
	g := b.groups[v]
	if g == nil {
		g = &group{view: v, listeners: map[*Listener]struct{}{}}
		b.groups[v] = g
	}
	l.group = g
	g.listeners[l] = struct{}{}
	touched := l.addLocked(resources)
	for _, h := range l.hubsLocked() {
		for kind := range mcp.Templates {
			if filter.List(kind) {
				h.lists[kind]++
			}
		}
		touched[h] = true
	}
	askAll(touched)
	for kind := range mcp.Templates {
		if filter.List(kind) && g.last[kind] == nil {
			b.lookLocked(g, kind, false)
		}
	}
	return l
}

// askAll asks each upstream once.
func askAll(hubs map[*Hub]bool) {
	for h := range hubs {
		h.askLocked()
	}
}

// hubsLocked are the hubs whose lists the listener hears of.
func (l *Listener) hubsLocked() (hubs []*Hub) {
	b := l.board
	if b.rooms == nil || !l.filter.Tools && !l.filter.Prompts && !l.filter.Resources {
		return nil
	}
	for _, key := range b.rooms.Upstreams(l.group.view.Server) {
		hubs = append(hubs, b.hubLocked(key))
	}
	return hubs
}

// Add subscribes to further resources. One that is there already stays as it is.
func (l *Listener) Add(resources ...Resource) {
	l.board.mu.Lock()
	defer l.board.mu.Unlock()
	if !l.closed {
		askAll(l.addLocked(resources))
	}
}

// addLocked notes subscriptions and returns the hubs that are to ask for more.
func (l *Listener) addLocked(resources []Resource) map[*Hub]bool {
	touched := map[*Hub]bool{}
	for _, r := range resources {
		h := l.board.hubLocked(r.Upstream)
		if _, there := h.uris[r.URI][l]; there {
			continue
		}
		if h.uris[r.URI] == nil {
			h.uris[r.URI] = map[*Listener]string{}
		}
		h.uris[r.URI][l] = r.Exposed
		l.resources = append(l.resources, r)
		touched[h] = true
	}
	return touched
}

// Remove ends the subscription to a resource that the listener knows by that
// identifier; it reports whether there was one.
func (l *Listener) Remove(exposed string) bool {
	l.board.mu.Lock()
	defer l.board.mu.Unlock()
	for i, r := range l.resources {
		if r.Exposed == exposed {
			l.resources = slices.Delete(l.resources, i, i+1)
			l.dropLocked(r)
			return true
		}
	}
	return false
}

func (l *Listener) dropLocked(r Resource) {
	h := l.board.hubs[r.Upstream]
	delete(h.uris[r.URI], l)
	if len(h.uris[r.URI]) == 0 {
		delete(h.uris, r.URI)
	}
	h.askLocked()
}

// Close ends the listening. It may be called more than once.
func (l *Listener) Close() {
	b := l.board
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.closed {
		return
	}
	l.closed = true
	for _, r := range l.resources {
		l.dropLocked(r)
	}
	for key, h := range b.hubs {
		if !b.behindLocked(l.group.view.Server, key) {
			continue
		}
		for kind := range mcp.Templates {
			if l.filter.List(kind) {
				h.lists[kind]--
			}
		}
		h.askLocked()
	}
	delete(l.group.listeners, l)
	if len(l.group.listeners) == 0 && b.groups[l.group.view] == l.group {
		delete(b.groups, l.group.view)
	}
}

// Confirmed waits until the upstreams have said what they honour, as long as ctx
// allows, and returns the resources that are: those that their upstream tells of.
func (l *Listener) Confirmed(ctx context.Context) []Resource {
	l.wait(ctx, l.concernsLocked)
	l.board.mu.Lock()
	defer l.board.mu.Unlock()
	var out []Resource
	for _, r := range l.resources {
		if l.board.hubs[r.Upstream].honoured.HasURI(r.URI) {
			out = append(out, r)
		}
	}
	return out
}

// Honours is Confirmed for one resource: other upstreams are not waited for.
func (l *Listener) Honours(ctx context.Context, r Resource) bool {
	h := func() []*Hub { return []*Hub{l.board.hubLocked(r.Upstream)} }
	l.wait(ctx, h)
	l.board.mu.Lock()
	defer l.board.mu.Unlock()
	return h()[0].honoured.HasURI(r.URI)
}

// wait returns when the upstreams of hubs have answered to all that is wanted, or
// ctx ends. hubs is called under Board.mu.
func (l *Listener) wait(ctx context.Context, hubs func() []*Hub) {
	for ctx.Err() == nil {
		var news chan struct{}
		l.board.mu.Lock()
		for _, h := range hubs() {
			if !h.watchedLocked() {
				news = h.news
				break
			}
		}
		l.board.mu.Unlock()
		if news == nil {
			return
		}
		select {
		case <-news:
		case <-ctx.Done():
		}
	}
}

// watchedLocked reports whether the upstream has answered to all that is wanted.
func (h *Hub) watchedLocked() bool {
	return h.asked.Equal(h.settled) || covers(h.settled, h.wantedLocked())
}

// concernsLocked are the hubs that the listener waits for.
func (l *Listener) concernsLocked() []*Hub {
	hubs := l.hubsLocked()
	for _, r := range l.resources {
		if h := l.board.hubs[r.Upstream]; !slices.Contains(hubs, h) {
			hubs = append(hubs, h)
		}
	}
	return hubs
}

// Wake has a value when something waits to be taken.
func (l *Listener) Wake() <-chan struct{} { return l.wake }

// Nudge makes Wake have a value, for what else its client is told of. It never
// blocks.
func (l *Listener) Nudge() { l.rouse() }

// Take returns what waits: kinds whose list has changed, and updates, in the
// order in which they came. ErrSlow or ErrEnded says that it is the last.
func (l *Listener) Take() (changed []mcp.Kind, updates []Update, end error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for kind, yes := range l.changed {
		if yes {
			changed = append(changed, mcp.Kind(kind))
		}
	}
	l.changed = [mcp.NumKinds]bool{}
	updates, l.updates = l.updates, nil
	return changed, updates, l.end
}

func (l *Listener) change(kind mcp.Kind) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changed[kind] = true
	l.rouse()
}

func (l *Listener) update(uri string, params []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.rouse()
	for i := range l.updates {
		if l.updates[i].URI == uri {
			l.updates[i].Params = params
			return
		}
	}
	if len(l.updates) >= l.board.queue {
		l.stop(ErrSlow)
		return
	}
	l.updates = append(l.updates, Update{URI: uri, Params: params})
}

// finish has the listener end.
func (l *Listener) finish(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stop(why)
	l.rouse()
}

// stop keeps the first reason. l.mu is held.
func (l *Listener) stop(why error) {
	if l.end == nil {
		l.end = why
	}
}

func (l *Listener) rouse() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}
