package memory

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/penstock-mcp/penstock/internal/store"
)

// Tasks implements store.Tasks in the process. Nothing of it survives a restart.
type Tasks struct {
	now         func() time.Time
	max, maxFor int

	shard [shards]taskShard

	mu  sync.Mutex // guards the counts; taken after a shard's lock, never before
	all int
	own map[[32]byte]map[[32]byte]struct{} // principal to hashes
}

// taskShard holds the records of those hashes that begin alike.
type taskShard struct {
	mu sync.RWMutex // guards of
	of map[[32]byte][]ownedTask
}

// ownedTask is one principal's record of a hash; those of a hash are in the
// order of principals. What they point to is immutable.
type ownedTask struct {
	record *store.Task // without what is sealed
	sealed []byte
}

// NewTasks returns an empty repository that holds at most max records, maxFor of
// one principal.
func NewTasks(max, maxFor int, now func() time.Time) *Tasks {
	s := &Tasks{now: now, max: max, maxFor: maxFor, own: map[[32]byte]map[[32]byte]struct{}{}}
	for i := range s.shard {
		s.shard[i].of = map[[32]byte][]ownedTask{}
	}
	return s
}

func (s *Tasks) at(hash *[32]byte) *taskShard { return &s.shard[hash[0]%shards] }

// find is where a principal's record is, or would be.
func find(all []ownedTask, principal [32]byte) (at int, found bool) {
	return slices.BinarySearchFunc(all, principal, func(e ownedTask, p [32]byte) int { return bytes.Compare(e.record.Principal[:], p[:]) })
}

// whole is a record with what is sealed.
func (e ownedTask) whole() *store.Task {
	t := *e.record
	t.Sealed = e.sealed
	return &t
}

// take counts one more of a principal, if the bounds allow it; of all only if it
// does not come for one that goes.
func (s *Tasks) take(hash, principal [32]byte, forOne bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	mine := s.own[principal]
	switch {
	case len(mine) >= s.maxFor:
		return store.ErrFullFor
	case forOne:
	case s.all >= s.max:
		return store.ErrFull
	default:
		s.all++
	}
	if mine == nil {
		mine = map[[32]byte]struct{}{}
		s.own[principal] = mine
	}
	mine[hash] = struct{}{}
	return nil
}

// give counts one less of a principal; of all only if none came for it.
func (s *Tasks) give(hash, principal [32]byte, forOne bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mine := s.own[principal]
	delete(mine, hash)
	if len(mine) == 0 {
		delete(s.own, principal)
	}
	if !forOne {
		s.all--
	}
}

// Get implements store.Tasks.
func (s *Tasks) Get(_ context.Context, hash, principal [32]byte) (t *store.Task, known bool, err error) {
	h := s.at(&hash)
	h.mu.RLock()
	defer h.mu.RUnlock()
	all := h.of[hash]
	if i, found := find(all, principal); found {
		return all[i].record, true, nil
	}
	return nil, len(all) > 0, store.ErrNotFound
}

// Mint implements store.Tasks.
func (s *Tasks) Mint(_ context.Context, t *store.Task) (*store.Task, error) {
	return s.place(t, true, func(_ []ownedTask, own *store.Task) bool {
		return own == nil || own.Upstream == t.Upstream || own.Located
	})
}

// Replace implements store.Tasks.
func (s *Tasks) Replace(_ context.Context, t, over *store.Task) (*store.Task, error) {
	return s.place(t, true, func(_ []ownedTask, own *store.Task) bool {
		return own != nil && own.Generation == over.Generation && own.Upstream == over.Upstream && own.Created.Equal(over.Created)
	})
}

// Locate implements store.Tasks.
func (s *Tasks) Locate(_ context.Context, t *store.Task) (*store.Task, error) {
	return s.place(t, false, func(all []ownedTask, own *store.Task) bool {
		return own == nil && !slices.ContainsFunc(all, func(e ownedTask) bool { return e.record.Upstream == t.Upstream })
	})
}

// place stores a record where allow, given all records of its hash and the one
// of its principal or nil, says so.
func (s *Tasks) place(t *store.Task, minted bool, allow func(all []ownedTask, own *store.Task) bool) (*store.Task, error) {
	is := *t
	is.Mark, is.Located, is.Generation = store.TaskLive, !minted, 1
	if is.Created.IsZero() {
		is.Created = s.now()
	}
	if is.Used.IsZero() {
		is.Used = is.Created
	}
	h := s.at(&t.Hash)
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.of[t.Hash]
	var own *store.Task
	i, stands := find(all, t.Principal)
	if stands {
		own = all[i].record
	}
	if !allow(all, own) {
		if stands {
			return all[i].whole(), store.ErrConflict
		}
		return nil, store.ErrConflict
	}
	// What gives way makes room, also for this record.
	gives := func(e ownedTask) bool {
		return minted && e.record.Located && e.record.Upstream == t.Upstream && e.record.Principal != t.Principal
	}
	if !stands {
		if err := s.take(t.Hash, t.Principal, slices.ContainsFunc(all, gives)); err != nil {
			return nil, err
		}
	}
	forOne := !stands
	all = slices.DeleteFunc(slices.Clone(all), func(e ownedTask) bool {
		if !gives(e) {
			return false
		}
		s.give(t.Hash, e.record.Principal, forOne)
		forOne = false
		return true
	})
	if stands {
		is.Generation = own.Generation + 1
		is.Used = later(is.Used, own.Used)
	}
	sealed := append([]byte(nil), is.Sealed...) // nil when it is empty
	i, _ = find(all, t.Principal)
	if stands && own.Upstream == is.Upstream {
		is.Created = own.Created
		if len(sealed) == 0 {
			sealed = all[i].sealed
		}
	}
	is.Sealed = nil
	is.Created, is.Expires, is.Used = plain(is.Created), plain(is.Expires), plain(is.Used)
	placed := ownedTask{record: &is, sealed: sealed}
	if stands {
		all[i] = placed
	} else {
		all = slices.Insert(all, i, placed)
	}
	h.of[t.Hash] = all
	return placed.whole(), nil
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// plain is a time as a database gives it back.
func plain(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.Unix(0, t.UnixNano()).UTC()
}

// change replaces a record by what f makes of a copy, and tells whether there is
// one.
func (s *Tasks) change(hash, principal [32]byte, f func(t *store.Task) error) error {
	h := s.at(&hash)
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.of[hash]
	i, found := find(all, principal)
	if !found {
		return store.ErrNotFound
	}
	t := *all[i].record
	if err := f(&t); err != nil {
		return err
	}
	all[i].record = &t
	return nil
}

// Touch implements store.Tasks.
func (s *Tasks) Touch(_ context.Context, touches ...store.TaskTouch) error {
	for i := range touches {
		is := &touches[i]
		_ = s.change(is.Hash, is.Principal, func(t *store.Task) error { // one that is not there is skipped
			t.Used = later(t.Used, plain(is.Used))
			switch {
			case is.Unlimited:
				t.Expires = time.Time{}
			case !is.Expires.IsZero():
				t.Expires = plain(is.Expires)
			}
			return nil
		})
	}
	return nil
}

// Mark implements store.Tasks.
func (s *Tasks) Mark(_ context.Context, hash, principal [32]byte, generation uint64, m store.TaskMark) error {
	return s.change(hash, principal, func(t *store.Task) error {
		if generation > 0 && generation != t.Generation {
			return store.ErrConflict
		}
		t.Mark = m
		t.Generation++
		return nil
	})
}

// Delete implements store.Tasks.
func (s *Tasks) Delete(_ context.Context, hash, principal [32]byte) error {
	h := s.at(&hash)
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := s.remove(h, hash, func(e ownedTask) bool { return e.record.Principal == principal }, 1); n == 0 {
		return store.ErrNotFound
	}
	return nil
}

// remove removes at most limit records of a hash and returns how many. h.mu must
// be held.
func (s *Tasks) remove(h *taskShard, hash [32]byte, which func(ownedTask) bool, limit int) (n int) {
	all := slices.DeleteFunc(h.of[hash], func(e ownedTask) bool {
		if n == limit || !which(e) {
			return false
		}
		n++
		s.give(hash, e.record.Principal, false)
		return true
	})
	if len(all) == 0 {
		delete(h.of, hash)
	} else {
		h.of[hash] = all
	}
	return n
}

// Count implements store.Tasks.
func (s *Tasks) Count(_ context.Context, principal [32]byte) (own, all int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.own[principal]), s.all, nil
}

// Expire implements store.Tasks.
func (s *Tasks) Expire(ctx context.Context, expiredBefore, unusedBefore time.Time, limit int) (gone int, err error) {
	overdue := func(e ownedTask) bool {
		if t := e.record; !t.Expires.IsZero() {
			return t.Expires.Before(expiredBefore)
		}
		return e.record.Used.Before(unusedBefore)
	}
	for i := 0; i < len(s.shard) && gone < limit; i++ {
		if err := ctx.Err(); err != nil {
			return gone, err
		}
		h := &s.shard[i]
		h.mu.Lock()
		for hash, all := range h.of {
			if gone < limit && slices.ContainsFunc(all, overdue) {
				gone += s.remove(h, hash, overdue, limit-gone)
			}
		}
		h.mu.Unlock()
	}
	return gone, nil
}
