package tables

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"

	"github.com/penstock-mcp/penstock/internal/store"
)

// sharedSeats is over how many rows a count is spread where several connections
// write. One row would be locked by each who counts until its commit is on the
// disk, and no two could share one.
const sharedSeats = 32

// seats counts records of one kind against bounds.
//
// Each record sits on a seat among all, whose row in the table of seats says how
// many do, and on a seat among those of its caller. A seat holds its share of the
// bound, so that the sum keeps to it exactly. Who counts on a seat, of either
// sort, holds the lock of that seat's row until the end of its transaction; where
// there is only one writer there is one seat and no lock. The order of locks is:
// seats, ascending; then records.
type seats struct {
	kind string
	n    int
}

func newSeats(db DB, kind string) seats {
	if db.Shared() {
		return seats{kind: kind, n: sharedSeats}
	}
	return seats{kind: kind, n: 1}
}

// home is the seat that is tried first, the same for all instances.
func (s *seats) home(of ...string) int {
	h := fnv.New64a()
	for _, part := range of {
		var length [8]byte
		binary.LittleEndian.PutUint64(length[:], uint64(len(part)))
		h.Write(length[:])
		h.Write([]byte(part))
	}
	sum := h.Sum64()
	return int((sum ^ sum>>32) % uint64(s.n))
}

// share is how many of a bound a seat holds.
func (s *seats) share(bound, seat int) int64 {
	share := max(0, bound) / s.n
	if seat < max(0, bound)%s.n {
		share++
	}
	return int64(share)
}

// lock takes the locks of seats and returns how many records sit on the first.
func (s *seats) lock(ctx context.Context, tx Tx, first int, others ...int) (taken int64, err error) {
	if s.n == 1 {
		err := tx.Row(ctx, `SELECT n FROM seats WHERE kind = $1 AND seat = $2`, []any{s.kind, int64(first)}, &taken)
		if errors.Is(err, store.ErrNotFound) {
			err = nil
		}
		return taken, err
	}
	all := append(slices.Clone(others), first)
	slices.Sort(all)
	for _, seat := range slices.Compact(all) {
		var n int64
		err := tx.Row(ctx, `INSERT INTO seats (kind, seat, n) VALUES ($1, $2, 0)
			ON CONFLICT (kind, seat) DO UPDATE SET n = seats.n RETURNING n`, []any{s.kind, int64(seat)}, &n)
		if err != nil {
			return 0, err
		}
		if seat == first {
			taken = n
		}
	}
	return taken, nil
}

// count adds to the number of those who sit on a seat, whose lock is held.
func (s *seats) count(ctx context.Context, tx Tx, seat, by int) error {
	_, err := tx.Exec(ctx, `INSERT INTO seats (kind, seat, n) VALUES ($1, $2, $3)
		ON CONFLICT (kind, seat) DO UPDATE SET n = seats.n + excluded.n`, s.kind, int64(seat), int64(by))
	return err
}

// seatless says that a seat had no room, though another may.
type seatless struct{ own bool }

func (e *seatless) Error() string {
	return fmt.Sprintf("a seat has no room, among the caller's own: %t", e.own)
}

// total is how many sit on all seats, of which taken sit on the one that is
// locked.
func (s *seats) total(ctx context.Context, tx Tx, taken int64) (n int64, err error) {
	if s.n == 1 {
		return taken, nil
	}
	err = tx.Row(ctx, `SELECT CAST(COALESCE(SUM(n), 0) AS BIGINT) FROM seats WHERE kind = $1`, []any{s.kind}, &n)
	return n, err
}

// room tells whether one more fits where n sit, of which taken do on the seat
// whose lock is held. The shares keep to a bound that stays as it is; after one
// that was lowered, or is not the same for all instances, seats may hold more
// than their share, and the sum tells.
func (s *seats) room(own bool, n, taken int64, bound, seat int) error {
	switch {
	case n >= int64(bound):
		return full(own)
	case taken >= s.share(bound, seat):
		return &seatless{own}
	}
	return nil
}

func full(own bool) error {
	if own {
		return store.ErrFullFor
	}
	return store.ErrFull
}

// seating is where a new record sits.
type seating struct{ all, own int }

// sit calls write with seats until both have room under their bounds. taken reads how many sit on
// each, among all or among the caller's own; without one that has room the bound
// is reached. Any that has is tried, so that those who look at once do not meet
// again.
func (s *seats) sit(home, ofAll, ofOwn int, write func(seating) error, taken func(own bool, each func(seat, n int64)) error) error {
	at := seating{home, home}
	var none *seatless
	for range seatings {
		err := write(at)
		if !errors.As(err, &none) {
			return err
		}
		counted := make([]int64, s.n)
		err = taken(none.own, func(seat, n int64) {
			if seat >= 0 && seat < int64(len(counted)) {
				counted[seat] = n
			}
		})
		if err != nil {
			return err
		}
		bound, place := ofAll, &at.all
		if none.own {
			bound, place = ofOwn, &at.own
		}
		free := -1
		for _, seat := range rand.Perm(s.n) {
			if counted[seat] < s.share(bound, seat) {
				free = seat
				break
			}
		}
		if free < 0 {
			return full(none.own)
		}
		*place = free
	}
	return full(none.own)
}

// eachSeat reads seats and how many sit on them.
func eachSeat(ctx context.Context, tx Tx, query string, args []any, each func(seat, n int64)) error {
	return tx.Rows(ctx, query, args, func(r Scanner) error {
		var seat, n int64
		err := r.Scan(&seat, &n)
		if err == nil {
			each(seat, n)
		}
		return err
	})
}
