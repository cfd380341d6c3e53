package tables

import (
	"context"
	"time"

	"github.com/penstock-mcp/penstock/internal/store"
)

// Routes implements store.Routes. The order of locks on a shared database is:
// seats, ascending; routes, by id; then their events and updates.
type Routes struct {
	db    DB
	now   func() time.Time
	seats seats
	lives *lives // nil where the database is shared
}

// NewRoutes returns the repository of durable submissions in db.
func NewRoutes(db DB, now func() time.Time) *Routes {
	s := &Routes{db: db, now: now, seats: newSeats(db, "route")}
	if !db.Shared() {
		s.lives = &lives{until: map[string]time.Time{}}
	}
	return s
}

// Get implements store.Routes.
func (s *Routes) Get(ctx context.Context, id string) (found *store.Route, err error) {
	if !isText(id) {
		return nil, store.ErrNotFound
	}
	err = s.db.Read(ctx, func(tx Tx) error {
		found, _, err = routeBy(ctx, tx, `id = $1`, id)
		return err
	})
	return found, err
}

// Find implements store.Routes.
func (s *Routes) Find(ctx context.Context, principal, tenant, key string) (found *store.Route, err error) {
	err = s.db.Read(ctx, func(tx Tx) error {
		found, _, err = routeByKey(ctx, tx, principal, tenant, key)
		return err
	})
	return found, err
}

// Update implements store.Routes. The comparison is within the one statement
// that changes the row, so that of two who read the same version one fails.
func (s *Routes) Update(ctx context.Context, r *store.Route, e *store.RouteEvent) error {
	if err := tells(r, e); err != nil {
		return err
	}
	if r.Version == 0 {
		return store.ErrConflict // that is how a record begins
	}
	return s.db.Write(ctx, func(tx Tx) error {
		n, err := tx.Exec(ctx, `UPDATE routes SET server = $4, upstream = $5, upstream_task = $6, phase = $7, updated = $8, due = $9,
			version = $10, integrity = $11, document = $12
			WHERE id = $1 AND version = $2 AND phase = $3 AND (length(upstream_task) = 0 OR upstream_task = $6)`,
			r.ID, int64(r.Version-1), e.From, r.Server, r.Upstream, []byte(r.UpstreamTask), r.Phase, millis(r.Updated), millis(r.Due),
			int64(r.Version), r.Integrity, blob(r.Document))
		if err != nil {
			return err
		}
		if n == 1 {
			return insertEvent(ctx, tx, e)
		}
		var version int64
		err = tx.Row(ctx, `SELECT version FROM routes WHERE id = $1`, []any{r.ID}, &version)
		if err == nil {
			err = store.ErrConflict
		}
		return err
	})
}

// Journal implements store.Routes.
func (s *Routes) Journal(ctx context.Context, id string) (events []store.RouteEvent, err error) {
	if !isText(id) {
		return nil, store.ErrNotFound
	}
	err = s.db.Read(ctx, func(tx Tx) error {
		events = nil
		return tx.Rows(ctx, `SELECT version, from_phase, to_phase, reason, actor, at, previous, digest
			FROM route_events WHERE route = $1 ORDER BY version`, []any{id}, func(r Scanner) error {
			e := store.RouteEvent{Route: id}
			var version, at int64
			var reason []byte
			err := r.Scan(&version, &e.From, &e.To, &reason, &e.Actor, &at, &e.Previous, &e.Digest)
			if err == nil {
				e.Version, e.Reason, e.At = uint64(version), string(reason), atMillis(at)
				events = append(events, e)
			}
			return err
		})
	})
	if err == nil && len(events) == 0 {
		err = store.ErrNotFound
	}
	return events, err
}
