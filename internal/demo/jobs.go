package demo

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
)

const (
	// maxPending bounds the changes that wait for a stream; the oldest goes first.
	maxPending = 256
	// keepAlive is how long a stream is silent at most.
	keepAlive = 15 * time.Second
)

var errJobsClosed = errors.New("the server is closed")

// jobs is the table of jobs of one server.
type jobs struct {
	now   func() time.Time
	newID func() string
	ttl   time.Duration
	poll  time.Duration
	grace time.Duration // from a cooperative cancel to its effect
	max   int

	closing chan struct{} // closed by close

	mu     sync.Mutex // guards what follows, and every job
	byID   map[string]*job
	order  []*job // oldest first
	feeds  map[*feed]bool
	closed bool
}

// feed is what one stream hears of.
type feed struct {
	wants   func(*job) bool
	pending []jobView     // guarded by jobs.mu
	wake    chan struct{} // holds one
}

func (f *feed) ring() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func newJobs(o JobOptions) *jobs {
	s := &jobs{
		now: o.Now, newID: o.IDs, ttl: o.TTL, poll: o.Poll, grace: o.Grace, max: o.MaxTasks,
		closing: make(chan struct{}), byID: map[string]*job{}, feeds: map[*feed]bool{},
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.newID == nil {
		s.newID = rand.Text
	}
	return s
}

// ownerOf is the authorization context of a request: the same for the same
// Authorization header, and one for all requests without. The header itself is
// not kept.
func ownerOf(authorization string) string {
	if authorization == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(authorization))
	return hex.EncodeToString(sum[:])
}

// create makes a job that can be looked up at once, and returns it as it begins.
func (s *jobs) create(j *job) (jobView, *fault.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if j.id = s.newID(); s.byID[j.id] != nil || j.id == "" {
		return jobView{}, fault.New(fault.Internal, "the id for the job is taken")
	}
	if !s.makeRoom(now) {
		return jobView{}, fault.New(fault.Internal, "%d jobs are unfinished", s.max).WithHint("wait for one of them, or cancel it")
	}
	if j.poll = s.poll; j.ttl == 0 {
		j.ttl = s.ttl
	}
	j.notify = s.tell
	j.begin(now)
	s.byID[j.id] = j
	s.order = append(s.order, j)
	return j.view(), nil
}

// makeRoom forgets what has expired, and the oldest that has ended if that is
// not enough.
func (s *jobs) makeRoom(now time.Time) bool {
	if len(s.order) < s.max {
		return true
	}
	s.sweep(now)
	if len(s.order) < s.max {
		return true
	}
	for _, j := range s.order {
		if j.advance(now); j.state.terminal() {
			s.forget(j)
			return true
		}
	}
	return false
}

func (s *jobs) sweep(now time.Time) {
	s.order = slices.DeleteFunc(s.order, func(j *job) bool {
		gone := j.expired(now)
		if gone {
			delete(s.byID, j.id)
		}
		return gone
	})
}

func (s *jobs) forget(j *job) {
	delete(s.byID, j.id)
	s.order = slices.DeleteFunc(s.order, func(o *job) bool { return o == j })
}

// tell hands a change to the streams that want it. The mutex is held.
func (s *jobs) tell(j *job) {
	var v *jobView
	for f := range s.feeds {
		if !f.wants(j) {
			continue
		}
		if v == nil {
			made := j.view()
			v = &made
		}
		if len(f.pending) >= maxPending {
			f.pending = slices.Delete(f.pending, 0, 1)
		}
		f.pending = append(f.pending, *v)
		f.ring()
	}
}

// find returns a job of an owner as it is now. The mutex is held.
func (s *jobs) find(owner, id string) (*job, *fault.Error) {
	j := s.byID[id]
	if j == nil || j.owner != owner {
		return nil, fault.New(fault.InvalidParams, "task not found")
	}
	now := s.now()
	if j.expired(now) {
		s.forget(j)
		return nil, fault.New(fault.InvalidParams, "task has expired")
	}
	j.advance(now)
	return j, nil
}

// look returns a job of an owner as it is now.
func (s *jobs) look(owner, id string) (jobView, *fault.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j, failure := s.find(owner, id)
	if failure != nil {
		return jobView{}, failure
	}
	return j.view(), nil
}

// list returns the jobs of an owner, oldest first.
func (s *jobs) list(owner string) []jobView {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	s.sweep(now)
	var out []jobView
	for _, j := range s.order {
		if j.owner == owner {
			j.advance(now)
			out = append(out, j.view())
		}
	}
	return out
}

// answer delivers answers to what a job asks.
func (s *jobs) answer(owner, id string, answers map[string]jobAnswer) *fault.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	j, failure := s.find(owner, id)
	if failure == nil {
		j.answer(s.now(), answers)
	}
	return failure
}

// cancel asks a job to stop, which it does after the grace if it is not done by
// then (extension).
func (s *jobs) cancel(owner, id string) *fault.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	j, failure := s.find(owner, id)
	if failure != nil {
		return failure
	}
	if !j.state.terminal() && j.stopAt.IsZero() {
		j.stopAt = s.now().Add(s.grace)
		for f := range s.feeds {
			if f.wants(j) {
				f.ring() // it is due earlier now
			}
		}
	}
	return nil
}

// kill cancels a job at once; one that has ended cannot be (2025-11-25).
func (s *jobs) kill(owner, id string) (jobView, *fault.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j, failure := s.find(owner, id)
	if failure != nil {
		return jobView{}, failure
	}
	if j.state.terminal() {
		return jobView{}, fault.New(fault.InvalidParams, "the task has ended: it is %s", j.state)
	}
	j.cancel(s.now())
	return j.view(), nil
}

// listenTo makes a feed of what happens from now on to those of the ids that are
// jobs of an owner, which known are, in their order. end must be called.
func (s *jobs) listenTo(owner string, ids []string) (known []string, f *feed, end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	set := map[string]bool{}
	for _, id := range ids {
		if _, failure := s.find(owner, id); failure == nil && !set[id] {
			known, set[id] = append(known, id), true
		}
	}
	f = newFeed(func(j *job) bool { return set[j.id] })
	s.feeds[f] = true
	return known, f, func() { s.unlisten(f) }
}

// listen makes a feed of what happens from now on. end must be called.
func (s *jobs) listen(wants func(*job) bool) (f *feed, end func()) {
	f = newFeed(wants)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.feeds[f] = true
	return f, func() { s.unlisten(f) }
}

func newFeed(wants func(*job) bool) *feed { return &feed{wants: wants, wake: make(chan struct{}, 1)} }

// unlisten ends a feed. What it carried may be carried by others.
func (s *jobs) unlisten(f *feed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.feeds, f)
	for _, j := range s.order {
		for _, a := range j.asks {
			if a.carrier != f {
				continue
			}
			a.carrier = nil
			for other := range s.feeds {
				if other.wants(j) {
					other.ring()
				}
			}
		}
	}
}

// await returns what has happened on a feed, after it has advanced what the feed
// wants and waited until something happens or it is rung. Nothing and true is a
// time to say that the stream is alive. It reports false when ctx or the server
// is done.
func (s *jobs) await(ctx context.Context, f *feed) (happened []jobView, ok bool) {
	happened, due := s.gather(f)
	if len(happened) > 0 {
		return happened, true
	}
	pause := keepAlive
	if !due.IsZero() {
		pause = min(due.Sub(s.now()), keepAlive)
	}
	if s.pause(ctx, f, pause) != nil {
		return nil, false
	}
	happened, _ = s.gather(f)
	return happened, true
}

// gather advances what a feed wants and takes what has happened. due is when
// there will be more by the clock alone, or something will have expired.
func (s *jobs) gather(f *feed) (happened []jobView, due time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for _, j := range s.order {
		if !f.wants(j) || j.expired(now) {
			continue
		}
		j.advance(now)
		at := j.due()
		if end := j.created.Add(j.ttl); j.ttl > 0 && (at.IsZero() || end.Before(at)) {
			at = end
		}
		if at.After(now) && (due.IsZero() || at.Before(due)) {
			due = at
		}
	}
	happened, f.pending = f.pending, nil
	return happened, due
}

// run does work while the caller waits, without a job that others can see.
func (s *jobs) run(ctx context.Context, w work) (result []byte, failure *fault.Error) {
	f, end := s.listen(func(*job) bool { return false })
	defer end()
	j := &job{work: w}
	for j.begin(s.now()); ; {
		now := s.now()
		if j.advance(now); j.state.terminal() {
			return j.result, j.failure
		}
		if err := s.pause(ctx, f, j.due().Sub(now)); err != nil {
			return nil, fault.Wrap(err, fault.Internal, "the work was given up")
		}
	}
}

// pause waits that long, or until the feed is rung. The error says that ctx or
// the server is done.
func (s *jobs) pause(ctx context.Context, f *feed, d time.Duration) error {
	timer := time.NewTimer(max(d, 0))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-f.wake:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closing:
		return errJobsClosed
	}
	return nil
}

// poke wakes every stream, to look at the clock again.
func (s *jobs) poke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for f := range s.feeds {
		f.ring()
	}
}

// close ends every stream.
func (s *jobs) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
}
