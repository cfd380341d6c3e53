package catalog

import (
	"hash/maphash"
	"sync"
)

const (
	memoryShards  = 16
	memoryPerHalf = 10000 / memoryShards / 2
)

// memory holds the owners of URIs that were seen in results, 10,000 at most:
// each shard forgets the older half of what it holds at once.
type memory struct {
	once   sync.Once
	seed   maphash.Seed
	shards [memoryShards]memoryShard
}

type memoryShard struct {
	mu         sync.Mutex // guards both halves
	young, old map[string]int
}

func (sh *memoryShard) rememberLocked(uri string, member int) {
	if sh.young == nil || len(sh.young) >= memoryPerHalf {
		sh.old, sh.young = sh.young, make(map[string]int)
	}
	sh.young[uri] = member
}

func (m *memory) shard(uri string) int {
	m.once.Do(func() { m.seed = maphash.MakeSeed() })
	return int(maphash.String(m.seed, uri) % memoryShards)
}

// Remember notes that a URI seen in a result belongs to that upstream, under
// `namespaced`, where a URI does not tell its owner. Of two upstreams that
// claim one URI, the first key in byte order has it (DESIGN section 5).
func (s *Server) Remember(upstream, uri string) {
	member, ok := s.names.index[upstream]
	if !ok || uri == "" || s.names.plain || s.names.rule != Namespaced || len(s.o.Members) == 1 {
		return
	}
	shard := &s.memory.shards[s.memory.shard(uri)]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	for _, half := range []map[string]int{shard.young, shard.old} {
		if owner, known := half[uri]; known && owner < member {
			member = owner
		}
	}
	shard.rememberLocked(uri, member)
}

// recall returns the member that a URI was seen at.
func (m *memory) recall(uri string) (member int, ok bool) {
	shard := &m.shards[m.shard(uri)]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if member, ok = shard.young[uri]; ok {
		return member, true
	}
	if member, ok = shard.old[uri]; ok {
		shard.rememberLocked(uri, member) // used, so it stays
	}
	return member, ok
}
