package catalog

import (
	"context"
	"fmt"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// Resolve finds the target of an exposed identifier. A name in the table costs
// one look-up, without lock or allocation; for any other, the upstreams it may
// belong to are listed again, each at most once a second.
//
// Known is false in a Target that was found by the form of the identifier
// alone. Errors: fault.InvalidParams that names the identifier, equal for what
// does not exist and what is not exposed; fault.UpstreamUnavailable where the
// identifier points at an upstream that cannot be reached and never listed, with
// the Target that it would be, for whoever judges it;
// ctx.Err().
func (s *Server) Resolve(ctx context.Context, scope Scope, kind mcp.Kind, id string) (Target, error) {
	if r := s.lookup(&scope, kind, id); r != nil {
		if r.hidden {
			return Target{}, s.unknown(kind, id)
		}
		return r.Target, nil
	}
	switch kind {
	case mcp.Tools, mcp.Prompts:
		return s.resolveName(ctx, scope, kind, id)
	case mcp.Templates:
		return s.resolveTemplate(ctx, scope, id)
	}
	return s.resolveURI(ctx, scope, id)
}

// lookup returns the route of an identifier in the table as it is, nil where
// there is none or where the upstream has said that its list changed.
func (s *Server) lookup(scope *Scope, kind mcp.Kind, id string) *route {
	p := s.common
	if s.private[kind].Load() != 0 {
		if p = s.parts.find(scope); p == nil {
			return nil
		}
	}
	m := p.merged[kind].cur.Load()
	if m == nil {
		return nil
	}
	r := m.table.byName[id]
	if r == nil || !m.stale && m.changed == s.changed[kind].Load() {
		return r
	}
	fd := s.feed(s.sources[kind][r.member], *scope)
	fd.mu.Lock()
	current := fd.seq == fd.src.dirty.Load() || fd.failures > 0
	fd.mu.Unlock()
	if !current {
		return nil
	}
	return r
}

// resolveName finds a tool or prompt that the table did not have.
func (s *Server) resolveName(ctx context.Context, scope Scope, kind mcp.Kind, id string) (Target, error) {
	var candidates []split
	var rules []string
	alias := false
	if kind == mcp.Tools {
		for _, a := range s.aliases {
			if a.name == id {
				candidates, rules, alias = append(candidates, split{a.member, a.id}), append(rules, "alias"), true
			}
		}
	}
	if !alias {
		for _, c := range s.names.splits(id) {
			// A name that would be exposed in another form was never given out.
			if name, _ := s.names.name(c.member, c.rest); name == id {
				candidates, rules = append(candidates, c), append(rules, s.splitRule())
			}
		}
	}
	if id == "" || len(candidates) == 0 && !looksShort(id) {
		return Target{}, s.unknown(kind, id)
	}

	var only []int // nil: a short form does not tell its upstream
	for _, c := range candidates {
		only = append(only, c.member)
	}
	if looksShort(id) {
		only = nil
	}
	if r, err := s.relist(ctx, scope, kind, id, wantNow, only); err != nil || r != nil {
		return s.answer(r, err, kind, id)
	}
	for i, c := range candidates {
		st := s.state(kind, c.member, scope)
		if !st.open && !(s.names.plain && !alias) {
			continue // its whole list is known, and lacks the name
		}
		t := Target{Upstream: s.o.Members[c.member].Key, Kind: kind, ID: c.rest, Exposed: id, Rule: rules[i], Names: s.judgedSplit(kind, c, id)}
		if st.refused && !s.names.plain {
			return t, fault.New(fault.UpstreamUnavailable, "upstream %q cannot be reached", s.o.Members[c.member].Key).
				WithHint("try again; it is being retried")
		}
		if !s.o.Expose[kind].allows(s.namesOf(c.member, c.rest, id, t.Names...)...) {
			break
		}
		return t, nil
	}
	// A list may have come since it was looked for there, by another's request.
	if r := s.assemble(scope, kind).table.byName[id]; r != nil {
		return s.answer(r, nil, kind, id)
	}
	return Target{}, s.unknown(kind, id)
}

// judgedSplit is every name of a target that is known by the form of a name alone.
func (s *Server) judgedSplit(kind mcp.Kind, c split, id string) []string {
	var aliases []string
	if kind == mcp.Tools {
		for _, a := range s.aliases {
			if a.origin == (origin{c.member, c.rest}) {
				aliases = append(aliases, a.name)
			}
		}
	}
	return s.judgedName(c.member, c.rest, id, aliases...)
}

func (s *Server) splitRule() string {
	if s.names.plain {
		return "passthrough"
	}
	return "split"
}

// relist brings the lists of some members up to date, all of them for nil, and
// looks an identifier up again.
func (s *Server) relist(ctx context.Context, scope Scope, kind mcp.Kind, id string, w want, only []int) (*route, error) {
	if w == wantKnown {
		m := s.place(&scope, kind).merged[kind].cur.Load()
		if m != nil && m.known && m.changed == s.changed[kind].Load() {
			return m.table.byName[id], nil
		}
	}
	if err := s.ensureAll(ctx, scope, kind, w, only); err != nil {
		return nil, fmt.Errorf("resolve %s: %w", kind, err)
	}
	return s.assemble(scope, kind).table.byName[id], nil
}

func (s *Server) answer(r *route, err error, kind mcp.Kind, id string) (Target, error) {
	switch {
	case err != nil:
		return Target{}, err
	case r.hidden:
		return Target{}, s.unknown(kind, id)
	}
	return r.Target, nil
}

// sourceState is what Resolve must know of a list that lacks an identifier.
type sourceState struct {
	open    bool // it is not known whole: the identifier may be there all the same
	refused bool // it never came, because the upstream cannot be reached
}

func (s *Server) state(kind mcp.Kind, member int, scope Scope) sourceState {
	fd := s.feed(s.sources[kind][member], scope)
	fd.mu.Lock()
	defer fd.mu.Unlock()
	return sourceState{
		open:    fd.snap == nil || fd.snap.short != "",
		refused: fd.snap == nil && fd.refused,
	}
}

// unknown is the one answer for what does not exist and what is hidden.
func (s *Server) unknown(kind mcp.Kind, id string) error {
	what := [...]string{"tool", "prompt", "resource", "resource template"}[kind]
	err := fault.New(fault.InvalidParams, "unknown %s %s", what, quoted(id))
	if kind == mcp.Resources || kind == mcp.Templates {
		data := append([]byte(`{"uri":`), wire.AppendString(nil, id)...)
		return err.WithData(append(data, '}')) // checklist 47
	}
	return err
}

func quoted(id string) string {
	const most = 256
	if len(id) > most {
		id = id[:most] + "…"
	}
	return fmt.Sprintf("%q", id)
}
