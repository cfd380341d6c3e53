package tables

import (
	"context"
	"time"

	"github.com/penstock-mcp/penstock/internal/store"
)

// leaseRoom is how many expired leases make room at once.
const leaseRoom = 64

// Leases implements store.Leases. Rows are counted, also expired ones; where they
// are in the way of a new lease they go. The order of locks is that of seats.
type Leases struct {
	db    DB
	seats seats
}

// NewLeases returns the repository of leases in db.
func NewLeases(db DB) *Leases { return &Leases{db: db, seats: newSeats(db, "lease")} }

// Put implements store.Leases.
func (s *Leases) Put(ctx context.Context, l *store.Lease, now time.Time, b store.LeaseBounds) error {
	at := millis(now)
	return s.seats.sit(s.seats.home(l.ID), b.Max, b.MaxPerCaller,
		func(to seating) error {
			return s.db.Write(ctx, func(tx Tx) error { return s.put(ctx, tx, l, to, at, b) })
		},
		func(own bool, each func(seat, n int64)) error {
			query, args := `SELECT seat, COUNT(*) FROM leases WHERE expires > $1 GROUP BY seat`, []any{at}
			if own {
				query = `SELECT caller_seat, COUNT(*) FROM leases WHERE principal = $1 AND tenant = $2 AND expires > $3 GROUP BY caller_seat`
				args = []any{[]byte(l.Principal), []byte(l.Tenant), at}
			}
			return s.db.Read(ctx, func(tx Tx) error { return eachSeat(ctx, tx, query, args, each) })
		})
}

// put stores a lease in one transaction, if both seats have room.
func (s *Leases) put(ctx context.Context, tx Tx, l *store.Lease, to seating, now int64, b store.LeaseBounds) error {
	taken, err := s.seats.lock(ctx, tx, to.all, to.own)
	if err != nil {
		return err
	}
	var own, beside int64
	err = tx.Row(ctx, `SELECT COUNT(*), COALESCE(SUM(CASE WHEN caller_seat = $3 THEN 1 ELSE 0 END), 0)
		FROM leases WHERE principal = $1 AND tenant = $2 AND expires > $4`,
		[]any{[]byte(l.Principal), []byte(l.Tenant), int64(to.own), now}, &own, &beside)
	if err != nil {
		return err
	}
	if err := s.seats.room(true, own, beside, b.MaxPerCaller, to.own); err != nil {
		return err
	}
	gone, err := s.makeRoom(ctx, tx, to.all, taken, now, b.Max)
	if err != nil {
		return err
	}
	change := 1 - int(gone)
	if err := s.seats.count(ctx, tx, to.all, change); err != nil {
		return err
	}
	n, err := tx.Exec(ctx, `INSERT INTO leases (id, principal, tenant, expires, digest, document, seat, caller_seat)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (id) DO NOTHING`,
		l.ID, []byte(l.Principal), []byte(l.Tenant), millis(l.Expires), l.Digest, blob(l.Document), int64(to.all), int64(to.own))
	if err == nil && n == 0 {
		err = store.ErrConflict
	}
	return err
}

// makeRoom removes expired leases from a seat if that is what it takes, and
// returns how many.
func (s *Leases) makeRoom(ctx context.Context, tx Tx, seat int, taken, now int64, bound int) (gone int64, err error) {
	all, err := s.seats.total(ctx, tx, taken)
	if err != nil {
		return 0, err
	}
	if all >= int64(bound) { // as it seems, with the expired ones
		if err := tx.Row(ctx, `SELECT COUNT(*) FROM leases WHERE expires > $1`, []any{now}, &all); err != nil {
			return 0, err
		}
	}
	if share := s.seats.share(bound, seat); taken >= share {
		gone, err = tx.Exec(ctx, `DELETE FROM leases WHERE id IN (SELECT id FROM leases WHERE seat = $1 AND expires <= $2 ORDER BY expires, id LIMIT $3)`,
			int64(seat), now, taken-share+leaseRoom)
		if err != nil {
			return 0, err
		}
	}
	return gone, s.seats.room(false, all, taken-gone, bound, seat)
}

// Get implements store.Leases.
func (s *Leases) Get(ctx context.Context, id string) (*store.Lease, error) {
	if !isText(id) {
		return nil, store.ErrNotFound
	}
	l := &store.Lease{ID: id}
	err := s.db.Read(ctx, func(tx Tx) error {
		var principal, tenant []byte
		var expires int64
		err := tx.Row(ctx, `SELECT principal, tenant, expires, digest, document FROM leases WHERE id = $1`, []any{id},
			&principal, &tenant, &expires, &l.Digest, &l.Document)
		l.Principal, l.Tenant, l.Expires = string(principal), string(tenant), atMillis(expires)
		return err
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Delete implements store.Leases. It learns the seat before it takes its lock.
func (s *Leases) Delete(ctx context.Context, id string) error {
	if !isText(id) {
		return store.ErrNotFound
	}
	var found []seated
	err := s.db.Read(ctx, func(tx Tx) (err error) {
		found, err = seatedRows(ctx, tx, `SELECT id, seat FROM leases WHERE id = $1`, id)
		return err
	})
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return store.ErrNotFound
	}
	return s.db.Write(ctx, func(tx Tx) error {
		n, err := s.seats.leave(ctx, tx, found, func(is seated) (bool, error) {
			n, err := tx.Exec(ctx, `DELETE FROM leases WHERE id = $1 AND seat = $2`, is.id, int64(is.seat))
			return n == 1, err
		})
		if err == nil && n == 0 {
			err = store.ErrNotFound
		}
		return err
	})
}

// Expire implements store.Leases, in transactions of a bounded size.
func (s *Leases) Expire(ctx context.Context, before time.Time, limit int) (gone int, err error) {
	at := millis(before)
	return expireSeated(ctx, s.db, &s.seats, limit, `SELECT id, seat FROM leases WHERE expires <= $1 ORDER BY expires, id LIMIT $2`, at,
		func(tx Tx, is seated) (bool, error) {
			n, err := tx.Exec(ctx, `DELETE FROM leases WHERE id = $1 AND seat = $2 AND expires <= $3`, is.id, int64(is.seat), at)
			return n == 1, err
		})
}
