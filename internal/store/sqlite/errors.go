package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/penstock-mcp/penstock/internal/store"
)

// translate gives an error of the driver the meaning it has in package store,
// and keeps the original within it. Others stay as they are.
func translate(err error) error {
	if err == nil {
		return nil
	}
	meaning := meaningOf(err)
	if meaning == nil || errors.Is(err, meaning) {
		return err
	}
	return fmt.Errorf("%w: %w", meaning, err)
}

func meaningOf(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return store.ErrNotFound
	}
	if errors.Is(err, sql.ErrConnDone) || err.Error() == "sql: database is closed" {
		return store.ErrClosed
	}
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return nil
	}
	switch e.Code() & 0xff { // the rest tells the finer reason
	case lib.SQLITE_FULL:
		return store.ErrNoSpace
	case lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB:
		return store.ErrCorrupt
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_IOERR, lib.SQLITE_CANTOPEN, lib.SQLITE_READONLY, lib.SQLITE_PROTOCOL:
		return store.ErrUnavailable
	case lib.SQLITE_INTERRUPT:
		return context.Canceled
	}
	return nil
}
