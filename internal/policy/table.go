package policy

import (
	lru "container/list"
	"crypto/sha256"
	"sync"
)

// table shares selections between callers. It holds the ones used last, so
// that a million callers with one view each do not stay for ever.
type table struct {
	mu     sync.Mutex // guards all below
	byKey  map[[sha256.Size]byte]*lru.Element
	recent lru.List // of *shared, the last used first
}

type shared struct {
	key       [sha256.Size]byte
	selection *selection
}

// get returns the selection of a key, which is made where there is none. Keys
// hold what callers sent, so they are hashed: a key has a fixed size, and two
// of them never meet.
func (t *table) get(key []byte, fresh func() *selection) *selection {
	sum := sha256.Sum256(key)
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.byKey[sum]; e != nil {
		t.recent.MoveToFront(e)
		return e.Value.(*shared).selection
	}
	if t.byKey == nil {
		t.byKey = map[[sha256.Size]byte]*lru.Element{}
	}
	if t.recent.Len() >= maxViews {
		oldest := t.recent.Back()
		t.recent.Remove(oldest)
		delete(t.byKey, oldest.Value.(*shared).key)
	}
	s := fresh()
	t.byKey[sum] = t.recent.PushFront(&shared{sum, s})
	return s
}
