package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"

	"github.com/penstock-mcp/penstock/internal/store"
	"github.com/penstock-mcp/penstock/internal/store/tables"
)

// preparer is a connection, or a pool of them.
type preparer interface {
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

// statements implements tables.Tx with statements that are prepared once. The
// set of statements is that of the program, so it needs no bound. It is safe for
// concurrent use if its preparer is.
type statements struct {
	db preparer
	// detached: no context of a caller ends a statement, and with it the
	// transaction of others.
	detached bool
	ready    sync.Map // statement as package tables writes it to *sql.Stmt
}

func (s *statements) context(ctx context.Context) context.Context {
	if s.detached {
		return context.Background()
	}
	return ctx
}

func (s *statements) prepared(query string) (*sql.Stmt, error) {
	if ready, ok := s.ready.Load(query); ok {
		return ready.(*sql.Stmt), nil
	}
	// SQLite numbers $1 by its place of first use and ?1 by its number.
	// Preparing is not for the one caller alone, whose context may end.
	stmt, err := s.db.PrepareContext(context.Background(), strings.ReplaceAll(query, "$", "?"))
	if err != nil {
		return nil, err
	}
	if first, raced := s.ready.LoadOrStore(query, stmt); raced {
		return first.(*sql.Stmt), stmt.Close()
	}
	return stmt, nil
}

func (s *statements) close() error {
	var all []error
	for _, stmt := range s.ready.Range {
		all = append(all, stmt.(*sql.Stmt).Close())
	}
	return errors.Join(all...)
}

// Exec implements tables.Tx.
func (s *statements) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	stmt, err := s.prepared(query)
	if err != nil {
		return 0, err
	}
	result, err := stmt.ExecContext(s.context(ctx), args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// ExecEach implements tables.Tx.
func (s *statements) ExecEach(ctx context.Context, query string, args [][]any) error {
	for _, a := range args {
		if _, err := s.Exec(ctx, query, a...); err != nil {
			return err
		}
	}
	return nil
}

// Row implements tables.Tx.
func (s *statements) Row(ctx context.Context, query string, args []any, dest ...any) error {
	stmt, err := s.prepared(query)
	if err != nil {
		return err
	}
	err = stmt.QueryRowContext(s.context(ctx), args...).Scan(dest...)
	if errors.Is(err, sql.ErrNoRows) {
		return store.ErrNotFound
	}
	return err
}

// Rows implements tables.Tx.
func (s *statements) Rows(ctx context.Context, query string, args []any, scan func(tables.Scanner) error) error {
	stmt, err := s.prepared(query)
	if err != nil {
		return err
	}
	rows, err := stmt.QueryContext(s.context(ctx), args...)
	if err != nil {
		return err
	}
	defer rows.Close() // its error is that of rows.Err, or of a statement already done
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
