package tables

import (
	"bytes"
	"context"
	"math"
	"time"

	"github.com/penstock-mcp/penstock/internal/store"
)

// TaskBounds are what Tasks keeps to.
type TaskBounds struct {
	Max    int // records in all
	MaxFor int // records of one principal
	Cached int // owners held in the process
}

// Tasks implements store.Tasks.
//
// Owners that were found are cached in the process until they expire, but for
// 2 s at most where other processes write to the database. What was not found
// is not: a mint elsewhere is seen at once, and a foreign and an unknown id both
// ask the database.
//
// Where the database is shared, who changes which records there are holds the
// stripe of their hash meanwhile, so that what it has read about one hash stays
// true. The order of locks is: stripes, counts of principals, rows; each in
// ascending order.
type Tasks struct {
	db     DB
	now    func() time.Time
	counts taskCounts
	cache  *taskCache
	fresh  int64 // nanoseconds
}

// NewTasks returns the repository of ownership in db.
func NewTasks(db DB, b TaskBounds, now func() time.Time) *Tasks {
	s := &Tasks{
		db: db, now: now, cache: newTaskCache(b.Cached), fresh: math.MaxInt64,
		counts: taskCounts{slots: 1, max: b.Max, maxFor: b.MaxFor},
	}
	if db.Shared() {
		s.fresh, s.counts.slots = int64(fresh), taskSlots
	}
	return s
}

// getTask finds a record and whether the hash is known with one statement and
// one index. It gives one row in any case.
const getTask = `SELECT known.is_so, COALESCE(t.server, ''), COALESCE(t.upstream, ''), t.tool, t.exposed, COALESCE(t.legacy, 0), t.replica,
	COALESCE(t.instance, ''), COALESCE(t.session, ''), COALESCE(t.located, 0), COALESCE(t.mark, 0), COALESCE(t.created, 0),
	COALESCE(t.expires, 0), COALESCE(t.used, 0), COALESCE(t.generation, 0)
	FROM (SELECT CASE WHEN EXISTS (SELECT 1 FROM tasks WHERE hash = $1) THEN 1 ELSE 0 END AS is_so) AS known
	LEFT JOIN tasks AS t ON t.hash = $1 AND t.principal = $2`

// Get implements store.Tasks. On its usual way it asks the cache alone.
func (s *Tasks) Get(ctx context.Context, hash, principal [32]byte) (found *store.Task, known bool, err error) {
	key := taskKey{hash, principal}
	now := s.now().UnixNano()
	if t := s.cache.get(&key, now, s.fresh); t != nil {
		return t, true, nil
	}
	return s.load(ctx, key, now)
}

// load reads a record, and enters it into the cache.
func (s *Tasks) load(ctx context.Context, key taskKey, now int64) (found *store.Task, known bool, err error) {
	mark := s.cache.mark(&key)
	err = s.db.Read(ctx, func(tx Tx) error {
		var isKnown int64
		r := taskRow{}
		err := tx.Row(ctx, getTask, []any{key.hash[:], key.principal[:]}, append([]any{&isKnown}, r.rest()...)...)
		known = isKnown == 1
		found = r.record()
		return err
	})
	if err != nil {
		return nil, false, err
	}
	if found.Generation == 0 {
		s.cache.lacks(mark, &key)
		return nil, known, store.ErrNotFound
	}
	found.Hash, found.Principal = key.hash, key.principal
	s.cache.put(mark, &key, found, now)
	return found, true, nil
}

// List implements store.Tasks.
func (s *Tasks) List(ctx context.Context, principal [32]byte, server string, after store.TaskPosition, limit int) ([]*store.Task, error) {
	created, hash, _ := behind(after)
	return s.page(ctx, `SELECT `+taskColumns+` FROM tasks WHERE principal = $1 AND server = $2 AND (created, hash) < ($3, $4)
		ORDER BY created DESC, hash DESC LIMIT $5`, principal[:], server, created, hash, int64(max(0, limit)))
}

// All implements store.Tasks.
func (s *Tasks) All(ctx context.Context, upstream string, after store.TaskPosition, limit int) ([]*store.Task, error) {
	created, hash, principal := behind(after)
	if upstream == "" {
		return s.page(ctx, `SELECT `+taskColumns+` FROM tasks WHERE (created, hash, principal) < ($1, $2, $3)
			ORDER BY created DESC, hash DESC, principal DESC LIMIT $4`, created, hash, principal, int64(max(0, limit)))
	}
	return s.page(ctx, `SELECT `+taskColumns+` FROM tasks WHERE upstream = $1 AND (created, hash, principal) < ($2, $3, $4)
		ORDER BY created DESC, hash DESC, principal DESC LIMIT $5`, upstream, created, hash, principal, int64(max(0, limit)))
}

// behind is a position as lists compare with it; that of the beginning is beyond
// every record.
func behind(p store.TaskPosition) (created int64, hash, principal []byte) {
	if p.Created.IsZero() {
		last := bytes.Repeat([]byte{0xff}, 33)
		return math.MaxInt64, last, last
	}
	return nanos(p.Created), p.Hash[:], p.Principal[:]
}

func (s *Tasks) page(ctx context.Context, query string, args ...any) (found []*store.Task, err error) {
	err = s.db.Read(ctx, func(tx Tx) error {
		found = nil
		return tx.Rows(ctx, query, args, func(r Scanner) error {
			t, err := scanTask(r)
			if err == nil {
				found = append(found, t)
			}
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// Count implements store.Tasks.
func (s *Tasks) Count(ctx context.Context, principal [32]byte) (own, all int, err error) {
	err = s.db.Read(ctx, func(tx Tx) error {
		var mine, total int64
		err := tx.Row(ctx, `SELECT CAST(COALESCE(SUM(CASE WHEN scope = $1 THEN n ELSE 0 END), 0) AS BIGINT),
			CAST(COALESCE(SUM(CASE WHEN scope = $2 THEN n ELSE 0 END), 0) AS BIGINT)
			FROM task_counts WHERE scope IN ($1, $2)`, []any{principal[:], everybody}, &mine, &total)
		own, all = int(mine), int(total)
		return err
	})
	return own, all, err
}
