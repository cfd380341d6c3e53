// Package tables holds the repositories on SQL, written once for the engines
// that speak it (DESIGN section 12). What differs between them is behind DB.
package tables

import "context"

// DB runs transactions. Statements are written with $1, $2, … and in the SQL
// that both engines understand.
//
// Errors are those of package store where one fits. A DB is safe for concurrent
// use.
type DB interface {
	// Read calls f with a view of what is committed. f must not write.
	Read(ctx context.Context, f func(Tx) error) error
	// Write calls f in a transaction and commits it durably, unless f returns an
	// error: then nothing of f remains. f may be called again after a conflict
	// with another transaction and must leave no traces outside of tx but what
	// it overwrites. When ctx ends, Write returns, and what f wrote may be
	// committed or not.
	Write(ctx context.Context, f func(Tx) error) error
	// Shared tells whether other processes write to the same database.
	Shared() bool
}

// Tx is one transaction. It belongs to the function it was given to.
type Tx interface {
	// Exec runs a statement and returns the number of rows it changed.
	Exec(ctx context.Context, sql string, args ...any) (int64, error)
	// ExecEach runs a statement once for each of args.
	ExecEach(ctx context.Context, sql string, args [][]any) error
	// Row scans the first row into dest, or returns store.ErrNotFound.
	Row(ctx context.Context, sql string, args []any, dest ...any) error
	// Rows calls scan for each row. scan must not use the transaction.
	Rows(ctx context.Context, sql string, args []any, scan func(Scanner) error) error
}

// Scanner is the row at hand.
type Scanner interface{ Scan(dest ...any) error }
