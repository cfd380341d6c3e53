package tables

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/penstock-mcp/penstock/internal/store"
)

// seatings bounds how often a record looks for a slot to be counted in. Each
// time it fails another has taken the last place of one.
const seatings = 64

// Mint implements store.Tasks.
func (s *Tasks) Mint(ctx context.Context, t *store.Task) (*store.Task, error) {
	return s.place(ctx, t, true, func(_ Tx, own *store.Task) (generation uint64, err error) {
		if own != nil && own.Upstream != t.Upstream && !own.Located {
			return 0, store.ErrConflict
		}
		return 0, nil
	})
}

// Replace implements store.Tasks.
func (s *Tasks) Replace(ctx context.Context, t, over *store.Task) (*store.Task, error) {
	return s.place(ctx, t, true, func(_ Tx, own *store.Task) (generation uint64, err error) {
		// A record that went and came again may have the old one's generation.
		if own == nil || own.Generation != over.Generation || own.Upstream != over.Upstream || !own.Created.Equal(over.Created) {
			return 0, store.ErrConflict
		}
		return over.Generation, nil
	})
}

// Locate implements store.Tasks.
func (s *Tasks) Locate(ctx context.Context, t *store.Task) (*store.Task, error) {
	return s.place(ctx, t, false, func(tx Tx, own *store.Task) (generation uint64, err error) {
		if own != nil {
			return 0, store.ErrConflict
		}
		var one int64
		// The empty string keeps the index of upstreams out of it, in which all of
		// an upstream's records are neighbours.
		err = tx.Row(ctx, `SELECT 1 FROM tasks WHERE hash = $1 AND upstream || '' = $2 LIMIT 1`, []any{t.Hash[:], t.Upstream}, &one)
		switch {
		case err == nil:
			return 0, store.ErrConflict
		case errors.Is(err, store.ErrNotFound):
			return 0, nil
		}
		return 0, err
	})
}

// verdict decides, with the record of the same principal or nil, whether a
// record may be placed: nil, and over which generation, 0 for any; or
// store.ErrConflict.
type verdict func(tx Tx, own *store.Task) (generation uint64, err error)

// place stores a record in one transaction, where the verdict allows it.
func (s *Tasks) place(ctx context.Context, t *store.Task, minted bool, allow verdict) (*store.Task, error) {
	p := placing{Tasks: s, t: *t, minted: minted, allow: allow}
	p.t.Mark, p.t.Located = store.TaskLive, !minted
	if p.t.Created.IsZero() {
		p.t.Created = s.now()
	}
	if p.t.Used.IsZero() {
		p.t.Used = p.t.Created
	}
	home := s.counts.home(&t.Hash)
	p.seat = taskSeat{all: home, own: home}

	key := taskKey{t.Hash, t.Principal}
	mark := s.cache.mark(&key)
	now := s.now().UnixNano()
	err := p.run(ctx)
	for _, other := range p.displaced {
		s.cache.drop(&taskKey{t.Hash, [32]byte(other.scope)})
	}
	switch {
	case errors.Is(err, store.ErrConflict):
		// What the cache has may be why somebody thought otherwise.
		s.cache.drop(&key)
		return p.own, err
	case err != nil:
		s.cache.drop(&key)
		return nil, err
	}
	s.cache.replace(mark, &key, p.stored, now)
	return p.stored, nil
}

// placing is one call of place.
type placing struct {
	*Tasks
	t      store.Task
	minted bool
	allow  verdict
	seat   taskSeat

	own       *store.Task // what stood for this principal
	stored    *store.Task
	displaced []taskDelta // other principals' located records that gave way
}

// run tries seats until one has room.
func (p *placing) run(ctx context.Context) error {
	var none *crowded
	var err error
	for range seatings {
		if err = p.db.Write(ctx, func(tx Tx) error { return p.write(ctx, tx) }); !errors.As(err, &none) {
			return err
		}
		slot, err := p.counts.reseat(ctx, p.db, none.scope)
		if err != nil {
			return err
		}
		if len(none.scope) == 0 {
			p.seat.all = slot
		} else {
			p.seat.own = slot
		}
	}
	return p.counts.full(none.scope)
}

func (p *placing) write(ctx context.Context, tx Tx) (err error) {
	p.own, p.stored, p.displaced = nil, nil, nil
	home := p.counts.home(&p.t.Hash)
	if err := p.counts.lock(ctx, tx, home, p.seat.all); err != nil {
		return err
	}
	if p.own, err = ownTask(ctx, tx, &taskKey{p.t.Hash, p.t.Principal}); err != nil {
		return err
	}
	generation, err := p.allow(tx, p.own)
	if err != nil {
		return err
	}
	if p.minted {
		if err := p.displace(ctx, tx, home); err != nil {
			return err
		}
	}
	if err := p.count(ctx, tx, home); err != nil {
		return err
	}
	for _, other := range p.displaced {
		_, err := tx.Exec(ctx, `DELETE FROM tasks WHERE hash = $1 AND principal = $2`, p.t.Hash[:], other.scope)
		if err != nil {
			return err
		}
	}
	t := p.t
	if p.own == nil {
		p.stored, err = insertTask(ctx, tx, &t)
		return err
	}
	if p.own.Upstream == t.Upstream {
		t.Created = p.own.Created
		if len(t.Sealed) == 0 {
			t.Sealed = p.own.Sealed
		}
	}
	p.stored, err = updateTask(ctx, tx, &t, generation)
	if errors.Is(err, store.ErrNotFound) { // marked in this very moment
		if p.own, err = ownTask(ctx, tx, &taskKey{t.Hash, t.Principal}); err == nil {
			err = store.ErrConflict
		}
	}
	return err
}

// displace finds the located records of others that give way.
func (p *placing) displace(ctx context.Context, tx Tx, home int) error {
	err := tx.Rows(ctx, `SELECT principal FROM tasks WHERE hash = $1 AND upstream = $2 AND located = 1`,
		[]any{p.t.Hash[:], p.t.Upstream}, func(r Scanner) error {
			var principal []byte
			err := r.Scan(&principal)
			if err == nil && !bytes.Equal(principal, p.t.Principal[:]) {
				p.displaced = append(p.displaced, taskDelta{scope: principal, slot: home, by: -1})
			}
			return err
		})
	slices.SortFunc(p.displaced, func(a, b taskDelta) int { return bytes.Compare(a.scope, b.scope) })
	return err
}

// count counts what comes and what goes.
func (p *placing) count(ctx context.Context, tx Tx, home int) error {
	deltas := slices.Clone(p.displaced)
	fewer := len(p.displaced)
	if p.own == nil {
		deltas = append(deltas, taskDelta{scope: p.t.Principal[:], slot: p.seat.own, by: 1})
		if fewer > 0 {
			fewer-- // one for one
		} else {
			deltas = append(deltas, taskDelta{scope: everybody, slot: p.seat.all, by: 1})
		}
	}
	if fewer > 0 {
		deltas = append(deltas, taskDelta{scope: everybody, slot: home, by: -fewer})
	}
	return p.counts.apply(ctx, tx, deltas)
}
