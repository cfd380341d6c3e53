package store

import (
	"context"
	"time"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

// Session is a northern legacy session (DESIGN section 7). A record handed out
// is immutable.
type Session struct {
	ID           string
	Server       string   // virtual server it belongs to
	Principal    [32]byte // principal key; checked on every request
	Revision     mcp.Revision
	Capabilities []byte // raw JSON of the client's declaration
	ClientInfo   []byte // raw JSON, or nil
	LogLevel     string // "" until the client sets one
	// Subscriptions are the resources that the client subscribed to, by the URIs
	// that it knows them by, in the order of subscription.
	Subscriptions []string
	Generation    uint64 // grows with every Update
	Created       time.Time
}

// Sessions is the repository of legacy sessions. It is safe for concurrent use.
type Sessions interface {
	// Create adds a record; ErrFull and ErrFullFor tell which bound holds. At a
	// principal's own bound its least recently used idle session makes room and
	// is returned, for the caller to clean up after.
	Create(ctx context.Context, s *Session) (evicted *Session, err error)
	// Get returns a record and notes its use; ErrNotFound when there is none or
	// it was idle for too long.
	Get(ctx context.Context, id string) (*Session, error)
	// Update replaces the record of the same id if its generation is still that
	// of s, and returns what was stored; ErrConflict otherwise.
	Update(ctx context.Context, s *Session) (*Session, error)
	// Delete removes a record; ErrNotFound when there is none.
	Delete(ctx context.Context, id string) error
	// Expire removes records idle since before t and returns them.
	Expire(ctx context.Context, t time.Time) ([]*Session, error)
	// Len is the number of records.
	Len(ctx context.Context) (int, error)
}
