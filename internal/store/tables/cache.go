package tables

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/penstock-mcp/penstock/internal/store"
)

// cacheShards keep one session's request from waiting for another's.
const cacheShards = 256

// cache holds rows of sessions in the process. It never decides: what is not in
// it, or too old, is read again.
type cache struct {
	seed  maphash.Seed
	room  int // entries per shard
	shard [cacheShards]cacheShard
}

type cacheShard struct {
	mu   sync.RWMutex // guards what follows
	byID map[string]*cached
	// changes counts writes to rows of this shard by this process. Who reads a
	// row from the database puts it here only if none came in between.
	changes uint64
}

// cached is a row and what is known of its use.
type cached struct {
	record  atomic.Pointer[store.Session]
	read    atomic.Int64 // when the row was read; Unix nanoseconds, as all here
	used    atomic.Int64 // exact for this process
	written atomic.Int64 // used, as the database has it
	foreign atomic.Bool  // the row names another instance as its only user
	queued  atomic.Bool  // waits to have its use written
}

func newCache(room int) *cache {
	c := &cache{seed: maphash.MakeSeed(), room: max(1, room/cacheShards)}
	for i := range c.shard {
		c.shard[i].byID = map[string]*cached{}
	}
	return c
}

func (c *cache) of(id string) *cacheShard {
	return &c.shard[maphash.String(c.seed, id)%cacheShards]
}

func (c *cache) find(id string) *cached {
	h := c.of(id)
	h.mu.RLock()
	e := h.byID[id]
	h.mu.RUnlock()
	return e
}

// mark is taken before the database is asked, and given to put or replace with
// what it answered.
func (c *cache) mark(id string) uint64 {
	h := c.of(id)
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.changes
}

// put enters a row that was read or inserted, unless a write has overtaken it.
// It returns an entry that had to make room, or nil.
func (c *cache) put(mark uint64, e *cached) (displaced *cached) {
	id := e.record.Load().ID
	h := c.of(id)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.changes != mark {
		return nil
	}
	return h.enter(c.room, id, e)
}

// enter adds an entry within the bound; the one displaced is the least recently
// used of a few. h.mu must be held.
func (h *cacheShard) enter(room int, id string, e *cached) (displaced *cached) {
	if _, known := h.byID[id]; !known && len(h.byID) >= room {
		looked := 0
		for _, other := range h.byID {
			if displaced == nil || other.used.Load() < displaced.used.Load() {
				displaced = other
			}
			if looked++; looked == 8 {
				break
			}
		}
		delete(h.byID, displaced.record.Load().ID)
	}
	h.byID[id] = e
	return displaced
}

// replace gives an entry the row that this process has just updated. If another
// write came in between, the entry is dropped instead and returned.
func (c *cache) replace(mark uint64, r *store.Session, read int64) (dropped *cached) {
	h := c.of(r.ID)
	h.mu.Lock()
	defer h.mu.Unlock()
	overtaken := h.changes != mark
	h.changes++
	e := h.byID[r.ID]
	switch {
	case e == nil:
		return nil
	case overtaken:
		delete(h.byID, r.ID)
		return e
	}
	e.record.Store(r)
	e.read.Store(read)
	return nil
}

// drop forgets a row that was or may have been changed, and returns its entry.
func (c *cache) drop(id string) *cached {
	h := c.of(id)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changes++
	e := h.byID[id]
	delete(h.byID, id)
	return e
}

// unwritten returns the entries whose use the database does not know yet,
// though it counts the row as unused since before t.
func (c *cache) unwritten(t int64) (all []*cached) {
	for i := range c.shard {
		h := &c.shard[i]
		h.mu.RLock()
		for _, e := range h.byID {
			if w := e.written.Load(); w < t && e.used.Load() > w {
				all = append(all, e)
			}
		}
		h.mu.RUnlock()
	}
	return all
}
