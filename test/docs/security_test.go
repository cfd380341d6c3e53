package docs_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/penstock-mcp/penstock/config"
)

const guarded = `
public_url: https://mcp.example.com
upstreams:
  up: # offers echo
    url: http://127.0.0.1:1/
servers: {default: {naming: passthrough}}
auth:
  jwt:
    - {issuer: "https://id.example.com", audience: penstock, algorithms: [RS256], tenant_claim: org}
    - {issuer: "https://many.example.com", audience: penstock, algorithms: [RS256]}
  api_keys:
    - {name: alice, hash: "sha256:0000000000000000000000000000000000000000000000000000000000000001", subject: alice, scopes: [mcp]}
    - {name: gone, hash: "sha256:0000000000000000000000000000000000000000000000000000000000000002", subject: gone, scopes: [mcp]}
    - {name: old, hash: "sha256:0000000000000000000000000000000000000000000000000000000000000003", subject: old, scopes: [mcp], expires: 2020-01-01}
  required_scopes: [mcp]
`

// guard serves the document with a file of revoked credentials.
func guard(t *testing.T) *running {
	t.Helper()
	revoked := filepath.Join(t.TempDir(), "revoked")
	if err := os.WriteFile(revoked, []byte("# left\ngone\njti-1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return serve(t, guarded, func(doc *config.Document) {
		doc.Auth.Revoked = revoked
		doc.Auth.JWT[1].JWKSURL = manyKeys(t)
	})
}

// manyKeys is a key set of two keys.
func manyKeys(t *testing.T) string {
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for i, k := range []*rsa.PrivateKey{issuerKey(), other} {
		keys = append(keys, fmt.Sprintf(`{"kty":"RSA","kid":"k%d","n":%q,"e":"AQAB"}`, i, base64.RawURLEncoding.EncodeToString(k.N.Bytes())))
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"keys":[%s]}`, strings.Join(keys, ","))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// forged is a token that is good but for what change does to its claims and header.
func forged(t *testing.T, change func(claims jwt.MapClaims, header map[string]any)) string {
	t.Helper()
	c := jwt.MapClaims{
		"iss": "https://id.example.com", "aud": "penstock", "sub": "bob", "org": "acme", "scope": "mcp", "exp": time.Now().Add(time.Hour).Unix(),
	}
	made := jwt.NewWithClaims(jwt.SigningMethodRS256, c)
	made.Header["kid"] = "k"
	if change != nil {
		change(c, made.Header)
	}
	signed, err := made.SignedString(issuerKey())
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

func TestEveryRefusalOfACredentialIsInTheTable(t *testing.T) {
	t.Parallel()
	r := guard(t)
	bearer := func(token string) []string { return []string{"Bearer " + token} }
	claim := func(name string, value any) []string {
		return bearer(forged(t, func(c jwt.MapClaims, _ map[string]any) {
			if c[name] = value; value == nil {
				delete(c, name)
			}
		}))
	}
	header := func(name string, value any) []string {
		return bearer(forged(t, func(_ jwt.MapClaims, h map[string]any) {
			if h[name] = value; value == nil {
				delete(h, name)
			}
		}))
	}
	good := forged(t, nil)
	in := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
	hmac, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"iss": "https://id.example.com"}).SignedString([]byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	sent := map[string][]string{
		"no credential was sent":                                            nil,
		"the authorization scheme is not Bearer":                            {"Basic YTpi"},
		"more than one Authorization header was sent":                       {"Bearer " + good, "Bearer " + good},
		"the Authorization header is not Bearer and one token":              {"Bearer a b"},
		"the token is too large":                                            bearer(strings.Repeat("x", 17<<10)),
		"the credential is neither a known API key nor a well-formed token": bearer("psk_unknown"),
		"the token asks for an extension that is not supported":             header("crit", []string{"b64"}),
		"the token is not an access token":                                  header("typ", "logout+jwt"),
		"the token is signed with an algorithm that is not allowed":         bearer(hmac),
		"the token is an ID token; an access token is needed":               claim("nonce", "n"),
		"the token has no issuer":                                           claim("iss", nil),
		"the token has no subject":                                          claim("sub", ""),
		"the token has no expiry":                                           claim("exp", nil),
		"the claims of the token are not valid":                             claim("sub", 7),
		"the token is from an issuer that is not trusted here":              claim("iss", "https://id.example.com/"),
		"the token has expired":                                             claim("exp", in(-time.Second)),
		"the token is not valid yet":                                        claim("nbf", in(time.Minute)),
		"the token was issued in the future":                                claim("iat", in(time.Minute)),
		"the token is for another audience":                                 claim("aud", []string{"penstock2", "other"}),
		"the token does not say which tenant it is for":                     claim("org", nil),
		"the token is signed with a key that its issuer does not publish":   header("kid", "other"),
		"the token does not say which key it is signed with": bearer(forged(t, func(c jwt.MapClaims, h map[string]any) {
			c["iss"] = "https://many.example.com"
			delete(h, "kid")
		})),
		"the signature of the token is not valid": bearer(good[:len(good)-8] + "AAAAAAAA"),
		"the credential was revoked":              claim("jti", "jti-1"),
		"the API key has expired":                 bearer(keyOf("old")),
		"the credential lacks the scope mcp":      claim("scope", "read write"),
	}
	var told []string
	for _, cells := range table(t, page(t, "security.md"), "what was sent", "`error`", "the answer says") {
		says := code(cells[2])[0]
		told = append(told, says)
		credentials, ok := sent[says]
		if !ok {
			t.Errorf("nothing here is answered with %q", says)
			continue
		}
		got := r.shown(t, credentials)
		status, code := http.StatusUnauthorized, -31014
		if strings.Contains(cells[0], "403") {
			status, code = http.StatusForbidden, -31016
		}
		kind := ""
		if k := regexp.MustCompile("`(.*)`").FindStringSubmatch(cells[1]); k != nil {
			kind = `error="` + k[1] + `"`
		}
		challenge := got.header.Get("WWW-Authenticate")
		if got.status != status || got.Error.Code != code || !strings.Contains(got.Error.Message, says) {
			t.Errorf("%s: HTTP %d, %s", says, got.status, got.body)
		}
		if !strings.HasPrefix(challenge, "Bearer ") || !strings.Contains(challenge, kind) || kind == "" && strings.Contains(challenge, "error=") {
			t.Errorf("%s: WWW-Authenticate: %s", says, challenge)
		}
		if !strings.Contains(challenge, `resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"`) {
			t.Errorf("%s: no metadata: %s", says, challenge)
		}
		for _, c := range credentials {
			if secret := strings.TrimPrefix(c, "Bearer "); len(secret) > 9 && strings.Contains(got.body+challenge, secret) {
				t.Errorf("%s: the credential is repeated", says)
			}
		}
	}
	for says := range sent {
		if !slices.Contains(told, says) {
			t.Errorf("the table lacks %q", says)
		}
	}
	for name, c := range map[string][]string{"a token": bearer(good), "a key": bearer(keyOf("alice"))} {
		if got := r.shown(t, c); got.status != http.StatusOK || got.Error.Code != 0 {
			t.Errorf("%s that is good: %s", name, got.body)
		}
	}
	if got := r.shown(t, bearer(keyOf("gone"))); got.status != http.StatusUnauthorized {
		t.Errorf("a key whose name is revoked: %s", got.body)
	}
	if n := r.calls(); n != 2 {
		t.Errorf("%d calls reached the upstream", n)
	}
}

// shown calls the one tool with these values of Authorization.
func (r *running) shown(t *testing.T, authorization []string) *reply {
	t.Helper()
	r.authorizations = authorization
	defer func() { r.authorizations = nil }()
	return r.call("default", "", "echo", "{}")
}

func TestTheMetadataAreThoseOfThePage(t *testing.T) {
	t.Parallel()
	r := guard(t)
	want := strings.TrimSpace(block(t, section(t, page(t, "security.md"), "### Telling clients where to sign in"), "", 0))
	at := regexp.MustCompile(`resource_metadata="https://mcp\.example\.com([^"]+)"`).FindStringSubmatch(want)
	if at == nil {
		t.Fatal(want)
	}
	bare := serve(t, strings.Replace(guarded, "  required_scopes: [mcp]\n", "", 1), nil)
	if got := "WWW-Authenticate: " + bare.shown(t, nil).header.Get("WWW-Authenticate"); got != want {
		t.Errorf("the page has\n%s, the gateway sends\n%s", want, got)
	}
	for _, path := range []string{at[1], "/.well-known/oauth-protected-resource"} {
		resp, err := r.client.Get(r.origin + path)
		if err != nil {
			t.Fatal(err)
		}
		var m struct {
			Resource string   `json:"resource"`
			Servers  []string `json:"authorization_servers"`
			Scopes   []string `json:"scopes_supported"`
		}
		err = json.NewDecoder(resp.Body).Decode(&m)
		_ = resp.Body.Close()
		if err != nil || m.Resource != "https://mcp.example.com/mcp" || len(m.Servers) != 2 || !slices.Equal(m.Scopes, []string{"mcp"}) {
			t.Errorf("%s: %+v %v", path, m, err)
		}
	}
}
