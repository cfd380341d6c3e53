package demo

import (
	"context"
	"errors"
	"slices"
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

// carry returns a job of an owner as it is now, and the questions that nobody
// puts to a client yet. From then on f does, until it ends.
func (s *jobs) carry(f *feed, owner, id string) (v jobView, questions []asked, failure *fault.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j, failure := s.find(owner, id)
	if failure != nil {
		return jobView{}, nil, failure
	}
	for _, a := range j.asks {
		if a.carrier == nil {
			a.carrier = f
			questions = append(questions, *a)
		}
	}
	return j.view(), questions, nil
}

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
