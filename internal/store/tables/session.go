package tables

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/store"
)

const (
	// fresh is how long a row may be served without reading it again, where
	// others write to the database too (DESIGN section 12).
	fresh = 2 * time.Second
	// settled is how long a session must have been idle before it can make room
	// for another of its own principal.
	settled = time.Second
	// evictable is how many of a principal's sessions are looked at for one that
	// can make room.
	evictable = 64
	// expireBatch bounds the rows of one transaction.
	expireBatch = 200
	// longestID bounds what is looked up; an id of ours is far shorter.
	longestID = 256
	// late is how long a use may wait to be written after it became due.
	late = 5 * time.Second
)

// SessionBounds are what Sessions keeps to.
type SessionBounds struct {
	Max    int           // records in all
	MaxFor int           // records of one principal
	Idle   time.Duration // how long a record lives without use
	Cached int           // rows held in the process
}

// Sessions implements store.Sessions.
//
// Rows are cached in the process: for 2 s where other processes write to the
// database, until this process changes them where none does. The time of the
// last use is exact in the process, and written when it has moved by over a
// tenth of the idle time, by Flush, never within Get. So the database is behind
// by that much; what another instance may have used is given that much longer.
type Sessions struct {
	db       DB
	now      func() time.Time
	bounds   SessionBounds
	instance string
	cache    *cache
	fresh    int64 // nanoseconds
	step     int64 // by how much a use must have moved to be written
	touches  chan *cached
}

// NewSessions returns the repository of sessions in db. instance names this
// process among those that share the database, and is not empty.
func NewSessions(db DB, instance string, b SessionBounds, now func() time.Time) *Sessions {
	s := &Sessions{
		db: db, now: now, bounds: b, instance: instance, cache: newCache(b.Cached),
		fresh: int64(fresh), step: int64(b.Idle / 10), touches: make(chan *cached, touchQueue),
	}
	if !db.Shared() {
		s.fresh = 1<<63 - 1
	}
	return s
}

const sessionColumns = `id, server, principal, revision, capabilities, client_info, log_level, generation, created, subscriptions`

// sessionRow is a row as it is read.
type sessionRow struct {
	record   *store.Session
	lastUsed int64
	instance string
}

func scanSession(r Scanner) (sessionRow, error) {
	var row sessionRow
	var s store.Session
	var principal []byte
	var revision, subscriptions string
	var generation, created int64
	err := r.Scan(&s.ID, &s.Server, &principal, &revision, &s.Capabilities, &s.ClientInfo, &s.LogLevel, &generation, &created,
		&subscriptions, &row.lastUsed, &row.instance)
	if err != nil {
		return row, err
	}
	copy(s.Principal[:], principal)
	s.Revision, _ = mcp.ParseRevision(revision)
	s.Generation = uint64(generation)
	s.Created = at(created)
	if subscriptions != "" {
		if err := json.Unmarshal([]byte(subscriptions), &s.Subscriptions); err != nil {
			return row, fmt.Errorf("subscriptions of a session: %w", err)
		}
	}
	row.record = &s
	return row, nil
}

// list is how subscriptions are written.
func list(uris []string) string {
	if len(uris) == 0 {
		return ""
	}
	b, _ := json.Marshal(uris) // strings always can
	return string(b)
}

// Get implements store.Sessions. On its usual way it asks the cache alone.
func (s *Sessions) Get(ctx context.Context, id string) (*store.Session, error) {
	now := s.now().UnixNano()
	if e := s.cache.find(id); e != nil && now-e.read.Load() <= s.fresh && now-e.used.Load() <= int64(s.bounds.Idle) {
		e.used.Store(now)
		if now-e.written.Load() > s.step || e.foreign.Load() {
			s.touch(e)
		}
		return e.record.Load(), nil
	}
	return s.load(ctx, id, now)
}

// load reads a row, and enters it into the cache.
func (s *Sessions) load(ctx context.Context, id string, now int64) (*store.Session, error) {
	if len(id) > longestID || !utf8.ValidString(id) || strings.IndexByte(id, 0) >= 0 {
		return nil, store.ErrNotFound // a client may send anything
	}
	mark := s.cache.mark(id)
	var row sessionRow
	err := s.db.Read(ctx, func(tx Tx) (err error) {
		row, err = scanSession(rowScanner{tx, ctx, `SELECT ` + sessionColumns + `, last_used, instance FROM sessions WHERE id = $1`, []any{id}})
		return err
	})
	if err != nil {
		if errors.Is(err, store.ErrNotFound) {
			s.cache.drop(id)
		}
		return nil, err
	}
	e := &cached{}
	e.record.Store(row.record)
	e.read.Store(now)
	e.written.Store(row.lastUsed)
	e.foreign.Store(row.instance != s.instance && row.instance != "")
	used := row.lastUsed
	if old := s.cache.find(id); old != nil {
		used = max(used, old.used.Load())
	}
	if now-used > int64(s.bounds.Idle)+s.grace(row.instance) {
		return nil, store.ErrNotFound
	}
	e.used.Store(max(now, used))
	s.spare(s.cache.put(mark, e))
	if now-row.lastUsed > s.step || e.foreign.Load() {
		s.touch(e)
	}
	return row.record, nil
}

// grace is how much longer a row lives, because the instance that uses it may
// not have written so yet.
func (s *Sessions) grace(instance string) int64 {
	if instance == s.instance {
		return 0
	}
	return s.step + int64(late)
}

// spare saves the use that an entry leaving the cache knows of.
func (s *Sessions) spare(e *cached) {
	if e != nil && e.used.Load() > e.written.Load() {
		s.touch(e)
	}
}

// Create implements store.Sessions. The record is durable when it returns;
// creates beside each other share a commit where the engine groups them.
func (s *Sessions) Create(ctx context.Context, r *store.Session) (evicted *store.Session, err error) {
	record := *r
	mark := s.cache.mark(r.ID)
	now := s.now().UnixNano()
	err = s.db.Write(ctx, func(tx Tx) (err error) {
		evicted, err = s.insert(ctx, tx, &record, now)
		return err
	})
	if err != nil {
		return nil, err
	}
	if evicted != nil {
		s.cache.drop(evicted.ID)
	}
	e := &cached{}
	e.record.Store(&record)
	e.read.Store(now)
	e.used.Store(now)
	e.written.Store(now)
	s.spare(s.cache.put(mark, e))
	return evicted, nil
}

func (s *Sessions) insert(ctx context.Context, tx Tx, r *store.Session, now int64) (evicted *store.Session, err error) {
	ok, err := countUp(ctx, tx, scopeOf(r.Principal), s.bounds.MaxFor)
	if err != nil {
		return nil, err
	}
	if !ok {
		if evicted, err = s.evict(ctx, tx, r.Principal, now); err != nil {
			return nil, err
		}
	}
	n, err := tx.Exec(ctx, `INSERT INTO sessions (`+sessionColumns+`, last_used, instance)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT (id) DO NOTHING`,
		r.ID, r.Server, r.Principal[:], r.Revision.String(), r.Capabilities, r.ClientInfo, r.LogLevel,
		int64(r.Generation), nanos(r.Created), list(r.Subscriptions), now, s.instance)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, store.ErrConflict
	}
	if evicted != nil {
		return evicted, nil // one for one: neither count changes
	}
	if ok, err = countUp(ctx, tx, sessionScope, s.bounds.Max); err == nil && !ok {
		err = store.ErrFull
	}
	return nil, err
}

// evict removes the least recently used of a principal's sessions, if it is
// idle, and returns it; otherwise ErrFullFor.
func (s *Sessions) evict(ctx context.Context, tx Tx, principal [32]byte, now int64) (*store.Session, error) {
	var oldest string
	var used int64
	decided := false
	err := tx.Rows(ctx, `SELECT id, last_used FROM sessions WHERE principal = $1 ORDER BY last_used LIMIT $2`,
		[]any{principal[:], int64(evictable)}, func(r Scanner) error {
			var id string
			var written int64
			if err := r.Scan(&id, &written); err != nil {
				return err
			}
			// What the database knows is never later than the truth, so the rows
			// that follow cannot beat an earlier true use.
			if decided = decided || oldest != "" && written >= used; decided {
				return nil
			}
			is := written
			if e := s.cache.find(id); e != nil {
				is = max(is, e.used.Load())
			}
			if oldest == "" || is < used {
				oldest, used = id, is
			}
			return nil
		})
	if err != nil {
		return nil, err
	}
	if oldest == "" || now-used < int64(settled) {
		return nil, store.ErrFullFor
	}
	row, err := scanSession(rowScanner{tx, ctx, `DELETE FROM sessions WHERE id = $1 RETURNING ` + sessionColumns + `, last_used, instance`, []any{oldest}})
	if errors.Is(err, store.ErrNotFound) {
		return nil, store.ErrFullFor // ended by another meanwhile
	}
	if err != nil {
		return nil, err
	}
	return row.record, endClaim(ctx, tx, oldest)
}

// Update implements store.Sessions.
func (s *Sessions) Update(ctx context.Context, r *store.Session) (*store.Session, error) {
	stored := *r
	stored.Generation++
	mark := s.cache.mark(r.ID)
	now := s.now().UnixNano()
	err := s.db.Write(ctx, func(tx Tx) error {
		n, err := tx.Exec(ctx, `UPDATE sessions SET server = $2, revision = $3, capabilities = $4, client_info = $5, log_level = $6,
			generation = $7, subscriptions = $9 WHERE id = $1 AND generation = $8`,
			r.ID, r.Server, r.Revision.String(), r.Capabilities, r.ClientInfo, r.LogLevel,
			int64(stored.Generation), int64(r.Generation), list(r.Subscriptions))
		if err != nil || n == 1 {
			return err
		}
		var generation int64
		err = tx.Row(ctx, `SELECT generation FROM sessions WHERE id = $1`, []any{r.ID}, &generation)
		if err == nil {
			err = store.ErrConflict
		}
		return err
	})
	if err != nil {
		s.spare(s.cache.drop(r.ID)) // what the cache has may be why it failed
		return nil, err
	}
	s.spare(s.cache.replace(mark, &stored, now))
	return &stored, nil
}

// Delete implements store.Sessions.
func (s *Sessions) Delete(ctx context.Context, id string) error {
	err := s.db.Write(ctx, func(tx Tx) error {
		var principal []byte
		if err := tx.Row(ctx, `SELECT principal FROM sessions WHERE id = $1`, []any{id}, &principal); err != nil {
			return err
		}
		if err := countDown(ctx, tx, append(append([]byte(nil), sessionScope...), principal...), 1); err != nil {
			return err
		}
		n, err := tx.Exec(ctx, `DELETE FROM sessions WHERE id = $1`, id)
		if err != nil {
			return err
		}
		if n == 0 {
			return store.ErrNotFound
		}
		if err := endClaim(ctx, tx, id); err != nil {
			return err
		}
		return countDown(ctx, tx, sessionScope, 1)
	})
	if e := s.cache.drop(id); err != nil && !errors.Is(err, store.ErrNotFound) {
		s.spare(e)
	}
	return err
}

// Len implements store.Sessions.
func (s *Sessions) Len(ctx context.Context) (int, error) { return count(ctx, s.db, sessionScope) }
