package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"fmt"
	"slices"
	"strings"

	"github.com/golang-jwt/jwt/v5"
)

// algorithms maps what a document may name to how it is verified. All are of
// public keys: with a shared secret, who can verify a token can forge it.
var algorithms = map[string]algorithm{
	"RS256": {jwt.SigningMethodRS256, fitsRSA},
	"RS384": {jwt.SigningMethodRS384, fitsRSA},
	"RS512": {jwt.SigningMethodRS512, fitsRSA},
	"PS256": {jwt.SigningMethodPS256, fitsRSA},
	"PS384": {jwt.SigningMethodPS384, fitsRSA},
	"PS512": {jwt.SigningMethodPS512, fitsRSA},
	"ES256": {jwt.SigningMethodES256, fitsCurve(elliptic.P256())},
	"ES384": {jwt.SigningMethodES384, fitsCurve(elliptic.P384())},
	"ES512": {jwt.SigningMethodES512, fitsCurve(elliptic.P521())},
	"EdDSA": {jwt.SigningMethodEdDSA, fitsEdwards},
}

// algorithm is a signing method and the public keys it can be used with.
type algorithm struct {
	method jwt.SigningMethod
	fits   func(crypto.PublicKey) bool
}

// The bounds of an RSA modulus, in bits: below, it can be factored; above,
// verifying costs what it should not.
const (
	minRSA = 2048
	maxRSA = 8192
)

func fitsRSA(k crypto.PublicKey) bool {
	r, ok := k.(*rsa.PublicKey)
	return ok && r.N.BitLen() >= minRSA && r.N.BitLen() <= maxRSA && r.E >= 3 && r.E%2 == 1 && r.E <= 1<<31-1
}

func fitsCurve(c elliptic.Curve) func(crypto.PublicKey) bool {
	return func(k crypto.PublicKey) bool {
		e, ok := k.(*ecdsa.PublicKey)
		return ok && e.Curve == c
	}
}

func fitsEdwards(k crypto.PublicKey) bool {
	e, ok := k.(ed25519.PublicKey)
	return ok && len(e) == ed25519.PublicKeySize
}

// checkAlgorithm tells what is wrong with a name in the document.
func checkAlgorithm(name string) error {
	if _, known := algorithms[name]; known {
		return nil
	}
	names := make([]string, 0, len(algorithms))
	for n := range algorithms {
		names = append(names, n)
	}
	slices.Sort(names)
	use := strings.Join(names, ", ")
	switch {
	case strings.EqualFold(name, "none"):
		return fmt.Errorf("algorithm %q would accept tokens that nobody signed; name those the issuer signs with, of %s", name, use)
	case strings.HasPrefix(strings.ToUpper(name), "HS"):
		return fmt.Errorf("algorithm %q signs with a shared secret, which is not supported; use one of %s", name, use)
	default:
		return fmt.Errorf("algorithm %q is not known; use one of %s", name, use)
	}
}
