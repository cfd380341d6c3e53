// Package auth says who is calling. A principal is known by one key everywhere
// (DESIGN section 7).
package auth

import (
	"crypto/sha256"
	"encoding/binary"
)

// Issuers of principals that no identity provider vouches for.
const (
	IssuerLocal     = "penstock:local"
	IssuerAnonymous = "penstock:anonymous"
)

// Key is the principal key: SHA-256 over length-prefixed issuer, tenant and
// subject. Scopes are not part of it, nor is the token that proved them.
func Key(issuer, tenant, subject string) [32]byte {
	b := make([]byte, 0, 24+len(issuer)+len(tenant)+len(subject))
	for _, s := range [...]string{issuer, tenant, subject} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(s)))
		b = append(b, s...)
	}
	return sha256.Sum256(b)
}
