package auth

import (
	"time"

	"github.com/maypok86/otter/v2"
)

// What is remembered of tokens, by SHA-256 of their bytes, and for how long.
const (
	maxVerified = 10_000
	maxRefused  = 10_000
	verifiedFor = time.Minute
	refusedFor  = 10 * time.Second
)

type digest = [32]byte

// verified is a token that was found good. Whether it was revoked since is asked
// each time.
type verified struct {
	principal *Principal
	until     time.Time
}

// refused is a token whose signature was found bad. Nothing else is remembered
// so: the other checks are cheap, and what they say changes with time.
type refused struct {
	until time.Time
	set   *keySet
	under *keys // what set was then: its next reading may have the key
}

// remembered keeps good and bad tokens apart, so that a flood of bad ones does
// not push out good ones.
type remembered struct {
	good *otter.Cache[digest, *verified]
	bad  *otter.Cache[digest, *refused]
}

func newRemembered() *remembered {
	return &remembered{good: bounded[digest, *verified](maxVerified), bad: bounded[digest, *refused](maxRefused)}
}

// bounded returns a cache that drops what is used least, and keeps no goroutine.
// Its entries carry their own end, so that it needs no clock.
func bounded[K comparable, V any](size int) *otter.Cache[K, V] {
	return otter.Must(&otter.Options[K, V]{MaximumSize: size, Executor: func(fn func()) { fn() }})
}

// verified returns the principal of a token that was verified lately with a key
// that its issuer still publishes, or nil.
func (r *remembered) verified(d digest, now time.Time) *Principal {
	e, ok := r.good.GetIfPresent(d)
	if !ok || !now.Before(e.until) || e.principal.signed.withdrawn.Load() {
		return nil
	}
	return e.principal
}

func (r *remembered) keep(d digest, p *Principal, now time.Time) {
	until := now.Add(verifiedFor)
	if p.Expires.Before(until) {
		until = p.Expires
	}
	r.good.Set(d, &verified{principal: p, until: until})
}

func (r *remembered) refused(d digest, now time.Time) bool {
	e, ok := r.bad.GetIfPresent(d)
	return ok && now.Before(e.until) && e.set.now.Load() == e.under
}

func (r *remembered) refuse(d digest, now time.Time, set *keySet, under *keys) {
	r.bad.Set(d, &refused{until: now.Add(refusedFor), set: set, under: under})
}
