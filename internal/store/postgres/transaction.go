package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/penstock-mcp/penstock/internal/store"
	"github.com/penstock-mcp/penstock/internal/store/tables"
)

// querier is a connection, or a transaction on one.
type querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// transaction implements tables.Tx. It works under the deadline of the
// transaction, not under the contexts that it is called with.
type transaction struct {
	ctx context.Context
	on  querier
}

// Exec implements tables.Tx.
func (t *transaction) Exec(_ context.Context, sql string, args ...any) (int64, error) {
	tag, err := t.on.Exec(t.ctx, sql, args...)
	return tag.RowsAffected(), err
}

// ExecEach implements tables.Tx. The statements go out together.
func (t *transaction) ExecEach(_ context.Context, sql string, args [][]any) error {
	var b pgx.Batch
	for _, a := range args {
		b.Queue(sql, a...)
	}
	return t.on.SendBatch(t.ctx, &b).Close()
}

// Row implements tables.Tx.
func (t *transaction) Row(_ context.Context, sql string, args []any, dest ...any) error {
	err := t.on.QueryRow(t.ctx, sql, args...).Scan(dest...)
	if errors.Is(err, pgx.ErrNoRows) {
		return store.ErrNotFound
	}
	return err
}

// Rows implements tables.Tx.
func (t *transaction) Rows(_ context.Context, sql string, args []any, scan func(tables.Scanner) error) error {
	rows, err := t.on.Query(t.ctx, sql, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
