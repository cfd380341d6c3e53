package hostile_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// issuer vouches for callers, with tokens of one key.
type issuer struct {
	*httptest.Server
	key *ecdsa.PrivateKey
}

func newIssuer(t testing.TB) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{key: key}
	point, err := key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	keys := fmt.Sprintf(`{"keys":[{"kty":"EC","crv":"P-256","use":"sig","alg":"ES256","kid":"k","x":%q,"y":%q}]}`,
		base64.RawURLEncoding.EncodeToString(point[1:33]), base64.RawURLEncoding.EncodeToString(point[33:]))
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, keys)
	}))
	t.Cleanup(i.Close)
	return i
}

// section is the part of a document that lets its tokens in. more are raw members of auth.
func (i *issuer) section(more string) string {
	return fmt.Sprintf("auth: {jwt: [{issuer: %q, audience: penstock, jwks_url: %q, algorithms: [ES256], tenant_claim: tenant, scope_claim: scope}]%s}\n", i.URL, i.URL+"/keys", more)
}

// person is somebody with a token of an issuer.
type person struct {
	subject, tenant string
	scopes          []string
	claims          map[string]any
	token           string
	jti             string
}

// known mints the token of a person. Each has an id of its own.
func (i *issuer) known(t testing.TB, c person) *person {
	t.Helper()
	c.jti = rand.Text()
	claims := map[string]any{
		"iss": i.URL, "sub": c.subject, "aud": "penstock", "tenant": c.tenant, "scope": strings.Join(c.scopes, " "),
		"exp": time.Now().Add(time.Hour).Unix(), "jti": c.jti,
	}
	maps.Copy(claims, c.claims)
	segment := func(of any) string {
		raw, err := json.Marshal(of)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(raw)
	}
	input := segment(map[string]any{"alg": "ES256", "typ": "JWT", "kid": "k"}) + "." + segment(claims)
	sum := sha256.Sum256([]byte(input))
	r, s, err := ecdsa.Sign(rand.Reader, i.key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	signature := append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	c.token = input + "." + base64.RawURLEncoding.EncodeToString(signature)
	return &c
}
