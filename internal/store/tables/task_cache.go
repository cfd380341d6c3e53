package tables

import (
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unique"

	"github.com/penstock-mcp/penstock/internal/store"
)

// taskKey is what a record is found by.
type taskKey struct{ hash, principal [32]byte }

// taskCache holds owners in the process, in a form that costs at most 300 bytes
// each: what many tasks have in common is kept once, and what a lookup does not
// need, not at all. It never decides: what is not in it, or too old, is read
// again.
type taskCache struct {
	seed  maphash.Seed
	room  int // entries per shard
	shard [cacheShards]taskShard
}

type taskShard struct {
	mu sync.RWMutex // guards what follows
	// by holds one of the records whose keys have the same digest; there is
	// hardly ever another.
	by map[uint64]*owner
	// changes count writes by this process to rows of this shard, each to a few of
	// them. Who reads a row from the database puts it here only if none came in between.
	changes [cacheStripes]uint64
}

// cacheStripes keep a mint from being taken for one that overtakes another.
const cacheStripes = 64

// changed is the count of writes to the rows whose keys have digests like this one.
func (h *taskShard) changed(digest uint64) *uint64 {
	return &h.changes[digest/cacheShards%cacheStripes]
}

// owner is a record without what is sealed. All but seen is immutable.
type owner struct {
	key                          taskKey
	origin                       unique.Handle[origin]
	session                      string
	created, expires, used, read int64 // Unix nanoseconds; read: when it was read
	generation                   uint64
	seen                         atomic.Uint32 // seconds; which to keep when room is needed
	mark                         store.TaskMark
	located                      bool
}

// origin is what the tasks of one tool have in common.
type origin struct {
	server, upstream, tool, exposed, instance string
	replica                                   [32]byte
	legacy                                    bool
}

func newTaskCache(room int) *taskCache {
	c := &taskCache{seed: maphash.MakeSeed(), room: max(1, room/cacheShards)}
	for i := range c.shard {
		c.shard[i].by = map[uint64]*owner{}
	}
	return c
}

func (c *taskCache) of(key *taskKey) (*taskShard, uint64) {
	digest := maphash.Comparable(c.seed, *key)
	return &c.shard[digest%cacheShards], digest
}

// get returns the record of a key if it was read within fresh and has not
// expired, or nil.
func (c *taskCache) get(key *taskKey, now, fresh int64) *store.Task {
	h, digest := c.of(key)
	h.mu.RLock()
	e := h.by[digest]
	h.mu.RUnlock()
	if e == nil || e.key != *key || now-e.read > fresh || e.expires > 0 && now >= e.expires {
		return nil
	}
	if s := seconds(now); e.seen.Load() != s {
		e.seen.Store(s)
	}
	return e.record()
}

func seconds(nanos int64) uint32 { return uint32(nanos / int64(time.Second)) }

func (e *owner) record() *store.Task {
	o := e.origin.Value()
	return &store.Task{
		Hash: e.key.hash, Principal: e.key.principal,
		Server: o.server, Upstream: o.upstream, Tool: o.tool, Exposed: o.exposed, Legacy: o.legacy, Replica: o.replica,
		Instance: o.instance, Session: e.session, Located: e.located, Mark: e.mark,
		Created: at(e.created), Expires: at(e.expires), Used: at(e.used), Generation: e.generation,
	}
}

// mark is taken before the database is asked, and given to put, lacks or replace
// with what it answered.
func (c *taskCache) mark(key *taskKey) uint64 {
	h, digest := c.of(key)
	h.mu.RLock()
	defer h.mu.RUnlock()
	return *h.changed(digest)
}

// put enters a record that was read, unless a write has overtaken it.
func (c *taskCache) put(mark uint64, key *taskKey, t *store.Task, read int64) {
	e := newOwner(t, read)
	h, digest := c.of(key)
	h.mu.Lock()
	defer h.mu.Unlock()
	if *h.changed(digest) == mark {
		h.enter(c.room, digest, e)
	}
}

// lacks forgets a record that was not found, unless a write has overtaken that.
func (c *taskCache) lacks(mark uint64, key *taskKey) {
	h, digest := c.of(key)
	h.mu.Lock()
	defer h.mu.Unlock()
	if e := h.by[digest]; *h.changed(digest) == mark && e != nil && e.key == *key {
		delete(h.by, digest)
	}
}

// replace enters the record that this process has just written. If another
// write came in between, there is none instead.
func (c *taskCache) replace(mark uint64, key *taskKey, t *store.Task, read int64) {
	e := newOwner(t, read)
	h, digest := c.of(key)
	h.mu.Lock()
	defer h.mu.Unlock()
	changed := h.changed(digest)
	overtaken := *changed != mark
	*changed++
	if overtaken {
		delete(h.by, digest)
		return
	}
	h.enter(c.room, digest, e)
}

// touch gives an entry the use and the expiry that this process has just
// written; below 0 the expiry stays.
func (c *taskCache) touch(key *taskKey, used, expires int64) {
	h, digest := c.of(key)
	h.mu.Lock()
	defer h.mu.Unlock()
	*h.changed(digest)++
	old := h.by[digest]
	if old == nil || old.key != *key {
		return
	}
	e := &owner{
		key: old.key, origin: old.origin, session: old.session, created: old.created, expires: old.expires,
		used: max(old.used, used), read: old.read, generation: old.generation, mark: old.mark, located: old.located,
	}
	e.seen.Store(old.seen.Load())
	if expires >= 0 {
		e.expires = expires
	}
	h.by[digest] = e
}

// drop forgets a record that was or may have been changed.
func (c *taskCache) drop(key *taskKey) {
	h, digest := c.of(key)
	h.mu.Lock()
	defer h.mu.Unlock()
	*h.changed(digest)++
	delete(h.by, digest)
}

func newOwner(t *store.Task, read int64) *owner {
	e := &owner{
		key: taskKey{t.Hash, t.Principal},
		origin: unique.Make(origin{
			server: t.Server, upstream: t.Upstream, tool: t.Tool, exposed: t.Exposed, instance: t.Instance, replica: t.Replica, legacy: t.Legacy,
		}),
		session: strings.Clone(t.Session), // which may be part of something large
		created: nanos(t.Created), expires: nanos(t.Expires), used: nanos(t.Used), read: read,
		generation: t.Generation, mark: t.Mark, located: t.Located,
	}
	e.seen.Store(seconds(read))
	return e
}

// enter adds an entry within the bound; the least recently seen of a few makes
// room. h.mu must be held.
func (h *taskShard) enter(room int, digest uint64, e *owner) {
	if _, known := h.by[digest]; !known && len(h.by) >= room {
		var oldest uint64
		var seen uint32
		looked := 0
		for other, o := range h.by {
			if s := o.seen.Load(); looked == 0 || s < seen {
				oldest, seen = other, s
			}
			if looked++; looked == 8 {
				break
			}
		}
		delete(h.by, oldest)
	}
	h.by[digest] = e
}

// size is the number of entries.
func (c *taskCache) size() (n int) {
	for i := range c.shard {
		h := &c.shard[i]
		h.mu.RLock()
		n += len(h.by)
		h.mu.RUnlock()
	}
	return n
}
