package task

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstock-mcp/penstock/internal/store"
)

// Life is what an answer says of a task's lifetime.
type Life struct {
	Known     bool          // the answer says something of it
	Unlimited bool          // ttlMs is null
	TTL       time.Duration // from creation
	Created   time.Time     // as the upstream says; zero: it does not
}

// maxTTL bounds a ttl that an upstream names: what is longer is as good as without
// an end.
const maxTTL = 10 * 365 * 24 * time.Hour

// expires is when a task has passed, and zero for never. What an upstream says of
// the time of creation counts where it is not in the future.
func (l *Life) expires(now time.Time) time.Time {
	if l.Unlimited || l.TTL > maxTTL {
		return time.Time{}
	}
	from := now
	if !l.Created.IsZero() && l.Created.Before(now) {
		from = l.Created
	}
	return from.Add(max(l.TTL, 0))
}

// ErrCollision is a mint of an id that this principal already has at another
// upstream.
var ErrCollision = errors.New("task: the id is another upstream's task of this principal")

// CollisionError is an ErrCollision with the record that stands.
type CollisionError struct{ Owner *store.Task }

// Error implements error.
func (c *CollisionError) Error() string {
	return fmt.Sprintf("%v, upstream %q", ErrCollision, c.Owner.Upstream)
}

// Is implements the test of errors.Is.
func (c *CollisionError) Is(target error) bool { return target == ErrCollision } //nolint:errorlint // as errors.Is asks

// Mint commits that a principal owns a task. t has everything but what is made of
// the id and the lifetime. It returns a CollisionError when another upstream's task
// of that id is this principal's, and otherwise an error when it is not committed.
func (x *Index) Mint(ctx context.Context, id string, t *store.Task, life Life) (*store.Task, error) {
	x.fill(id, t, life)
	stored, err := x.o.Store.Mint(ctx, t)
	return x.settled(stored, err)
}

// Supplant is Mint over a record of another upstream that does not know the task
// any more.
func (x *Index) Supplant(ctx context.Context, id string, t *store.Task, life Life, over *store.Task) (*store.Task, error) {
	x.fill(id, t, life)
	stored, err := x.o.Store.Replace(ctx, t, over)
	return x.settled(stored, err)
}

// Found commits that a task was found by looking for it, unless somebody has a
// record of it.
func (x *Index) Found(ctx context.Context, id string, t *store.Task, life Life) (*store.Task, error) {
	t.Located = true
	x.fill(id, t, life)
	stored, err := x.o.Store.Locate(ctx, t)
	return x.settled(stored, err)
}

func (x *Index) fill(id string, t *store.Task, life Life) {
	now := x.o.Now()
	t.Hash, t.Created, t.Used = Hash(id), now, now
	if t.Expires = now.Add(defaultTTL); life.Known {
		t.Expires = life.expires(now)
	}
	if x.o.Seal != nil {
		t.Sealed = x.o.Seal(id)
	}
}

// defaultTTL is the life of a task whose upstream says nothing of it.
const defaultTTL = 24 * time.Hour

func (x *Index) settled(stored *store.Task, err error) (*store.Task, error) {
	switch {
	case err == nil:
		if stored.Generation <= 1 { // else it stands in the place of one
			x.counts.minted(stored.Principal)
		}
		return stored, nil
	case errors.Is(err, store.ErrConflict) && stored != nil:
		return nil, &CollisionError{stored}
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrNoSpace):
		x.noteBroken(err)
	}
	return nil, err
}

// Mark notes that a task is withheld from its principal, or cancelled.
func (x *Index) Mark(ctx context.Context, t *store.Task, m store.TaskMark) error {
	return x.o.Store.Mark(ctx, t.Hash, t.Principal, 0, m)
}

// Forget removes a record.
func (x *Index) Forget(ctx context.Context, t *store.Task) error {
	return x.o.Store.Delete(ctx, t.Hash, t.Principal)
}

// Saw notes a use of a task, and what its upstream said of its lifetime, if that
// moved far enough to matter. It does not write.
func (x *Index) Saw(t *store.Task, life Life) {
	now := x.o.Now()
	touch := store.TaskTouch{Hash: t.Hash, Principal: t.Principal, Used: now, Expires: t.Expires, Unlimited: t.Expires.IsZero()}
	far := now.Sub(t.Used) > noteEvery
	if life.Known {
		if life.Created.IsZero() {
			life.Created = t.Created
		}
		next := life.expires(now)
		if touch.Expires, touch.Unlimited = next, next.IsZero(); moved(t, next) {
			far = true
		}
	}
	if !far {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.moved) < maxMoved {
		x.moved[key{t.Hash, t.Principal}] = touch
	}
}

// moved reports whether an expiry is another by over a tenth of the life or ten
// minutes.
func moved(t *store.Task, next time.Time) bool {
	if t.Expires.IsZero() || next.IsZero() {
		return t.Expires.IsZero() != next.IsZero()
	}
	by := next.Sub(t.Expires).Abs()
	return by > noteEvery || by > t.Expires.Sub(t.Created)/10
}

// List returns at most limit tasks of a principal on a server, newest first, behind
// a position.
func (x *Index) List(ctx context.Context, principal [32]byte, server string, after store.TaskPosition, limit int) ([]*store.Task, error) {
	all, err := x.o.Store.List(ctx, principal, server, after, limit)
	if err != nil {
		return nil, unavailable(err)
	}
	return all, nil
}

// All is List over everybody, for the operator.
func (x *Index) All(ctx context.Context, upstream string, after store.TaskPosition, limit int) ([]*store.Task, error) {
	return x.o.Store.All(ctx, upstream, after, limit)
}
