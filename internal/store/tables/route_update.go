package tables

import (
	"context"
	"errors"
	"time"

	"github.com/penstock-mcp/penstock/internal/store"
)

// Intend implements store.Routes. The lock of the route's row is that of the
// number and the order of its intents.
func (s *Routes) Intend(ctx context.Context, u *store.RouteUpdate, limit int) (stored store.RouteUpdate, created bool, err error) {
	find := func(tx Tx) error {
		is := store.RouteUpdate{Route: u.Route, Digest: u.Digest}
		var seq, at int64
		err := tx.Row(ctx, `SELECT seq, state, at FROM route_updates WHERE route = $1 AND digest = $2`,
			[]any{u.Route, u.Digest}, &seq, &is.State, &at)
		if err == nil {
			is.Seq, is.At = uint64(seq), atMillis(at)
			stored, created = is, false
		}
		return err
	}
	if err := s.db.Read(ctx, find); !errors.Is(err, store.ErrNotFound) {
		return stored, false, err
	}
	err = s.db.Write(ctx, func(tx Tx) error {
		if err := find(tx); !errors.Is(err, store.ErrNotFound) {
			return err
		}
		var seq int64
		err := tx.Row(ctx, `UPDATE routes SET intents = intents + 1 WHERE id = $1 AND intents < $2 RETURNING intents`,
			[]any{u.Route, int64(limit)}, &seq)
		if errors.Is(err, store.ErrNotFound) {
			// It may be this very intent that has filled it.
			if err := find(tx); !errors.Is(err, store.ErrNotFound) {
				return err
			}
			var intents int64
			if err := tx.Row(ctx, `SELECT intents FROM routes WHERE id = $1`, []any{u.Route}, &intents); err != nil {
				return err
			}
			return store.ErrFull
		}
		if err != nil {
			return err
		}
		n, err := tx.Exec(ctx, `INSERT INTO route_updates (route, digest, seq, state, at) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (route, digest) DO NOTHING`, u.Route, u.Digest, seq, store.UpdatePrepared, millis(u.At))
		if err != nil {
			return err
		}
		if n == 0 {
			return store.ErrConflict // stored while this waited, and counted there
		}
		stored = store.RouteUpdate{Route: u.Route, Digest: u.Digest, Seq: uint64(seq), State: store.UpdatePrepared, At: atMillis(millis(u.At))}
		created = true
		return nil
	})
	if errors.Is(err, store.ErrConflict) {
		err = s.db.Read(ctx, find)
	}
	if err != nil {
		return store.RouteUpdate{}, false, err
	}
	return stored, created, nil
}

// Resolve implements store.Routes.
func (s *Routes) Resolve(ctx context.Context, route, digest, from, to string, at time.Time) error {
	return s.db.Write(ctx, func(tx Tx) error {
		n, err := tx.Exec(ctx, `UPDATE route_updates SET state = $4, at = $5 WHERE route = $1 AND digest = $2 AND state = $3`,
			route, digest, from, to, millis(at))
		if err != nil || n == 1 {
			return err
		}
		var state string
		err = tx.Row(ctx, `SELECT state FROM route_updates WHERE route = $1 AND digest = $2`, []any{route, digest}, &state)
		if err == nil {
			err = store.ErrConflict
		}
		return err
	})
}
