package catalog

import (
	"context"
	"strings"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

// resolveTemplate finds the target of a uriTemplate, or of a URI that stands
// in its place (completion/complete).
func (s *Server) resolveTemplate(ctx context.Context, scope Scope, id string) (Target, error) {
	if !s.unseen() {
		r, err := s.relist(ctx, scope, mcp.Templates, id, wantKnown, s.owners(id))
		if err != nil || r != nil {
			return s.answer(r, err, mcp.Templates, id)
		}
	}
	t, err := s.Resolve(ctx, scope, mcp.Resources, id)
	if err != nil && fault.From(err).Code == fault.InvalidParams {
		return Target{}, s.unknown(mcp.Templates, id)
	}
	return t, err
}

// unseen reports whether what is in the lists cannot matter to where a URI leads,
// or to who may go there: identifiers are unchanged, and nothing judges them by
// the template that they come through.
func (s *Server) unseen() bool {
	return s.names.plain && s.o.Expose[mcp.Resources].empty() && !s.o.Judged
}

// owners are the members that the form of an exposed URI points at; nil where
// it points at none, so that all are asked.
func (s *Server) owners(id string) []int {
	if c, ok := s.names.ui(id); ok {
		return []int{c.member}
	}
	if s.names.rule == Namespaced {
		return nil
	}
	var out []int
	for _, c := range s.names.splits(id) {
		out = append(out, c.member)
	}
	return out
}

// resolveURI finds the target of a resource URI that the table did not have:
// by its template, by where it was seen, by its prefix. Most such URIs are in
// no list, so the upstreams are asked again only where nothing else tells.
func (s *Server) resolveURI(ctx context.Context, scope Scope, id string) (Target, error) {
	if id == "" {
		return Target{}, s.unknown(mcp.Resources, id)
	}
	if s.unseen() {
		return s.direct(split{0, id}, id, "passthrough")
	}
	// Lists that never came must come first: they know what is hidden by name,
	// and which template a URI belongs to.
	owners := s.owners(id)
	r, err := s.relist(ctx, scope, mcp.Resources, id, wantKnown, owners)
	if err != nil || r != nil {
		return s.answer(r, err, mcp.Resources, id)
	}
	if _, err = s.relist(ctx, scope, mcp.Templates, id, wantKnown, owners); err != nil {
		return Target{}, err
	}
	if t, ok, err := s.byTemplate(scope, id); ok {
		return t, err
	}
	if s.names.plain {
		return s.direct(split{0, id}, id, "passthrough")
	}
	if c, ok := s.names.ui(id); ok {
		return s.direct(c, id, "ui")
	}
	if s.names.rule == Prefixed {
		for _, c := range s.names.splits(id) {
			return s.direct(c, id, "split")
		}
		return Target{}, s.unknown(mcp.Resources, id)
	}
	if strings.HasPrefix(id, uiScheme) {
		return Target{}, s.unknown(mcp.Resources, id) // under namespaced it names its member, or nothing
	}
	if len(s.o.Members) == 1 {
		return s.direct(split{0, id}, id, "only upstream")
	}
	if member, ok := s.memory.recall(id); ok {
		return s.direct(split{member, id}, id, "remembered")
	}

	r, err = s.relist(ctx, scope, mcp.Resources, id, wantNow, nil)
	if err != nil || r != nil {
		return s.answer(r, err, mcp.Resources, id)
	}
	if _, err = s.relist(ctx, scope, mcp.Templates, id, wantNow, nil); err != nil {
		return Target{}, err
	}
	if t, ok, err := s.byTemplate(scope, id); ok {
		return t, err
	}
	return Target{}, s.unknown(mcp.Resources, id)
}

// direct is the target of a URI that is in no list.
func (s *Server) direct(c split, id, rule string) (Target, error) {
	if !s.exposesURI(c.member, id, c.rest) {
		return Target{}, s.unknown(mcp.Resources, id)
	}
	return Target{Upstream: s.o.Members[c.member].Key, Kind: mcp.Resources, ID: c.rest, Exposed: id, Rule: rule, Names: judgedURI(id, c.rest)}, nil
}

// byTemplate finds the target of a URI by the template it may be an expansion
// of; ok is false where it is of none.
func (s *Server) byTemplate(scope Scope, id string) (t Target, ok bool, err error) {
	m := s.place(&scope, mcp.Templates).merged[mcp.Templates].cur.Load()
	if m == nil {
		return Target{}, false, nil
	}
	m.table.templates.find(id, func(r templateRoute) bool {
		ok = true
		it := r.node.item
		original := s.names.original(r.node.member, id)
		if !s.exposesURI(r.node.member, id, original, it.name, it.id, r.node.exposed) {
			err = s.unknown(mcp.Resources, id)
			return false
		}
		t = Target{
			Upstream: r.route.Upstream, Kind: mcp.Resources, ID: original, Exposed: id, Known: true, Rule: "template",
			Names: judgedURI(id, original, r.node.exposed, it.id),
		}
		return false
	})
	return t, ok, err
}

// NamesOf is every name under which a resource is judged, as far as is known
// without asking anybody: its URIs, and those of the template that it comes
// through. It does not block.
func (s *Server) NamesOf(scope Scope, uri, exposed string) []string {
	if t, ok, err := s.byTemplate(scope, exposed); ok && err == nil {
		return t.Names
	}
	return judgedURI(exposed, uri)
}
