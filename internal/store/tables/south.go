package tables

import (
	"context"
	"time"

	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/store"
)

// Souths implements store.Souths.
type Souths struct {
	db  DB
	now func() time.Time
	max int
}

// NewSouths returns the repository of southbound sessions in db, which holds at
// most max records.
func NewSouths(db DB, max int, now func() time.Time) *Souths {
	return &Souths{db: db, now: now, max: max}
}

const southColumns = `key, server, upstream, north, id, revision, instance, generation, created`

func scanSouth(r Scanner) (*store.South, error) {
	var s store.South
	var key, id []byte
	var revision string
	var generation, created int64
	if err := r.Scan(&key, &s.Server, &s.Upstream, &s.North, &id, &revision, &s.Instance, &generation, &created); err != nil {
		return nil, err
	}
	s.Revision, _ = mcp.ParseRevision(revision)
	copy(s.Key[:], key)
	s.ID = string(id)
	s.Generation = uint64(generation)
	s.Created = at(created)
	return &s, nil
}

// rowScanner lets a scan function serve Tx.Row.
type rowScanner struct {
	tx   Tx
	ctx  context.Context
	sql  string
	args []any
}

func (r rowScanner) Scan(dest ...any) error { return r.tx.Row(r.ctx, r.sql, r.args, dest...) }

// Get implements store.Souths.
func (s *Souths) Get(ctx context.Context, key [32]byte) (found *store.South, err error) {
	err = s.db.Read(ctx, func(tx Tx) (err error) {
		found, err = scanSouth(rowScanner{tx, ctx, `SELECT ` + southColumns + ` FROM souths WHERE key = $1`, []any{key[:]}})
		return err
	})
	return found, err
}

// Put implements store.Souths.
func (s *Souths) Put(ctx context.Context, r *store.South) (*store.South, error) {
	stored := *r
	stored.Generation++
	err := s.db.Write(ctx, func(tx Tx) error {
		now := s.now().UnixNano()
		if r.Generation > 0 {
			n, err := tx.Exec(ctx, `UPDATE souths SET server = $2, upstream = $3, north = $4, id = $5, revision = $6, instance = $7,
				generation = $8, created = $9, last_used = $10 WHERE key = $1 AND generation = $11`,
				r.Key[:], r.Server, r.Upstream, r.North, []byte(r.ID), r.Revision.String(), r.Instance,
				int64(stored.Generation), nanos(r.Created), now, int64(r.Generation))
			if err == nil && n == 0 {
				err = store.ErrConflict
			}
			return err
		}
		n, err := tx.Exec(ctx, `INSERT INTO souths (`+southColumns+`, last_used) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
			ON CONFLICT (key) DO NOTHING`,
			r.Key[:], r.Server, r.Upstream, r.North, []byte(r.ID), r.Revision.String(), r.Instance,
			int64(stored.Generation), nanos(r.Created), now)
		if err != nil {
			return err
		}
		if n == 0 {
			return store.ErrConflict
		}
		ok, err := countUp(ctx, tx, southScope, s.max)
		if err == nil && !ok {
			err = store.ErrFull
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &stored, nil
}

// Touch implements store.Souths.
func (s *Souths) Touch(ctx context.Context, keys ...[32]byte) error {
	if len(keys) == 0 {
		return nil
	}
	now := s.now().UnixNano()
	args := make([][]any, len(keys))
	for i := range keys {
		args[i] = []any{keys[i][:], now}
	}
	return s.db.Write(ctx, func(tx Tx) error {
		return tx.ExecEach(ctx, `UPDATE souths SET last_used = CASE WHEN last_used < $2 THEN $2 ELSE last_used END WHERE key = $1`, args)
	})
}

// Delete implements store.Souths.
func (s *Souths) Delete(ctx context.Context, key [32]byte, generation uint64) error {
	return s.db.Write(ctx, func(tx Tx) error {
		n, err := tx.Exec(ctx, `DELETE FROM souths WHERE key = $1 AND generation = $2`, key[:], int64(generation))
		if err != nil {
			return err
		}
		if n == 1 {
			return countDown(ctx, tx, southScope, 1)
		}
		var is int64
		err = tx.Row(ctx, `SELECT generation FROM souths WHERE key = $1`, []any{key[:]}, &is)
		if err == nil {
			err = store.ErrConflict
		}
		return err
	})
}

// OfNorth implements store.Souths.
func (s *Souths) OfNorth(ctx context.Context, north string, after [32]byte, limit int) (found []*store.South, err error) {
	err = s.db.Read(ctx, func(tx Tx) error {
		found = nil
		return tx.Rows(ctx, `SELECT `+southColumns+` FROM souths WHERE north = $1 AND key > $2 ORDER BY key LIMIT $3`,
			[]any{north, after[:], int64(limit)}, func(r Scanner) error {
				is, err := scanSouth(r)
				if err == nil {
					found = append(found, is)
				}
				return err
			})
	})
	return found, err
}

// Expire implements store.Souths.
func (s *Souths) Expire(ctx context.Context, t time.Time, limit int) (gone []*store.South, err error) {
	err = s.db.Write(ctx, func(tx Tx) error {
		gone = nil
		err := tx.Rows(ctx, `DELETE FROM souths WHERE last_used < $1 AND key IN
			(SELECT key FROM souths WHERE last_used < $1 ORDER BY last_used LIMIT $2) RETURNING `+southColumns,
			[]any{t.UnixNano(), int64(limit)}, func(r Scanner) error {
				is, err := scanSouth(r)
				if err == nil {
					gone = append(gone, is)
				}
				return err
			})
		if err != nil || len(gone) == 0 {
			return err
		}
		return countDown(ctx, tx, southScope, len(gone))
	})
	if err != nil {
		return nil, err
	}
	return gone, nil
}

// Len implements store.Souths.
func (s *Souths) Len(ctx context.Context) (int, error) { return count(ctx, s.db, southScope) }

// ForgetEmptyCounts removes the counts of principals that have no records left.
func (s *Souths) ForgetEmptyCounts(ctx context.Context) error {
	return s.db.Write(ctx, func(tx Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM counts WHERE n <= 0`)
		return err
	})
}

// nanos is how a time is stored; the zero time is 0.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// at reads what nanos wrote.
func at(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}
