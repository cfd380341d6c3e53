package tables

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/penstock-mcp/penstock/internal/store"
)

// databaseTime is the clock of a shared database in milliseconds. It is
// PostgreSQL's spelling: where one process has the database for itself, nobody
// asks for it.
const databaseTime = `CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)`

// forgetInstances is for how long an instance that has gone is remembered.
const forgetInstances = 24 * time.Hour

// lives are the instances within this process, where no other writes to the
// database. A beat costs no commit there, and what an earlier process said counts
// for nothing.
type lives struct {
	mu    sync.Mutex // guards until
	until map[string]time.Time
}

func (l *lives) beat(instance string, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until[instance] = until
}

func (l *lives) alive(instance string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	until, ok := l.until[instance]
	return ok && now.Before(until)
}

// Beat implements store.Routes.
func (s *Routes) Beat(ctx context.Context, instance string, validity time.Duration) error {
	if s.lives != nil {
		s.lives.beat(instance, s.now().Add(validity))
		return nil
	}
	return s.db.Write(ctx, func(tx Tx) error {
		n, err := tx.Exec(ctx, `UPDATE route_instances SET until = `+databaseTime+` + $2 WHERE instance = $1`, instance, validity.Milliseconds())
		if err != nil || n == 1 {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO route_instances (instance, until) VALUES ($1, `+databaseTime+` + $2)
			ON CONFLICT (instance) DO UPDATE SET until = excluded.until`, instance, validity.Milliseconds())
		if err != nil {
			return err
		}
		// An instance comes seldom, and takes those along that went long ago.
		_, err = tx.Exec(ctx, `DELETE FROM route_instances WHERE until < `+databaseTime+` - $1`, forgetInstances.Milliseconds())
		return err
	})
}

// Alive implements store.Routes.
func (s *Routes) Alive(ctx context.Context, instance string) (alive bool, err error) {
	if s.lives != nil {
		return s.lives.alive(instance, s.now()), nil
	}
	err = s.db.Read(ctx, func(tx Tx) error {
		var one int64
		err := tx.Row(ctx, `SELECT 1 FROM route_instances WHERE instance = $1 AND until > `+databaseTime, []any{instance}, &one)
		alive = err == nil
		if errors.Is(err, store.ErrNotFound) {
			err = nil
		}
		return err
	})
	return alive, err
}
