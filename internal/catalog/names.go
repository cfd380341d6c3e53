package catalog

import (
	"context"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

// Names returns the exposed identifiers of a kind in order, as List would show
// them now.
func (s *Server) Names(ctx context.Context, scope Scope, kind mcp.Kind) ([]string, error) {
	m, err := s.current(ctx, scope, kind, false)
	if err != nil {
		return nil, err
	}
	return m.names(), nil
}

// Held returns the exposed identifiers of the list that was merged last, without
// asking anybody; ok is false when none was.
func (s *Server) Held(scope Scope, kind mcp.Kind) (names []string, ok bool) {
	m := s.place(&scope, kind).merged[kind].cur.Load()
	if m == nil || !m.known {
		return nil, false
	}
	return m.names(), true
}

func (m *merged) names() []string {
	out := make([]string, len(m.table.all.listed))
	for i, n := range m.table.all.listed {
		out[i] = n.exposed
	}
	return out
}
