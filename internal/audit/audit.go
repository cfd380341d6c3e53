package audit

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
)

const (
	defaultMaxSize    = 100 << 20
	defaultFlush      = 100 * time.Millisecond
	defaultQueueBytes = 8 << 20

	batchBytes   = 64 << 10 // one write; as many queued bytes do not wait for the flush
	finishWithin = 5 * time.Second
)

// Options are what a Log needs. Zero values mean the defaults of the document.
type Options struct {
	File    string        // written with mode 0600, appended to
	Stdout  io.Writer     // instead of File; never rotated nor synced
	MaxSize int64         // of the file, in bytes; 0: 100 MiB
	Flush   time.Duration // longest wait before a batch is written; 0: 100 ms
	Refuse  bool          // on_failure: refuse
	Key     []byte        // of the HMAC; empty: plain SHA-256

	Instance   string
	Log        *slog.Logger     // nil: none
	Now        func() time.Time // nil: time.Now
	QueueBytes int              // memory of the events that wait; 0: 8 MiB
}

// Log is the audit record of one gateway (DESIGN section 11). All methods are
// safe for concurrent use, and do nothing on a nil *Log, which is no audit.
type Log struct {
	o       Options
	disk    disk
	refusal *fault.Error
	seldom  fault.Seldom

	head   atomic.Pointer[line] // the newest queued line; taken whole by the writer
	queued atomic.Int64         // memory of all lines that are not written yet
	wake   chan struct{}        // the first line was queued
	full   chan struct{}        // a whole batch is queued

	started, ended, failing            atomic.Bool
	written, lost, failures, rotations atomic.Uint64
}

// New returns a Log that keeps what is recorded until Run writes it. It touches
// no file.
func New(o Options) *Log {
	if o.MaxSize <= 0 {
		o.MaxSize = defaultMaxSize
	}
	if o.Flush <= 0 {
		o.Flush = defaultFlush
	}
	if o.QueueBytes <= 0 {
		o.QueueBytes = defaultQueueBytes
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Log{
		o:    o,
		disk: osDisk{},
		refusal: fault.New(fault.AuditUnavailable, "the audit record cannot be written").
			WithHint("try again later; nothing is served that cannot be recorded").WithRetryAfter(time.Second),
		wake: make(chan struct{}, 1),
		full: make(chan struct{}, 1),
	}
}

// Record forms the line of an event and queues it. It keeps nothing of e, never
// waits for the disk and takes no lock. An event for which there is no room in
// the queue, or that comes after the end of Run, is lost and counted.
func (l *Log) Record(e *Event) {
	if l == nil {
		return
	}
	if l.ended.Load() {
		l.lost.Add(1)
		return
	}
	ln := newLine(len(e.Arguments))
	ln.body = appendEvent(ln.body, e, l.o.Now)
	cost := ln.cost()
	queued := l.queued.Add(cost)
	if queued > int64(l.o.QueueBytes) {
		l.queued.Add(-cost)
		l.lost.Add(1)
		ln.release()
		signal(l.wake) // the loss is to be recorded
		return
	}
	if l.push(ln) {
		signal(l.wake)
	}
	if queued >= batchBytes && queued-cost < batchBytes {
		signal(l.full)
	}
}

// Check tells whether a request may be served. With Refuse it fails, with a
// *fault.Error of fault.AuditUnavailable, from a write that failed to the next
// one that succeeds, and while the queue is full but for an eighth, which is
// for what is under way. It costs two atomic loads.
func (l *Log) Check() error {
	if l == nil || !l.o.Refuse {
		return nil
	}
	if bound := int64(l.o.QueueBytes); l.failing.Load() || l.queued.Load() >= bound-bound/8 {
		return l.refusal
	}
	return nil
}

// Stats are counts since New, and what is the case now.
type Stats struct {
	Written   uint64 // events in the file
	Lost      uint64 // events that are in no file
	Failures  uint64 // times that the disk failed: an open, write, sync or rotation
	Rotations uint64
	Queued    int64 // memory of the events that wait, in bytes
	Failing   bool  // the last write, open or sync failed
}

// Stats returns the counts. They are read one after the other.
func (l *Log) Stats() Stats {
	if l == nil {
		return Stats{}
	}
	return Stats{
		Written: l.written.Load(), Lost: l.lost.Load(), Failures: l.failures.Load(), Rotations: l.rotations.Load(),
		Queued: l.queued.Load(), Failing: l.failing.Load(),
	}
}

// Run opens the file and writes what is recorded until ctx ends; then it writes
// what is queued and a close record, for at most 5 s, and closes the file. It
// may be called once.
//
// Each batch is one write; the file is synced at most once a second, so a loss of
// power can take what was recorded within the last one, and a crash of the
// process what was recorded since the last batch.
//
// A disk that fails does not end it: it keeps the queue, tries again after
// 100 ms to 5 s, and goes on when there is room again. The error tells what
// could not be written before the end. A write that the system does not return
// from (a pipe that nobody reads, a network disk) is left behind after 6 s.
func (l *Log) Run(ctx context.Context) error {
	if l == nil {
		<-ctx.Done()
		return nil
	}
	if l.started.Swap(true) {
		return errors.New("audit: Run was called twice")
	}
	w := newWriter(l)
	done := make(chan error, 1)
	go func() { done <- w.run(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	hung := time.NewTimer(finishWithin + time.Second)
	defer hung.Stop()
	select {
	case err := <-done:
		return err
	case <-hung.C:
		return errors.New("audit: a write has not returned; what is queued is lost")
	}
}

// signal wakes who waits, now or next.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
