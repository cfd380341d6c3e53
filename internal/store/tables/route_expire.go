package tables

import (
	"context"
	"time"
)

// Expire implements store.Routes, in transactions of a bounded size.
func (s *Routes) Expire(ctx context.Context, now time.Time, limit int) (gone int, err error) {
	at := millis(now)
	return expireSeated(ctx, s.db, &s.seats, limit, `SELECT id, seat FROM routes WHERE expires <= $1 ORDER BY expires, id LIMIT $2`, at,
		func(tx Tx, is seated) (bool, error) { return removeRoute(ctx, tx, is, at) })
}

// removeRoute removes a route if it has expired, with its journal and updates.
// The row goes first: who changes any of them holds its lock.
func removeRoute(ctx context.Context, tx Tx, is seated, now int64) (gone bool, err error) {
	n, err := tx.Exec(ctx, `DELETE FROM routes WHERE id = $1 AND seat = $2 AND expires <= $3`, is.id, int64(is.seat), now)
	if err != nil || n == 0 {
		return false, err
	}
	for _, statement := range []string{`DELETE FROM route_events WHERE route = $1`, `DELETE FROM route_updates WHERE route = $1`} {
		if _, err := tx.Exec(ctx, statement, is.id); err != nil {
			return false, err
		}
	}
	return true, nil
}
