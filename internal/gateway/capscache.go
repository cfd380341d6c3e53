package gateway

import (
	"sync"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

// capsCache remembers what is left of a declared capability set, since a client
// sends the same bytes with every request.
type capsCache struct {
	mu sync.RWMutex // guards m
	m  map[string][]byte
}

const (
	maxCaps     = 256     // entries
	maxCapsSize = 8 << 10 // of one
)

// filter returns the set without the extensions that are not passed on. The
// result is shared and read-only.
func (c *capsCache) filter(raw []byte) []byte {
	c.mu.RLock()
	kept, ok := c.m[string(raw)]
	c.mu.RUnlock()
	if ok {
		return kept
	}
	kept = mcp.FilterModern(raw, mcp.ExtensionTasks)
	if len(raw) > maxCapsSize {
		return kept
	}
	kept = append([]byte(nil), kept...)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil || len(c.m) >= maxCaps {
		c.m = map[string][]byte{}
	}
	c.m[string(raw)] = kept
	return kept
}
