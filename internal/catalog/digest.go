package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

// seen is the digest of what a selection shows, made at first use.
type seen struct {
	once   sync.Once
	digest [sha256.Size]byte
}

// Digest stands for the merged list of a kind as it is now: the first for what a
// client in that scope who sees what who does gets of it, the second for all that the upstreams
// listed, hidden or not. Equal digests mean equal lists, names included. Errors
// are those of List.
func (s *Server) Digest(ctx context.Context, scope Scope, who Viewer, kind mcp.Kind) (d, whole [sha256.Size]byte, err error) {
	m, err := s.current(ctx, scope, kind, false)
	if err != nil {
		return d, whole, fmt.Errorf("list %s: %w", kind, err)
	}
	if m.nothing {
		return d, whole, unavailable(m.shownMissing(who, kind), kind)
	}
	sel := s.seenBy(m.table, who)
	sel.seen.once.Do(func() {
		h := sha256.New()
		var n [8]byte
		part := func(b []byte) {
			binary.BigEndian.PutUint64(n[:], uint64(len(b)))
			h.Write(n[:])
			h.Write(b)
		}
		for _, l := range sel.listed {
			part([]byte(l.exposed))
			part(l.item.raw)
		}
		h.Sum(sel.seen.digest[:0])
	})
	return sel.seen.digest, m.table.digest, nil
}
