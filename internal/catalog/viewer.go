package catalog

import (
	"context"
	"slices"
	"sync"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

// Viewer says what one caller gets to see of what is there (DESIGN section 11). A
// nil Viewer sees everything. It must be safe for concurrent use, and its answers
// must not change: a caller who may see something else is another Viewer.
type Viewer interface {
	// ID is equal for viewers that see the same, and for no others.
	ID() uint64
	// Sees judges a target whose arguments are not known. The target must not be
	// kept.
	Sees(t *Target) bool
	// Reaches reports whether the caller could see anything of that kind there.
	Reaches(upstream string, kind mcp.Kind) bool
}

// selection is what some viewers see of a table, in the table's order. Rendered
// views hang on it, so callers who see the same share them (DESIGN section 6).
// Immutable but for what is cached.
type selection struct {
	kind   mcp.Kind
	listed []*node
	views  views
	seen   seen
}

const (
	maxViewers    = 4096 // remembered for one table
	maxSelections = 256
)

// selections are what viewers see of one table.
type selections struct {
	byViewer sync.Map              // uint64 to *selection; read without a lock
	mu       sync.Mutex            // guards what follows; held while a selection is made
	viewers  int                   // in byViewer
	bySet    map[string]*selection // by what is left out, a bit for each node
}

// seenBy returns what a viewer sees of the table.
func (s *Server) seenBy(t *table, who Viewer) *selection {
	if who == nil {
		return &t.all
	}
	id := who.ID()
	c := &t.selections
	if sel, ok := c.byViewer.Load(id); ok {
		return sel.(*selection)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	set := make([]byte, (len(t.all.listed)+7)/8)
	listed := make([]*node, 0, len(t.all.listed))
	for i, n := range t.all.listed {
		if target := s.targetOf(t.kind, n); who.Sees(&target) {
			listed = append(listed, n)
		} else {
			set[i/8] |= 1 << (i % 8)
		}
	}
	sel := &t.all
	if len(listed) < len(t.all.listed) {
		if sel = c.bySet[string(set)]; sel == nil {
			sel = &selection{kind: t.kind, listed: slices.Clip(listed)}
			// What falls out here is made again when it is asked for.
			if c.bySet == nil || len(c.bySet) >= maxSelections {
				c.bySet = map[string]*selection{}
				c.forgetLocked()
			}
			c.bySet[string(set)] = sel
		}
	}
	if c.viewers >= maxViewers {
		c.forgetLocked()
	}
	if _, known := c.byViewer.Swap(id, sel); !known {
		c.viewers++
	}
	return sel
}

func (c *selections) forgetLocked() {
	c.byViewer.Clear()
	c.viewers = 0
}

// targetOf is the target that a node stands for.
func (s *Server) targetOf(kind mcp.Kind, n *node) Target {
	return Target{
		Upstream: s.o.Members[n.member].Key, Kind: kind, ID: n.item.id, Exposed: n.exposed,
		Params: n.item.params, Known: true, Names: n.names, Notes: n.item.notes, Tasks: n.item.tasks,
	}
}

// ToolOf is the target that a tool of an upstream is judged as, whether or not a list
// is known to have it: for what is left of a call of it, such as a task.
func (s *Server) ToolOf(upstream, tool string) Target {
	member, ok := s.names.index[upstream]
	t := Target{Upstream: upstream, Kind: mcp.Tools, ID: tool, Exposed: tool, Rule: "task"}
	if !ok {
		return t
	}
	exposed, _ := s.names.name(member, tool)
	t.Exposed = exposed
	t.Names = s.judgedSplit(mcp.Tools, split{member, tool}, exposed)
	if m := s.common.merged[mcp.Tools].cur.Load(); m != nil {
		if n := m.table.byOrigin[origin{member, tool}]; n != nil {
			t.Names, t.Notes = n.names, n.item.notes
		}
	}
	return t
}

// shownMissing is what a viewer is told of what a list lacks: nothing of upstreams
// that it could see nothing of.
func (m *merged) shownMissing(who Viewer, kind mcp.Kind) []Missing {
	hidden := func(miss Missing) bool { return !who.Reaches(miss.Upstream, kind) }
	if who == nil || !slices.ContainsFunc(m.missing, hidden) {
		return m.missing
	}
	return slices.DeleteFunc(slices.Clone(m.missing), hidden)
}

// Nameless is the answer for an identifier that does not exist, and for one that
// the caller does not get to see: they must read the same (DESIGN section 11).
func (s *Server) Nameless(kind mcp.Kind, id string) error { return s.unknown(kind, id) }

// Seen returns the exposed identifiers of a kind that a viewer sees, in order.
func (s *Server) Seen(ctx context.Context, scope Scope, who Viewer, kind mcp.Kind) ([]string, error) {
	m, err := s.current(ctx, scope, kind, false)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, n := range s.seenBy(m.table, who).listed {
		out = append(out, n.exposed)
	}
	return out, nil
}
