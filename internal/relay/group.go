package relay

import (
	"context"
	"time"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

const (
	// gather is how long changes are gathered before lists are compared, so that a
	// burst of them is told once.
	gather = 50 * time.Millisecond
	// spacing is how long at least lies between two looks at the lists of one view.
	spacing = 500 * time.Millisecond
	// lookTime bounds one look at a merged list.
	lookTime = 30 * time.Second
)

// group is everybody who sees one view. Guarded by Board.mu.
type group struct {
	view      View
	listeners map[*Listener]struct{}
	last      [mcp.NumKinds]*ListDigest // the list as it was last told; nil: not known
	due       [mcp.NumKinds]look
	looking   bool // a goroutine is at it
}

// look is what is to be done about one kind of list.
type look struct{ due, told bool } // told: an upstream says that it has changed

// lookLocked has a group's list of a kind compared with what was last told.
func (b *Board) lookLocked(g *group, kind mcp.Kind, told bool) {
	if g.wanting(kind) == 0 {
		return
	}
	g.due[kind].due = true
	g.due[kind].told = g.due[kind].told || told
	if g.looking || b.closed {
		return
	}
	g.looking = true
	b.spawnLocked(func() { b.look(g) })
}

// wanting counts the listeners that want to hear of a kind.
func (g *group) wanting(kind mcp.Kind) (n int) {
	for l := range g.listeners {
		if l.filter.List(kind) {
			n++
		}
	}
	return n
}

// look compares until nothing is due.
func (b *Board) look(g *group) {
	wait := gather
	for {
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-b.ctx.Done():
			t.Stop()
			return
		}
		b.mu.Lock()
		due := g.due
		g.due = [mcp.NumKinds]look{}
		b.mu.Unlock()
		any := false
		for kind := range mcp.Templates {
			if due[kind].due {
				any = true
				b.compare(g, kind, due[kind].told)
			}
		}
		b.mu.Lock()
		if !any || len(g.listeners) == 0 {
			if g.due == [mcp.NumKinds]look{} || len(g.listeners) == 0 {
				g.looking = false
				b.mu.Unlock()
				return
			}
		}
		b.mu.Unlock()
		wait = spacing
	}
}

// compare looks at one merged list and tells the group's listeners when it is
// another than the one that they were last told of. What an upstream has said
// itself is passed on, too, unless only such things changed as this view does
// not show. While the lists cannot be had, nothing is known to have changed.
func (b *Board) compare(g *group, kind mcp.Kind, told bool) {
	ctx, cancel := context.WithTimeout(b.ctx, lookTime)
	defer cancel()
	b.mu.Lock()
	rooms := b.rooms
	b.mu.Unlock()
	if rooms == nil {
		return
	}
	now, err := rooms.Digest(ctx, g.view, kind)
	if err != nil {
		b.log.Debug("list not compared", "server", g.view.Server, "kind", kind.String(), "error", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	last := g.last[kind]
	if err == nil {
		g.last[kind] = &now
	}
	tell := told
	switch {
	case err != nil:
	case last == nil: // whoever listens has listed at some time before
	case last.Seen != now.Seen:
		tell = true
	default:
		tell = told && last.Whole == now.Whole
	}
	if !tell {
		return
	}
	for l := range g.listeners {
		if l.filter.List(kind) {
			l.change(kind)
		}
	}
}
