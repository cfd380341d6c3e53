package store

import "errors"

// Sentinel errors of every repository. A function that returns one may have
// wrapped it: test with errors.Is.
var (
	ErrNotFound = errors.New("store: no such record")
	ErrConflict = errors.New("store: the record was changed by another")
	ErrFull     = errors.New("store: the bound on records is reached")
	ErrFullFor  = errors.New("store: the principal's bound on records is reached")

	// ErrUnavailable: the database cannot be reached or did not answer in time.
	// The same request may succeed later. A write that met it may have been
	// committed nevertheless.
	ErrUnavailable = errors.New("store: the database is unavailable")
	// ErrNoSpace: the disk is full. The write was not made; reads go on.
	ErrNoSpace = errors.New("store: no space left for the database")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("store: closed")
)

// Sentinel errors of opening a store. Each is wrapped with what the operator
// can do about it.
var (
	// ErrInUse: another process has this SQLite file open.
	ErrInUse = errors.New("store: in use by another process")
	// ErrNewer: the schema was written by a later version of Penstock.
	ErrNewer = errors.New("store: written by a newer version")
	// ErrCorrupt: this is no database, or a damaged one.
	ErrCorrupt = errors.New("store: not a usable database")
)
