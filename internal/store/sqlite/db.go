// Package sqlite is the embedded engine of the store (DESIGN section 12): one
// file in WAL mode with synchronous FULL, one writer that commits in groups, a
// small pool of readers. One process holds a file at a time.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	_ "modernc.org/sqlite" // the driver

	"github.com/penstock-mcp/penstock/internal/store"
	"github.com/penstock-mcp/penstock/internal/store/migrations"
	"github.com/penstock-mcp/penstock/internal/store/tables"
)

// Memory as a path is a database in the process's memory that ends with it.
const Memory = ":memory:"

// pragmas hold on every connection. A commit is on the disk when it returns.
var pragmas = []string{"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(FULL)", "journal_size_limit(67108864)", "trusted_schema(OFF)"}

// DB implements tables.DB on one SQLite file.
type DB struct {
	path    string
	lock    *fileLock // nil in memory
	writing *sql.DB   // one connection, which is the writer's
	reading *sql.DB   // nil in memory, where the writer reads too
	writer  *writer
	view    statements // prepared on reading

	closing sync.Once
	failed  error // of closing
}

// Open opens or creates the database at path and brings it to the schema of
// this build. The folder must exist. It returns store.ErrInUse, store.ErrNewer
// or store.ErrCorrupt, wrapped, where one of them is the reason.
//
// The DB owns a goroutine, the writer, until Close.
func Open(ctx context.Context, path string) (*DB, error) {
	d := &DB{path: path}
	if err := d.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, explain(err)), d.release())
	}
	return d, nil
}

func (d *DB) open(ctx context.Context) (err error) {
	if d.path != Memory {
		if d.path, err = create(d.path); err != nil {
			return err
		}
		if d.lock, err = lockFile(d.path + ".lock"); err != nil {
			return err
		}
	}
	if d.writing, err = sql.Open("sqlite", d.dsn("_txlock=immediate")); err != nil {
		return err
	}
	d.writing.SetMaxOpenConns(1)
	if err := d.migrate(ctx); err != nil {
		return err
	}
	if d.path != Memory {
		if d.reading, err = sql.Open("sqlite", d.dsn("_pragma=query_only(ON)")); err != nil {
			return err
		}
		readers := min(8, runtime.GOMAXPROCS(0))
		d.reading.SetMaxOpenConns(readers)
		d.reading.SetMaxIdleConns(readers)
		d.view.db = d.reading
	}
	conn, err := d.writing.Conn(ctx)
	if err != nil {
		return err
	}
	d.writer = newWriter(conn)
	return nil
}

// migrate finds the version of the schema with one query, for a file that is up
// to date must open fast.
func (d *DB) migrate(ctx context.Context) error {
	var current int64
	err := d.writing.QueryRowContext(ctx, `SELECT COUNT(*) FROM sqlite_schema WHERE name = ?`, migrations.Table).Scan(&current)
	if err == nil && current > 0 {
		err = d.writing.QueryRowContext(ctx, `SELECT COALESCE(MAX(version_id), 0) FROM `+migrations.Table).Scan(&current)
	}
	if err != nil {
		return err
	}
	return migrations.Up(ctx, migrations.SQLite, d.writing, current)
}

// dsn is the driver's address of the file with one more parameter.
func (d *DB) dsn(extra string) string {
	u := "file:" + (&url.URL{Path: filepath.ToSlash(d.path)}).EscapedPath()
	if d.path == Memory {
		u = "file::memory:"
	}
	u += "?" + extra
	for _, p := range pragmas {
		u += "&_pragma=" + url.QueryEscape(p)
	}
	return u
}

// create returns the path with symbolic links resolved, so that a file has one
// lock under all its names. A new file is readable by its owner only: it holds
// sealing keys.
func create(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("the folder %s does not exist: %w", filepath.Dir(path), err)
	case err != nil:
		return "", err
	}
	if err := f.Close(); err != nil {
		return "", err
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(path)
}

// Shared implements tables.DB: no other process has the file open.
func (d *DB) Shared() bool { return false }

// Read implements tables.DB.
func (d *DB) Read(ctx context.Context, f func(tables.Tx) error) error {
	if d.reading == nil {
		return d.writer.do(ctx, f)
	}
	return translate(f(&d.view))
}

// Write implements tables.DB. When ctx ends while f waits for its turn, nothing
// of f is written; once it has begun, Write returns the outcome.
func (d *DB) Write(ctx context.Context, f func(tables.Tx) error) error {
	return d.writer.do(ctx, f)
}

// Commits is how many commits were made since Open. Each was on the disk before
// anybody was told.
func (d *DB) Commits() int64 { return d.writer.commits.Load() }

// Health tells whether the file can be read and the last commit succeeded.
func (d *DB) Health(ctx context.Context) error {
	err := d.Read(ctx, func(tx tables.Tx) error {
		var n int64
		return tx.Row(ctx, `SELECT COUNT(*) FROM sealing_keys`, nil, &n)
	})
	if err != nil {
		return err
	}
	return d.writer.trouble()
}

// Close waits for writes that were begun or are queued, refuses later ones with
// store.ErrClosed, and releases the file.
func (d *DB) Close() error {
	d.closing.Do(func() {
		d.writer.close()
		d.failed = d.release()
	})
	return d.failed
}

func (d *DB) release() error {
	var all []error
	if d.reading != nil {
		all = append(all, d.view.close(), d.reading.Close())
	}
	if d.writer != nil {
		all = append(all, d.writer.release())
	}
	if d.writing != nil {
		all = append(all, d.writing.Close()) // the last connection empties the WAL into the file
	}
	if d.lock != nil {
		all = append(all, d.lock.close())
	}
	return errors.Join(all...)
}

// explain adds what the operator can do.
func explain(err error) error {
	err = translate(err)
	if errors.Is(err, store.ErrCorrupt) {
		return fmt.Errorf("%w; restore it from a backup, or move it and its -wal and -shm files away to start empty", err)
	}
	return err
}
