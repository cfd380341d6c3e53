package main

import (
	"crypto/rand"
	"encoding/json"
	"maps"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// wanted is the body of /control/token. What is null or missing is left out of the token.
type wanted struct {
	Subject    *string        `json:"subject"`
	Audience   []string       `json:"audience"`
	Scopes     []string       `json:"scopes"`
	TTLSeconds *float64       `json:"ttl_seconds"` // less than zero: expired
	Claims     map[string]any `json:"claims"`      // on top of all others; null takes one away
	IDToken    bool           `json:"id_token"`    // what a login would give its client, instead of an access token

	KID *string                 `json:"kid"` // instead of the key's own; "" leaves it out
	Alg jose.SignatureAlgorithm `json:"alg"` // default: the current key's
	Typ string                  `json:"typ"` // default: JWT
}

// claims is the token's content.
func (w *wanted) claims(issuer string) map[string]any {
	now := time.Now()
	begun := now
	all := map[string]any{"iss": issuer, "jti": rand.Text()}
	if w.TTLSeconds != nil {
		end := now.Add(time.Duration(*w.TTLSeconds * float64(time.Second)))
		all["exp"] = end.Unix()
		if !end.After(now) {
			begun = end.Add(-time.Minute) // it was valid once
		}
	}
	all["iat"], all["nbf"] = begun.Unix(), begun.Unix()
	if w.Subject != nil {
		all["sub"] = *w.Subject
	}
	if w.Audience != nil {
		all["aud"] = w.Audience
	}
	if w.Scopes != nil {
		all["scope"] = strings.Join(w.Scopes, " ")
	}
	if w.IDToken {
		// What OpenID Connect puts into an ID token of the code flow, and into no access token.
		delete(all, "nbf")
		delete(all, "scope")
		maps.Copy(all, map[string]any{
			"nonce": rand.Text(), "auth_time": begun.Unix(), "at_hash": "MTIzNDU2Nzg5MDEyMzQ1Ng", "azp": "test-client",
			"amr": []string{"pwd"}, "sid": rand.Text(), "name": "A Person", "email": "person@example.com",
		})
	}
	for name, value := range w.Claims {
		if value == nil {
			delete(all, name)
			continue
		}
		all[name] = value
	}
	return all
}

// mint signs a token with a published key.
func mint(s *state, issuer string, w *wanted) (string, error) {
	k, alg := s.signing(), w.Alg
	if alg == "" {
		alg = k.Alg
	}
	if alg != k.Alg {
		var err error
		if k, err = s.keyFor(alg); err != nil {
			return "", err
		}
	}
	kid, typ := k.KID, w.Typ
	if w.KID != nil {
		kid = *w.KID
	}
	if typ == "" {
		typ = "JWT"
	}
	signer, err := jose.NewSigner(
		jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: k.signer, KeyID: kid}},
		(&jose.SignerOptions{}).WithType(jose.ContentType(typ)),
	)
	if err != nil {
		return "", err
	}
	payload, err := json.Marshal(w.claims(issuer))
	if err != nil {
		return "", err
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		return "", err
	}
	return signed.CompactSerialize()
}
