package tables

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/penstock-mcp/penstock/internal/store"
)

// taskSlots is over how many rows a count of tasks is spread where several
// connections write. One row would be locked by each mint until its commit is on
// the disk, and no two could share one.
const taskSlots = 32

// everybody is the scope of the count of all.
var everybody = []byte{}

// taskCounts counts tasks against their bounds.
//
// Each slot of a scope may hold its share of the bound, so that their sum keeps
// to it exactly. What does not fit into the home slot of its hash is counted in
// another. What goes is always taken from the home slot, which may thereby fall
// below 0: only the sum has a meaning. The home slot's row in the count of all
// is also the hash's stripe, the lock under which its records come and go.
type taskCounts struct {
	slots       int
	max, maxFor int
}

// taskSeat says in which slots a new record is counted.
type taskSeat struct{ all, own int }

func (c *taskCounts) home(hash *[32]byte) int { return int(hash[0]) % c.slots }

func (c *taskCounts) bound(scope []byte) int {
	if len(scope) == 0 {
		return c.max
	}
	return c.maxFor
}

// share is what a slot may hold.
func (c *taskCounts) share(scope []byte, slot int) int64 {
	bound := int64(max(0, c.bound(scope)))
	n := int64(c.slots)
	// Without a product of the bound, which may be huge.
	share := bound / n
	if int64(slot) < bound%n {
		share++
	}
	return share
}

// full is the error of a scope that holds its bound.
func (c *taskCounts) full(scope []byte) error {
	if len(scope) == 0 {
		return store.ErrFull
	}
	return store.ErrFullFor
}

// crowded says that a slot had no room, though another may.
type crowded struct{ scope []byte }

func (c *crowded) Error() string { return fmt.Sprintf("a slot of the count %x has no room", c.scope) }

// lock takes stripes until the end of the transaction. Nothing is needed where
// there is only one writer.
func (c *taskCounts) lock(ctx context.Context, tx Tx, slots ...int) error {
	if c.slots == 1 {
		return nil
	}
	slices.Sort(slots)
	for _, slot := range slices.Compact(slots) {
		_, err := tx.Exec(ctx, `INSERT INTO task_counts (scope, slot, n) VALUES ($1, $2, 0)
			ON CONFLICT (scope, slot) DO UPDATE SET n = task_counts.n`, everybody, int64(slot))
		if err != nil {
			return err
		}
	}
	return nil
}

// taskDelta is a change of a count.
type taskDelta struct {
	scope []byte
	slot  int
	by    int
	// restores: it takes back a change of the same transaction, and needs no room.
	restores bool
}

// undo are the deltas that take back the given ones.
func (c *taskCounts) undo(deltas []taskDelta) []taskDelta {
	for i := range deltas {
		deltas[i].by, deltas[i].restores = -deltas[i].by, true
	}
	return deltas
}

// apply changes counts, those of one scope and slot together and all in the
// order of locks. One that grows keeps to its bound.
func (c *taskCounts) apply(ctx context.Context, tx Tx, deltas []taskDelta) error {
	slices.SortFunc(deltas, func(a, b taskDelta) int {
		if by := bytes.Compare(a.scope, b.scope); by != 0 {
			return by
		}
		return a.slot - b.slot
	})
	for len(deltas) > 0 {
		d := deltas[0]
		n := 1
		for ; n < len(deltas) && deltas[n].slot == d.slot && bytes.Equal(deltas[n].scope, d.scope); n++ {
			d.by += deltas[n].by
		}
		deltas = deltas[n:]
		if err := c.change(ctx, tx, d); err != nil {
			return err
		}
	}
	return nil
}

func (c *taskCounts) change(ctx context.Context, tx Tx, d taskDelta) error {
	switch {
	case d.restores:
		_, err := tx.Exec(ctx, `INSERT INTO task_counts (scope, slot, n) VALUES ($1, $2, $3)
			ON CONFLICT (scope, slot) DO UPDATE SET n = task_counts.n + excluded.n`, d.scope, int64(d.slot), int64(d.by))
		return err
	case d.by > 0:
		return c.grow(ctx, tx, d)
	case d.by < 0:
		_, err := tx.Exec(ctx, `INSERT INTO task_counts (scope, slot, n) VALUES ($1, $2, $3)
			ON CONFLICT (scope, slot) DO UPDATE SET n = task_counts.n + excluded.n`, d.scope, int64(d.slot), int64(d.by))
		if err != nil || len(d.scope) == 0 {
			return err
		}
		// A principal that has gone leaves nothing behind.
		_, err = tx.Exec(ctx, `DELETE FROM task_counts WHERE scope = $1 AND slot = $2 AND n = 0`, d.scope, int64(d.slot))
		return err
	}
	return nil
}

// grow counts more where the slot has room. One below 0 has room also beyond its
// share, which an upsert could not tell.
func (c *taskCounts) grow(ctx context.Context, tx Tx, d taskDelta) error {
	share := c.share(d.scope, d.slot)
	n, err := tx.Exec(ctx, `UPDATE task_counts SET n = n + $3 WHERE scope = $1 AND slot = $2 AND n + $3 <= $4`,
		d.scope, int64(d.slot), int64(d.by), share)
	if err != nil || n == 1 {
		return err
	}
	if share < int64(d.by) {
		return c.refuse(d.scope)
	}
	n, err = tx.Exec(ctx, `INSERT INTO task_counts (scope, slot, n) VALUES ($1, $2, $3)
		ON CONFLICT (scope, slot) DO UPDATE SET n = task_counts.n + excluded.n WHERE task_counts.n + excluded.n <= $4`,
		d.scope, int64(d.slot), int64(d.by), share)
	if err == nil && n == 0 {
		err = c.refuse(d.scope)
	}
	return err
}

func (c *taskCounts) refuse(scope []byte) error {
	if c.slots == 1 {
		return c.full(scope)
	}
	return &crowded{scope}
}

// reseat looks for a slot of a crowded scope that has room, any of them so that
// those who look at once do not meet again. Without one the bound is reached.
func (c *taskCounts) reseat(ctx context.Context, db DB, scope []byte) (slot int, err error) {
	counted := make([]int64, c.slots)
	err = db.Read(ctx, func(tx Tx) error {
		clear(counted)
		return tx.Rows(ctx, `SELECT slot, n FROM task_counts WHERE scope = $1`, []any{scope}, func(r Scanner) error {
			var slot, n int64
			err := r.Scan(&slot, &n)
			if err == nil && slot < int64(len(counted)) {
				counted[slot] = n
			}
			return err
		})
	})
	if err != nil {
		return 0, err
	}
	for _, slot := range rand.Perm(c.slots) {
		if counted[slot] < c.share(scope, slot) {
			return slot, nil
		}
	}
	return 0, c.full(scope)
}
