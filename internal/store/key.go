package store

import "context"

// Keys is the repository of sealing keys (DESIGN section 7).
type Keys interface {
	// Ring returns the sealing keys: all open, the first seals. The first caller
	// generates one of 32 random bytes; every instance gets the same. A caller
	// owns what it gets and must not log it.
	Ring(ctx context.Context) ([][]byte, error)
}
