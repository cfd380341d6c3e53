package catalog

import (
	"context"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

// Entry is a listed thing with the bytes of its upstream's list. Read-only.
type Entry struct {
	Target
	Raw []byte // as its upstream gave it, with the upstream's own names
}

// Entries returns what a viewer sees of a kind, in the order of lists. Errors are
// those of List.
func (s *Server) Entries(ctx context.Context, scope Scope, who Viewer, kind mcp.Kind) ([]Entry, error) {
	m, err := s.current(ctx, scope, kind, false)
	if err != nil {
		return nil, err
	}
	if m.nothing {
		return nil, unavailable(m.shownMissing(who, kind), kind)
	}
	listed := s.seenBy(m.table, who).listed
	out := make([]Entry, len(listed))
	for i, n := range listed {
		out[i] = Entry{s.targetOf(kind, n), n.item.raw}
	}
	return out, nil
}

// Has reports whether an identifier is in the lists as they are known now. It asks
// nobody.
func (s *Server) Has(scope Scope, kind mcp.Kind, id string) bool {
	r := s.lookup(&scope, kind, id)
	return r != nil && !r.hidden
}

// Raw is the entry of a target in its upstream's list, as it is known now; nil where
// no list is known to have it.
func (s *Server) Raw(scope Scope, t *Target) []byte {
	member, ok := s.names.index[t.Upstream]
	if !ok {
		return nil
	}
	m := s.place(&scope, t.Kind).merged[t.Kind].cur.Load()
	if m == nil {
		return nil
	}
	if n := m.table.byOrigin[origin{member, t.ID}]; n != nil {
		return n.item.raw
	}
	return nil
}
