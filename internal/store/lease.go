package store

import (
	"context"
	"time"
)

// Lease is what a caller may submit or invoke for a time (DESIGN section 10).
// Document is everything, as the durable room wrote it.
type Lease struct {
	ID        string
	Principal string
	Tenant    string
	Expires   time.Time // of millisecond precision
	Digest    string    // of the manifest; the document says the same
	Document  []byte
}

// LeaseBounds are how many unexpired leases there may be.
type LeaseBounds struct {
	Max          int
	MaxPerCaller int // of one principal and tenant
}

// Leases is the repository of leases. It is safe for concurrent use, also by
// several instances on one database. Nothing is cached.
type Leases interface {
	// Put stores a new lease durably; ErrFull or ErrFullFor at a bound,
	// ErrConflict when the id stands already.
	Put(ctx context.Context, l *Lease, now time.Time, b LeaseBounds) error
	// Get returns a lease, expired or not, or ErrNotFound. An expired one may be
	// gone before Expire: where it is in the way of a new one it makes room.
	Get(ctx context.Context, id string) (*Lease, error)
	// Delete removes a lease; ErrNotFound when there is none.
	Delete(ctx context.Context, id string) error
	// Expire removes at most limit leases that expired at or before the given
	// time, the earliest first, and returns how many.
	Expire(ctx context.Context, before time.Time, limit int) (int, error)
}
