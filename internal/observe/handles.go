package observe

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// other is the value of a label whose own value is not in the protocol, or is one too many.
const other = "other"

// The bounds on label values. Ids come from the configuration and words from the
// program, so nobody meets these bounds but by a mistake, or by many reloads.
const (
	maxIDs   = 2000 // servers, upstreams or hooks of one metric
	maxSets  = 1000 // combinations of the other labels, for one id
	maxWords = 64   // values of a label that stands alone
)

// handles finds the metrics of one set of label values without allocating or
// locking: they are looked up in a map that is never changed, only exchanged.
// It holds at most limit sets, and one more for the rest.
type handles[K comparable, H any] struct {
	limit  int
	canon  func(K) K // what a key is counted as; the result has few values and retains no one's buffer
	rest   K         // what is counted as this beyond the limit
	build  func(K) H
	folded prometheus.Counter // counts what went to rest

	mu    sync.Mutex // guards the exchange of known
	known atomic.Pointer[map[K]H]
}

func newHandles[K comparable, H any](limit int, rest K, folded prometheus.Counter, canon func(K) K, build func(K) H) *handles[K, H] {
	h := &handles[K, H]{limit: limit, canon: canon, rest: rest, build: build, folded: folded}
	h.known.Store(&map[K]H{})
	return h
}

func (h *handles[K, H]) get(k K) H {
	if v, ok := (*h.known.Load())[k]; ok {
		return v
	}
	return h.find(k)
}

// find is get for a key that is new, or is not the one it is counted as.
func (h *handles[K, H]) find(k K) H {
	k = h.canon(k)
	known := *h.known.Load()
	if v, ok := known[k]; ok {
		return v
	}
	if len(known) >= h.limit {
		h.folded.Inc()
		k = h.rest
		if v, ok := known[k]; ok {
			return v
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	known = *h.known.Load()
	if v, ok := known[k]; ok {
		return v
	}
	if len(known) >= h.limit && k != h.rest {
		h.folded.Inc()
		k = h.rest
		if v, ok := known[k]; ok {
			return v
		}
	}
	next := make(map[K]H, len(known)+1)
	maps.Copy(next, known)
	v := h.build(k)
	next[k] = v
	h.known.Store(&next)
	return v
}

// word makes a word of the program a label value.
func word(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// id makes an id of the configuration a label value. It is a copy, for it may be
// part of something larger.
func id(s string) string { return strings.Clone(word(s)) }
