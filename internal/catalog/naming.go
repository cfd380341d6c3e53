package catalog

import (
	"sort"
	"strings"
)

// namer is the naming rule of one server applied to its members: the pure
// part of the name table, which never depends on what upstreams listed.
type namer struct {
	members []Member // by key
	index   map[string]int
	prefix  []string // by member: its namespace or key, with the separator
	longest []int    // members, the longest prefix first, then by key
	rule    Naming
	plain   bool // identifiers are unchanged
}

func newNamer(o *Options) *namer {
	n := &namer{
		members: o.Members,
		rule:    o.Naming,
		plain:   o.Naming == Passthrough || (o.Naming == Prefixed && len(o.Members) == 1),
		index:   make(map[string]int, len(o.Members)),
		prefix:  make([]string, len(o.Members)),
		longest: make([]int, len(o.Members)),
	}
	for i, m := range o.Members {
		n.index[m.Key] = i
		n.longest[i] = i
		n.prefix[i] = m.Key + o.Separator
		if o.Naming == Namespaced {
			n.prefix[i] = m.Namespace + o.Separator
		}
	}
	sort.SliceStable(n.longest, func(a, b int) bool {
		return len(n.prefix[n.longest[a]]) > len(n.prefix[n.longest[b]])
	})
	return n
}

// name is the exposed name of a tool or prompt where no alias and no collision
// interferes; short tells that it had to be shortened.
func (n *namer) name(member int, original string) (exposed string, short bool) {
	if n.plain {
		return original, false
	}
	joined := n.prefix[member] + original
	if fits(joined) {
		return joined, false
	}
	return n.short(member, original, 0), true
}

// canonical is namespace__original, the name under which policy and expose
// know a target whatever the naming rule (DESIGN section 11).
func (n *namer) canonical(member int, original string) string {
	return n.members[member].Namespace + "__" + original
}

// label is the exposed name of a resource or template, which identifies
// nothing; it follows only the prefix contract (S1).
func (n *namer) label(member int, name string) string {
	if n.plain || n.rule != Prefixed {
		return name
	}
	return n.prefix[member] + name
}

// split is one reading of an exposed name as prefix and remainder.
type split struct {
	member int
	rest   string
}

// splits returns every reading of an exposed identifier, the longest prefix
// first. An empty remainder is no reading (S4).
func (n *namer) splits(exposed string) []split {
	if n.plain {
		if exposed == "" {
			return nil
		}
		return []split{{0, exposed}}
	}
	var out []split
	for _, m := range n.longest {
		if rest, ok := strings.CutPrefix(exposed, n.prefix[m]); ok && rest != "" {
			out = append(out, split{m, rest})
		}
	}
	return out
}
