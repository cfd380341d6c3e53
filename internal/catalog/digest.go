package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

// Digest stands for the merged list of a kind as it is now: seen for what a
// client in that scope gets to see of it, whole for all that the upstreams
// listed, hidden or not. Equal digests mean equal lists, names included. Errors
// are those of List.
func (s *Server) Digest(ctx context.Context, scope Scope, kind mcp.Kind) (seen, whole [sha256.Size]byte, err error) {
	m, err := s.current(ctx, scope, kind, false)
	if err != nil {
		return seen, whole, fmt.Errorf("list %s: %w", kind, err)
	}
	if m.nothing {
		return seen, whole, m.unavailable(kind)
	}
	t := m.table
	t.seeOnce.Do(func() {
		h := sha256.New()
		var n [8]byte
		part := func(b []byte) {
			binary.BigEndian.PutUint64(n[:], uint64(len(b)))
			h.Write(n[:])
			h.Write(b)
		}
		for _, l := range t.listed {
			part([]byte(l.exposed))
			part(l.item.raw)
		}
		h.Sum(t.seen[:0])
	})
	return t.seen, t.digest, nil
}
