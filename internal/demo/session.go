package demo

import (
	"crypto/rand"
	"sync"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

// maxSessions bounds the sessions that a demo server remembers; the one used
// longest ago makes room for a new one.
const maxSessions = 1024

// session is one client's visit and what it has done so far.
type session struct {
	id  string
	rev mcp.Revision

	mu    sync.Mutex // guards what follows
	calls int
	taken map[string]int // parts by name

	visit *visit // what a job server keeps of it; set before its id is told

	used uint64 // when it was last used; guarded by sessions.mu
}

// sessions is the table of open sessions. The zero value is ready.
type sessions struct {
	mu    sync.Mutex // guards what follows, and session.used
	byID  map[string]*session
	clock uint64 // counts uses
}

func (t *sessions) open(rev mcp.Revision) *session {
	s := &session{id: rand.Text(), rev: rev, taken: map[string]int{}}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID == nil {
		t.byID = map[string]*session{}
	}
	if len(t.byID) >= maxSessions {
		var oldest *session
		for _, o := range t.byID {
			if oldest == nil || o.used < oldest.used {
				oldest = o
			}
		}
		delete(t.byID, oldest.id)
	}
	t.clock++
	s.used = t.clock
	t.byID[s.id] = s
	return s
}

func (t *sessions) get(id string) *session {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.byID[id]
	if s != nil {
		t.clock++
		s.used = t.clock
	}
	return s
}

func (t *sessions) end(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byID, id)
}
