package tables

import (
	"context"
	"slices"
	"strings"
)

// seated is a record and its seat among all.
type seated struct {
	id   string
	seat int
}

// seatedRows reads ids and seats.
func seatedRows(ctx context.Context, tx Tx, query string, args ...any) (found []seated, err error) {
	err = tx.Rows(ctx, query, args, func(r Scanner) error {
		var id string
		var seat int64
		err := r.Scan(&id, &seat)
		if err == nil {
			found = append(found, seated{id, int(seat)})
		}
		return err
	})
	return found, err
}

// leave removes records in the order of their ids and counts those that were
// still there. remove looks at the seat too: a record that went and came again
// under its id may sit on another, whose lock is not held.
func (s *seats) leave(ctx context.Context, tx Tx, found []seated, remove func(seated) (gone bool, err error)) (n int, err error) {
	if len(found) == 0 {
		return 0, nil
	}
	found = slices.Clone(found)
	slices.SortFunc(found, func(a, b seated) int { return strings.Compare(a.id, b.id) })
	of := make([]int, len(found))
	for i := range found {
		of[i] = found[i].seat
	}
	if _, err := s.lock(ctx, tx, of[0], of[1:]...); err != nil {
		return 0, err
	}
	left := map[int]int{}
	for i := range found {
		gone, err := remove(found[i])
		if err != nil {
			return 0, err
		}
		if gone {
			left[found[i].seat]++
			n++
		}
	}
	for seat, by := range left {
		if err := s.count(ctx, tx, seat, -by); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// expireSeated removes at most limit records of a query in its order, those that
// are still to go.
func expireSeated(ctx context.Context, db DB, s *seats, limit int, query string, at int64, remove func(Tx, seated) (bool, error)) (gone int, err error) {
	for gone < limit {
		batch := min(expireBatch, limit-gone)
		var found []seated
		err := db.Read(ctx, func(tx Tx) (err error) {
			found, err = seatedRows(ctx, tx, query, at, int64(batch))
			return err
		})
		if err != nil || len(found) == 0 {
			return gone, err
		}
		var n int
		err = db.Write(ctx, func(tx Tx) (err error) {
			n, err = s.leave(ctx, tx, found, func(is seated) (bool, error) { return remove(tx, is) })
			return err
		})
		if err != nil {
			return gone, err
		}
		gone += n
		if len(found) < batch {
			return gone, nil
		}
		if err := ctx.Err(); err != nil {
			return gone, err
		}
	}
	return gone, nil
}
