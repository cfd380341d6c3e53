package tables

import (
	"bytes"
	"context"
	"time"

	"github.com/penstock-mcp/penstock/internal/store"
)

// Expire implements store.Sessions, in transactions of a bounded size. A record
// that another instance may be using is given the time by which that instance
// may be late with saying so.
func (s *Sessions) Expire(ctx context.Context, t time.Time) (gone []*store.Session, err error) {
	limit := t.UnixNano()
	if err := s.writeAll(ctx, limit); err != nil {
		return nil, err
	}
	for {
		part, full, err := s.expire(ctx, limit)
		gone = append(gone, part...)
		if err != nil || !full {
			return gone, err
		}
		if err := ctx.Err(); err != nil {
			return gone, err
		}
	}
}

// idleRow is a row that may be idle.
type idleRow struct {
	id        string
	principal []byte
}

// expire removes one batch; full tells that there may be more.
func (s *Sessions) expire(ctx context.Context, limit int64) (gone []*store.Session, full bool, err error) {
	const idle = `(last_used < $1 AND (instance = $2 OR last_used < $3))`
	bounds := []any{limit, s.instance, limit - s.grace("")}

	var found []idleRow
	err = s.db.Read(ctx, func(tx Tx) error {
		found = found[:0]
		return tx.Rows(ctx, `SELECT id, principal FROM (SELECT id, principal FROM sessions WHERE `+idle+` ORDER BY last_used LIMIT $4) AS old
			ORDER BY principal, id`, append(bounds[:3:3], int64(expireBatch)), func(r Scanner) error {
			var row idleRow
			if err := r.Scan(&row.id, &row.principal); err != nil {
				return err
			}
			found = append(found, row)
			return nil
		})
	})
	if err != nil || len(found) == 0 {
		return nil, false, err
	}
	err = s.db.Write(ctx, func(tx Tx) error {
		gone = nil
		for rest := found; len(rest) > 0; {
			n := 1
			for n < len(rest) && bytes.Equal(rest[n].principal, rest[0].principal) {
				n++
			}
			part, err := s.expireOf(ctx, tx, rest[:n], `DELETE FROM sessions WHERE `+idle+` AND id = $4
				RETURNING `+sessionColumns+`, last_used, instance`, bounds)
			if err != nil {
				return err
			}
			gone = append(gone, part...)
			rest = rest[n:]
		}
		return countDown(ctx, tx, sessionScope, len(gone))
	})
	if err != nil {
		return nil, false, err
	}
	for _, r := range gone {
		s.cache.drop(r.ID)
	}
	return gone, len(found) == expireBatch, nil
}

// expireOf removes rows of one principal, those that are still idle.
func (s *Sessions) expireOf(ctx context.Context, tx Tx, rows []idleRow, remove string, bounds []any) (gone []*store.Session, err error) {
	scope := append(append([]byte(nil), sessionScope...), rows[0].principal...)
	if err := countDown(ctx, tx, scope, len(rows)); err != nil { // locks it before the rows
		return nil, err
	}
	for _, row := range rows {
		before := len(gone)
		err := tx.Rows(ctx, remove, append(bounds[:3:3], row.id), func(r Scanner) error {
			is, err := scanSession(r)
			if err == nil {
				gone = append(gone, is.record)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		if len(gone) == before {
			continue // used, or ended, meanwhile
		}
		if err := endClaim(ctx, tx, row.id); err != nil {
			return nil, err
		}
	}
	if still := len(rows) - len(gone); still > 0 {
		return gone, countDown(ctx, tx, scope, -still)
	}
	return gone, nil
}
