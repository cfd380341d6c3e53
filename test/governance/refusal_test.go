package governance_test

import (
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/test/idp"
)

// The codes of refusals (docs/errors.md).
const (
	unauthenticated   = -31014
	insufficientScope = -31016
	credentialFailed  = -31019
)

var metadataParam = regexp.MustCompile(`^Bearer .*\bresource_metadata="(https?://[^"]+)"`)

// attempt is how a bad credential is sent.
type attempt struct {
	authorization []string
	query         string
	errors        []string // of WWW-Authenticate; any of them; "" is none
}

func TestEveryBadTokenIsRefusedBeforeTheUpstreamSeesAnything(t *testing.T) {
	t.Parallel()
	p, other, u := idp.Start(t), idp.Start(t), newUpstream(t)
	g := serve(t, document(p, u, ""))
	token := p.Token(t, good)
	g.ready(t, token)
	_, claims, err := idp.Read(token)
	if err != nil {
		t.Fatal(err)
	}
	key := p.Key()
	with := func(change func(*idp.TokenSpec)) string {
		spec := good
		change(&spec)
		return p.Token(t, spec)
	}
	changed := func(name string, value any) string {
		return with(func(s *idp.TokenSpec) { s.Claims = map[string]any{name: value} })
	}
	renamed, err := idp.Rename(token, "unknown")
	if err != nil {
		t.Fatal(err)
	}
	cut := strings.LastIndexByte(token, '.')

	bad := map[string]string{
		"expired":                       with(func(s *idp.TokenSpec) { s.TTL = -time.Hour }),
		"early":                         with(func(s *idp.TokenSpec) { s.NotBefore = time.Hour }),
		"other-issuer":                  with(func(s *idp.TokenSpec) { s.Issuer = "https://id.example.com" }),
		"of-another-provider":           other.Token(t, good),
		"other-audience":                with(func(s *idp.TokenSpec) { s.Audience = []string{"somebody-else"} }),
		"audience-in-part":              with(func(s *idp.TokenSpec) { s.Audience = []string{audience + "-2", "x" + audience} }),
		"no-audience":                   with(func(s *idp.TokenSpec) { s.Audience = nil }),
		"no-subject":                    with(func(s *idp.TokenSpec) { s.Subject = "" }),
		"empty-subject":                 changed("sub", ""),
		"subject-that-is-a-number":      changed("sub", 7),
		"no-expiry":                     with(func(s *idp.TokenSpec) { s.NoExpiry = true }),
		"expiry-that-is-a-text":         changed("exp", "2099-01-01"),
		"no-issuer":                     changed("iss", nil),
		"ID-token":                      with(func(s *idp.TokenSpec) { s.IDToken = true }),
		"algorithm-none":                idp.Unsigned(key.ID, claims),
		"HS256-with-the-public-PEM":     idp.HMAC(key.ID, claims, []byte(key.PEM)),
		"HS256-with-the-public-JWK":     idp.HMAC(key.ID, claims, key.JWK),
		"HS256-with-nothing":            idp.HMAC(key.ID, claims, nil),
		"algorithm-that-is-not-allowed": with(func(s *idp.TokenSpec) { s.Algorithm = "PS256" }),
		"unknown-key-id":                renamed,
		"known-key-id-of-another-key":   idp.Stranger(key.ID, claims),
		"no-signature":                  token[:cut+1],
		"cut-signature":                 token[:len(token)-4],
		"two-parts":                     token[:cut],
		"garbage":                       "garbage",
	}
	// Another provider signs in the name of this one, under this one's key id.
	impostor := good
	impostor.Issuer, impostor.KeyID = p.Issuer(), key.ID
	bad["of-an-impostor"] = other.Token(t, impostor)

	invalid := []string{"invalid_token"}
	tries := map[string]attempt{
		// RFC 6750 has a word of its own for requests whose credential cannot even be told.
		"20-KB": {
			authorization: []string{bearer(with(func(s *idp.TokenSpec) { s.Claims = map[string]any{"pad": strings.Repeat("x", 15_000)} }))},
			errors:        []string{"invalid_token", "invalid_request"},
		},
		"header-twice":              {authorization: []string{bearer(token), bearer(token)}, errors: []string{"invalid_token", "invalid_request"}},
		"good-and-bad-header":       {authorization: []string{bearer(token), bearer(renamed)}, errors: []string{"invalid_token", "invalid_request"}},
		"two-tokens-in-one-header":  {authorization: []string{bearer(token) + ", " + bearer(token)}, errors: []string{"invalid_token", "invalid_request"}},
		"token-in-the-query-only":   {query: "?access_token=" + token, errors: []string{"", "invalid_token", "invalid_request"}},
		"bad-header-good-query":     {authorization: []string{bearer(renamed)}, query: "?access_token=" + token, errors: invalid},
		"no-credential":             {errors: []string{""}},
		"the-caller-names-a-scheme": {authorization: []string{"Basic YWxpY2U6c2VjcmV0"}, errors: []string{"", "invalid_token", "invalid_request"}},
	}
	for name, token := range bad {
		tries[name] = attempt{authorization: []string{bearer(token)}, errors: invalid}
	}
	if n := len(tries["20-KB"].authorization[0]); n < 20_000 {
		t.Fatalf("the large token has but %d bytes", n)
	}

	for name, try := range tries {
		r := g.callAt(g.url+try.query, "bad-"+name, try.authorization...)
		if r.Status != http.StatusUnauthorized || r.Code != unauthenticated {
			t.Errorf("%s: want 401 and %d, got %v", name, unauthenticated, r)
			continue
		}
		if !metadataParam.MatchString(r.challenge()) {
			t.Errorf("%s: WWW-Authenticate does not tell the metadata: %q", name, r.Header.Values("WWW-Authenticate"))
		}
		if got := errorOf(r); !slices.Contains(try.errors, got) {
			t.Errorf("%s: error is %q, want one of %q: %q", name, got, try.errors, r.challenge())
		}
		for _, a := range try.authorization {
			if secret := strings.TrimPrefix(a, "Bearer "); len(secret) > 40 && strings.Contains(r.Body+r.challenge(), secret) {
				t.Errorf("%s: the answer repeats the token", name)
			}
		}
	}
	if u.saw("bad-") {
		t.Error("the upstream saw a call with a bad credential")
	}
	if all := u.credentials(""); len(all) != 0 {
		t.Errorf("an upstream without credentials was shown some: %d", len(all))
	}
	if r := g.call("after", bearer(token)); !r.served() {
		t.Errorf("the good token after all of that: %v", r)
	}
	// Neither what was refused nor what was served is in the log, at whatever level.
	for name, secret := range bad {
		if len(secret) > 40 && strings.Contains(g.log.String(), secret) {
			t.Errorf("the log holds the token %q", name)
		}
	}
	if strings.Contains(g.log.String(), token[cut:]) {
		t.Error("the log holds the good token's signature")
	}
}

var errorParam = regexp.MustCompile(`\berror="([^"]*)"`)

// errorOf is the parameter error of the challenge, or "".
func errorOf(r *reply) string {
	if found := errorParam.FindStringSubmatch(r.challenge()); found != nil {
		return found[1]
	}
	return ""
}

func TestATokenWithoutTheScopeIsForbiddenAndToldWhichItNeeds(t *testing.T) {
	t.Parallel()
	p, u := idp.Start(t), newUpstream(t)
	g := serve(t, document(p, u, ""))
	g.ready(t, p.Token(t, good))
	for name, scopes := range map[string][]string{"none": nil, "others": {"read", "mcp-admin"}, "in-part": {"mc", "mcpx"}} {
		spec := good
		spec.Scopes = scopes
		r := g.call("scope-"+name, bearer(p.Token(t, spec)))
		if r.Status != http.StatusForbidden || r.Code != insufficientScope {
			t.Errorf("%s: want 403 and %d, got %v", name, insufficientScope, r)
			continue
		}
		if errorOf(r) != "insufficient_scope" || !strings.Contains(r.challenge(), `scope="mcp"`) || !metadataParam.MatchString(r.challenge()) {
			t.Errorf("%s: WWW-Authenticate is %q", name, r.Header.Values("WWW-Authenticate"))
		}
	}
	if u.saw("scope-") {
		t.Error("the upstream saw a call without the scope")
	}
	spec := good
	spec.Scopes = []string{"read", "mcp", "write"}
	if r := g.call("more", bearer(p.Token(t, spec))); !r.served() {
		t.Errorf("one scope of several: %v", r)
	}
}

func TestTheChallengeLeadsToTheIssuer(t *testing.T) {
	t.Parallel()
	p, u := idp.Start(t), newUpstream(t)
	g := serve(t, document(p, u, ""))
	r := g.call("none")
	found := metadataParam.FindStringSubmatch(r.challenge())
	if found == nil {
		t.Fatalf("no metadata in %v", r)
	}
	resp, err := g.http.Get(found[1])
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: HTTP %d %v: %s", found[1], resp.StatusCode, err, raw)
	}
	var doc struct {
		Resource string   `json:"resource"`
		Servers  []string `json:"authorization_servers"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Resource != g.url || !slices.Contains(doc.Servers, p.Issuer()) {
		t.Errorf("%s", raw)
	}
}
