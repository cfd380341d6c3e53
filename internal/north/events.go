package north

import (
	"crypto/rand"
	"strconv"
	"strings"
	"time"
)

// Bounds on what is kept for a client of 2025-11-25 to come back to, besides
// Options.ResumeEvents.
const (
	maxKeptBytes = 4 << 20         // of one session
	keptFor      = 5 * time.Minute // after a stream's end
	eventWeight  = 64              // bytes that an event takes besides its own
)

// Names of streams begin with what they are of, so that an id tells it when the
// stream is forgotten.
const (
	ofCall     = 'p'
	ofStanding = 'g'
)

// eventLog is what the streams of one session have said (checklist 93, 94). All
// of it is guarded by the lock of the session's talk. A log may be thrown away
// while calls go on that write to it; they do no harm.
type eventLog struct {
	limit    int // events
	streams  map[string]*keptStream
	standing *keptStream   // the session's one, or nil; it is among streams
	order    []*keptStream // whose each event is, oldest first
	bytes    int
}

// keptStream is one stream of a session: that of a call, or the standing one. Its
// priming event has the position 0, and is not kept.
type keptStream struct {
	log    *eventLog
	name   string
	events [][]byte
	first  uint64 // position of events[0]
	last   uint64 // position of the newest event
	gap    uint64 // position of the newest event that was too large to keep; 0: none
	reader uint64 // who writes it to the client: 0 the call itself, otherwise the newest GET
	over   bool   // nothing more comes
	ended  time.Time
	wake   chan struct{} // closed when anything of this changes; nil: nobody waits
}

// eventID is what a client repeats to come back behind an event.
func (s *keptStream) eventID(position uint64) string {
	return s.name + "-" + strconv.FormatUint(position, 10)
}

// parseEventID is the inverse; ok is false for an id that is none of ours.
func parseEventID(id string) (name string, position uint64, ok bool) {
	name, digits, ok := strings.Cut(id, "-")
	if !ok || len(name) < 2 || (name[0] != ofCall && name[0] != ofStanding) {
		return "", 0, false
	}
	position, err := strconv.ParseUint(digits, 10, 64)
	return name, position, err == nil
}

func (s *keptStream) changed() {
	if s.wake != nil {
		close(s.wake)
		s.wake = nil
	}
}

// newStream begins a stream of a session.
func (t *talk) newStream(session string, kind byte, limit int) *keptStream {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.addStream(session, kind, limit)
}

func (t *talk) addStream(session string, kind byte, limit int) *keptStream {
	l := t.logs[session]
	if l == nil {
		l = &eventLog{limit: limit, streams: map[string]*keptStream{}}
		t.logs[session] = l
	}
	if len(l.streams) >= 2*l.limit {
		l.forgetEmpty()
	}
	s := &keptStream{log: l, name: string(kind) + rand.Text(), first: 1}
	l.streams[s.name] = s
	return s
}

// standingStream is the stream of a session that belongs to no call, as before
// when it is still known. The caller is its reader from then on.
func (t *talk) standingStream(session string, limit int) (s *keptStream, reader uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.logs[session]; l != nil && l.standing != nil {
		s = l.standing
		s.over = false
	} else {
		s = t.addStream(session, ofStanding, limit)
		s.log.standing = s
	}
	s.reader++
	return s, s.reader
}

// leave ends a standing stream, unless a newer connection reads it: an older one
// may end late.
func (t *talk) leave(s *keptStream, reader uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.reader == reader {
		s.end()
		s.changed()
	}
}

// find is the stream of a session that an event id names, or nil.
func (t *talk) find(session, name string, position uint64) *keptStream {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.logs[session]
	if l == nil {
		return nil
	}
	s := l.streams[name]
	if s == nil || position > s.last || position < s.gap {
		return nil
	}
	return s
}

// add keeps one event and returns its position; msg is the log's from then on.
// The last one of a stream ends it.
func (t *talk) add(s *keptStream, msg []byte, final bool) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.last++
	if !s.over {
		s.log.keep(s, msg)
	}
	if final {
		s.end()
	}
	s.changed()
	return s.last
}

func (l *eventLog) keep(s *keptStream, msg []byte) {
	if len(msg)+eventWeight > maxKeptBytes {
		l.skip(s)
		return
	}
	s.events = append(s.events, msg)
	l.order = append(l.order, s)
	l.bytes += len(msg) + eventWeight
	for len(l.order) > l.limit || l.bytes > maxKeptBytes {
		l.dropOldest()
	}
}

// skip gives an event a position that nothing is kept of. What is before it can
// be read no more, for the stream would lack it.
func (l *eventLog) skip(s *keptStream) {
	s.gap = s.last
	for _, e := range s.events {
		l.bytes -= len(e) + eventWeight
	}
	s.events, s.first = nil, s.last+1
	l.forgetOrder(s)
}

func (l *eventLog) forgetOrder(s *keptStream) {
	rest := l.order[:0]
	for _, of := range l.order {
		if of != s {
			rest = append(rest, of)
		}
	}
	clear(l.order[len(rest):])
	l.order = rest
}

func (l *eventLog) dropOldest() {
	s := l.order[0]
	l.order[0] = nil
	l.order = l.order[1:]
	l.bytes -= len(s.events[0]) + eventWeight
	s.events[0] = nil
	s.events = s.events[1:]
	s.first++
	if s.over && len(s.events) == 0 && s != l.standing {
		delete(l.streams, s.name) // its answer is gone
	}
}

// forgetEmpty drops streams that are over and of which nothing is kept: no event
// of theirs would ever push them out. Those that stay have an event each, or are
// of calls in flight, and both are bounded.
func (l *eventLog) forgetEmpty() {
	for name, s := range l.streams {
		if s.over && len(s.events) == 0 && s != l.standing {
			delete(l.streams, name)
		}
	}
}

func (s *keptStream) end() {
	if !s.over {
		s.over, s.ended = true, time.Now()
	}
}

// finish ends a stream that may have ended without a last event.
func (t *talk) finish(s *keptStream) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.end()
	s.changed()
}

// cannotKeep says that the next event of a stream goes to its client alone.
func (t *talk) cannotKeep(s *keptStream) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.last++
	s.log.skip(s)
}

// end is the position of the newest event of a stream.
func (t *talk) end(s *keptStream) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return s.last
}

// takeOver makes the caller the one reader of a stream.
func (t *talk) takeOver(s *keptStream) (reader uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.reader++
	s.changed()
	return s.reader
}

// isReader reports whether nobody has taken the stream over since.
func (t *talk) isReader(s *keptStream, reader uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return s.reader == reader
}

// progress is what a reader finds behind a position.
type progress struct {
	events [][]byte
	first  uint64          // position of events[0]
	over   bool            // and nothing more comes
	taken  bool            // somebody else reads now
	wake   <-chan struct{} // closed when there may be more; nil when there is
}

func (t *talk) after(s *keptStream, position, reader uint64) progress {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := progress{over: s.over, taken: s.reader != reader, first: max(position+1, s.first)}
	if from := p.first - s.first; from < uint64(len(s.events)) {
		p.events = append(p.events, s.events[from:]...)
		return p
	}
	if s.wake == nil {
		s.wake = make(chan struct{})
	}
	p.wake = s.wake
	return p
}

// forget throws away what is kept of a session that is over. Whoever reads it
// finds the end.
func (t *talk) forget(session string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.logs[session]
	if l == nil {
		return
	}
	delete(t.logs, session)
	for _, s := range l.streams {
		s.end()
		s.events = nil
		s.changed()
	}
	l.order, l.bytes = nil, 0
}

// sweep throws away streams that ended before t.
func (t *talk) sweep(before time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for session, l := range t.logs {
		for name, s := range l.streams {
			if !s.over || !s.ended.Before(before) {
				continue
			}
			delete(l.streams, name)
			if l.standing == s {
				l.standing = nil
			}
			for _, e := range s.events {
				l.bytes -= len(e) + eventWeight
			}
			l.forgetOrder(s)
		}
		if len(l.streams) == 0 {
			delete(t.logs, session)
		}
	}
}
