package catalog

import (
	"cmp"
	"crypto/sha256"
	"slices"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

// Origin is a target by its upstream and original identifier.
type Origin struct{ Upstream, ID string }

// Collision is two targets that would be exposed under one identifier.
type Collision struct {
	Kind    mcp.Kind
	Name    string // what both would be called
	Winner  Origin
	Loser   Origin
	Exposed string // what the loser is called now; "": it is not listed
}

// table maps every exposed identifier of one kind to its target. It is a pure
// function of the options and the lists it was built from. Immutable but for
// what viewers see of it, which is cached.
type table struct {
	kind       mcp.Kind
	digest     [sha256.Size]byte
	byName     map[string]*route // exposed names, aliases, canonical names
	byOrigin   map[origin]*node
	all        selection // what lists show to who sees everything, by exposed identifier
	selections selections
	templates  templates
	collisions []Collision
}

type origin struct {
	member int
	id     string
}

// node is one target of a table.
type node struct {
	member  int
	item    *item
	exposed string // the one name it is listed under; "": shadowed
	plain   string // its name without aliases
	aliases []string
	names   []string // every name it is judged under by policy
	hidden  bool     // by expose
}

// route is where one name leads.
type route struct {
	Target
	member int
	hidden bool
	node   *node
}

// build makes the table of one kind from what each member listed; nil where
// nothing is known.
func (s *Server) build(kind mcp.Kind, lists []*itemSet, digest [sha256.Size]byte) *table {
	b := &builder{s: s, t: &table{
		kind:     kind,
		digest:   digest,
		byName:   make(map[string]*route),
		byOrigin: make(map[origin]*node),
		all:      selection{kind: kind},
	}}
	for member, list := range lists {
		if list == nil {
			continue
		}
		for _, it := range list.items {
			n := &node{member: member, item: it}
			b.nodes = append(b.nodes, n)
			b.t.byOrigin[origin{member, it.id}] = n
		}
	}
	// Every decision below follows this order, so that arrival never matters:
	// the longer key first where keys can hide each other, else byte order.
	byLength := s.names.rule == Prefixed || kind == mcp.Tools || kind == mcp.Prompts
	slices.SortFunc(b.nodes, func(x, y *node) int {
		if x.member != y.member && byLength {
			if c := cmp.Compare(len(s.names.prefix[y.member]), len(s.names.prefix[x.member])); c != 0 {
				return c
			}
		}
		return cmp.Or(cmp.Compare(x.member, y.member), cmp.Compare(x.item.id, y.item.id))
	})
	switch kind {
	case mcp.Tools, mcp.Prompts:
		b.claimNames()
	default:
		b.claimURIs()
	}
	slices.SortFunc(b.t.all.listed, func(x, y *node) int { return cmp.Compare(x.exposed, y.exposed) })
	return b.t
}

type builder struct {
	s     *Server
	t     *table
	nodes []*node
}

// claimNames gives every tool or prompt its names: aliases first, then the
// names that need no shortening, then short forms.
func (b *builder) claimNames() {
	names := b.s.names
	reserved := map[string]origin{}
	if b.t.kind == mcp.Tools {
		for _, a := range b.s.aliases {
			reserved[a.name] = a.origin
			if n := b.t.byOrigin[a.origin]; n != nil {
				n.aliases = append(n.aliases, a.name)
				b.claim(a.name, n, "alias")
			}
		}
	}
	var later []*node
	for _, n := range b.nodes {
		want, short := names.name(n.member, n.item.id)
		if short {
			later = append(later, n)
			continue
		}
		holder, taken := reserved[want]
		if r := b.t.byName[want]; r != nil && !taken {
			holder, taken = origin{r.member, r.ID}, true
		}
		switch {
		case !taken:
			n.plain = want
			b.claim(want, n, "catalog")
		case holder == origin{n.member, n.item.id}:
			n.plain = want // an alias that spells the canonical name
		default:
			later = append(later, n)
			b.collide(want, holder, n)
		}
	}
	for _, n := range later {
		for salt := uint32(0); n.plain == ""; salt++ {
			short := names.short(n.member, n.item.id, salt)
			if _, taken := reserved[short]; !taken && b.t.byName[short] == nil {
				n.plain = short
				b.claim(short, n, "short form")
			}
		}
	}
	for i := range b.t.collisions {
		c := &b.t.collisions[i]
		c.Exposed = b.t.byOrigin[origin{names.index[c.Loser.Upstream], c.Loser.ID}].plain
	}
	for _, n := range b.nodes {
		n.exposed = n.plain
		if len(n.aliases) > 0 {
			n.exposed = n.aliases[0] // aliases come in byte order
		}
		n.hidden = !b.s.o.Expose[b.t.kind].allows(b.s.namesOf(n.member, n.item.id, n.plain, n.aliases...)...)
		n.names = b.s.judgedName(n.member, n.item.id, n.plain, n.aliases...)
		b.list(n)
	}
}

// claimURIs gives every resource or template its URI; a URI that two of them
// have goes to the first.
func (b *builder) claimURIs() {
	names := b.s.names
	for _, n := range b.nodes {
		uri := names.uri(n.member, n.item.id)
		if r := b.t.byName[uri]; r != nil {
			b.collide(uri, origin{r.member, r.ID}, n)
			continue
		}
		n.exposed, n.plain = uri, uri
		n.hidden = !b.s.exposesURI(n.member, uri, n.item.id, n.item.name)
		n.names = judgedURI(uri, n.item.id)
		r := b.claim(uri, n, "catalog")
		b.list(n)
		if b.t.kind == mcp.Templates {
			b.t.templates.add(templateRoute{newTemplate(uri), r, n})
		}
	}
}

func (b *builder) claim(name string, n *node, rule string) *route {
	r := &route{
		Target: Target{
			Upstream: b.s.o.Members[n.member].Key,
			Kind:     b.t.kind,
			ID:       n.item.id,
			Params:   n.item.params,
			Notes:    n.item.notes,
			Tasks:    n.item.tasks,
			Known:    true,
			Rule:     rule,
		},
		member: n.member,
		node:   n,
	}
	b.t.byName[name] = r
	return r
}

// list settles what is known of a node only at the end.
func (b *builder) list(n *node) {
	if !n.hidden {
		b.t.all.listed = append(b.t.all.listed, n)
	}
	for _, name := range append([]string{n.plain}, n.aliases...) {
		r := b.t.byName[name]
		r.hidden, r.Exposed, r.Names = n.hidden, n.exposed, n.names
	}
}

func (b *builder) collide(name string, winner origin, loser *node) {
	members := b.s.o.Members
	b.t.collisions = append(b.t.collisions, Collision{
		Kind:   b.t.kind,
		Name:   name,
		Winner: Origin{members[winner.member].Key, winner.id},
		Loser:  Origin{members[loser.member].Key, loser.item.id},
	})
}

// namesOf is every name of a tool or prompt (DESIGN section 11).
func (s *Server) namesOf(member int, id, plain string, aliases ...string) []string {
	return append([]string{s.names.canonical(member, id), s.names.prefix[member] + id, plain, id}, aliases...)
}

// exposesURI judges a resource under its URIs and under the names that belong
// to it: its own, or those of the template it matched.
func (s *Server) exposesURI(member int, exposed, original string, names ...string) bool {
	rule := &s.o.Expose[mcp.Resources]
	if rule.empty() {
		return true
	}
	all := []string{exposed, original}
	for _, name := range names {
		if name != "" {
			all = append(all, name, s.names.label(member, name), s.names.canonical(member, name))
		}
	}
	return rule.allows(all...)
}

// judgedName is every name under which policy judges a tool or prompt: the
// canonical one, before shortening, the one it is exposed under, and its aliases.
// Its bare original name is none of them: a rule for one upstream's tool must not
// hold for another's of the same name (DESIGN section 11).
func (s *Server) judgedName(member int, id, plain string, aliases ...string) []string {
	names := make([]string, 0, 2+len(aliases))
	names = append(names, s.names.canonical(member, id))
	for _, name := range append([]string{plain}, aliases...) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// judgedURI is every name under which policy judges a resource or template: its
// URIs, and those of the template that it came through. Titles and names identify
// nothing, and an upstream could choose them to please a rule.
func judgedURI(uris ...string) []string {
	names := make([]string, 0, len(uris))
	for _, uri := range uris {
		if !slices.Contains(names, uri) {
			names = append(names, uri)
		}
	}
	return names
}
