package catalog

import (
	"bytes"
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/wire"
)

var openSchema = []byte(`{"type":"object"}`)

// view is a selection rendered for one revision: all items, joined by commas, and
// where each begins. A page is a sub-slice. Immutable.
type view struct {
	items []byte
	at    []int // start of each item; one more for the end, behind a last comma
	used  atomic.Int64
}

// page returns the items from first on, at most size of them.
func (v *view) page(first, size int) (items []byte, count int) {
	last := min(first+size, len(v.at)-1)
	if first >= last {
		return nil, 0
	}
	return v.items[v.at[first] : v.at[last]-1 : v.at[last]-1], last - first
}

// views are a selection as clients of each revision get it.
type views [mcp.LatestModern + 1]atomic.Pointer[view]

// view returns the selection as a client of rev sees it.
func (s *Server) view(t *selection, rev mcp.Revision, now int64) *view {
	slot := &t.views[min(int(rev), len(t.views)-1)]
	if v := slot.Load(); v != nil {
		// Once a second is exact enough for eviction, and keeps the cache line quiet.
		if now-v.used.Load() > 1e9 {
			v.used.Store(now)
		}
		return v
	}
	v := s.render(t, rev)
	for i := range t.views {
		// What revisions do not tell apart is held once.
		if o := t.views[i].Load(); o != nil && bytes.Equal(o.items, v.items) {
			v = o
			break
		}
	}
	v.used.Store(now)
	if !slot.CompareAndSwap(nil, v) {
		return v // another request rendered the same bytes
	}
	s.rendered.add(t, v, s.o.CacheBytes)
	return v
}

func (s *Server) render(t *selection, rev mcp.Revision) *view {
	v := &view{at: make([]int, 0, len(t.listed)+1)}
	var buf []byte
	for _, n := range t.listed {
		v.at = append(v.at, len(v.items))
		item := n.item.raw
		if edits := s.edits(t.kind, n); len(edits) > 0 {
			buf = wire.Splice(buf[:0], item, edits...)
			item = buf
		}
		v.items = append(s.o.Project(t.kind, rev, v.items, item), ',')
	}
	v.at = append(v.at, len(v.items))
	v.items = slices.Clip(v.items)
	return v
}

// edits are the changes that the naming rule makes to an item, in order.
func (s *Server) edits(kind mcp.Kind, n *node) []wire.Edit {
	it := n.item
	var edits []wire.Edit
	replace := func(at wire.Span, was, now string) {
		if was != now {
			edits = append(edits, wire.Edit{Span: at, With: wire.AppendString(nil, now)})
		}
	}
	replace(it.idAt, it.id, n.exposed)
	if it.nameAt.Ok() {
		replace(it.nameAt, it.name, s.names.label(n.member, it.name))
	}
	for _, p := range it.ui {
		replace(p.at, p.uri, s.names.uri(n.member, p.uri))
	}
	switch {
	case kind != mcp.Tools || !it.noSchema:
	case it.schemaAt.Ok():
		edits = append(edits, wire.Edit{Span: it.schemaAt, With: openSchema})
	default:
		edits = append(edits, wire.InsertMembers(it.raw, wire.Span{Start: bytes.IndexByte(it.raw, '{'), End: len(it.raw)},
			wire.Member{Name: "inputSchema", Value: openSchema}))
	}
	if it.noTasks {
		// It would be an invitation to what the upstream does not do (checklist 8.5).
		all := wire.Span{Start: bytes.IndexByte(it.raw, '{'), End: len(it.raw)}
		if dropped, err := wire.DropMembers(edits, it.raw, all, func(name []byte) bool { return string(name) == "execution" }); err == nil {
			edits = dropped
		}
	}
	slices.SortFunc(edits, func(a, b wire.Edit) int { return cmp.Or(a.Start-b.Start, a.End-b.End) })
	return edits
}

// rendered bounds the bytes of all views of a server. Selections die with the
// table, and tables with the lists they were built from; their views with them.
type rendered struct {
	mu     sync.Mutex // guards tables; taken only when a view is made
	tables []weak.Pointer[selection]
}

// add notes a view that was just put into t, and drops those that were used
// longest ago while all of them hold more than most bytes.
func (r *rendered) add(t *selection, fresh *view, most int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := weak.Make(t); !slices.Contains(r.tables, p) {
		r.tables = append(r.tables, p)
	}
	total := int64(0)
	var views []*view
	r.tables = slices.DeleteFunc(r.tables, func(p weak.Pointer[selection]) bool {
		t := p.Value()
		if t == nil {
			return true
		}
		for i := range t.views {
			if v := t.views[i].Load(); v != nil && !slices.Contains(views, v) {
				views = append(views, v)
				total += int64(len(v.items))
			}
		}
		return false
	})
	slices.SortFunc(views, func(a, b *view) int { return cmp.Compare(a.used.Load(), b.used.Load()) })
	for _, old := range views {
		if total <= most {
			return
		}
		if old == fresh {
			continue
		}
		total -= int64(len(old.items))
		for _, p := range r.tables {
			if t := p.Value(); t != nil {
				for i := range t.views {
					t.views[i].CompareAndSwap(old, nil)
				}
			}
		}
	}
}
