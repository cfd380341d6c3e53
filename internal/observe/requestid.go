package observe

import (
	"crypto/rand"
	"sync/atomic"
)

// A request id is eight random digits of this process, which tell the instances
// and runs apart, and nine that count.
const (
	digits    = "0123456789abcdefghjkmnpqrstvwxyz" // no i, l, o, u: they are read out loud
	idPrefix  = 8
	idCounter = 9
)

var (
	prefix  = newPrefix()
	counter atomic.Uint64
)

func newPrefix() (p [idPrefix]byte) {
	_, _ = rand.Read(p[:]) // it cannot fail
	for i := range p {
		p[i] = digits[p[i]&31]
	}
	return p
}

// NewRequestID returns a short id that no other request has, for errors and
// logs. It is no secret: who sees one can guess the next. It is safe for concurrent use.
func NewRequestID() string {
	var id [idPrefix + idCounter]byte
	copy(id[:], prefix[:])
	n := counter.Add(1)
	for i := len(id) - 1; i >= idPrefix; i-- {
		id[i] = digits[n&31]
		n >>= 5
	}
	return string(id[:])
}
