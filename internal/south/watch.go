package south

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cenkalti/backoff/v5"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

// Sink is told what an upstream says without being asked. Its methods are called
// one at a time, and must not block; nor may they close the Watch or its upstream.
type Sink interface {
	// Honoured tells what of the wanted filter the upstream has confirmed, after
	// each time that was settled, also when it is nothing, or all was lost. A
	// stream that is lost and soon there again is told of after that only.
	Honoured(wanted, f mcp.Filter)
	// Changed is a list_changed of that kind.
	Changed(kind mcp.Kind)
	// Updated is resources/updated of a resource that is wanted, or of one below it
	// (checklist 6.4); uri is decoded, params the raw params object, valid during
	// the call.
	Updated(uri string, params []byte)
	// Reopened follows Honoured when the way was lost and is there again: whatever
	// is wanted may have changed meanwhile.
	Reopened()
	// Other is any other notification outside of calls, such as
	// notifications/message; raw is the whole message, valid during the call. Only
	// legacy upstreams have any (checklist 61).
	Other(method string, raw []byte)
}

// TaskSink is a Sink that hears of tasks, too. Only modern upstreams tell of them.
type TaskSink interface {
	Sink
	// Task is notifications/tasks of a task that is wanted; id is decoded, params
	// the raw params object, valid during the call.
	Task(id string, params []byte)
}

// Watch is how the gateway hears what an upstream says without being asked, on
// behalf of those who share a session key (DESIGN section 8): by
// subscriptions/listen of a modern upstream, by the GET stream and
// resources/subscribe of a legacy one. What is lost is opened again. It is safe
// for concurrent use, and ends with Close or with the upstream.
type Watch struct {
	sink  Sink
	key   SessionKey
	at    *Upstream   // for its options and log: the upstream, or the first replica
	each  []*Upstream // the upstream, or its replicas
	among *Replicas   // nil: there is one address

	hurry context.Context // ends with the upstream: there is no time for a goodbye
	abort context.CancelFunc
	ctx   context.Context // ends with Close, too
	stop  context.CancelFunc
	poke  chan struct{} // capacity 1: there is news, or something else is wanted
	news  atomic.Uint64 // counts what may make an upstream worth another look
	done  chan struct{} // closed when run ended

	mu      sync.Mutex // guards what follows; nothing waits under it
	want    mcp.Filter
	turn    uint64 // counts changes of want
	running bool
	closed  bool

	said said // what the sink was told

	// What follows is run's own.
	backoff *backoff.ExponentialBackOff
	losses  int     // in a row, without a steady time between
	held    holding // resources that are subscribed to
	resume  resume  // where a legacy stream ended
}

// Watch returns a watch on the upstream with the messages of key. It starts
// nothing before something is wanted.
func (u *Upstream) Watch(key SessionKey, sink Sink) *Watch {
	return u.WatchFor(context.Background(), key, sink)
}

// WatchFor is Watch with what ctx knows of who it is for, as their credentials
// need it (Authorizer). It does not end with ctx.
func (u *Upstream) WatchFor(ctx context.Context, key SessionKey, sink Sink) *Watch {
	return newWatch(ctx, key, sink, []*Upstream{u}, nil)
}

// Watch returns a watch on one usable replica at a time; it moves to another when
// that one is lost.
func (r *Replicas) Watch(key SessionKey, sink Sink) *Watch {
	return r.WatchFor(context.Background(), key, sink)
}

// WatchFor is Watch with what ctx knows of who it is for.
func (r *Replicas) WatchFor(ctx context.Context, key SessionKey, sink Sink) *Watch {
	return newWatch(ctx, key, sink, r.each, r)
}

func newWatch(ctx context.Context, key SessionKey, sink Sink, each []*Upstream, among *Replicas) *Watch {
	w := &Watch{
		sink: sink, key: key, at: each[0], each: each, among: among,
		poke: make(chan struct{}, 1), done: make(chan struct{}), backoff: newWatchBackoff(),
	}
	w.hurry, w.abort = context.WithCancel(context.WithoutCancel(ctx))
	w.ctx, w.stop = context.WithCancel(w.hurry)
	return w
}

// Want says what is wanted from now on, and returns at once. An empty filter
// closes the stream and unsubscribes. The same filter again changes nothing, and
// is not settled again.
func (w *Watch) Want(f mcp.Filter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || f.Equal(w.want) {
		return
	}
	f.URIs, f.TaskIDs = slices.Clone(f.URIs), slices.Clone(f.TaskIDs)
	w.want = f
	w.turn++
	if w.running {
		w.wake()
		return
	}
	for i, u := range w.each {
		if !u.watchers.join(w) {
			w.leave(w.each[:i]) // it is being closed
			w.closed = true
			return
		}
	}
	w.running = true
	go w.run()
}

// Close ends it: the stream is closed, and the upstream is told what nobody
// listens to any more, as far as it takes that within two seconds. When Close
// returns no method of the sink is called any more. It may be called again.
func (w *Watch) Close() {
	w.mu.Lock()
	w.closed = true
	running := w.running
	w.mu.Unlock()
	w.mute()
	w.stop()
	if running {
		<-w.done
	}
	w.abort()
}

// wanted is what is wanted now, and the turn of it.
func (w *Watch) wanted() (mcp.Filter, uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.want, w.turn
}

// wake has run look again. It never blocks.
func (w *Watch) wake() {
	select {
	case w.poke <- struct{}{}:
	default:
	}
}

func (w *Watch) leave(each []*Upstream) {
	for _, u := range each {
		u.watchers.leave(w)
	}
}

// watchers are the watches of one upstream that run.
type watchers struct {
	mu     sync.Mutex // guards what follows; nothing waits under it
	all    map[*Watch]struct{}
	closed bool
}

// join reports false when the upstream is being closed.
func (s *watchers) join(w *Watch) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if s.all == nil {
		s.all = map[*Watch]struct{}{}
	}
	s.all[w] = struct{}{}
	return true
}

func (s *watchers) leave(w *Watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, w)
}

// news has every watch look at the upstream again.
func (s *watchers) news() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.all {
		w.news.Add(1)
		w.wake()
	}
}

// end ends every watch, and lets none begin. It returns when they have ended;
// nothing that they do outlives it for long.
func (s *watchers) end() {
	s.mu.Lock()
	s.closed = true
	all := make([]*Watch, 0, len(s.all))
	for w := range s.all {
		all = append(all, w)
	}
	s.mu.Unlock()
	for _, w := range all {
		w.abort()
	}
	for _, w := range all {
		<-w.done
	}
}
