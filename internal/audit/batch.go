package audit

import (
	"errors"
	"io"
	"log/slog"
	"time"
)

var errLate = errors.New("the time to finish was over")

// mark is the end of a line in a batch, and what is true once it is written.
type mark struct {
	end   int
	kind  markKind
	lost  uint64
	chain chain
}

type markKind uint8

const (
	markHeader markKind = iota
	markEvent
	markLost
	markEnd
)

// write writes one batch. What was written of it when it fails is known
// afterwards, or the file is in doubt.
func (w *writer) write() error {
	w.build()
	n, err := w.out.Write(w.batch)
	if err == nil && n < len(w.batch) {
		err = io.ErrShortWrite
	}
	if n > 0 {
		w.unsynced = true
	}
	done := w.commit(n)
	if err == nil {
		return nil
	}
	if w.regular {
		w.doubt = true
	} else if n > done { // it cannot be taken back: a new header tells of it
		w.header, w.torn, w.open = true, true, true
	}
	return err
}

// build forms the next batch from what is due and queued.
func (w *writer) build() {
	w.batch, w.marks = w.batch[:0], w.marks[:0]
	if w.open {
		w.batch = append(w.batch, '\n')
	}
	c := w.chain
	now := w.l.o.Now()
	seal := func(kind markKind, lost uint64, start int) {
		w.batch = c.seal(w.batch, start, w.sum)
		w.marks = append(w.marks, mark{end: len(w.batch), kind: kind, lost: lost, chain: c})
	}
	if w.header {
		start := len(w.batch)
		w.batch = c.appendHeader(c.begin(w.batch), w.l.o.Instance, now, len(w.l.o.Key) > 0, w.torn)
		seal(markHeader, 0, start)
	}
	if lost := w.l.lost.Load() - w.reported; lost > 0 {
		start := len(w.batch)
		w.batch = appendLost(c.begin(w.batch), lost, now)
		seal(markLost, lost, start)
	}
	ln := w.queue.first
	for held, more := w.held, false; ln != nil; ln = ln.next {
		next := len(w.batch) + lineLength(ln)
		if more && next > batchBytes || held && !w.fits(next) {
			break
		}
		held, more = true, true
		start := len(w.batch)
		w.batch = append(c.begin(w.batch), ln.body...)
		seal(markEvent, 0, start)
	}
	if ln == nil && w.ending {
		start := len(w.batch)
		w.batch = appendEnd(c.begin(w.batch), now)
		seal(markEnd, 0, start)
	}
}

// lineLength is the most that a line takes in the file.
func lineLength(ln *line) int { return len(`{"seq":,`) + 20 + len(ln.body) + tailLength + 1 }

// fits tells whether the file keeps within its size with so many bytes more, or
// has to grow as it cannot be rotated.
func (w *writer) fits(n int) bool {
	return !w.regular || w.size+int64(n) <= w.l.o.MaxSize || time.Now().Before(w.rotateAfter)
}

// commit takes note of the lines that are whole within the first n bytes of the
// batch, and returns where the last of them ends.
func (w *writer) commit(n int) (done int) {
	if w.open && n > 0 {
		w.open, done = false, 1
	}
	for _, m := range w.marks {
		if m.end > n {
			break
		}
		done, w.chain = m.end, m.chain
		switch m.kind {
		case markHeader:
			w.header, w.torn = false, false
		case markEvent:
			w.held = true
			w.l.written.Add(1)
			w.l.queued.Add(-w.queue.pop())
		case markLost:
			w.reported += m.lost
		case markEnd:
			w.ended = true
		}
	}
	w.size += int64(done)
	return done
}

// warn logs what does not go on every minute anew.
func (l *Log) warn(what string, args ...any) {
	l.seldom.Say(l.o.Log, slog.LevelWarn, what, args...)
}
