package tables

import (
	"context"
	"errors"
	"time"

	"github.com/penstock-mcp/penstock/internal/store"
)

// Begin implements store.Routes. What is there already is found without a
// transaction that writes.
func (s *Routes) Begin(ctx context.Context, r *store.Route, e *store.RouteEvent, now time.Time, b store.RouteBounds) (*store.Route, bool, error) {
	if err := tells(r, e); err != nil {
		return nil, false, err
	}
	if r.Version != 0 {
		return nil, false, errors.New("store: a route begins at version 0")
	}
	if stands, err := s.standing(ctx, r, now); err != nil || stands != nil {
		return stands, false, err
	}
	p := beginning{Routes: s, r: r, e: e, now: millis(now), bounds: b}
	err := s.seats.sit(s.seats.home(r.Principal, r.Tenant, r.Key), b.Max, b.MaxPerCaller,
		func(at seating) error {
			return s.db.Write(ctx, func(tx Tx) error { return p.write(ctx, tx, at) })
		},
		func(own bool, each func(seat, n int64)) error {
			return s.db.Read(ctx, func(tx Tx) error { return p.taken(ctx, tx, own, each) })
		})
	switch {
	case errors.Is(err, store.ErrFull), errors.Is(err, store.ErrFullFor):
		// While it looked for a seat another may have stored the same submission.
		if stands, again := s.standing(ctx, r, now); again == nil && stands != nil {
			return stands, false, nil
		}
		return nil, false, err
	case err != nil:
		return nil, false, err
	case p.stands != nil:
		return p.stands, false, nil
	}
	return asStored(r), true, nil
}

// standing is the unexpired route that the caller's key names, nil when there is
// none.
func (s *Routes) standing(ctx context.Context, r *store.Route, now time.Time) (*store.Route, error) {
	stands, err := s.Find(ctx, r.Principal, r.Tenant, r.Key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case millis(stands.Expires) <= millis(now):
		return nil, nil
	}
	return stands, nil
}

// beginning is one call of Begin.
type beginning struct {
	*Routes
	r      *store.Route
	e      *store.RouteEvent
	now    int64
	bounds store.RouteBounds
	stands *store.Route // was there
}

// write stores the route in one transaction. The home seat's lock is also that of
// the caller's key: of those who submit the same at once, the next sees what the
// one before has done.
func (p *beginning) write(ctx context.Context, tx Tx, at seating) error {
	p.stands = nil
	home := p.seats.home(p.r.Principal, p.r.Tenant, p.r.Key)
	taken, err := p.seats.lock(ctx, tx, at.all, at.own, home)
	if err != nil {
		return err
	}
	old, seat, err := routeByKey(ctx, tx, p.r.Principal, p.r.Tenant, p.r.Key)
	replaces := err == nil
	switch {
	case replaces && millis(old.Expires) > p.now:
		p.stands = old
		return nil
	case !replaces && !errors.Is(err, store.ErrNotFound):
		return err
	}
	var own, beside int64
	err = tx.Row(ctx, `SELECT COUNT(*), COALESCE(SUM(CASE WHEN caller_seat = $3 THEN 1 ELSE 0 END), 0)
		FROM routes WHERE principal = $1 AND tenant = $2 AND expires > $4`,
		[]any{[]byte(p.r.Principal), []byte(p.r.Tenant), int64(at.own), p.now}, &own, &beside)
	if err != nil {
		return err
	}
	if err := p.seats.room(true, own, beside, p.bounds.MaxPerCaller, at.own); err != nil {
		return err
	}
	if replaces {
		// The new one takes over its seat; if it has gone meanwhile it has none.
		gone, err := removeRoute(ctx, tx, seated{old.ID, int(seat)}, p.now)
		if err != nil {
			return err
		}
		replaces = gone
	}
	if !replaces {
		seat = int64(at.all)
		all, err := p.seats.total(ctx, tx, taken)
		if err != nil {
			return err
		}
		if err := p.seats.room(false, all, taken, p.bounds.Max, at.all); err != nil {
			return err
		}
		if err := p.seats.count(ctx, tx, at.all, 1); err != nil {
			return err
		}
	}
	n, err := tx.Exec(ctx, `INSERT INTO routes (`+routeColumns+`, seat, caller_seat, intents)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, 0) ON CONFLICT DO NOTHING`,
		append(routeArgs(p.r), seat, int64(at.own))...)
	if err != nil {
		return err
	}
	if n == 0 {
		return store.ErrConflict // the id; the key is this transaction's
	}
	return insertEvent(ctx, tx, p.e)
}

// taken reads how many sit on each seat.
func (p *beginning) taken(ctx context.Context, tx Tx, own bool, each func(seat, n int64)) error {
	query, args := `SELECT seat, n FROM seats WHERE kind = $1`, []any{p.seats.kind}
	if own {
		query = `SELECT caller_seat, COUNT(*) FROM routes WHERE principal = $1 AND tenant = $2 AND expires > $3 GROUP BY caller_seat`
		args = []any{[]byte(p.r.Principal), []byte(p.r.Tenant), p.now}
	}
	return eachSeat(ctx, tx, query, args, each)
}
