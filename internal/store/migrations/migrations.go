// Package migrations brings a database to the schema that this version uses
// (DESIGN section 12). A migration only adds: the previous version goes on
// working on what the next one left.
package migrations

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/pressly/goose/v3"

	"github.com/penstock-mcp/penstock/internal/store"
)

//go:embed sqlite/*.sql postgres/*.sql
var scripts embed.FS

// Dialect names an engine's scripts.
type Dialect string

// The dialects.
const (
	SQLite   Dialect = "sqlite"
	Postgres Dialect = "postgres"
)

// Table is where the version of a schema is kept.
const Table = "penstock_schema"

// Latest is the version of the schema that this build uses.
func (d Dialect) Latest() (int64, error) {
	entries, err := scripts.ReadDir(string(d))
	if err != nil {
		return 0, fmt.Errorf("migrations of %s: %w", d, err)
	}
	var latest int64
	for _, e := range entries {
		number, _, _ := strings.Cut(e.Name(), "_")
		v, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("migration %s/%s has no number: %w", d, e.Name(), err)
		}
		latest = max(latest, v)
	}
	return latest, nil
}

// Up brings db to the latest version. current is the version that the caller
// found, 0 for none: asking for it costs less than goose's own start, so a
// schema that is up to date is left alone. Up returns store.ErrNewer, wrapped,
// for a schema beyond Latest. Several instances may call it at once on
// PostgreSQL: an advisory lock of the session lets one work.
func Up(ctx context.Context, d Dialect, db *sql.DB, current int64) error {
	latest, err := d.Latest()
	if err != nil {
		return err
	}
	switch {
	case current == latest:
		return nil
	case current > latest:
		return fmt.Errorf("%w: its schema has version %d and this build knows %d; run the version that wrote it, or a later one", store.ErrNewer, current, latest)
	}
	folder, err := fs.Sub(scripts, string(d))
	if err != nil {
		return err
	}
	dialect := goose.DialectSQLite3
	options := []goose.ProviderOption{goose.WithTableName(Table), goose.WithDisableGlobalRegistry(true)}
	if d == Postgres {
		dialect = goose.DialectPostgres
		options = append(options, goose.WithSessionLocker(sessionLock{}))
	}
	provider, err := goose.NewProvider(dialect, db, folder, options...)
	if err != nil {
		return fmt.Errorf("migrations of %s: %w", d, err)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate the schema from version %d to %d: %w", current, latest, err)
	}
	return nil
}
