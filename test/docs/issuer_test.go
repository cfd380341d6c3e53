package docs_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// issuerKey signs the tokens of all tests.
var issuerKey = sync.OnceValue(func() *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return k
})

// keySet serves the public key, and returns its URL.
func keySet(t testing.TB) string {
	k := issuerKey()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"keys":[{"kty":"RSA","kid":"k","alg":"RS256","use":"sig","n":%q,"e":"AQAB"}]}`,
			base64.RawURLEncoding.EncodeToString(k.N.Bytes()))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// token is one of an issuer for a subject, with more claims.
func token(t testing.TB, issuer, audience, subject string, claims map[string]any) string {
	t.Helper()
	c := jwt.MapClaims{"iss": issuer, "aud": audience, "sub": subject, "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(c, claims)
	made := jwt.NewWithClaims(jwt.SigningMethodRS256, c)
	made.Header["kid"] = "k"
	signed, err := made.SignedString(issuerKey())
	if err != nil {
		t.Fatal(err)
	}
	return signed
}
