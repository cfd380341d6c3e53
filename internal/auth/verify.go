package auth

import (
	"slices"
	"strings"
	"time"
)

// verify takes a token that is not remembered through all checks, and remembers
// what came of its signature.
func (a *Authenticator) verify(raw string, d digest, source string, now time.Time) (*Principal, *Refusal) {
	// The header's text may be a piece of something larger.
	t, refusal := parse(strings.Clone(raw), a.algorithms)
	if refusal != nil {
		return nil, refusal
	}
	entries := a.issuers[t.issuer]
	if entries == nil {
		return nil, refusedIssuer
	}
	var failed *keySet
	for i, is := range entries {
		if is.keys == failed {
			continue // the same keys would be tried again
		}
		p, r := a.vouch(is, t, d, source, now)
		if r == nil {
			a.remembered.keep(d, p, now)
			return p, nil
		}
		// Of several entries of an issuer, the one that came furthest tells why.
		if i == 0 || rank(r) > rank(refusal) {
			refusal = r
		}
		if r == refusedLimited {
			break
		}
		if r == refusedSignature {
			failed = is.keys
		}
	}
	return nil, refusal
}

// rank orders the refusals of one token by how far it came.
func rank(r *Refusal) int {
	return slices.Index([]*Refusal{
		refusedAlgorithm, refusedExpired, refusedEarly, refusedFuture, refusedAudience, refusedTenant, refusedClaims,
		refusedNameless, refusedUnknown, refusedUnavailable, refusedSignature, refusedLimited,
	}, r)
}

// vouch checks a token against one entry of its issuer, cheapest first.
func (a *Authenticator) vouch(is *issuer, t *webToken, d digest, source string, now time.Time) (*Principal, *Refusal) {
	if !slices.Contains(is.Algorithms, t.algorithm) {
		return nil, refusedAlgorithm
	}
	if r := t.current(now); r != nil {
		return nil, r
	}
	if !slices.Contains(t.audience, is.Audience) {
		return nil, refusedAudience
	}
	p, refusal := t.principal(is, d)
	if refusal != nil {
		return nil, refusal
	}
	fit, under, refusal := is.keys.lookup(t.keyID, t.algorithm)
	if refusal != nil {
		return nil, refusal
	}
	p.signed, refusal = a.signer(t, fit, source)
	if refusal == refusedSignature && t.keyID == "" {
		// Without key ids, a new key of the issuer looks like a forgery.
		p.signed, under, refusal = a.successor(is.keys, t, fit, source)
	}
	if refusal == refusedSignature {
		a.remembered.refuse(d, now, is.keys, under)
	}
	if refusal != nil {
		return nil, refusal
	}
	return p, nil
}

// signer returns which of the keys signed the token.
func (a *Authenticator) signer(t *webToken, fit []*signingKey, source string) (*signingKey, *Refusal) {
	queued, ok := a.failures.enter(source)
	if !ok {
		return nil, refusedLimited
	}
	i := slices.IndexFunc(fit, func(k *signingKey) bool { return k.verify(t) })
	a.failures.leave(source, queued, i < 0)
	if i < 0 {
		return nil, refusedSignature
	}
	return fit[i], nil
}

// successor has the set of an issuer without key ids read again, if it is time for
// that, and tries the key that took the place of the one that did not fit.
func (a *Authenticator) successor(s *keySet, t *webToken, tried []*signingKey, source string) (by *signingKey, under *keys, refusal *Refusal) {
	_ = s.reread()
	under = s.now.Load()
	fit := under.find("", t.algorithm)
	if len(fit) != 1 || fit[0] == tried[0] {
		return nil, under, refusedSignature
	}
	by, refusal = a.signer(t, fit, source)
	return by, under, refusal
}
