package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// advisoryLock is the key of the lock under which a schema is migrated.
const advisoryLock = 0x50656e73746f636b // "Penstock"

// sessionLock lets one instance at a time migrate a PostgreSQL database. The
// others wait in the database, and go on as soon as it is free; goose's own lock
// asks every few seconds. It ends with its connection, whatever happens.
type sessionLock struct{}

// SessionLock implements lock.SessionLocker.
func (sessionLock) SessionLock(ctx context.Context, c *sql.Conn) error {
	if _, err := c.ExecContext(ctx, `SELECT pg_advisory_lock($1)`, int64(advisoryLock)); err != nil {
		return fmt.Errorf("wait for another instance's migration: %w", err)
	}
	return nil
}

// SessionUnlock implements lock.SessionLocker.
func (sessionLock) SessionUnlock(ctx context.Context, c *sql.Conn) error {
	var held bool
	if err := c.QueryRowContext(ctx, `SELECT pg_advisory_unlock($1)`, int64(advisoryLock)).Scan(&held); err != nil {
		return err
	}
	if !held {
		return errors.New("the lock of the migration was lost")
	}
	return nil
}
