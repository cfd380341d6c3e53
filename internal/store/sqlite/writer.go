package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/penstock-mcp/penstock/internal/store"
	"github.com/penstock-mcp/penstock/internal/store/tables"
)

// Bounds of the writer.
const (
	writeQueue = 1024 // operations that wait for their turn; more wait outside
	writeGroup = 256  // operations in one commit
)

// writer commits operations in groups: a durable commit costs one sync of the
// disk, whatever is in it. It owns the one connection that writes, and is the
// one goroutine that uses it.
type writer struct {
	conn  *sql.Conn
	tx    *statements // on conn
	queue chan *operation
	ended chan struct{}

	closing sync.RWMutex // read-locked to enter the queue; guards closed
	closed  bool

	last    atomic.Pointer[error] // outcome of the last commit
	commits atomic.Int64          // that succeeded
}

// operation is one call of Write.
type operation struct {
	ctx   context.Context
	f     func(tables.Tx) error
	begun atomic.Bool // by the writer, or given up by the caller
	done  chan error
}

func newWriter(conn *sql.Conn) *writer {
	// The transaction belongs to no caller, so no caller's context ends it.
	w := &writer{conn: conn, tx: &statements{db: conn, detached: true}, queue: make(chan *operation, writeQueue), ended: make(chan struct{})}
	go w.run()
	return w
}

// do has f run and committed by the writer.
func (w *writer) do(ctx context.Context, f func(tables.Tx) error) error {
	op := &operation{ctx: ctx, f: f, done: make(chan error, 1)}
	if err := w.enqueue(op); err != nil {
		return err
	}
	select {
	case err := <-op.done:
		return err
	case <-ctx.Done():
		if op.begun.CompareAndSwap(false, true) {
			return ctx.Err() // the writer will pass over it
		}
		return <-op.done // at most the rest of a commit away
	}
}

func (w *writer) enqueue(op *operation) error {
	w.closing.RLock()
	defer w.closing.RUnlock()
	if w.closed {
		return store.ErrClosed
	}
	select {
	case w.queue <- op:
		return nil
	case <-op.ctx.Done():
		return op.ctx.Err()
	}
}

// close ends the writer after what is queued.
func (w *writer) close() {
	w.closing.Lock()
	first := !w.closed
	w.closed = true
	w.closing.Unlock()
	if first {
		close(w.queue)
	}
	<-w.ended
}

// release gives the connection back, after close.
func (w *writer) release() error { return errors.Join(w.tx.close(), w.conn.Close()) }

// trouble is the error of the last commit, nil if it succeeded.
func (w *writer) trouble() error {
	if err := w.last.Load(); err != nil {
		return *err
	}
	return nil
}

func (w *writer) run() {
	defer close(w.ended)
	group := make([]*operation, 0, writeGroup)
	for op := range w.queue {
		group = gather(group[:0], op, w.queue)
		w.commit(group)
		clear(group) // holds nothing while it waits
	}
}

// gather takes what is queued already, and does not wait for more: while one
// group is committed the next one collects by itself.
func gather(group []*operation, first *operation, queue <-chan *operation) []*operation {
	for op := first; op != nil; {
		if op.begun.CompareAndSwap(false, true) {
			group = append(group, op)
		}
		op = nil
		if len(group) < writeGroup {
			select {
			case op = <-queue: // nil once closed
			default:
			}
		}
	}
	return group
}

// commit applies a group in one transaction and answers all. An error of the
// engine itself, not of an operation, undoes the group; then each operation gets
// a transaction of its own, so that it fails for its own reason only.
func (w *writer) commit(group []*operation) {
	if len(group) == 0 {
		return
	}
	outcomes, err := w.transact(group)
	if err != nil && len(group) > 1 {
		for _, op := range group {
			w.commit([]*operation{op})
		}
		return
	}
	w.note(err)
	for i, op := range group {
		if err != nil {
			op.done <- translate(err)
			continue
		}
		op.done <- outcomes[i]
	}
}

func (w *writer) note(err error) {
	if err = translate(err); err != nil {
		w.last.Store(&err)
		return
	}
	w.last.Store(nil)
}

// transact runs a group in one transaction. err is set when nothing of it was
// committed; otherwise each operation has its outcome.
func (w *writer) transact(group []*operation) (outcomes []error, err error) {
	ctx := context.Background() // of no caller
	if _, err := w.tx.Exec(ctx, "BEGIN IMMEDIATE"); err != nil {
		return nil, err
	}
	outcomes = make([]error, len(group))
	for i, op := range group {
		if outcomes[i], err = w.apply(ctx, op.f); err != nil {
			return nil, w.undo(ctx, err)
		}
	}
	if _, err := w.tx.Exec(ctx, "COMMIT"); err != nil {
		return nil, w.undo(ctx, err)
	}
	w.commits.Add(1)
	return outcomes, nil
}

// apply runs one operation within a savepoint. outcome is the operation's own
// failure, of which nothing remains; err is one of the engine.
func (w *writer) apply(ctx context.Context, f func(tables.Tx) error) (outcome, err error) {
	if _, err := w.tx.Exec(ctx, "SAVEPOINT operation"); err != nil {
		return nil, err
	}
	outcome = f(w.tx)
	if outcome != nil {
		if !own(outcome) {
			return nil, outcome
		}
		if _, err := w.tx.Exec(ctx, "ROLLBACK TO operation"); err != nil {
			return nil, err
		}
	}
	_, err = w.tx.Exec(ctx, "RELEASE operation")
	return outcome, err
}

// own tells the errors by which an operation decides against itself from those
// that the engine met.
func own(err error) bool {
	for _, e := range []error{store.ErrNotFound, store.ErrConflict, store.ErrFull, store.ErrFullFor} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// undo rolls back; the engine may have done so by itself, as it does on a full
// disk.
func (w *writer) undo(ctx context.Context, cause error) error {
	if _, err := w.tx.Exec(ctx, "ROLLBACK"); err != nil && !strings.Contains(err.Error(), "no transaction is active") {
		return fmt.Errorf("%w; and undoing it: %w", cause, err)
	}
	return cause
}
