package catalog

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

const (
	retryFirst = 500 * time.Millisecond
	retryMost  = 5 * time.Second
	retryAsked = time.Minute // how long an upstream is retried after somebody last asked
	forceEvery = time.Second // how often one upstream is asked for an unknown name
)

// Whether an upstream's lists are shared between scopes.
const (
	sharingUnknown int32 = iota
	sharingPublic
	sharingPrivate
)

// source is one kind of list of one upstream, over all scopes.
type source struct {
	member   int
	upstream string
	kind     mcp.Kind
	personal bool // Member.PerCaller: it stays private
	sharing  atomic.Int32
	dirty    atomic.Uint64 // counts list_changed; a snapshot of an older count is out of date
	common   *feed         // the public list
	// down tells scopes that never listed not to wait for an upstream that
	// just failed another scope.
	down atomic.Pointer[outage]
}

// outage is what a failure means for every scope. Immutable.
type outage struct {
	until   time.Time
	why     string
	refused bool
}

// feed is one upstream's list of one kind for one scope, or for all of them.
type feed struct {
	src   *source
	scope Scope // of a private feed

	mu       sync.Mutex // guards all below; never held while waiting
	snap     *snapshot  // the last good one, or what came before a first failure
	seq      uint64     // source.dirty when snap was asked for
	expires  time.Time
	tried    time.Time // when the last walk began; zero: never
	asked    time.Time // when somebody last wanted it
	askedBy  Scope
	flight   *flight
	failures int    // in a row
	missed   uint64 // what seq the last failure was to bring
	why      string
	refused  bool // the last failure says that the upstream cannot be reached
	retrying bool // a goroutine of Server.retry has it
	gone     bool // its partition was evicted
}

// flight is one walk that is under way; err and seq are set before done closes.
type flight struct {
	done  chan struct{}
	scope Scope
	seq   uint64
}

// want says how recent a list must be.
type want uint8

const (
	wantKnown want = iota // any state will do, if it was ever asked for
	wantFresh             // within its ttl, and not invalidated
	wantNow               // asked for within the last second
)

// freshLocked reports whether the feed can answer without asking upstream.
func (fd *feed) freshLocked(now time.Time, w want) bool {
	if fd.tried.IsZero() {
		return false
	}
	if fd.failures > 0 {
		return true // answered at once; retried behind
	}
	if fd.snap == nil || fd.seq != fd.src.dirty.Load() {
		return fd.snap != nil && w == wantKnown
	}
	switch w {
	case wantKnown:
		return true
	case wantNow:
		return now.Sub(fd.tried) < forceEvery
	}
	return now.Before(fd.expires)
}

// ensure waits until the list of one source is as recent as wanted for scope,
// or is known to fail. The error is that of ctx alone.
func (s *Server) ensure(ctx context.Context, src *source, scope Scope, w want) error {
	// A walk for another scope that turns out to be private is followed by our
	// own; one more covers an upstream that changed its mind meanwhile.
	for range 3 {
		fd := s.feed(src, scope)
		served, err := s.ensureFeed(ctx, fd, scope, w)
		if err != nil || served {
			return err
		}
	}
	return nil
}

// ensureFeed is ensure on one feed; served is false when the walk waited for
// was another scope's and was not for sharing.
func (s *Server) ensureFeed(ctx context.Context, fd *feed, scope Scope, w want) (served bool, err error) {
	seq := fd.src.dirty.Load()
	for {
		now := s.o.Now()
		fd.mu.Lock()
		fd.asked, fd.askedBy = now, scope
		s.adoptDownLocked(fd, now)
		fl := fd.flight
		// Whoever looks for a new name waits for the walk under way; nobody
		// waits for a retry.
		if fd.freshLocked(now, w) && (fl == nil || w != wantNow || fd.failures > 0) {
			if fd.failures > 0 {
				if fl == nil && fd.missed != fd.src.dirty.Load() {
					s.flyLocked(fd, scope, now) // it changed since, maybe for the better
				}
				s.retryLocked(fd)
			}
			fd.mu.Unlock()
			return true, nil
		}
		if fl == nil {
			fl = s.flyLocked(fd, scope, now)
		}
		fd.mu.Unlock()

		select {
		case <-fl.done:
		case <-ctx.Done():
			return true, ctx.Err()
		}
		if fl.seq >= seq {
			private := fd == fd.src.common && fd.src.sharing.Load() == sharingPrivate
			return !private || fl.scope == scope, nil
		}
	}
}

// adoptDownLocked lets a feed that never asked share the failure another scope
// just met, so that one dead upstream makes nobody wait twice.
func (s *Server) adoptDownLocked(fd *feed, now time.Time) {
	if !fd.tried.IsZero() || fd.flight != nil {
		return
	}
	if down := fd.src.down.Load(); down != nil && now.Before(down.until) {
		fd.tried, fd.failures, fd.why, fd.refused = now, 1, down.why, down.refused
		fd.missed = fd.src.dirty.Load()
	}
}

// flyLocked starts a walk that everybody who wants this feed waits for.
func (s *Server) flyLocked(fd *feed, scope Scope, now time.Time) *flight {
	fl := &flight{done: make(chan struct{}), scope: scope, seq: fd.src.dirty.Load()}
	fd.flight, fd.tried = fl, now
	if !s.spawn(func() { s.fly(fd, fl) }) {
		fd.flight = nil
		fd.failures, fd.why = fd.failures+1, "the gateway is stopping"
		close(fl.done)
	}
	return fl
}

func (s *Server) fly(fd *feed, fl *flight) {
	ctx, cancel := context.WithTimeout(s.ctx, s.o.ListTimeout)
	defer cancel()
	snap, err := s.walk(ctx, fd.src.upstream, fl.scope, fd.src.kind)
	if err != nil {
		s.failed(fd, fl, snap, err)
		return
	}
	s.arrived(fd, fl, snap)
}

// settles is the feed that a walk's outcome belongs to: everybody's where the
// list is public, else that of the scope it was made for. What came tells.
func (s *Server) settles(fd *feed, fl *flight, snap *snapshot) *feed {
	src := fd.src
	if snap.public && !snap.absent && !src.personal {
		s.share(src, sharingPublic)
		return src.common
	}
	s.share(src, sharingPrivate)
	if fd == src.common {
		return s.partition(fl.scope).feed(src)
	}
	return fd
}

// arrived stores a walk's snapshot where those who may see it look for it.
func (s *Server) arrived(fd *feed, fl *flight, snap *snapshot) {
	src := fd.src
	src.down.Store(nil)
	target := s.settles(fd, fl, snap)
	recovered := s.store(target, fl, snap)
	if target != fd {
		recovered = s.vacate(fd) || recovered
	}
	s.land(fd, fl)
	if recovered {
		s.changed[src.kind].Add(1)
		if s.o.Recovered != nil {
			s.o.Recovered(src.upstream)
		}
	}
	if snap.short != "" {
		s.report(slog.LevelWarn, "an upstream's list is not whole", "upstream", src.upstream,
			"kind", src.kind.String(), "reason", snap.short)
	}
}

// store keeps a snapshot in a feed; it reports whether that ended a failure.
func (s *Server) store(fd *feed, fl *flight, snap *snapshot) (recovered bool) {
	now := s.o.Now()
	fd.mu.Lock()
	if fd.gone || fd.snap != nil && fd.seq > fl.seq { // evicted, or overtaken by a walk for another scope
		fd.mu.Unlock()
		return false
	}
	old := fd.snap
	recovered = fd.failures > 0
	fd.snap, fd.seq, fd.expires, fd.tried = snap, fl.seq, now.Add(snap.ttl), now
	fd.failures, fd.why, fd.refused = 0, "", false
	fd.mu.Unlock()
	s.hold(old, snap)
	return recovered
}

// vacate empties a feed whose list turned out to belong elsewhere; it reports
// whether that ended a failure.
func (s *Server) vacate(fd *feed) (recovered bool) {
	fd.mu.Lock()
	old := fd.snap
	recovered = fd.failures > 0
	fd.snap, fd.tried = nil, time.Time{}
	fd.failures, fd.why, fd.refused = 0, "", false
	fd.mu.Unlock()
	s.hold(old, nil)
	return recovered
}

func (s *Server) land(fd *feed, fl *flight) {
	fd.mu.Lock()
	if fd.flight == fl {
		fd.flight = nil
	}
	fd.mu.Unlock()
	close(fl.done)
}

// failed notes a failure; what had come before it is served where nothing
// better is known.
func (s *Server) failed(fd *feed, fl *flight, part *snapshot, err error) {
	why := reason(err, s.o.ListTimeout)
	code := fault.From(err).Code
	now := s.o.Now()
	target := fd
	if part != nil {
		target = s.settles(fd, fl, part)
	}

	target.mu.Lock()
	target.failures++
	first := target.failures == 1
	target.tried, target.why, target.missed = now, why, fl.seq
	target.refused = code == fault.UpstreamUnavailable
	kept := part != nil && !target.gone && (target.snap == nil || target.snap.short != "")
	old := target.snap
	if kept {
		target.snap, target.seq, target.expires = part, fl.seq, now
	}
	if target != fd {
		target.asked, target.askedBy = now, fl.scope
	}
	wait := backoff(target.failures)
	s.retryLocked(target)
	target.mu.Unlock()
	if kept {
		s.hold(old, part)
	}
	if target != fd {
		s.vacate(fd)
	}
	if code == fault.UpstreamUnavailable || code == fault.UpstreamTimeout || code == fault.ConnectionLost || isTimeout(err) {
		fd.src.down.Store(&outage{until: now.Add(wait + s.o.ListTimeout), why: why, refused: code == fault.UpstreamUnavailable})
	}
	s.land(fd, fl)
	if first && s.ctx.Err() == nil {
		s.o.Log.Warn("an upstream's list failed; it is retried", "server", s.o.Name, "upstream", fd.src.upstream,
			"kind", fd.src.kind.String(), "error", err)
	}
}

// share notes whether a source's lists are shared, and counts the private ones.
func (s *Server) share(src *source, now int32) {
	if was := src.sharing.Swap(now); (was == sharingPublic) != (now == sharingPublic) {
		if now == sharingPublic {
			s.private[src.kind].Add(-1)
		} else {
			s.private[src.kind].Add(1)
		}
	}
}
