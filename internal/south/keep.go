package south

import (
	"context"
	"errors"
	"time"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

// ErrTaken is what Keep.Put answers when another instance was first.
var ErrTaken = errors.New("south: another instance stored this session")

// Kept is a southbound legacy session as it is remembered across restarts and
// shared between instances.
type Kept struct {
	ID         string // the upstream's session id
	Revision   mcp.Revision
	Generation uint64 // 0: never stored
}

// Keep remembers southbound sessions, so that a session of a client outlives
// the process and can be picked up by another instance (DESIGN section 7). A
// session is replaced by compare-and-set on its generation; the loser re-reads.
// It is safe for concurrent use.
type Keep interface {
	// Get returns what is kept under a key; ok is false for nothing.
	Get(ctx context.Context, key SessionKey) (k Kept, ok bool, err error)
	// Put stores k if the stored generation is still that of k, and returns what
	// was stored; ErrTaken when it is not.
	Put(ctx context.Context, key SessionKey, k Kept) (Kept, error)
	// Drop removes what is kept, if its generation is still the given one.
	Drop(ctx context.Context, key SessionKey, generation uint64) error
	// Touch notes that sessions are in use.
	Touch(ctx context.Context, keys []SessionKey) error
}

// keepTimeout bounds one look into the Keep: a session is never worth waiting
// for a store that does not answer.
const keepTimeout = 3 * time.Second

// kept returns the remembered session of a key. A store that fails is as good
// as empty: the upstream is asked for a new session.
func (u *Upstream) kept(ctx context.Context, key SessionKey) *wireSession {
	if u.o.Keep == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, keepTimeout)
	defer cancel()
	k, ok, err := u.o.Keep.Get(ctx, key)
	if err != nil {
		u.o.Log.Warn("southbound session not read from the store", "upstream", u.o.Key, "error", err)
	}
	if !ok || err != nil {
		return nil
	}
	return u.revived(k)
}

// revived is a wire session that was opened by another process, or before a
// restart. What the upstream offers is known from this process's own probe.
func (u *Upstream) revived(k Kept) *wireSession {
	w := &wireSession{id: k.ID, generation: k.Generation, init: Info{Era: mcp.Legacy, Revision: k.Revision}}
	if i := u.info.Load(); i != nil {
		w.init.Capabilities, w.init.Instructions, w.init.ServerInfo = i.Capabilities, i.Instructions, i.ServerInfo
	}
	return w
}

// remember stores a new wire session in the place of the generation before it.
// When another instance was first, that one's session is used, and ours ended.
func (u *Upstream) remember(ctx context.Context, key SessionKey, w *wireSession, before uint64) *wireSession {
	if u.o.Keep == nil || w.id == "" {
		return w
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTimeout)
	defer cancel()
	k, err := u.o.Keep.Put(ctx, key, Kept{ID: w.id, Revision: w.init.Revision, Generation: before})
	switch {
	case err == nil:
		c := *w
		c.generation = k.Generation
		return &c
	case errors.Is(err, ErrTaken):
		winner, ok, err := u.o.Keep.Get(ctx, key)
		if err != nil || !ok {
			return w
		}
		u.background(func() {
			ctx, cancel := context.WithTimeout(u.ctx, 5*time.Second)
			defer cancel()
			u.delete(ctx, w)
		})
		return u.revived(winner)
	default:
		u.o.Log.Warn("southbound session not stored; it ends with this process", "upstream", u.o.Key, "error", err)
		return w
	}
}

// drop forgets a session for good.
func (u *Upstream) drop(ctx context.Context, key SessionKey, w *wireSession) {
	if u.o.Keep == nil || w.generation == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, keepTimeout)
	defer cancel()
	if err := u.o.Keep.Drop(ctx, key, w.generation); err != nil {
		u.o.Log.Debug("southbound session not dropped from the store", "upstream", u.o.Key, "error", err)
	}
}

// touch tells the Keep which sessions were used since a time.
func (u *Upstream) touch(ctx context.Context, since time.Time) {
	if u.o.Keep == nil {
		return
	}
	var used []SessionKey
	u.sessions.mu.RLock()
	for k, s := range u.sessions.byKey {
		if s.lastUsed.Load() >= since.UnixNano() || s.watched.Load() > 0 {
			used = append(used, k)
		}
	}
	u.sessions.mu.RUnlock()
	for len(used) > 0 && ctx.Err() == nil {
		n := min(len(used), 500)
		tctx, cancel := context.WithTimeout(ctx, keepTimeout)
		err := u.o.Keep.Touch(tctx, used[:n])
		cancel()
		if err != nil {
			u.o.Log.Warn("use of southbound sessions not stored", "upstream", u.o.Key, "error", err)
			return
		}
		used = used[n:]
	}
}
