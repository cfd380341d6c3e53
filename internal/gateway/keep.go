package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"time"

	"github.com/penstock-mcp/penstock/config"
	"github.com/penstock-mcp/penstock/internal/south"
	"github.com/penstock-mcp/penstock/internal/store"
)

// Storage is where a gateway keeps its state. The zero value keeps it in the
// process, and nothing of it survives.
type Storage struct {
	Sessions store.Sessions // northern sessions
	Souths   store.Souths   // southbound ones; nil: they end with the process
	Tasks    store.Tasks    // who owns which task; nil: in the process
	Routes   store.Routes   // durable tasks; nil, or without Leases: there are none
	Leases   store.Leases   // for durable tasks
	Shared   bool           // other processes may use the store at the same time
	Claims   store.Claims   // on GET streams; nil: no other process shares the sessions
	Ring     [][]byte       // sealing keys of this store; the document's own come first
	Instance string         // names this process in shared records
	Health   func(ctx context.Context) error
}

// keeper remembers one upstream's southbound sessions in the store.
type keeper struct {
	souths   store.Souths
	upstream string   // its identity
	formerly []string // identities it had under earlier keys
	instance string
}

// southKey is the SHA-256 over the length-prefixed parts of a session's key.
func (k *keeper) southKey(s south.SessionKey) [32]byte {
	b := make([]byte, 0, 256)
	for _, part := range [...]string{s.Server, k.upstream, string(s.Principal[:]), s.Caps, s.North} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(part)))
		b = append(b, part...)
	}
	return sha256.Sum256(b)
}

// Get implements south.Keep.
func (k *keeper) Get(ctx context.Context, key south.SessionKey) (south.Kept, bool, error) {
	r, err := k.souths.Get(ctx, k.southKey(key))
	if errors.Is(err, store.ErrNotFound) {
		return k.inherit(ctx, key)
	}
	if err != nil {
		return south.Kept{}, false, err
	}
	return south.Kept{ID: r.ID, Revision: r.Revision, Generation: r.Generation}, true, nil
}

// inherit takes over a session that was kept under an earlier key of the upstream.
func (k *keeper) inherit(ctx context.Context, key south.SessionKey) (south.Kept, bool, error) {
	for _, name := range k.formerly {
		was := keeper{souths: k.souths, upstream: name, instance: k.instance}
		r, err := k.souths.Get(ctx, was.southKey(key))
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return south.Kept{}, false, err
		}
		kept, err := k.Put(ctx, key, south.Kept{ID: r.ID, Revision: r.Revision})
		if err != nil {
			return south.Kept{}, false, err
		}
		return kept, true, was.Drop(ctx, key, r.Generation)
	}
	return south.Kept{}, false, nil
}

// Put implements south.Keep.
func (k *keeper) Put(ctx context.Context, key south.SessionKey, s south.Kept) (south.Kept, error) {
	r, err := k.souths.Put(ctx, &store.South{
		Key: k.southKey(key), Server: key.Server, Upstream: k.upstream, North: key.North,
		ID: s.ID, Revision: s.Revision, Instance: k.instance, Generation: s.Generation,
	})
	if errors.Is(err, store.ErrConflict) {
		return south.Kept{}, south.ErrTaken
	}
	if err != nil {
		return south.Kept{}, err
	}
	return south.Kept{ID: r.ID, Revision: r.Revision, Generation: r.Generation}, nil
}

// Drop implements south.Keep.
func (k *keeper) Drop(ctx context.Context, key south.SessionKey, generation uint64) error {
	err := k.souths.Delete(ctx, k.southKey(key), generation)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrConflict) {
		return nil
	}
	return err
}

// Touch implements south.Keep.
func (k *keeper) Touch(ctx context.Context, keys []south.SessionKey) error {
	hashes := make([][32]byte, len(keys))
	for i, key := range keys {
		hashes[i] = k.southKey(key)
	}
	return k.souths.Touch(ctx, hashes...)
}

// knowKept notes which upstream, or which of its replicas, the sessions under an
// identity belong to.
func (g *Gateway) knowKept(c *config.Upstream, u upstream) {
	switch u := u.(type) {
	case *south.Upstream:
		g.kept[identity(c, c.Key, c.URL)] = u
	case *south.Replicas:
		for i, address := range c.URLs {
			g.kept[identity(c, c.Key, address)] = u.At(i)
		}
	}
}

// expireBatch bounds how many idle sessions one sweep ends.
const expireBatch = 200

// sweepKept ends the southbound sessions that no instance has used for the idle
// time. Each instance notes its uses every minute at least, so that much is
// allowed for.
func (g *Gateway) sweepKept(ctx context.Context, now time.Time) {
	if g.storage.Souths == nil {
		return
	}
	idle := time.Duration(g.doc.Limits.IdleSession)
	gone, err := g.storage.Souths.Expire(ctx, now.Add(-idle-2*min(time.Minute, max(idle/4, time.Second))), expireBatch)
	if err != nil && ctx.Err() == nil {
		g.log.Warn("idle southbound sessions not swept", "error", err)
	}
	for _, r := range gone {
		if u := g.kept[r.Upstream]; u != nil {
			u.EndKept(r.ID, r.Revision)
		}
	}
}
