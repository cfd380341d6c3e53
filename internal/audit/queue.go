package audit

import (
	"slices"
	"sync"
)

const (
	lineRoom   = 768     // what a new line has room for
	linePooled = 8 << 10 // larger ones are not kept for the next event
	lineExtra  = 64      // memory of a line beside its bytes
)

// line is an event on its way to the writer: what follows its number.
type line struct {
	body []byte
	next *line
}

var lines = sync.Pool{New: func() any { return &line{body: make([]byte, 0, lineRoom)} }}

// newLine returns an empty line with room for an event with so many bytes of arguments.
func newLine(arguments int) *line {
	ln := lines.Get().(*line)
	if arguments > 0 && arguments <= maxArguments {
		ln.body = slices.Grow(ln.body, lineRoom*3/4+arguments)
	}
	return ln
}

// cost is the memory that the line holds. It counts the whole buffer, so that
// the bound of the queue is one of memory.
func (ln *line) cost() int64 { return int64(cap(ln.body)) + lineExtra }

// release gives the line up.
func (ln *line) release() {
	if cap(ln.body) > linePooled {
		return
	}
	ln.body, ln.next = ln.body[:0], nil
	lines.Put(ln)
}

// push queues a line, without a lock: lines are only ever pushed one by one and
// taken all at once. It tells whether the queue was empty.
func (l *Log) push(ln *line) (first bool) {
	for {
		newest := l.head.Load()
		ln.next = newest
		if l.head.CompareAndSwap(newest, ln) { // from here on it is the writer's
			return newest == nil
		}
	}
}

// fifo is a list of lines, the oldest first.
type fifo struct{ first, last *line }

// take moves everything that was pushed to the end of the list, in order.
func (q *fifo) take(l *Log) {
	newest := l.head.Swap(nil)
	if newest == nil {
		return
	}
	var oldest *line
	for ln := newest; ln != nil; {
		ln.next, oldest, ln = oldest, ln, ln.next
	}
	if q.first == nil {
		q.first = oldest
	} else {
		q.last.next = oldest
	}
	q.last = newest
}

// pop removes the oldest line and gives it up.
func (q *fifo) pop() (cost int64) {
	ln := q.first
	if q.first = ln.next; q.first == nil {
		q.last = nil
	}
	cost = ln.cost()
	ln.release()
	return cost
}
