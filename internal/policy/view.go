package policy

import (
	"maps"
	"sync"
	"sync/atomic"
)

// View is what of a policy concerns one caller. It is immutable to its users
// and safe for concurrent use. A nil *View allows everything.
type View struct {
	*selection
	caller *Caller
}

// selection is the rules whose "who" fits a caller, and the caller as their
// conditions see it. Callers to whom that is the same share it.
type selection struct {
	id        uint64
	policy    *Policy
	rules     []*rule    // those that fit, in order
	principal *principal // nil where no condition mentions it

	// lanes holds the rules by server and upstream, as they are first asked
	// for. The map is replaced, never written.
	lanes atomic.Pointer[map[pair]*lane]
	mu    sync.Mutex // serializes replacing lanes
}

type pair struct{ server, upstream string }

// lane is the rules of a selection that concern one upstream of one server,
// by kind and effect.
type lane struct {
	server, upstream string
	kinds            [numKinds]struct{ deny, allow []entry }
}

type entry struct {
	rule  *rule
	globs []pattern
}

// For selects what of the policy concerns a caller. It is meant to be called
// once per verified token, and the View to be kept with it. The caller must not
// change afterwards. A nil caller is one of whom nothing is known.
func (p *Policy) For(c *Caller) *View {
	if p == nil {
		return nil
	}
	if c == nil {
		c = &Caller{}
	}
	var (
		fit   []*rule
		bits  = make([]byte, (len(p.rules)+7)/8)
		asked mentions
	)
	for i := range p.rules {
		r := &p.rules[i]
		if r.who.misses(c) != "" {
			continue
		}
		fit = append(fit, r)
		bits[i/8] |= 1 << (i % 8)
		if r.cond != nil {
			asked.merge(&r.cond.mentions)
		}
	}
	fresh := func() *selection {
		s := &selection{id: lastID.Add(1), policy: p, rules: fit}
		if asked.principal() {
			s.principal = newPrincipal(c, &asked)
		}
		s.lanes.Store(&map[pair]*lane{})
		return s
	}
	key, ok := asked.identify(bits, c)
	if !ok {
		return &View{fresh(), c}
	}
	return &View{p.table.get(key, fresh), c}
}

// lastID is the last id of a selection, of any policy: a cache may outlive a
// reload. It is never 0, which is the id of a nil View.
var lastID atomic.Uint64

// ID is equal for views that decide alike for every target: a key for caches.
// It is never reused, also not by another policy. Two views that decide alike
// may have different ids, after more than some thousand others.
func (v *View) ID() uint64 {
	if v == nil {
		return 0
	}
	return v.id
}

// lane returns the rules for an upstream of a server.
func (s *selection) lane(server, upstream string) *lane {
	if l := (*s.lanes.Load())[pair{server, upstream}]; l != nil {
		return l
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := *s.lanes.Load()
	if l := old[pair{server, upstream}]; l != nil {
		return l
	}
	l := &lane{server: server, upstream: upstream}
	for _, r := range s.rules {
		if !r.server.matches(server) || !r.upstream.matches(upstream) {
			continue
		}
		for kind := range numKinds {
			k := &l.kinds[kind]
			if globs := r.deny[kind]; len(globs) > 0 {
				k.deny = append(k.deny, entry{r, globs})
			}
			if globs := r.allow[kind]; len(globs) > 0 {
				k.allow = append(k.allow, entry{r, globs})
			}
		}
	}
	if len(old) >= maxLanes {
		return l // more pairs than any document has: correct, if slower
	}
	grown := maps.Clone(old)
	grown[pair{server, upstream}] = l
	s.lanes.Store(&grown)
	return l
}
