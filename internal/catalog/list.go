package catalog

import (
	"context"
	"fmt"
	"sort"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

// List returns one page of the merged list of a kind as who sees it, sorted by
// exposed identifier, bytewise. hasCursor tells an absent cursor from an empty one,
// which is none of ours. Errors: fault.InvalidParams for a cursor that is not
// ours or was made for another list, server or principal;
// fault.UpstreamUnavailable when nothing at all can be served; ctx.Err().
func (s *Server) List(ctx context.Context, scope Scope, who Viewer, kind mcp.Kind, rev mcp.Revision, cursor string, hasCursor bool) (List, error) {
	last, public := "", true
	if hasCursor {
		var err error
		if last, public, err = s.open(&scope.Principal, kind, cursor); err != nil {
			return List{}, err
		}
	}
	m, err := s.current(ctx, scope, kind, hasCursor)
	if err != nil {
		return List{}, fmt.Errorf("list %s: %w", kind, err)
	}
	if m.nothing {
		return List{}, unavailable(m.shownMissing(who, kind), kind)
	}
	now := s.o.Now().UnixNano()
	sel := s.seenBy(m.table, who)
	listed := sel.listed
	first := 0
	if hasCursor {
		first = sort.Search(len(listed), func(i int) bool { return listed[i].exposed > last })
	}
	l := List{Public: public && m.public && who == nil, Missing: m.shownMissing(who, kind)}
	l.Items, l.Count = s.view(sel, rev, now).page(first, s.o.PageSize)
	if end := first + l.Count; end < len(listed) && l.Count > 0 {
		l.Next = s.seal(&scope.Principal, kind, l.Public, listed[end-1].exposed)
	}
	if m.promise > now {
		l.TTL = time.Duration(m.promise - now)
	}
	return l, nil
}

// Refresh asks one upstream for its list of a kind again, unless that happened
// within the last second: for a call that its upstream refused because our
// picture of its schema is old (checklist 110). After Invalidate it asks in any
// case. Errors are those of ctx; a
// failure of the upstream shows in what is resolved and listed next.
func (s *Server) Refresh(ctx context.Context, scope Scope, kind mcp.Kind, upstream string) error {
	member, ok := s.names.index[upstream]
	if !ok {
		return fault.New(fault.Internal, "server %q has no upstream %q", s.o.Name, upstream)
	}
	if err := s.ensureAll(ctx, scope, kind, wantNow, []int{member}); err != nil {
		return fmt.Errorf("refresh %s of %s: %w", kind, upstream, err)
	}
	s.assemble(scope, kind)
	return nil
}
