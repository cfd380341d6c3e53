// Package postgres is the engine of the store for several instances (DESIGN
// section 12). The pool reconnects by itself; every statement has a deadline.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/penstock-mcp/penstock/internal/store"
	"github.com/penstock-mcp/penstock/internal/store/migrations"
	"github.com/penstock-mcp/penstock/internal/store/tables"
)

// Bounds of waiting. The address may set connect_timeout and pool_max_conns.
const (
	// deadline is for one transaction, the wait for a connection included.
	deadline = 5 * time.Second
	// connecting is for one connection.
	connecting = 3 * time.Second
	// migrating is for another instance's migration too.
	migrating = time.Minute
	// attempts at a transaction that met a conflict or a dead connection.
	attempts = 5
	// connections, where the address does not say how many.
	connections = 16
)

// settings of every connection but those that migrate. A frozen process must not
// hold a lock that others wait for.
const settings = `SET idle_in_transaction_session_timeout = '5s'; SET lock_timeout = '4s'`

// DB implements tables.DB on a pool of connections.
type DB struct {
	pool     *pgxpool.Pool
	migrated atomic.Bool
}

// Open connects to the database at the address, a postgres:// URL, and brings
// it to the schema of this build. It returns store.ErrUnavailable or
// store.ErrNewer, wrapped, where one of them is the reason, and never shows a
// password.
func Open(ctx context.Context, address string) (*DB, error) {
	c, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, fmt.Errorf("the address of PostgreSQL: %w", err)
	}
	d := &DB{}
	if c.ConnConfig.ConnectTimeout == 0 {
		c.ConnConfig.ConnectTimeout = connecting
	}
	if !strings.Contains(address, "pool_max_conns=") {
		c.MaxConns = connections
	}
	c.AfterConnect = d.prepare
	if d.pool, err = pgxpool.NewWithConfig(ctx, c); err != nil {
		return nil, translate(ctx, err)
	}
	if err := d.migrate(ctx); err != nil {
		d.pool.Close()
		return nil, fmt.Errorf("open PostgreSQL at %s: %w", where(c.ConnConfig), translate(ctx, err))
	}
	return d, nil
}

// where is the address without user and password.
func where(c *pgx.ConnConfig) string { return fmt.Sprintf("%s:%d/%s", c.Host, c.Port, c.Database) }

// migrate finds the version of the schema with one query, and calls on goose
// only when there is something to do.
func (d *DB) migrate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, migrating)
	defer cancel()
	var current int64
	err := d.attempt(ctx, func(ctx context.Context, c *pgxpool.Conn) (err error) {
		current, err = version(ctx, c.Conn())
		return err
	})
	if err != nil {
		return err
	}
	db := stdlib.OpenDBFromPool(d.pool)
	err = migrations.Up(ctx, migrations.Postgres, db, current)
	err = errors.Join(err, db.Close())
	d.migrated.Store(err == nil)
	d.pool.Reset() // what comes next is prepared
	return err
}

// version is the version of the schema; 0 where there is none.
func version(ctx context.Context, c *pgx.Conn) (v int64, err error) {
	err = c.QueryRow(ctx, `SELECT COALESCE(MAX(version_id), 0) FROM `+migrations.Table).Scan(&v)
	if e := (*pgconn.PgError)(nil); errors.As(err, &e) && e.Code == undefinedTable {
		return 0, nil
	}
	return v, err
}

// prepare sets a new connection up. A database that came back older than this
// process has seen it, from a backup, is not written to.
func (d *DB) prepare(ctx context.Context, c *pgx.Conn) error {
	if !d.migrated.Load() {
		return nil
	}
	if _, err := c.Exec(ctx, settings); err != nil {
		return err
	}
	latest, err := migrations.Postgres.Latest()
	if err != nil {
		return err
	}
	is, err := version(ctx, c)
	if err == nil && is < latest {
		err = fmt.Errorf("%w: it came back with schema version %d instead of %d; start Penstock again to migrate it", store.ErrUnavailable, is, latest)
	}
	return err
}

// Shared implements tables.DB.
func (d *DB) Shared() bool { return true }

// Read implements tables.DB.
func (d *DB) Read(ctx context.Context, f func(tables.Tx) error) error {
	return d.attempt(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		return f(&transaction{ctx: ctx, on: c})
	})
}

// Write implements tables.DB. Writes beside each other share the database's own
// group commit. Once f has begun, the end of the caller's context no longer
// breaks it off: that would cost a connection each time.
func (d *DB) Write(ctx context.Context, f func(tables.Tx) error) error {
	return d.attempt(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		tx, err := c.Begin(ctx)
		if err != nil {
			return err
		}
		if err := f(&transaction{ctx: ctx, on: tx}); err != nil {
			// A connection on which this fails is not used again.
			_ = tx.Rollback(ctx)
			return err
		}
		if err := tx.Commit(ctx); err != nil {
			return &uncertain{err}
		}
		return nil
	})
}

// attempt calls f with a connection and a deadline, and again where the last
// time had no effect and the next may succeed.
func (d *DB) attempt(ctx context.Context, f func(context.Context, *pgxpool.Conn) error) (err error) {
	waiting, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	until, _ := waiting.Deadline()
	working, stop := context.WithDeadline(context.WithoutCancel(ctx), until)
	defer stop()
	for range attempts {
		if err = d.once(waiting, working, f); err == nil || waiting.Err() != nil {
			break
		}
		if broken(err) {
			d.pool.Reset() // the others of the pool have died with this one
		} else if !conflict(err) {
			break
		}
	}
	return translate(ctx, err)
}

func (d *DB) once(waiting, working context.Context, f func(context.Context, *pgxpool.Conn) error) error {
	c, err := d.pool.Acquire(waiting)
	if err != nil {
		return err
	}
	defer c.Release()
	return f(working, c)
}

// Health tells whether the database answers and takes writes.
func (d *DB) Health(ctx context.Context) error {
	return d.attempt(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		var standby bool
		err := c.QueryRow(ctx, `SELECT pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on'`).Scan(&standby)
		if err == nil && standby {
			err = fmt.Errorf("%w: it takes no writes", store.ErrUnavailable)
		}
		return err
	})
}

// Close waits for transactions that were begun and closes all connections.
func (d *DB) Close() error {
	d.pool.Close()
	return nil
}
