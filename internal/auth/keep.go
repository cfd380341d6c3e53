package auth

import "sync/atomic"

// kept is what the rooms behind have kept with a principal.
type kept struct{ v atomic.Pointer[any] }

// Keep returns what the rooms behind keep with this principal, which is what the
// first call of make made that came to an end. It lives as long as the principal:
// for a token until that is verified anew. make may be called more than once, and
// must not have side effects.
func (p *Principal) Keep(make func() any) any {
	if v := p.kept.v.Load(); v != nil {
		return *v
	}
	made := make()
	p.kept.v.CompareAndSwap(nil, &made)
	return *p.kept.v.Load()
}
