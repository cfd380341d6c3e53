package south

import (
	"slices"
	"sync"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

// maxPrivate bounds the private processes of one upstream. Each is a whole
// server that one client alone uses.
const maxPrivate = 16

// privates are the processes of a legacy child that may ask the user: one for
// each session key, told of exactly the key's capabilities. Over stdio a question
// does not name the call that it belongs to, so what is asked in a process that
// two callers share could reach the wrong one (checklist 7.1, T52).
//
// A process is started when a call needs it, also again, and ends when it was
// idle, when its session ended, when another needs its place, and with the
// upstream. What becomes of it says nothing of the upstream.
type privates struct {
	shared *child

	mu     sync.Mutex // guards what follows; never held across I/O
	byKey  map[SessionKey]*private
	ending []*child // of no key any more; something may be left of their process
	closed bool
}

// private is the child of one key.
type private struct {
	child *child
	// turn holds a token while a call runs: one at a time, so that it is clear whose
	// the child's questions are (checklist 7.3). Those who wait get it in order.
	turn     chan struct{}
	starting *starting // a start whose end nobody has seen; owned by the token's holder

	// Guarded by the mutex of privates.
	users int       // calls that run or wait
	used  time.Time // the end of the last
}

// join returns the child of a key for one call, which must leave it again.
func (s *privates) join(key SessionKey) (*private, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fault.New(fault.UpstreamUnavailable, "upstream %q is being closed", s.shared.u.o.Key)
	}
	p := s.byKey[key]
	if p == nil {
		before, err := s.room()
		if err != nil {
			return nil, err
		}
		c := &child{u: s.shared.u, c: s.shared.c, caps: key.Caps, rush: s.shared.rush, hurry: s.shared.hurry, hint: mcp.Legacy, last: before}
		p = &private{child: c, turn: make(chan struct{}, 1)}
		s.byKey[key] = p
	}
	p.users++
	return p, nil
}

func (s *privates) leave(p *private) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.users--
	p.used = time.Now()
}

// visit returns the way to the running process of a key, which must be left again;
// nil: there is none. It is for what needs no turn.
func (s *privates) visit(key SessionKey) (l *Link, left func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.byKey[key]
	if p == nil {
		return nil, nil
	}
	live := p.child.current()
	if live == nil {
		return nil, nil
	}
	p.users++
	return &live.link, func() { s.leave(p) }
}

// room makes room for one more, and returns the process whose place that is, for
// it must be gone before another starts; nil: there is room. s.mu is held.
func (s *privates) room() (before *process, err error) {
	s.ending = slices.DeleteFunc(s.ending, (*child).gone)
	for len(s.byKey)+len(s.ending) >= maxPrivate {
		if len(s.ending) > 0 {
			c := s.ending[0]
			s.ending = s.ending[1:]
			return c.youngest(), nil
		}
		var idle *private
		var of SessionKey
		for key, p := range s.byKey {
			if p.users == 0 && (idle == nil || p.used.Before(idle.used)) {
				idle, of = p, key
			}
		}
		if idle == nil {
			return nil, fault.New(fault.AtCapacity, "upstream %q runs %d processes for clients that can be asked, its limit, and all are in use", s.shared.u.o.Key, maxPrivate).
				WithHint("nothing ran; try again later")
		}
		s.drop(of, idle)
	}
	return nil, nil
}

// drop ends the child of a key. s.mu is held.
func (s *privates) drop(key SessionKey, p *private) {
	delete(s.byKey, key)
	p.child.end()
	if !p.child.gone() {
		s.ending = append(s.ending, p.child)
	}
}

// of returns the running process of a key, or nil.
func (s *privates) of(key SessionKey) *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.byKey[key]; p != nil {
		return p.child.current()
	}
	return nil
}

// running counts the processes that answer calls.
func (s *privates) running() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.byKey {
		if p.child.current() != nil {
			n++
		}
	}
	return n
}

// end ends the process of exactly one key, and with it the calls there.
func (s *privates) end(key SessionKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.byKey[key]; p != nil {
		s.drop(key, p)
	}
}

// endAll ends the processes of all keys that match.
func (s *privates) endAll(match func(SessionKey) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, p := range s.byKey {
		if match(key) {
			s.drop(key, p)
		}
	}
}

// sweep ends those that no call has used since.
func (s *privates) sweep(since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending = slices.DeleteFunc(s.ending, (*child).gone)
	for key, p := range s.byKey {
		if p.users == 0 && p.used.Before(since) {
			s.drop(key, p)
		}
	}
}

// shut lets no process start any more, and returns the children that may have one.
func (s *privates) shut() []*child {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	all := s.ending
	for _, p := range s.byKey {
		all = append(all, p.child)
	}
	s.ending, s.byKey = nil, map[SessionKey]*private{}
	return all
}
