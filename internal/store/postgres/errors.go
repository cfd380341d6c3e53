package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"

	"github.com/penstock-mcp/penstock/internal/store"
)

// SQLSTATE codes that are told from the others.
const (
	undefinedTable       = "42P01"
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	lockNotAvailable     = "55P03"
	readOnly             = "25006" // after a failover, the old primary
	diskFull             = "53100"
)

// uncertain is a commit without an answer: nobody knows whether it was made.
type uncertain struct{ err error }

func (u *uncertain) Error() string { return "commit: " + u.err.Error() }
func (u *uncertain) Unwrap() error { return u.err }

// conflict tells that another transaction was in the way, and that this one had
// no effect.
func conflict(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && (e.Code == serializationFailure || e.Code == deadlockDetected)
}

// broken tells that a connection of the pool had died, and that the transaction
// had no effect. It does not tell so where no connection could be made: trying
// again at once would not help.
func broken(err error) bool {
	var commit *uncertain
	var connect *pgconn.ConnectError
	var e *pgconn.PgError
	switch {
	case errors.As(err, &commit), errors.As(err, &connect):
		return false
	case errors.As(err, &e):
		return strings.HasPrefix(e.Code, "57P") // the server ended it
	}
	return lost(err)
}

// translate gives an error the meaning it has in package store, and keeps the
// original within it. ctx is the caller's: its own end is no fault of the
// database.
func translate(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, store.ErrUnavailable) {
		return err
	}
	if ended := ctx.Err(); ended != nil && errors.Is(err, ended) {
		return err
	}
	if meaning := meaningOf(err); meaning != nil {
		return fmt.Errorf("%w: %w", meaning, err)
	}
	return err
}

func meaningOf(err error) error {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		switch {
		case e.Code == diskFull:
			return store.ErrNoSpace
		case e.Code == serializationFailure, e.Code == deadlockDetected, e.Code == lockNotAvailable, e.Code == readOnly:
			return store.ErrUnavailable
		// Connection, resources, an operator's or the system's intervention.
		case strings.HasPrefix(e.Code, "08"), strings.HasPrefix(e.Code, "53"), strings.HasPrefix(e.Code, "57"), strings.HasPrefix(e.Code, "58"):
			return store.ErrUnavailable
		}
		return nil
	}
	if errors.Is(err, puddle.ErrClosedPool) {
		return store.ErrClosed
	}
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) || errors.Is(err, context.DeadlineExceeded) || pgconn.Timeout(err) || lost(err) {
		return store.ErrUnavailable
	}
	return nil
}

// lost tells that a connection ended.
func lost(err error) bool {
	var network net.Error
	return errors.As(err, &network) || pgconn.SafeToRetry(err) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, pgconn.ErrConnClosed)
}
