package auth

import (
	"encoding/base64"
	"slices"
	"strings"
	"time"
)

// leeway is how far the issuer's clock may be ahead of ours. An expiry has none:
// a token that is refused a moment early is fetched anew, one that is taken late
// is taken.
const leeway = 30 * time.Second

// maxKeyID bounds a key id, in bytes.
const maxKeyID = 1024

// webToken is a token in its parts. Nothing of it is true before its signature is
// checked.
type webToken struct {
	raw       string
	signed    string // what the signature is over
	signature []byte
	algorithm string
	keyID     string // "" for none
	claims    map[string]any

	issuer, subject, id string // id: jti, "" for none
	audience            []string
	expires             time.Time
	notBefore, issuedAt time.Time // zero: not given
}

// parse takes a token apart. algorithms are those that any issuer may use: the
// claims of a token with another are not even looked at. The refusals are of what
// can be said without knowing who signed it.
func parse(raw string, algorithms []string) (*webToken, *Refusal) {
	head, rest, found := strings.Cut(raw, ".")
	body, sig, found2 := strings.Cut(rest, ".")
	if !found || !found2 || strings.Contains(sig, ".") {
		return nil, refusedNoJWT
	}
	h, err := part(head)
	if err != nil {
		return nil, refusedNoJWT
	}
	t := &webToken{raw: raw, signed: raw[:len(head)+1+len(body)]}
	if r := t.header(h); r != nil {
		return nil, r
	}
	if !slices.Contains(algorithms, t.algorithm) {
		return nil, refusedAlgorithm
	}
	// An empty signature decodes, and then fits no key.
	if t.signature, err = base64.RawURLEncoding.Strict().DecodeString(sig); err != nil {
		return nil, refusedNoJWT
	}
	if t.claims, err = part(body); err != nil {
		return nil, refusedClaims
	}
	if r := t.registered(); r != nil {
		return nil, r
	}
	return t, nil
}

// part decodes header or claims.
func part(s string) (map[string]any, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil {
		return nil, err
	}
	return object(raw)
}

// header reads algorithm, key id and type. Keys and addresses of keys that a
// header may bring (jwk, jku, x5c, x5u) are not looked at.
func (t *webToken) header(h map[string]any) *Refusal {
	var ok bool
	if t.algorithm, ok = h["alg"].(string); !ok {
		return refusedHeader
	}
	if kid, given := h["kid"]; given {
		if t.keyID, ok = kid.(string); !ok || t.keyID == "" || len(t.keyID) > maxKeyID {
			return refusedHeader
		}
	}
	if _, given := h["crit"]; given {
		return refusedCritical
	}
	typ, given := h["typ"]
	if !given {
		return nil
	}
	s, ok := typ.(string)
	if !ok {
		return refusedHeader
	}
	if !strings.EqualFold(s, "at+jwt") && !strings.EqualFold(s, "application/at+jwt") && !strings.EqualFold(s, "JWT") {
		return refusedType
	}
	return nil
}

// registered reads the claims that every token needs, and those that mark it as
// something else than an access token.
func (t *webToken) registered() *Refusal {
	for _, mark := range [...]string{"nonce", "at_hash", "c_hash"} {
		if _, given := t.claims[mark]; given {
			return refusedID
		}
	}
	var ok bool
	if iss, given := t.claims["iss"]; !given {
		return refusedNoIss
	} else if t.issuer, ok = iss.(string); !ok {
		return refusedClaims
	}
	if sub, given := t.claims["sub"]; !given || sub == "" {
		return refusedNoSub
	} else if t.subject, ok = sub.(string); !ok {
		return refusedClaims
	}
	if exp, given := t.claims["exp"]; !given {
		return refusedNoExp
	} else if t.expires, ok = date(exp); !ok {
		return refusedClaims
	}
	for name, into := range map[string]*time.Time{"nbf": &t.notBefore, "iat": &t.issuedAt} {
		if v, given := t.claims[name]; given {
			if *into, ok = date(v); !ok {
				return refusedClaims
			}
		}
	}
	if jti, given := t.claims["jti"]; given {
		if t.id, ok = jti.(string); !ok {
			return refusedClaims
		}
	}
	if aud, given := t.claims["aud"]; given {
		if t.audience, ok = words(aud); !ok {
			return refusedClaims
		}
	}
	return nil
}

// current tells whether now lies between the token's dates.
func (t *webToken) current(now time.Time) *Refusal {
	switch soon := now.Add(leeway); {
	case !now.Before(t.expires):
		return refusedExpired
	case t.notBefore.After(soon):
		return refusedEarly
	case t.issuedAt.After(soon):
		return refusedFuture
	}
	return nil
}

// principal is whom the token is about, read as its issuer's settings say.
func (t *webToken) principal(is *issuer, digest [32]byte) (*Principal, *Refusal) {
	p := &Principal{
		kept:   new(kept),
		Issuer: t.issuer, Subject: t.subject, Name: t.subject, Credential: t.id,
		Claims: t.claims, TokenHash: digest, Expires: t.expires,
		token: t.raw, audience: t.audience,
	}
	if is.TenantClaim != "" {
		// One without tenant would be a caller of none, beside all of them.
		if p.Tenant, _ = t.claims[is.TenantClaim].(string); p.Tenant == "" {
			return nil, refusedTenant
		}
	}
	if v, given := t.claims[is.ScopeClaim]; given {
		var ok bool
		if p.Scopes, ok = scopes(v); !ok {
			return nil, refusedClaims
		}
	}
	p.Key = Key(p.Issuer, p.Tenant, p.Subject)
	return p, nil
}
