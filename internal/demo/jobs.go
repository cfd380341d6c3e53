package demo

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"sync"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
)

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
	made   uint64 // how many there ever were
	feeds  map[*feed]bool
	closed bool
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
	s.made++
	j.seq, j.notify = s.made, s.tell
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

// close ends every stream.
func (s *jobs) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
}
