package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"
)

const syncEvery = time.Second

// writer is the one goroutine that writes; nothing of it is shared.
type writer struct {
	l      *Log
	sum    *digest
	timer  *time.Timer
	due    time.Time // when the timer fires; zero: it is not set
	retry  *backoff.ExponentialBackOff
	queue  fifo
	ending bool // what is queued now is the last, and a close record follows
	since  time.Time
	opened bool // the file was open at least once

	out     io.Writer // f, or the standard output
	f       file      // nil: not open, or the standard output
	regular bool      // f is a file that can be cut off, synced and rotated
	size    int64     // of what is known to be in the file
	held    bool      // the file has more than its header
	doubt   bool      // a write failed: the file may have more than size

	chain    chain  // behind the last line that was written
	header   bool   // the next line is a header
	torn     bool   // and it tells of a torn line
	open     bool   // the last line has no end yet
	ended    bool   // the close record is written
	reported uint64 // lost events that the file tells of

	batch []byte
	marks []mark

	unsynced    bool // since synced, something was written
	syncFailed  bool
	synced      time.Time
	rotateAfter time.Time // a rotation failed: not before
}

func newWriter(l *Log) *writer {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.Multiplier, b.RandomizationFactor = 100*time.Millisecond, 5*time.Second, 2, 0
	w := &writer{l: l, sum: newDigest(l.o.Key), retry: b, since: time.Now()}
	if l.o.Stdout != nil {
		w.out, w.header = l.o.Stdout, true
		w.chain.begins()
	}
	return w
}

// run writes until ctx ends and then what is left.
func (w *writer) run(ctx context.Context) error {
	w.timer = time.NewTimer(time.Hour)
	defer w.timer.Stop()
	defer w.close()
	w.wait(0) // the header
	for {
		select {
		case <-ctx.Done():
			return w.finish()
		case <-w.l.wake:
			if !w.l.failing.Load() {
				w.wait(w.l.o.Flush)
			}
			continue
		case <-w.l.full:
			if w.l.failing.Load() {
				continue
			}
		case <-w.timer.C:
		}
		w.due = time.Time{}
		w.timer.Stop()
		w.turn()
	}
}

// turn writes what there is and sets the timer to when it is to be called again.
func (w *writer) turn() {
	err := w.flush(time.Time{})
	switch {
	case err != nil:
		w.wait(w.retry.NextBackOff())
		return
	case w.l.queued.Load() >= batchBytes:
		w.wait(0)
	case w.l.head.Load() != nil:
		w.wait(w.l.o.Flush)
	}
	w.retry.Reset()
	if w.unsynced {
		w.wait(time.Until(w.synced.Add(syncEvery)))
	}
}

// wait makes the timer fire after d, or before when it is to fire before.
func (w *writer) wait(d time.Duration) {
	at := time.Now().Add(d)
	if w.due.IsZero() || at.Before(w.due) {
		w.due = at
		w.timer.Reset(d)
	}
}

// flush writes everything that is queued by now, and syncs what was written
// more than a second ago. It gives up after the deadline, if there is one.
func (w *writer) flush(deadline time.Time) error {
	w.queue.take(w.l)
	for w.wants() {
		if !deadline.IsZero() && time.Now().After(deadline) {
			return errLate
		}
		err := w.ready()
		if err == nil {
			err = w.write()
		}
		if err != nil {
			return w.failed("audit: the record cannot be written; events wait, and are lost once the queue is full", err)
		}
	}
	if w.unsynced && (w.ending || time.Since(w.synced) >= syncEvery) {
		if err := w.sync(); err != nil {
			w.syncFailed = true
			return w.failed("audit: the record cannot be synced", err)
		}
		w.syncFailed = false
	}
	if !w.syncFailed && w.l.failing.Swap(false) {
		w.l.seldom.Say(w.l.o.Log, slog.LevelInfo, "audit: the record is written again", "file", w.l.o.File, "lost", w.l.lost.Load())
	}
	return nil
}

// wants tells whether there is something to write.
func (w *writer) wants() bool {
	return !w.ended && (w.queue.first != nil || w.header || w.out == nil || w.l.lost.Load() > w.reported || w.ending)
}

// failed counts and logs that the disk failed, and lets requests be refused.
func (w *writer) failed(what string, err error) error {
	if errors.Is(err, errLocked) && !w.opened && time.Since(w.since) < finishWithin {
		return err // the gateway that this one replaces is about to let go of the file
	}
	w.l.failing.Store(true)
	w.complain(what, err)
	return err
}

// complain counts and logs a failure that does not keep events from being written.
func (w *writer) complain(what string, err error) {
	w.l.failures.Add(1)
	w.l.warn(what, "file", w.l.o.File, "error", err)
}

func (w *writer) sync() error {
	if w.regular {
		if err := w.f.Sync(); err != nil {
			return err
		}
	}
	w.unsynced, w.synced = false, time.Now()
	return nil
}

// finish writes what is left and the close record, or gives up and counts what
// is lost.
func (w *writer) finish() error {
	deadline := time.Now().Add(finishWithin)
	w.l.ended.Store(true)
	w.ending = true
	w.retry.Reset()
	var err error
	for {
		if err = w.flush(deadline); err == nil {
			break
		}
		pause := w.retry.NextBackOff()
		if time.Now().Add(pause).After(deadline) {
			break
		}
		time.Sleep(pause)
	}
	w.queue.take(w.l)
	left := uint64(0)
	for ; w.queue.first != nil; left++ {
		w.l.queued.Add(-w.queue.pop())
	}
	w.l.lost.Add(left)
	if err != nil {
		return fmt.Errorf("audit: %d events and the close record were not written: %w", left, err)
	}
	return nil
}
