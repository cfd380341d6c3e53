package tables

import (
	"context"
	"errors"

	"github.com/penstock-mcp/penstock/internal/store"
)

const taskColumns = `hash, principal, sealed, server, upstream, tool, exposed, legacy, replica, instance, session, located, mark, created, expires, used, generation`

// taskRow is a row as it is read.
type taskRow struct {
	task                                                      store.Task
	hash, principal, sealed, replica, tool, exposed           []byte
	legacy, located, mark, created, expires, used, generation int64
}

// rest are the columns of taskColumns from the fourth.
func (r *taskRow) rest() []any {
	return []any{
		&r.task.Server, &r.task.Upstream, &r.tool, &r.exposed, &r.legacy, &r.replica, &r.task.Instance, &r.task.Session,
		&r.located, &r.mark, &r.created, &r.expires, &r.used, &r.generation,
	}
}

func (r *taskRow) record() *store.Task {
	t := r.task
	copy(t.Hash[:], r.hash)
	copy(t.Principal[:], r.principal)
	copy(t.Replica[:], r.replica)
	if len(r.sealed) > 0 {
		t.Sealed = r.sealed
	}
	t.Tool, t.Exposed = string(r.tool), string(r.exposed)
	t.Legacy, t.Located, t.Mark = r.legacy == 1, r.located == 1, store.TaskMark(r.mark)
	t.Created, t.Expires, t.Used = at(r.created), at(r.expires), at(r.used)
	t.Generation = uint64(r.generation)
	return &t
}

func scanTask(s Scanner) (*store.Task, error) {
	var r taskRow
	if err := s.Scan(append([]any{&r.hash, &r.principal, &r.sealed}, r.rest()...)...); err != nil {
		return nil, err
	}
	return r.record(), nil
}

// taskArgs are the values of taskColumns but the generation.
func taskArgs(t *store.Task) []any {
	var replica []byte
	if t.Replica != [32]byte{} {
		replica = t.Replica[:]
	}
	return []any{
		t.Hash[:], t.Principal[:], t.Sealed, t.Server, t.Upstream, []byte(t.Tool), []byte(t.Exposed), flag(t.Legacy), replica,
		t.Instance, t.Session, flag(t.Located), int64(t.Mark), nanos(t.Created), nanos(t.Expires), nanos(t.Used),
	}
}

func flag(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

// ownTask is the record of (hash, principal), nil when there is none.
func ownTask(ctx context.Context, tx Tx, key *taskKey) (*store.Task, error) {
	own, err := scanTask(rowScanner{tx, ctx, `SELECT ` + taskColumns + ` FROM tasks WHERE hash = $1 AND principal = $2`, []any{key.hash[:], key.principal[:]}})
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return own, err
}

// insertTask adds a record that is known not to be there.
func insertTask(ctx context.Context, tx Tx, t *store.Task) (*store.Task, error) {
	return scanTask(rowScanner{tx, ctx, `INSERT INTO tasks (` + taskColumns + `)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, 1) RETURNING ` + taskColumns, taskArgs(t)})
}

// updateTask gives the record of t all that t says, if it is at a generation; 0
// is any. store.ErrNotFound: it is not.
func updateTask(ctx context.Context, tx Tx, t *store.Task, generation uint64) (*store.Task, error) {
	return scanTask(rowScanner{
		tx, ctx, `UPDATE tasks SET sealed = $3, server = $4, upstream = $5, tool = $6, exposed = $7, legacy = $8, replica = $9,
		instance = $10, session = $11, located = $12, mark = $13, created = $14, expires = $15,
		used = CASE WHEN used < $16 THEN $16 ELSE used END, generation = generation + 1
		WHERE hash = $1 AND principal = $2 AND (CAST($17 AS BIGINT) = 0 OR generation = $17) RETURNING ` + taskColumns,
		append(taskArgs(t), int64(generation)),
	})
}
