package relay

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

// View says whose merged lists are meant: those of a virtual server, as a
// principal that declared certain capabilities sees them.
type View struct {
	Server    string
	Principal [32]byte
	Caps      string
	Who       any // what the rooms know of the caller; comparable
}

// ListDigest stands for a merged list: Seen for what the view shows of it, Whole for
// all that the upstreams listed.
type ListDigest struct{ Seen, Whole [32]byte }

// Watch is a way to hear an upstream. Want returns at once; when Close returns
// the sink is told nothing more.
type Watch interface {
	Want(f mcp.Filter)
	Close()
}

// Rooms is what the Board needs of the rooms behind it, for one document. Its
// methods are safe for concurrent use, and only Digest may take long.
type Rooms interface {
	// Upstreams are the keys behind a virtual server; nil when there is no such server.
	Upstreams(server string) []string
	// Watch makes a way to hear an upstream, nil for one that is not configured.
	// same is an identity: equal for two documents that mean the same upstream.
	Watch(upstream string, s *Hub) (w Watch, same any)
	// Same is that identity alone.
	Same(upstream string) any
	// Digest looks at a merged list as it is now, within ctx.
	Digest(ctx context.Context, v View, kind mcp.Kind) (ListDigest, error)
	// Invalidate has an upstream's lists of a kind asked for anew.
	Invalidate(upstream string, kind mcp.Kind)
	// Expose is the identifier under which a view offers an upstream's URI; shown
	// is false where it does not show it. exposed is the one that a listener asked
	// for, "" where it asked for something above it.
	Expose(view View, upstream, uri, exposed string) (as string, shown bool)
}

// Board is where everybody listens who wants to be told of changes: one Hub for
// each upstream, one group of listeners for each view. It outlives the document
// that it was made under; Rebind gives it the rooms of the next. It is safe for
// concurrent use.
type Board struct {
	queue  int // updates held for one listener
	linger time.Duration
	log    *slog.Logger

	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup // checks and lingering ends

	mu       sync.Mutex // guards what follows, and all of hubs and groups; nothing waits under it
	rooms    Rooms
	closed   bool
	hubs     map[string]*Hub
	groups   map[View]*group
	standing map[string]*standing // by northern session
}

// linger is how long an upstream is heard, and a legacy session's listener kept,
// after the last who wanted it has gone: clients come back.
const linger = 2 * time.Second

// NewBoard returns a board without anybody at it. It does nothing before Rebind.
// queue bounds the updates held for one listener.
func NewBoard(queue int, log *slog.Logger) *Board {
	b := &Board{queue: queue, linger: linger, log: log, hubs: map[string]*Hub{}, groups: map[View]*group{}, standing: map[string]*standing{}}
	b.ctx, b.stop = context.WithCancel(context.Background())
	return b
}

// Rebind has the board hear and look through the rooms of another document.
// Listeners stay, but for those of a server that is gone; an upstream that the documents do not share is heard anew, and
// every list is compared with what was last told.
func (b *Board) Rebind(r Rooms) {
	var old []Watch
	b.mu.Lock()
	b.rooms = r
	for key, h := range b.hubs {
		if h.watch != nil && h.same == r.Same(key) {
			continue
		}
		if h.watch != nil {
			old = append(old, h.watch)
			h.watch = nil
		}
		h.honoured = mcp.Filter{}
		h.connect()
	}
	b.recountLocked()
	for _, g := range b.groups {
		for kind := range mcp.Templates {
			b.lookLocked(g, kind, false)
		}
	}
	b.mu.Unlock()
	for _, w := range old {
		w.Close()
	}
}

// recountLocked counts anew who listens to which upstream's lists: servers may
// have other upstreams than before.
func (b *Board) recountLocked() {
	for _, h := range b.hubs {
		h.lists = [mcp.NumKinds]int{}
	}
	for _, g := range b.groups {
		keys := b.rooms.Upstreams(g.view.Server)
		if keys == nil {
			for l := range g.listeners {
				l.finish(ErrEnded)
			}
		}
		for _, key := range keys {
			h := b.hubLocked(key)
			for kind := range mcp.Templates {
				h.lists[kind] += g.wanting(kind)
			}
		}
	}
	for _, h := range b.hubs {
		h.askLocked()
	}
}

// Recheck compares the lists of every view with what was last told, since an
// upstream may offer something else now, though it did not say so.
func (b *Board) Recheck(upstream string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, g := range b.groups {
		if !b.behindLocked(g.view.Server, upstream) {
			continue
		}
		for kind := range mcp.Templates {
			b.lookLocked(g, kind, false)
		}
	}
}

// Listeners is the number of those who listen.
func (b *Board) Listeners() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, g := range b.groups {
		n += len(g.listeners)
	}
	return n
}

// behindLocked reports whether an upstream is behind a virtual server.
func (b *Board) behindLocked(server, upstream string) bool {
	if b.rooms == nil {
		return false
	}
	for _, key := range b.rooms.Upstreams(server) {
		if key == upstream {
			return true
		}
	}
	return false
}

// Close ends every hub. Listeners are told nothing more.
func (b *Board) Close() {
	b.mu.Lock()
	b.closed = true
	b.stop()
	var watches []Watch
	for _, h := range b.hubs {
		if h.watch != nil {
			watches = append(watches, h.watch)
			h.watch = nil
		}
		h.endLocked()
	}
	for id, s := range b.standing {
		s.stop()
		delete(b.standing, id)
	}
	b.mu.Unlock()
	var closing sync.WaitGroup
	for _, w := range watches {
		closing.Go(w.Close)
	}
	closing.Wait()
	b.work.Wait()
}

// spawnLocked runs f in a goroutine that Close waits for.
func (b *Board) spawnLocked(f func()) {
	if !b.closed {
		b.work.Go(f)
	}
}

// Upstreams tells how many upstreams are being heard.
func (b *Board) Upstreams() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, h := range b.hubs {
		if !h.asked.Empty() {
			n++
		}
	}
	return n
}
