package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"

	"github.com/penstock-mcp/penstock/internal/south"
	"github.com/penstock-mcp/penstock/internal/store"
)

// Storage is where a gateway keeps its state. The zero value keeps it in the
// process, and nothing of it survives.
type Storage struct {
	Sessions store.Sessions // northern sessions
	Souths   store.Souths   // southbound ones; nil: they end with the process
	Ring     [][]byte       // sealing keys of this store; the document's own come first
	Instance string         // names this process in shared records
	Health   func(ctx context.Context) error
}

// keeper remembers one upstream's southbound sessions in the store.
type keeper struct {
	souths   store.Souths
	upstream string
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
		return south.Kept{}, false, nil
	}
	if err != nil {
		return south.Kept{}, false, err
	}
	return south.Kept{ID: r.ID, Revision: r.Revision, Generation: r.Generation}, true, nil
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
