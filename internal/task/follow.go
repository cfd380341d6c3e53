package task

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/store"
)

// FollowKey says whose tasks are heard of together: those that one upstream, or one
// replica of it, has for one caller on one virtual server.
type FollowKey struct {
	Server, Upstream   string
	Replica, Principal [32]byte
	As                 any // the credential that the upstream is asked with; comparable
}

// Watch is a way to hear an upstream of tasks. Want returns at once; when Close
// returns nothing is told any more.
type Watch interface {
	Want(f mcp.Filter)
	Close()
}

// Owners is how those who have tasks are reached, under one document. Its methods
// are safe for concurrent use, and only Look may take long.
type Owners interface {
	// Watch makes a way to hear an upstream, nil for one that does not notify.
	// Same is its identity: equal for two documents that mean the same upstream,
	// and another when it may be worth hearing now.
	Watch(k FollowKey, f *Follow) Watch
	Same(k FollowKey) any
	// Look asks the upstream how a task stands, within ctx. ErrGone says that there
	// is nothing to hear of it any more.
	Look(ctx context.Context, k FollowKey, t *store.Task, id string) (*State, error)
	// Shows reports whether the caller may still hear of a task.
	Shows(k FollowKey, t *store.Task) bool
}

// ErrGone is a task that its listeners hear nothing of any more.
var ErrGone = errors.New("task: there is nothing more to hear of it")

const (
	// The wait between two looks at a task is what its upstream says, between these.
	minPoll     = time.Second
	defaultPoll = 5 * time.Second
	maxPoll     = time.Minute
	// One Follow has so many looks under way at once, and on an average one each
	// lookEvery, after a burst: whoever listens for many tasks hears of each less often.
	maxLooks  = 8
	lookBurst = 50
	lookEvery = 20 * time.Millisecond
	// checkEvery is how often it is looked whether callers may still hear.
	checkEvery = time.Second
	// gather is how long wishes are gathered before an upstream is asked for more,
	// linger how long before it is asked for less.
	gather = 50 * time.Millisecond
	linger = 2 * time.Second
	// maxHeard bounds the ids that an upstream is asked to tell of, in bytes, so that
	// its acknowledgement is one that can be taken. The rest is asked about.
	maxHeard = 32 << 10
)

// Follows is where everybody listens who wants to hear of tasks: one Follow for all
// who do so with one credential at one upstream (DESIGN section 8). It outlives the
// document that it was made under. It is safe for concurrent use.
type Follows struct {
	log *slog.Logger

	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup // Follows and their looks

	mu     sync.Mutex // guards what follows, and all of Follow, topic and Ear; nothing waits under it
	owners Owners
	by     map[FollowKey]*Follow
	closed bool
}

// NewFollows returns a Follows that nobody listens at. It does nothing before Rebind.
func NewFollows(log *slog.Logger) *Follows {
	s := &Follows{log: log, by: map[FollowKey]*Follow{}}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// Rebind has tasks followed through the owners of another document. Listeners stay.
func (s *Follows) Rebind(o Owners) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owners = o
	for _, f := range s.by {
		f.poke()
	}
}

// Close ends it all, and returns when nothing runs any more. Listeners are told
// nothing more.
func (s *Follows) Close() {
	s.mu.Lock()
	s.closed = true
	s.stop()
	s.mu.Unlock()
	s.work.Wait()
}

// Tasks is the number of tasks that are followed.
func (s *Follows) Tasks() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.by {
		n += len(f.topics)
	}
	return n
}

// Stir has a task looked at now that may have changed. It reports false where nobody
// listens for it with that key any more.
func (s *Follows) Stir(k FollowKey, id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.by[k]
	if f == nil || f.topics[id] == nil {
		return false
	}
	f.topics[id].turn++
	f.topics[id].due = time.Time{}
	f.poke()
	return true
}

// Follow is the fan-in of the tasks of one key: one subscription at the upstream as
// far as it tells of tasks, looks at the tasks where it does not. Its goroutine
// begins with the first task that somebody listens for, and ends with the last.
type Follow struct {
	s    *Follows
	key  FollowKey
	wake chan struct{} // capacity 1

	// Guarded by Follows.mu.
	topics  map[string]*topic // by id
	looking int               // looks under way
	spent   time.Time         // until when looks are paid for: that far behind now, they are free
	asked   mcp.Filter        // the watch's last Want
	wish    time.Time         // when it is asked for what is wanted now; zero: it was

	// The goroutine's own.
	watch Watch
	same  any
}

// topic is one task that somebody listens for.
type topic struct {
	follow *Follow
	id     string
	rec    *store.Task
	ears   map[*Ear]*hearing

	state   *State // as it is known; nil: not looked at yet
	turn    uint64 // counts what the upstream told
	relayed bool   // the upstream tells of it
	due     time.Time
	looking bool
	fails   int // in a row
	over    bool
}

// follow returns the Follow of a key, begun at first use. s.mu is held.
func (s *Follows) follow(k FollowKey) *Follow {
	f := s.by[k]
	if f == nil {
		f = &Follow{s: s, key: k, wake: make(chan struct{}, 1), topics: map[string]*topic{}}
		s.by[k] = f
		s.work.Go(f.run)
	}
	return f
}

func (f *Follow) poke() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// wants notes that the set of tasks has changed. s.mu is held.
func (f *Follow) wants(after time.Duration) {
	if at := time.Now().Add(after); f.wish.IsZero() || at.Before(f.wish) {
		f.wish = at
	}
	f.poke()
}

// Honoured implements south.Sink: of what the upstream does not tell, or not any
// more, it is asked.
func (f *Follow) Honoured(_, honoured mcp.Filter) {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	for id, t := range f.topics {
		if now := honoured.HasTask(id); now != t.relayed {
			t.relayed, t.due = now, time.Time{} // something may have gone by meanwhile
		}
	}
	f.poke()
}

// Reopened implements south.Sink.
func (f *Follow) Reopened() {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	for _, t := range f.topics {
		if t.relayed {
			t.due = time.Time{}
		}
	}
	f.poke()
}

// Task implements south.TaskSink.
func (f *Follow) Task(id string, params []byte) {
	now, err := ReadState(id, append([]byte(nil), params...))
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	t := f.topics[id]
	if t == nil {
		return
	}
	t.turn++
	if err != nil {
		t.due = time.Time{} // something happened, and it can be asked what
		f.poke()
		return
	}
	t.becomes(now)
	f.poke()
}

// Changed implements south.Sink. No lists are asked for.
func (f *Follow) Changed(mcp.Kind) {}

// Updated implements south.Sink.
func (f *Follow) Updated(string, []byte) {}

// Other implements south.Sink.
func (f *Follow) Other(string, []byte) {}

// becomes notes how a task stands and has everybody told, if that is news. What has
// ended does not change any more. s.mu is held.
func (t *topic) becomes(now *State) {
	if t.over || t.state != nil && t.state.sum == now.sum {
		return
	}
	first := t.state == nil
	t.state = now
	for e := range t.ears {
		if first && now.begun() {
			t.ears[e].last = now
			continue
		}
		e.hear(t)
	}
	if now.Ended() {
		t.end()
	}
}

// end has a task followed no more; what its listeners are still to be told stays.
// s.mu is held.
func (t *topic) end() {
	f := t.follow
	t.over = true
	delete(f.topics, t.id)
	f.wants(linger)
}

// drop ends a task that nobody is to hear of any more. s.mu is held.
func (t *topic) drop() {
	for e := range t.ears {
		e.forget(t)
	}
	t.end()
}
