package gateway

import (
	"sync"

	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/store"
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

// declaredCache remembers the reserved _meta members that stand for a legacy
// session in every request to a modern upstream.
type declaredCache struct {
	mu sync.RWMutex // guards m
	m  map[declaration][]byte
}

type declaration struct {
	rev        mcp.Revision
	caps, info string
	askable    bool // the client takes questions on this request's stream
	driven     bool // the gateway drives tasks for it
}

// of returns the members as raw JSON without braces. The result is shared and
// read-only.
func (c *declaredCache) of(s *store.Session, self []byte, askable, driven bool) []byte {
	c.mu.RLock()
	members, ok := c.m[declaration{s.Revision, string(s.Capabilities), string(s.ClientInfo), askable, driven}]
	c.mu.RUnlock()
	if ok {
		return members
	}
	info := s.ClientInfo
	if info == nil {
		info = self
	}
	members = append(members, `"`+mcp.MetaProtocolVersion+`":"`...)
	members = append(members, mcp.LatestModern.String()...)
	members = append(members, `","`+mcp.MetaClientInfo+`":`...)
	members = append(members, info...)
	members = append(members, `,"`+mcp.MetaClientCapabilities+`":`...)
	caps := mcp.ModernFromLegacy(s.Capabilities, s.Revision, askable)
	if driven {
		caps = withTasks(caps)
	}
	members = append(members, caps...)
	if len(s.Capabilities)+len(s.ClientInfo) > maxCapsSize {
		return members
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil || len(c.m) >= maxCaps {
		c.m = map[declaration][]byte{}
	}
	c.m[declaration{s.Revision, string(s.Capabilities), string(s.ClientInfo), askable, driven}] = members
	return members
}

// askableCache remembers the normal form of what clients can be asked, and what
// interfaces they show.
type askableCache struct {
	mu sync.RWMutex // guards m
	m  map[askableKey]string
}

type askableKey struct {
	rev  mcp.Revision
	caps string
}

// of returns the normal form of the capabilities that a client declared, as far
// as its revision can express them, or "" when there are none.
func (c *askableCache) of(raw []byte, rev mcp.Revision) string {
	if len(raw) == 2 { // {}
		return ""
	}
	c.mu.RLock()
	form, ok := c.m[askableKey{rev, string(raw)}]
	c.mu.RUnlock()
	if ok {
		return form
	}
	if caps, err := mcp.ParseClientCaps(raw); err == nil {
		if form = caps.For(rev).Key(); form == "{}" {
			form = ""
		}
	}
	if len(raw) > maxCapsSize {
		return form
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil || len(c.m) >= maxCaps {
		c.m = map[askableKey]string{}
	}
	c.m[askableKey{rev, string(raw)}] = form
	return form
}
