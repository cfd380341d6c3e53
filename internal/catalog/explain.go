package catalog

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

// Explanation tells where a name of one kind goes, and why. It is for
// operators: it shows hidden targets too.
type Explanation struct {
	Kind       mcp.Kind
	Target     Target
	Why        string   // one sentence
	Names      []string // every name the target is judged under
	Hidden     bool     // expose hides it: clients are told it does not exist
	Shadowed   []Origin // what the name would mean by its form, were it not for the rule
	Collisions []Collision
	Err        error // why a client that uses the name gets an error
}

// Explain tells where an identifier goes, for every kind that knows it; one
// Explanation with an error when none does.
func (s *Server) Explain(ctx context.Context, scope Scope, name string) []Explanation {
	var out []Explanation
	var last error
	for kind := range mcp.NumKinds {
		t, err := s.Resolve(ctx, scope, kind, name)
		if kind == mcp.Templates && t.Kind == mcp.Resources && err == nil {
			continue // told as a resource
		}
		e := Explanation{Kind: kind, Target: t, Err: err}
		var r *route
		if m := s.place(&scope, kind).merged[kind].cur.Load(); m != nil {
			r = m.table.byName[name]
			for _, c := range m.table.collisions {
				if c.Name == name || c.Exposed == name {
					e.Collisions = append(e.Collisions, c)
				}
			}
		}
		if r != nil {
			e.Target, e.Hidden = r.Target, r.hidden
		}
		if err != nil && r == nil {
			last = err
			continue
		}
		s.describe(&e, r, name)
		out = append(out, e)
	}
	// A guess by form explains nothing once a list has the name.
	if known := func(e Explanation) bool { return e.Target.Known }; slices.ContainsFunc(out, known) {
		out = slices.DeleteFunc(out, func(e Explanation) bool { return !known(e) })
	}
	if out == nil {
		out = []Explanation{{Err: last, Why: "no tool, prompt, resource or template has this name"}}
	}
	return out
}

func (s *Server) describe(e *Explanation, r *route, name string) {
	t := &e.Target
	member := s.names.index[t.Upstream]
	e.Names = []string{t.Exposed, t.ID}
	if e.Kind == mcp.Tools || e.Kind == mcp.Prompts {
		e.Names = append(e.Names, s.names.canonical(member, t.ID))
		for _, c := range s.names.splits(name) {
			if c != (split{member, t.ID}) {
				e.Shadowed = append(e.Shadowed, Origin{s.o.Members[c.member].Key, c.rest})
			}
		}
	}
	if r != nil {
		e.Names = append(append(e.Names, r.node.plain, r.node.item.name), r.node.aliases...)
	}
	slices.Sort(e.Names)
	e.Names = slices.DeleteFunc(slices.Compact(e.Names), func(n string) bool { return n == "" })

	what := strings.TrimSuffix(e.Kind.String(), "s")
	switch t.Rule {
	case "alias":
		e.Why = fmt.Sprintf("%q is an alias of %s %q of upstream %q", name, what, t.ID, t.Upstream)
	case "catalog":
		e.Why = fmt.Sprintf("upstream %q lists %s %q, exposed as %q under %s naming", t.Upstream, what, t.ID, t.Exposed, s.o.Naming)
	case "short form":
		e.Why = fmt.Sprintf("%q is the short form of %s %q of upstream %q, whose full name is too long, has other characters, or belongs to another", name, what, t.ID, t.Upstream)
	case "split":
		e.Why = fmt.Sprintf("it starts with the prefix of upstream %q, the longest that fits; no list is known to have it", t.Upstream)
	case "template":
		e.Why = fmt.Sprintf("it matches a resource template of upstream %q", t.Upstream)
	case "remembered":
		e.Why = fmt.Sprintf("upstream %q returned this URI in a result", t.Upstream)
	case "ui":
		e.Why = fmt.Sprintf("a ui:// URI names its upstream, here %q", t.Upstream)
	default:
		e.Why = fmt.Sprintf("everything goes to the only upstream, %q", t.Upstream)
	}
	if e.Hidden {
		e.Why += "; expose hides it"
	}
}

// Collisions returns the collisions within everything that is listed now, in
// order of kind, name and loser.
func (s *Server) Collisions() []Collision {
	seen := map[Collision]bool{}
	note := func(p *partition) {
		for kind := range p.merged {
			if m := p.merged[kind].cur.Load(); m != nil {
				for _, c := range m.table.collisions {
					seen[c] = true
				}
			}
		}
	}
	note(s.common)
	for i := range s.parts.shards {
		shard := &s.parts.shards[i]
		shard.mu.RLock()
		for _, p := range shard.by {
			note(p)
		}
		shard.mu.RUnlock()
	}
	out := make([]Collision, 0, len(seen))
	for c := range seen {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b Collision) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Loser.Upstream, b.Loser.Upstream), cmp.Compare(a.Loser.ID, b.Loser.ID))
	})
	return out
}
