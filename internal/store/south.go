package store

import (
	"context"
	"time"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

// South is a legacy session that the gateway holds at an upstream (DESIGN
// section 7). A record handed out is immutable.
type South struct {
	// Key is the SHA-256 of what the session is keyed by: virtual server,
	// upstream, principal, capability set and, where the client is legacy, the
	// northern session.
	Key        [32]byte
	Server     string
	Upstream   string
	North      string // northern session that caused it; "" when it is shared
	ID         string // the upstream's session id; "" when the upstream issued none
	Revision   mcp.Revision
	Instance   string // who stored this generation
	Generation uint64 // 0 in a record that was never stored; grows with every Put
	Created    time.Time
}

// Souths is the repository of southbound sessions. It is safe for concurrent
// use, also by several instances.
type Souths interface {
	// Get returns the record of a key, or ErrNotFound.
	Get(ctx context.Context, key [32]byte) (*South, error)
	// Put stores s if the stored generation is still that of s, where 0 stands
	// for no record, and returns what was stored. ErrConflict: another was
	// first, and the loser re-reads. ErrFull: the bound on records is reached.
	// Put counts as a use.
	Put(ctx context.Context, s *South) (*South, error)
	// Touch notes a use of each key that has a record.
	Touch(ctx context.Context, keys ...[32]byte) error
	// Delete removes the record if its generation is still the given one;
	// ErrConflict when it is not, ErrNotFound when there is none.
	Delete(ctx context.Context, key [32]byte, generation uint64) error
	// OfNorth returns at most limit records that a northern session caused, in
	// order of key and beyond the given one; the zero key starts.
	OfNorth(ctx context.Context, north string, after [32]byte, limit int) ([]*South, error)
	// Expire removes at most limit records not used since before t, and returns
	// them.
	Expire(ctx context.Context, t time.Time, limit int) ([]*South, error)
	// Len is the number of records.
	Len(ctx context.Context) (int, error)
}
