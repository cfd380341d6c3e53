package migrations

import (
	"context"
	"database/sql"
	"io/fs"

	"github.com/pressly/goose/v3"
)

// UpTo brings an empty database to an earlier version, as the build had it that
// knew no later one.
func UpTo(ctx context.Context, d Dialect, db *sql.DB, version int64) error {
	folder, err := fs.Sub(scripts, string(d))
	if err != nil {
		return err
	}
	dialect := goose.DialectSQLite3
	if d == Postgres {
		dialect = goose.DialectPostgres
	}
	provider, err := goose.NewProvider(dialect, db, folder, goose.WithTableName(Table), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	_, err = provider.UpTo(ctx, version)
	return err
}
