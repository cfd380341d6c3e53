package catalog

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

// maxPartitions bounds how many scopes are remembered at once.
const maxPartitions = 10000

// partition is what one scope may see: its private lists, and the merged lists
// that hold them.
type partition struct {
	scope  Scope
	merged [mcp.NumKinds]slot
	used   atomic.Int64 // Unix nanoseconds

	mu    sync.Mutex // guards feeds and gone
	feeds [mcp.NumKinds][]*feed
	size  int
	gone  bool
}

func newPartition(scope Scope, members int) *partition {
	return &partition{scope: scope, size: members}
}

// touch notes a use; once a second is exact enough for eviction.
func (p *partition) touch(now int64) {
	if now-p.used.Load() > int64(time.Second) {
		p.used.Store(now)
	}
}

// feed returns the scope's own list of a source, made at first use.
func (p *partition) feed(src *source) *feed {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.feeds[src.kind] == nil {
		p.feeds[src.kind] = make([]*feed, p.size)
	}
	fd := p.feeds[src.kind][src.member]
	if fd == nil {
		fd = &feed{src: src, scope: p.scope, gone: p.gone}
		p.feeds[src.kind][src.member] = fd
	}
	return fd
}

// partitions finds a scope's partition. It is cut into shards, so that no
// request takes a lock that all requests take.
type partitions struct {
	shards [32]struct {
		mu sync.RWMutex // guards by, and writes of last
		by map[Scope]*partition
		// last is the partition found last: most shards serve one scope for a
		// while, and even a read lock is a line all cores write to.
		last atomic.Pointer[partition]
	}
	count atomic.Int64
	evict sync.Mutex // makes one eviction at a time
}

func (ps *partitions) find(scope *Scope) *partition {
	shard := &ps.shards[scope.Principal[0]%32]
	if p := shard.last.Load(); p != nil && p.scope == *scope {
		return p
	}
	shard.mu.RLock()
	defer shard.mu.RUnlock()
	p := shard.by[*scope]
	if p != nil {
		shard.last.Store(p)
	}
	return p
}

// partition returns the scope's partition, made at first use.
func (s *Server) partition(scope Scope) *partition {
	now := s.o.Now().UnixNano()
	if p := s.parts.find(&scope); p != nil {
		p.touch(now)
		return p
	}
	shard := &s.parts.shards[scope.Principal[0]%32]
	shard.mu.Lock()
	p := shard.by[scope]
	if p == nil {
		if shard.by == nil {
			shard.by = make(map[Scope]*partition)
		}
		p = newPartition(scope, len(s.o.Members))
		shard.by[scope] = p
		s.parts.count.Add(1)
	}
	p.used.Store(now)
	shard.mu.Unlock()
	if s.parts.count.Load() > maxPartitions {
		s.evict(scope, func() bool { return s.parts.count.Load() <= maxPartitions*9/10 })
	}
	return p
}

// feed returns where a scope finds the list of a source.
func (s *Server) feed(src *source, scope Scope) *feed {
	if src.sharing.Load() == sharingPrivate {
		return s.partition(scope).feed(src)
	}
	return src.common
}

// hold notes that a feed holds next and no longer old, and drops the scopes
// that were used longest ago while all lists hold too many bytes.
func (s *Server) hold(old, next *snapshot) {
	var a, b *itemSet
	if old != nil {
		a = old.set
	}
	if next != nil {
		b = next.set
	}
	_, bytes := s.sets.swap(a, b)
	if bytes > s.o.CacheBytes {
		s.evict(Scope{}, func() bool { _, bytes := s.sets.swap(nil, nil); return bytes <= s.o.CacheBytes })
	}
}

// evict drops partitions, the longest unused first, until enough; never the
// one that is kept, nor the one used last.
func (s *Server) evict(keep Scope, enough func() bool) {
	if !s.parts.evict.TryLock() {
		return // another goroutine is at it
	}
	defer s.parts.evict.Unlock()
	var all []*partition
	for i := range s.parts.shards {
		shard := &s.parts.shards[i]
		shard.mu.RLock()
		for _, p := range shard.by {
			all = append(all, p)
		}
		shard.mu.RUnlock()
	}
	slices.SortFunc(all, func(a, b *partition) int { return cmp.Compare(a.used.Load(), b.used.Load()) })
	for i, p := range all {
		if i == len(all)-1 || enough() {
			return
		}
		if p.scope != keep {
			s.drop(p)
		}
	}
}

func (s *Server) drop(p *partition) {
	shard := &s.parts.shards[p.scope.Principal[0]%32]
	shard.mu.Lock()
	if shard.by[p.scope] == p {
		delete(shard.by, p.scope)
		shard.last.CompareAndSwap(p, nil)
		s.parts.count.Add(-1)
	}
	shard.mu.Unlock()

	p.mu.Lock()
	p.gone = true
	var feeds []*feed
	for _, of := range p.feeds {
		feeds = append(feeds, of...)
	}
	p.mu.Unlock()
	for _, fd := range feeds {
		if fd == nil {
			continue
		}
		fd.mu.Lock()
		fd.gone = true
		old := fd.snap
		fd.snap = nil
		fd.mu.Unlock()
		if old != nil {
			s.sets.swap(old.set, nil)
		}
	}
}
