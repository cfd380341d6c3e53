package tables

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
)

// Bounds on uses that wait to be written.
const (
	touchQueue = 8192
	touchBatch = 256
)

// touch lets the use of an entry be written later, with others. Where the queue
// is full the next use of the same session tries again.
func (s *Sessions) touch(e *cached) {
	if !e.queued.CompareAndSwap(false, true) {
		return
	}
	select {
	case s.touches <- e:
	default:
		e.queued.Store(false)
	}
}

// Flush writes the uses that are due. Run calls it every second.
func (s *Sessions) Flush(ctx context.Context) error {
	for {
		batch := make([]*cached, 0, touchBatch)
	fill:
		for len(batch) < touchBatch {
			select {
			case e := <-s.touches:
				batch = append(batch, e)
			default:
				break fill
			}
		}
		if len(batch) == 0 {
			return nil
		}
		if err := s.write(ctx, batch); err != nil {
			return err
		}
	}
}

// FlushAll writes every use that the database does not know exactly, as before
// an orderly end.
func (s *Sessions) FlushAll(ctx context.Context) error {
	return errors.Join(s.Flush(ctx), s.writeAll(ctx, math.MaxInt64))
}

// writeAll writes what is unwritten of rows that the database counts as unused
// since before t.
func (s *Sessions) writeAll(ctx context.Context, t int64) error {
	for batch := range slices.Chunk(s.cache.unwritten(t), touchBatch) {
		if err := s.write(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

// write writes the uses of a batch. The rows are locked in the order of their
// ids, as by everybody, so that two instances do not wait for each other.
func (s *Sessions) write(ctx context.Context, batch []*cached) error {
	slices.SortFunc(batch, func(a, b *cached) int { return strings.Compare(a.record.Load().ID, b.record.Load().ID) })
	used := make([]int64, len(batch))
	args := make([][]any, len(batch))
	for i, e := range batch {
		e.queued.Store(false)
		used[i] = e.used.Load()
		args[i] = []any{e.record.Load().ID, used[i], s.instance}
	}
	err := s.db.Write(ctx, func(tx Tx) error {
		return tx.ExecEach(ctx, `UPDATE sessions SET last_used = CASE WHEN last_used < $2 THEN $2 ELSE last_used END,
			instance = CASE WHEN instance = $3 THEN instance ELSE '' END WHERE id = $1`, args)
	})
	if err != nil {
		return err
	}
	for i, e := range batch {
		e.foreign.Store(false)
		// Another batch may have written a later use meanwhile.
		for w := e.written.Load(); w < used[i] && !e.written.CompareAndSwap(w, used[i]); w = e.written.Load() {
		}
	}
	return nil
}
