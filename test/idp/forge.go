package idp

import (
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
)

// Forge forms a token of a header and claims, with whatever signature sign makes of the signing input; nil makes none.
func Forge(header, claims map[string]any, sign func(input []byte) []byte) string {
	input := segment(header) + "." + segment(claims)
	var signature []byte
	if sign != nil {
		signature = sign([]byte(input))
	}
	return input + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// Unsigned is a token of the algorithm none.
func Unsigned(kid string, claims map[string]any) string {
	return Forge(map[string]any{"alg": "none", "typ": "JWT", "kid": kid}, claims, nil)
}

// HMAC is a token of HS256, whose secret is for an attacker to choose, such as the PEM of a public key.
func HMAC(kid string, claims map[string]any, secret []byte) string {
	return Forge(map[string]any{"alg": "HS256", "typ": "JWT", "kid": kid}, claims, func(input []byte) []byte {
		mac := hmac.New(sha256.New, secret)
		mac.Write(input)
		return mac.Sum(nil)
	})
}

// Stranger is a token of RS256 that is well signed, but with a key that the provider has never seen.
func Stranger(kid string, claims map[string]any) string {
	return Forge(map[string]any{"alg": "RS256", "typ": "JWT", "kid": kid}, claims, func(input []byte) []byte {
		sum := sha256.Sum256(input)
		signature, err := rsa.SignPKCS1v15(rand.Reader, strange(), crypto.SHA256, sum[:])
		if err != nil {
			panic(err)
		}
		return signature
	})
}

var strange = sync.OnceValue(func() *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return k
})

// Rename is a token with another key id in its header; its signature stays, and so is none any more. It is cheap, for
// floods.
func Rename(token, kid string) (string, error) {
	header, _, err := Read(token)
	if err != nil {
		return "", err
	}
	header["kid"] = kid
	_, rest, _ := strings.Cut(token, ".")
	return segment(header) + "." + rest, nil
}

// Read returns the header and the claims of a token, which it does not verify. Numbers are float64.
func Read(token string) (header, claims map[string]any, err error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil, nil, fmt.Errorf("a token has three parts, not %d", len(parts))
	}
	for i, into := range []*map[string]any{&header, &claims} {
		raw, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil {
			return nil, nil, err
		}
		if err := json.Unmarshal(raw, into); err != nil {
			return nil, nil, err
		}
	}
	return header, claims, nil
}

func segment(of map[string]any) string {
	raw, err := json.Marshal(of)
	if err != nil {
		panic(err) // a test that forges what is no JSON
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}
