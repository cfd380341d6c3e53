package task

import (
	"slices"

	"github.com/penstock-mcp/penstock/internal/store"
)

// Ear is one client that listens for tasks. What it is told waits for it: of each
// task only how it stands last. It is safe for concurrent use, and ends with Close.
type Ear struct {
	s    *Follows
	wake func() // must not block

	// Guarded by Follows.mu.
	topics map[string]*topic // by id
	due    []*topic          // in the order in which they have changed
}

// hearing is what one ear knows of one task.
type hearing struct {
	last *State // as it was told, or need not be; nil: nothing was told
	due  bool   // it waits to be taken
}

// Told is a task that has changed.
type Told struct {
	ID    string
	Key   FollowKey
	Rec   *store.Task
	State *State
}

// Listen returns an ear that hears nothing yet. wake is called, and must not block,
// when something waits to be taken.
func (s *Follows) Listen(wake func()) *Ear {
	return &Ear{s: s, wake: wake, topics: map[string]*topic{}}
}

// Add begins to listen for a task of that key, which rec is the record of.
func (e *Ear) Add(k FollowKey, rec *store.Task, id string) {
	s := e.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.owners == nil || e.topics[id] != nil {
		return
	}
	f := s.follow(k)
	t := f.topics[id]
	if t == nil {
		t = &topic{follow: f, id: id, rec: rec, ears: map[*Ear]*hearing{}}
		f.topics[id] = t
		f.wants(gather)
	}
	e.topics[id] = t
	t.ears[e] = &hearing{}
	switch {
	case t.state == nil: // the first look tells
	case t.state.begun():
		t.ears[e].last = t.state
	default:
		e.hear(t)
	}
}

// hear notes that a task has changed. s.mu is held.
func (e *Ear) hear(t *topic) {
	if h := t.ears[e]; !h.due {
		h.due = true
		e.due = append(e.due, t)
		e.wake()
	}
}

// Take returns the tasks that have changed since they were told last, in the order
// in which they began to.
func (e *Ear) Take() (out []Told) {
	e.s.mu.Lock()
	defer e.s.mu.Unlock()
	for _, t := range e.due {
		h := t.ears[e]
		h.due = false
		if h.last != nil && h.last.sum == t.state.sum {
			continue // it is as it was
		}
		h.last = t.state
		out = append(out, Told{ID: t.id, Key: t.follow.key, Rec: t.rec, State: t.state})
		if t.over {
			e.leave(t)
		}
	}
	e.due = nil
	return out
}

// Drop ends the listening for a task.
func (e *Ear) Drop(id string) {
	e.s.mu.Lock()
	defer e.s.mu.Unlock()
	if t := e.topics[id]; t != nil {
		e.forget(t)
		t.alone()
	}
}

// Close ends the listening. It may be called more than once.
func (e *Ear) Close() {
	e.s.mu.Lock()
	defer e.s.mu.Unlock()
	for _, t := range e.topics {
		e.leave(t)
		t.alone()
	}
	e.due = nil
}

// forget is leave for a task that nothing waits to be told of, either. s.mu is held.
func (e *Ear) forget(t *topic) {
	if t.ears[e].due {
		e.due = slices.DeleteFunc(e.due, func(d *topic) bool { return d == t })
	}
	e.leave(t)
}

func (e *Ear) leave(t *topic) {
	delete(e.topics, t.id)
	delete(t.ears, e)
}

// alone ends a task that nobody listens for. s.mu is held.
func (t *topic) alone() {
	if len(t.ears) == 0 && !t.over {
		t.end()
	}
}
