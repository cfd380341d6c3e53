package tables

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/penstock-mcp/penstock/internal/store"
)

// Touch implements store.Tasks.
func (s *Tasks) Touch(ctx context.Context, touches ...store.TaskTouch) error {
	if len(touches) == 0 {
		return nil
	}
	sorted := slices.Clone(touches)
	// In the order of keys, as by everybody, so that two instances do not wait
	// for each other; several of one record stay in their order.
	slices.SortStableFunc(sorted, func(a, b store.TaskTouch) int {
		return compareKeys(&taskKey{a.Hash, a.Principal}, &taskKey{b.Hash, b.Principal})
	})
	args := make([][]any, len(sorted))
	for i := range sorted {
		is := &sorted[i]
		args[i] = []any{is.Hash[:], is.Principal[:], nanos(is.Used), touchedExpiry(is)}
	}
	err := s.db.Write(ctx, func(tx Tx) error {
		return tx.ExecEach(ctx, `UPDATE tasks SET used = CASE WHEN used < $3 THEN $3 ELSE used END,
			expires = CASE WHEN CAST($4 AS BIGINT) < 0 THEN expires ELSE $4 END WHERE hash = $1 AND principal = $2`, args)
	})
	for i := range sorted {
		key := &taskKey{sorted[i].Hash, sorted[i].Principal}
		if err != nil {
			s.cache.drop(key)
			continue
		}
		s.cache.touch(key, nanos(sorted[i].Used), touchedExpiry(&sorted[i]))
	}
	return err
}

// touchedExpiry is what a touch makes of an expiry: below 0 it stays.
func touchedExpiry(t *store.TaskTouch) int64 {
	switch {
	case t.Unlimited:
		return 0
	case t.Expires.IsZero():
		return -1
	}
	return nanos(t.Expires)
}

func compareKeys(a, b *taskKey) int {
	if by := bytes.Compare(a.hash[:], b.hash[:]); by != 0 {
		return by
	}
	return bytes.Compare(a.principal[:], b.principal[:])
}

// Mark implements store.Tasks.
func (s *Tasks) Mark(ctx context.Context, hash, principal [32]byte, generation uint64, m store.TaskMark) error {
	err := s.db.Write(ctx, func(tx Tx) error {
		n, err := tx.Exec(ctx, `UPDATE tasks SET mark = $3, generation = generation + 1
			WHERE hash = $1 AND principal = $2 AND (CAST($4 AS BIGINT) = 0 OR generation = $4)`,
			hash[:], principal[:], int64(m), int64(generation))
		if err != nil || n == 1 {
			return err
		}
		var is int64
		err = tx.Row(ctx, `SELECT generation FROM tasks WHERE hash = $1 AND principal = $2`, []any{hash[:], principal[:]}, &is)
		if err == nil {
			err = store.ErrConflict
		}
		return err
	})
	s.cache.drop(&taskKey{hash, principal})
	return err
}

// Delete implements store.Tasks.
func (s *Tasks) Delete(ctx context.Context, hash, principal [32]byte) error {
	home := s.counts.home(&hash)
	err := s.db.Write(ctx, func(tx Tx) error {
		err := s.counts.apply(ctx, tx, []taskDelta{{scope: everybody, slot: home, by: -1}, {scope: principal[:], slot: home, by: -1}})
		if err != nil {
			return err
		}
		n, err := tx.Exec(ctx, `DELETE FROM tasks WHERE hash = $1 AND principal = $2`, hash[:], principal[:])
		if err == nil && n == 0 {
			err = store.ErrNotFound // and nothing was counted
		}
		return err
	})
	s.cache.drop(&taskKey{hash, principal})
	return err
}

// Expire implements store.Tasks, in transactions of a bounded size.
func (s *Tasks) Expire(ctx context.Context, expiredBefore, unusedBefore time.Time, limit int) (gone int, err error) {
	for gone < limit {
		batch := min(expireBatch, limit-gone)
		found, err := s.overdue(ctx, expiredBefore.UnixNano(), unusedBefore.UnixNano(), batch)
		if err != nil || len(found) == 0 {
			return gone, err
		}
		n, err := s.expire(ctx, found, expiredBefore.UnixNano(), unusedBefore.UnixNano())
		gone += n
		if err != nil || len(found) < batch {
			return gone, err
		}
		if err := ctx.Err(); err != nil {
			return gone, err
		}
	}
	return gone, nil
}

// Which records are overdue, in two parts so that one index serves each.
const (
	expiredTasks = `expires > 0 AND expires < $1`
	unusedTasks  = `expires = 0 AND used < $1`
)

// overdue are keys of records to remove, in their order.
func (s *Tasks) overdue(ctx context.Context, expired, unused int64, limit int) (found []taskKey, err error) {
	err = s.db.Read(ctx, func(tx Tx) error {
		found = nil
		add := func(r Scanner) error {
			var hash, principal []byte
			err := r.Scan(&hash, &principal)
			if err == nil {
				found = append(found, taskKey{[32]byte(hash), [32]byte(principal)})
			}
			return err
		}
		err := tx.Rows(ctx, `SELECT hash, principal FROM tasks WHERE `+expiredTasks+` ORDER BY expires LIMIT $2`, []any{expired, int64(limit)}, add)
		if err != nil || len(found) == limit {
			return err
		}
		return tx.Rows(ctx, `SELECT hash, principal FROM tasks WHERE `+unusedTasks+` ORDER BY used LIMIT $2`, []any{unused, int64(limit - len(found))}, add)
	})
	slices.SortFunc(found, func(a, b taskKey) int { return compareKeys(&a, &b) })
	return found, err
}

// expire removes those of the given records that are still overdue.
func (s *Tasks) expire(ctx context.Context, found []taskKey, expired, unused int64) (n int, err error) {
	deltas := func(keys []taskKey, by int) []taskDelta {
		all := make([]taskDelta, 0, 2*len(keys))
		for i := range keys {
			home := s.counts.home(&keys[i].hash)
			all = append(all, taskDelta{scope: everybody, slot: home, by: by}, taskDelta{scope: keys[i].principal[:], slot: home, by: by})
		}
		return all
	}
	err = s.db.Write(ctx, func(tx Tx) error {
		n = 0
		// This locks what it counts before the rows.
		if err := s.counts.apply(ctx, tx, deltas(found, -1)); err != nil {
			return err
		}
		var stays []taskKey // touched, or removed, meanwhile
		for i := range found {
			gone, err := tx.Exec(ctx, `DELETE FROM tasks WHERE hash = $1 AND principal = $2
				AND (expires > 0 AND expires < $3 OR expires = 0 AND used < $4)`, found[i].hash[:], found[i].principal[:], expired, unused)
			if err != nil {
				return err
			}
			if gone == 0 {
				stays = append(stays, found[i])
			}
			n += int(gone)
		}
		return s.counts.apply(ctx, tx, s.counts.undo(deltas(stays, -1)))
	})
	for i := range found {
		s.cache.drop(&found[i])
	}
	if err != nil {
		return 0, err
	}
	return n, nil
}
