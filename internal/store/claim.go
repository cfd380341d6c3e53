package store

import "context"

// Claim says which instance serves the GET stream of a session (DESIGN section
// 7). Of two claims on one session the one with the higher generation holds.
type Claim struct {
	Session    string
	Owner      string // instance; "" once released
	Generation uint64
}

// Claims is the repository of claims. It is safe for concurrent use, also by
// several instances. A claim ends with its session: with Delete, Expire and
// eviction of Sessions.
type Claims interface {
	// Take makes owner the holder, whoever held it before, and returns the
	// claim with its new generation.
	Take(ctx context.Context, session, owner string) (Claim, error)
	// Get returns the claim on a session, or ErrNotFound.
	Get(ctx context.Context, session string) (Claim, error)
	// Lost returns those of the given claims that no longer hold, in their
	// order. A holder asks every second, for all of its streams at once, so that
	// an older stream closes within 2 s.
	Lost(ctx context.Context, held []Claim) ([]Claim, error)
	// Release gives a claim up if it still holds; it is no error if it does not.
	// Its generation is remembered, so that it never comes again.
	Release(ctx context.Context, c Claim) error
}
