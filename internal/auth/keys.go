package auth

import (
	"crypto"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/MicahParks/jwkset"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// signingKey is one public key that an issuer publishes. It is the same value
// from one reading of the set to the next, so that what was verified with it can
// tell when it is withdrawn.
type signingKey struct {
	id        string // "" for none
	algorithm string // "" for any that fits
	public    crypto.PublicKey
	withdrawn atomic.Bool // no longer in the set
}

// fits tells whether the key may verify the algorithm: the token's choice counts
// only as far as the key agrees.
func (k *signingKey) fits(alg string) bool {
	a, known := algorithms[alg]
	// RFC 9864 gave EdDSA with this curve a second name.
	agrees := k.algorithm == "" || k.algorithm == alg || alg == "EdDSA" && k.algorithm == "Ed25519"
	return known && agrees && a.fits(k.public)
}

// verify checks a signature.
func (k *signingKey) verify(t *webToken) bool {
	return algorithms[t.algorithm].method.Verify(t.signed, t.signature, k.public) == nil
}

func (k *signingKey) equal(o *signingKey) bool {
	e, ok := k.public.(interface{ Equal(crypto.PublicKey) bool })
	return ok && k.id == o.id && k.algorithm == o.algorithm && e.Equal(o.public)
}

// keys is what an issuer published at one reading. It is immutable.
type keys struct {
	all  []*signingKey
	byID map[string][]*signingKey
}

// find returns the keys of that id that fit the algorithm. Without an id it
// returns every key that fits.
func (s *keys) find(id, alg string) (fit []*signingKey) {
	among := s.all
	if id != "" {
		among = s.byID[id]
	}
	for _, k := range among {
		if k.fits(alg) {
			fit = append(fit, k)
		}
	}
	return fit
}

// holds tells whether the key is in the set, be it as another value.
func (s *keys) holds(k *signingKey) bool {
	return slices.Contains(s.all, k) || slices.ContainsFunc(s.all, k.equal)
}

// parseKeys reads a JWK set (RFC 7517). Keys that cannot verify signatures, such
// as those for encryption and those of unknown kinds, are passed over, as the RFC
// asks; skipped counts them. It is an error when the document is no set at all.
func parseKeys(raw []byte) (set *keys, skipped int, err error) {
	var doc struct {
		Keys *[]jsontext.Value `json:"keys"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, 0, fmt.Errorf("the key set is not valid JSON: %w", err)
	}
	if doc.Keys == nil {
		return nil, 0, errors.New("the document is no key set: it has no keys")
	}
	set = &keys{byID: map[string][]*signingKey{}}
	for _, one := range *doc.Keys {
		k, err := parseKey(one)
		if err != nil {
			skipped++
			continue
		}
		if slices.ContainsFunc(set.all, k.equal) {
			continue
		}
		set.all = append(set.all, k)
		if k.id != "" {
			set.byID[k.id] = append(set.byID[k.id], k)
		}
	}
	return set, skipped, nil
}

// errUnusable is the error of a key that is not for verifying.
var errUnusable = errors.New("the key is not for verifying signatures")

func parseKey(raw []byte) (*signingKey, error) {
	var m jwkset.JWKMarshal
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, fmt.Errorf("the key is not valid JSON: %w", err)
	}
	if m.USE != "" && m.USE != jwkset.UseSig || len(m.KEYOPS) > 0 && !slices.Contains(m.KEYOPS, jwkset.KeyOpsVerify) {
		return nil, errUnusable
	}
	// Certificates say nothing here that the set, which came over TLS, does not.
	m.X5C, m.X5U, m.X5T, m.X5TS256 = nil, "", "", ""
	parsed, err := jwkset.NewJWKFromMarshal(m, jwkset.JWKMarshalOptions{}, jwkset.JWKValidateOptions{SkipAll: true})
	if err != nil {
		return nil, fmt.Errorf("the key is not valid: %w", err)
	}
	k := &signingKey{id: m.KID, algorithm: string(m.ALG), public: parsed.Key()}
	for alg := range algorithms {
		if k.fits(alg) {
			return k, nil
		}
	}
	return nil, errUnusable
}

// succeed takes over the keys that are in old, too, so that they stay the same
// values, and returns those of old that are not in s any more.
func (s *keys) succeed(old *keys) (gone []*signingKey) {
	if old == nil {
		return nil
	}
	for _, o := range old.all {
		if o.withdrawn.Load() {
			continue // by another reader of the same keys; here it is a new key
		}
		i := slices.IndexFunc(s.all, o.equal)
		if i < 0 {
			gone = append(gone, o)
			continue
		}
		if same := s.byID[o.id]; o.id != "" {
			same[slices.Index(same, s.all[i])] = o
		}
		s.all[i] = o
	}
	return gone
}
