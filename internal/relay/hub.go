package relay

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

// Hub is the fan-in of one upstream and its credentials: one subscription there
// for all who listen here (DESIGN section 8). The upstream tells it through the
// methods of a sink, one at a time.
type Hub struct {
	board    *Board
	upstream string

	// What follows is guarded by Board.mu.
	watch     Watch
	same      any
	asked     mcp.Filter // the watch's last Want
	honoured  mcp.Filter // what the upstream confirmed of it
	settled   mcp.Filter // what was wanted when it last did
	news      chan struct{}
	shrinking *time.Timer // waits to ask for less
	lists     [mcp.NumKinds]int
	uris      map[string]map[*Listener]string // by the upstream's URI: who listens, and what it is called there
}

// hubLocked returns the hub of an upstream, made at first use.
func (b *Board) hubLocked(upstream string) *Hub {
	h := b.hubs[upstream]
	if h == nil {
		h = &Hub{board: b, upstream: upstream, news: make(chan struct{}), uris: map[string]map[*Listener]string{}}
		b.hubs[upstream] = h
		h.connect()
	}
	return h
}

// connect begins to hear the upstream with what is wanted of it. Board.mu is held.
func (h *Hub) connect() {
	if h.board.closed || h.board.rooms == nil {
		return
	}
	h.watch, h.same = h.board.rooms.Watch(h.upstream, h)
	if h.watch == nil {
		h.settleLocked(h.asked, mcp.Filter{}) // it is not configured any more
		return
	}
	h.watch.Want(h.asked)
}

func (h *Hub) endLocked() {
	if h.shrinking != nil {
		h.shrinking.Stop()
	}
	h.settleLocked(h.asked, mcp.Filter{})
}

// wantedLocked is what all listeners together want of the upstream.
func (h *Hub) wantedLocked() mcp.Filter {
	var f mcp.Filter
	for kind := range mcp.Templates {
		if h.lists[kind] > 0 {
			f = f.WithList(kind)
		}
	}
	f.URIs = slices.Sorted(maps.Keys(h.uris))
	return f
}

// askLocked asks the upstream for what is wanted now: for more at once, for less
// after a while, in which it may be wanted again.
func (h *Hub) askLocked() {
	want := h.wantedLocked()
	if want.Equal(h.asked) {
		return
	}
	if covers(h.asked, want) {
		if h.shrinking == nil {
			h.shrinking = time.AfterFunc(h.board.linger, func() {
				h.board.mu.Lock()
				defer h.board.mu.Unlock()
				h.shrinking = nil
				h.askNowLocked(h.wantedLocked())
			})
		}
		return
	}
	h.askNowLocked(want)
}

func (h *Hub) askNowLocked(want mcp.Filter) {
	if h.board.closed || want.Equal(h.asked) {
		return
	}
	h.asked = want
	// What is let go of is not confirmed any more, should it be wanted again.
	h.settled, h.honoured = common(h.settled, want), common(h.honoured, want)
	if h.watch == nil {
		h.settleLocked(want, mcp.Filter{})
		return
	}
	h.watch.Want(want)
}

// covers reports whether a asks for all that b asks for.
func covers(a, b mcp.Filter) bool {
	if b.Tools && !a.Tools || b.Prompts && !a.Prompts || b.Resources && !a.Resources {
		return false
	}
	for _, uri := range b.URIs {
		if !a.HasURI(uri) {
			return false
		}
	}
	return true
}

// common is what both ask for.
func common(a, b mcp.Filter) mcp.Filter {
	f := mcp.Filter{Tools: a.Tools && b.Tools, Prompts: a.Prompts && b.Prompts, Resources: a.Resources && b.Resources}
	for _, uri := range a.URIs {
		if b.HasURI(uri) {
			f.URIs = append(f.URIs, uri)
		}
	}
	return f
}

func (h *Hub) settleLocked(wanted, honoured mcp.Filter) {
	h.settled, h.honoured = wanted, honoured
	close(h.news)
	h.news = make(chan struct{})
}

// Honoured is told what of a wanted filter the upstream has confirmed. What it
// confirms late may have changed before.
func (h *Hub) Honoured(wanted, f mcp.Filter) {
	b := h.board
	b.mu.Lock()
	defer b.mu.Unlock()
	was, asked := h.honoured, h.settled
	h.settleLocked(wanted, f)
	for kind := range mcp.Templates {
		if f.List(kind) && !was.List(kind) && asked.List(kind) {
			h.suspectLocked(kind)
		}
	}
	for _, uri := range f.URIs {
		if !was.HasURI(uri) && asked.HasURI(uri) {
			h.tellLocked(uri)
		}
	}
}

// tellLocked says that a subscribed resource may have changed.
func (h *Hub) tellLocked(uri string) {
	for l, exposed := range h.uris[uri] {
		if as, shown := h.exposeLocked(l, uri, exposed); shown {
			l.update(as, nil)
		}
	}
}

// exposeLocked is what a listener calls a resource, "" for what the rooms call it,
// and whether it may hear of it: what it may see can change while it listens.
func (h *Hub) exposeLocked(l *Listener, uri, exposed string) (as string, shown bool) {
	if rooms := h.board.rooms; rooms != nil {
		return rooms.Expose(l.group.view, h.upstream, uri, exposed)
	}
	return exposed, true
}

// Changed is a list_changed of the upstream: what is cached is forgotten first,
// and then everybody is told whose merged list it is in.
func (h *Hub) Changed(kind mcp.Kind) { h.board.Changed(h.upstream, kind) }

// Changed is Hub.Changed for a list_changed that came on another way, such as the
// stream of a call.
func (b *Board) Changed(upstream string, kind mcp.Kind) {
	b.mu.Lock()
	rooms := b.rooms
	b.mu.Unlock()
	if rooms == nil {
		return
	}
	rooms.Invalidate(upstream, kind)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, g := range b.groups {
		if b.behindLocked(g.view.Server, upstream) {
			b.lookLocked(g, kind, true)
		}
	}
}

// suspectLocked has lists of a kind compared that may have changed unheard.
func (h *Hub) suspectLocked(kind mcp.Kind) {
	b := h.board
	rooms := b.rooms
	b.spawnLocked(func() { // Invalidate is not called under the lock
		rooms.Invalidate(h.upstream, kind)
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, g := range b.groups {
			if b.behindLocked(g.view.Server, h.upstream) {
				b.lookLocked(g, kind, false)
			}
		}
	})
}

// Updated is resources/updated: of a resource that somebody listens for, or of
// one below it (checklist 6.4). params are kept beyond the call.
func (h *Hub) Updated(uri string, params []byte) {
	b := h.board
	b.mu.Lock()
	defer b.mu.Unlock()
	var kept []byte
	told := map[*Listener]bool{}
	for sub := range pathsOf(uri) {
		for l, exposed := range h.uris[sub] {
			if told[l] {
				continue
			}
			told[l] = true
			if kept == nil {
				kept = append([]byte(nil), params...)
			}
			if sub != uri {
				exposed = ""
			}
			if as, shown := h.exposeLocked(l, uri, exposed); shown {
				l.update(as, kept)
			}
		}
	}
}

// Strayed is a resources/updated that came on another way, such as the stream of a
// call. That way is somebody's, and what it says, down to the name of what lies
// below a resource, may be for that caller alone: listeners learn that what they
// subscribed to may have changed, and nothing else (DESIGN section 7).
func (b *Board) Strayed(upstream, uri string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.hubs[upstream]
	if h == nil {
		return
	}
	for sub := range pathsOf(uri) {
		for l, exposed := range h.uris[sub] {
			shown := true
			if b.rooms != nil {
				exposed, shown = b.rooms.Expose(l.group.view, upstream, sub, exposed)
			}
			if shown {
				l.update(exposed, nil)
			}
		}
	}
}

// pathsOf yields a URI and every shorter one that it lies below.
func pathsOf(uri string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		if !yield(uri) {
			return
		}
		for i := len(uri) - 1; i > 0; i-- {
			if !strings.ContainsRune("/?#", rune(uri[i])) {
				continue
			}
			if !yield(uri[:i]) || i+1 < len(uri) && !yield(uri[:i+1]) {
				return
			}
		}
	}
}

// Reopened says that the way to the upstream was lost and is there again: lists
// are compared, and every subscribed resource may have changed.
func (h *Hub) Reopened() {
	b := h.board
	b.mu.Lock()
	defer b.mu.Unlock()
	for kind := range mcp.Templates {
		if h.lists[kind] > 0 {
			h.suspectLocked(kind)
		}
	}
	for uri := range h.uris {
		h.tellLocked(uri)
	}
}

// Other is any other notification: without a call it is nobody's (X5).
func (h *Hub) Other(string, []byte) {}
