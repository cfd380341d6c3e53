package catalog

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

const (
	partialTTL = time.Second // what a list that lacks something promises at most
	walkAge    = time.Second // how old a list without ttl may be on a later page of a walk
)

// merged is the merged list of one kind for one partition. Immutable.
type merged struct {
	table   *table
	scope   Scope
	shared  bool   // holds public contributions alone, so it is everybody's
	made    int64  // Unix nanoseconds, as below
	expires int64  // until then it is served without a look at its sources
	promise int64  // until then ttlMs may promise that it holds
	changed uint64 // Server.changed when it was made
	public  bool
	missing []Missing
	nothing bool // no upstream's list could be had
	known   bool // every upstream was asked at least once
	stale   bool // an upstream has said that what is here of it has changed
}

// slot holds a partition's merged list of one kind.
type slot struct {
	cur atomic.Pointer[merged]

	mu     sync.Mutex // guards flight; never held while waiting
	flight *mergeFlight
	build  sync.Mutex // makes one assembly at a time, so that the last one stays
}

// mergeFlight is one refresh under way; m is set before done closes.
type mergeFlight struct {
	done    chan struct{}
	changed uint64
	m       *merged
}

// place is where a scope finds merged lists of a kind.
func (s *Server) place(scope *Scope, kind mcp.Kind) *partition {
	if s.private[kind].Load() == 0 {
		return s.common
	}
	if p := s.parts.find(scope); p != nil {
		return p
	}
	return s.partition(*scope)
}

// current returns the merged list of a kind as it is now. walking: the caller
// continues a walk of pages, for which a list of just now will do.
func (s *Server) current(ctx context.Context, scope Scope, kind mcp.Kind, walking bool) (*merged, error) {
	for {
		now := s.o.Now().UnixNano()
		changed := s.changed[kind].Load()
		p := s.place(&scope, kind)
		sl := &p.merged[kind]
		if m := sl.cur.Load(); m != nil && m.changed == changed &&
			(now < m.expires || walking && m.known && now-m.made < int64(walkAge)) {
			p.touch(now)
			return m, nil
		}
		sl.mu.Lock()
		fl := sl.flight
		if fl == nil {
			fl = &mergeFlight{done: make(chan struct{}), changed: changed}
			sl.flight = fl
			if !s.spawn(func() { s.merge(sl, fl, scope, kind) }) {
				sl.flight = nil
				fl.m = s.assemble(scope, kind)
				close(fl.done)
			}
		}
		sl.mu.Unlock()
		select {
		case <-fl.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		// A refresh that began before a change, or for another scope, is not ours.
		if fl.changed >= changed && (fl.m.shared || fl.m.scope == scope) {
			return fl.m, nil
		}
	}
}

// merge brings every source up to date and assembles the result.
func (s *Server) merge(sl *slot, fl *mergeFlight, scope Scope, kind mcp.Kind) {
	// The sources end by their own deadlines, Close ends them all.
	_ = s.ensureAll(s.ctx, scope, kind, wantFresh, nil)
	fl.m = s.assemble(scope, kind)
	sl.mu.Lock()
	sl.flight = nil
	sl.mu.Unlock()
	close(fl.done)
}

// ensureAll is ensure for all members, or those of only, concurrently.
func (s *Server) ensureAll(ctx context.Context, scope Scope, kind mcp.Kind, w want, only []int) error {
	var wg sync.WaitGroup
	now := s.o.Now()
	one := func(src *source) {
		fd := s.feed(src, scope)
		fd.mu.Lock()
		fd.asked, fd.askedBy = now, scope
		s.adoptDownLocked(fd, now)
		ready := fd.failures == 0 && fd.flight == nil && fd.freshLocked(now, w)
		fd.mu.Unlock()
		if !ready {
			wg.Go(func() { _ = s.ensure(ctx, src, scope, w) }) // its error is that of ctx
		}
	}
	if only == nil {
		for _, src := range s.sources[kind] {
			one(src)
		}
	}
	for _, member := range only {
		one(s.sources[kind][member])
	}
	wg.Wait()
	return ctx.Err()
}

// assemble makes the merged list of what is known now, and keeps it where the
// scope looks for it.
func (s *Server) assemble(scope Scope, kind mcp.Kind) *merged {
	p := s.place(&scope, kind)
	p.merged[kind].build.Lock()
	defer p.merged[kind].build.Unlock()

	now := s.o.Now()
	m := &merged{
		scope:   scope,
		shared:  true,
		public:  true,
		changed: s.changed[kind].Load(),
		made:    now.UnixNano(),
		expires: now.Add(maxTTL).UnixNano(),
		nothing: len(s.o.Members) > 0,
		known:   true,
	}
	m.promise = m.expires
	lists := make([]*itemSet, len(s.o.Members))
	for i, src := range s.sources[kind] {
		fd := s.feed(src, scope)
		if fd != src.common {
			m.shared = false
		}
		lists[i] = s.contribute(m, fd, now)
	}
	m.table = s.table(kind, lists)
	if m.missing != nil {
		m.promise = min(m.promise, now.Add(partialTTL).UnixNano())
	}
	if p == s.common && !m.shared { // it became private meanwhile
		p = s.partition(scope)
	}
	p.merged[kind].cur.Store(m)
	return m
}

// contribute notes in m what one feed adds to it, and returns its list.
func (s *Server) contribute(m *merged, fd *feed, now time.Time) *itemSet {
	fd.mu.Lock()
	defer fd.mu.Unlock()
	upstream := s.o.Members[fd.src.member].Key
	miss := func(why string, stale bool) {
		m.missing = append(m.missing, Missing{Upstream: upstream, Reason: why, Stale: stale})
	}
	until := fd.expires
	switch {
	case fd.snap == nil && fd.failures == 0:
		miss("not listed yet", false)
		m.expires, m.public, m.known = now.UnixNano(), false, false
		return nil
	case fd.failures > 0:
		// Asked again soon, so that its retry goes on while somebody lists.
		until = now.Add(partialTTL)
		switch {
		case fd.snap == nil:
			miss(fd.why, false)
		case fd.snap.short != "":
			miss(fd.snap.short, false)
		default:
			miss(fd.why, true)
		}
	case fd.snap.short != "":
		miss(fd.snap.short, false)
	}
	if fd.seq != fd.src.dirty.Load() && fd.failures == 0 {
		until, m.stale = now, true
	}
	m.expires = min(m.expires, until.UnixNano())
	if fd.snap == nil {
		return nil
	}
	m.nothing = false
	if !fd.snap.absent {
		m.public = m.public && fd.snap.public
		if fd.snap.legacy {
			m.promise = min(m.promise, now.UnixNano()) // checklist 154
		} else {
			m.promise = min(m.promise, fd.expires.UnixNano())
		}
	}
	return fd.snap.set
}

// unavailable is the answer when nothing at all can be served.
func unavailable(missing []Missing, kind mcp.Kind) error {
	names, why := "", ""
	for i, miss := range missing {
		if i > 0 {
			names += ", "
		}
		names += miss.Upstream
		why = miss.Reason
	}
	if len(missing) == 0 { // of those that the caller may know of
		return fault.New(fault.UpstreamUnavailable, "no upstream could list its %s", kind).
			WithHint("try again; the upstreams are being retried")
	}
	return fault.New(fault.UpstreamUnavailable, "no upstream could list its %s: %s: %s", kind, names, why).
		WithHint("try again; the upstreams are being retried")
}
