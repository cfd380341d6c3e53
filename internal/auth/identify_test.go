package auth

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/penstock-mcp/penstock/internal/fault"
)

func TestAGoodTokenSaysWhoIsCalling(t *testing.T) {
	idp := newProvider(t, ec1(), rsa1())
	is := idp.entry()
	is.TenantClaim = "org"
	is.Algorithms = append(is.Algorithms, "EdDSA", "ES384")
	a := start(t, Options{Issuers: []Issuer{is}})
	raw := good(idp, "org", "acme", "aud", []string{"other", "penstock"}, "scope", "write mcp  write", "n", 12, "f", 1.5, "big", json.Number("18446744073709551616"))
	p, err := identify(a, raw)
	if err != nil {
		t.Fatal(err)
	}
	if p.Key != Key(idp.URL, "acme", "alice") || p.Issuer != idp.URL || p.Tenant != "acme" || p.Subject != "alice" || p.Name != "alice" {
		t.Errorf("principal %v", p)
	}
	if d := cmp.Diff([]string{"mcp", "write"}, p.Scopes); d != "" {
		t.Error(d)
	}
	if p.Credential != "t1" || p.TokenHash != hashOf(raw) || p.Bearer() != raw || time.Until(p.Expires) < 3500*time.Second {
		t.Errorf("credential %q, expires %v", p.Credential, p.Expires)
	}
	if d := cmp.Diff([]string{"other", "penstock"}, p.Audiences()); d != "" {
		t.Error(d)
	}
	if p.Claims["n"] != int64(12) || p.Claims["f"] != 1.5 || p.Claims["big"] != float64(1<<64) {
		t.Errorf("claims %v", p.Claims)
	}
	again, err := identify(a, raw)
	if err != nil || again != p {
		t.Errorf("the second time: %p, %v, want the same %p", again, err, p)
	}
	if err := a.Check(p); err != nil {
		t.Error(err)
	}
}

func TestATokenMayBeSignedAsItsIssuerIsConfigured(t *testing.T) {
	idp := newProvider(t, ec1(), rsa1(), published{kid: "d1", alg: "EdDSA", key: edwardKey()}, published{kid: "e3", key: ecLong()})
	is := idp.entry()
	is.Algorithms = []string{"RS256", "ES256", "EdDSA", "ES384"}
	a := start(t, Options{Issuers: []Issuer{is}})
	for name, raw := range map[string]string{
		"RS256":                sign(rsaKey(), header("RS256", "r1"), idp.claims()),
		"ES256":                sign(ecKey(), header("ES256", "e1"), idp.claims()),
		"ES384":                sign(ecLong(), header("ES384", "e3"), idp.claims()),
		"EdDSA":                sign(edwardKey(), header("EdDSA", "d1"), idp.claims()),
		"no key id, one fits":  sign(ecKey(), header("ES256", ""), idp.claims()),
		"no typ":               sign(ecKey(), header("ES256", "e1", "typ", nil), idp.claims()),
		"typ JWT":              sign(ecKey(), header("ES256", "e1", "typ", "jwt"), idp.claims()),
		"typ long":             sign(ecKey(), header("ES256", "e1", "typ", "application/AT+JWT"), idp.claims()),
		"nbf within leeway":    good(idp, "nbf", time.Now().Unix()+20),
		"iat within leeway":    good(idp, "iat", time.Now().Unix()+20),
		"fractional dates":     good(idp, "exp", float64(time.Now().Unix())+60.5),
		"scopes in an array":   good(idp, "scope", []string{"a", "b"}),
		"no scopes":            good(idp, "scope", nil),
		"no jti":               good(idp, "jti", nil),
		"a key in the header":  sign(ecKey(), header("ES256", "e1", "jku", "http://127.0.0.1:1/"), idp.claims()),
		"claims of any nature": good(idp, "x", map[string]any{"y": []any{true, nil, "z", 1e300}}),
	} {
		t.Run(name, func(t *testing.T) {
			if p, err := identify(a, raw); err != nil || p.Subject != "alice" {
				t.Errorf("%v, %v", p, err)
			}
		})
	}
}

// bad is a credential and how it is refused.
type bad struct {
	raw     string
	outcome string
	text    string
}

func TestABadTokenIsRefusedInClearWords(t *testing.T) {
	idp := newProvider(t, ec1(), rsa1(), published{kid: "r2", alg: "RS512", key: rsaOther()},
		published{kid: "enc", use: "enc", key: ecOther()}, published{kid: "short", key: rsaShort()})
	other := newProvider(t, published{kid: "e1", key: ecOther()})
	is := idp.entry()
	is.TenantClaim = "org"
	o := &told{}
	a := start(t, Options{Issuers: []Issuer{is}, Outcome: o.tell})
	claims := func(pairs ...any) map[string]any { return idp.claims(append([]any{"org", "acme"}, pairs...)...) }
	es := func(pairs ...any) string { return sign(ecKey(), header("ES256", "e1"), claims(pairs...)) }
	head := func(pairs ...any) string { return sign(ecKey(), header("ES256", "e1", pairs...), claims()) }
	now := time.Now().Unix()
	fine := es()
	parts := strings.Split(fine, ".")
	text := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	claimText := string(must(json.Marshal(claims())))
	if _, err := identify(a, fine); err != nil {
		t.Fatal(err)
	}
	// A public key taken for the secret of an HMAC.
	hmacWith := func(secret []byte) string {
		signed := text(`{"alg":"HS256","kid":"r1"}`) + "." + text(claimText)
		return signed + "." + base64.RawURLEncoding.EncodeToString(must(jwt.SigningMethodHS256.Sign(signed, secret)))
	}
	cases := map[string]bad{
		"expired":                    {es("exp", now-1), "expired", "the token has expired"},
		"expired exactly now":        {es("exp", now), "expired", "the token has expired"},
		"early":                      {es("nbf", now+60), "early", "the token is not valid yet"},
		"issued in the future":       {es("iat", now+60), "early", "the token was issued in the future"},
		"another issuer":             {sign(ecOther(), header("ES256", "e1"), other.claims("org", "acme")), "issuer", "the token is from an issuer that is not trusted here"},
		"issuer with a slash":        {es("iss", idp.URL+"/"), "issuer", "the token is from an issuer that is not trusted here"},
		"no issuer":                  {es("iss", nil), "issuer", "the token has no issuer"},
		"another audience":           {es("aud", "other"), "audience", "the token is for another audience"},
		"audience as a prefix":       {es("aud", "penstock2"), "audience", "the token is for another audience"},
		"audience in other case":     {es("aud", "Penstock"), "audience", "the token is for another audience"},
		"audience in one string":     {es("aud", "penstock other"), "audience", "the token is for another audience"},
		"no audience":                {es("aud", nil), "audience", "the token is for another audience"},
		"empty audiences":            {es("aud", []string{}), "audience", "the token is for another audience"},
		"audience of numbers":        {es("aud", []int{1}), "malformed", "the claims of the token are not valid"},
		"no sub":                     {es("sub", nil), "claims", "the token has no subject"},
		"empty sub":                  {es("sub", ""), "claims", "the token has no subject"},
		"sub is a number":            {es("sub", 7), "malformed", "the claims of the token are not valid"},
		"no exp":                     {es("exp", nil), "claims", "the token has no expiry"},
		"exp is a string":            {es("exp", "tomorrow"), "malformed", "the claims of the token are not valid"},
		"exp is null":                {sign(ecKey(), header("ES256", "e1"), strings.Replace(claimText, `"exp":`, `"exp":null,"x":`, 1)), "malformed", "the claims of the token are not valid"},
		"exp in milliseconds":        {es("exp", now*1000), "malformed", "the claims of the token are not valid"},
		"exp is negative":            {es("exp", -1), "malformed", "the claims of the token are not valid"},
		"no tenant":                  {es("org", nil), "claims", "the token does not say which tenant it is for"},
		"empty tenant":               {es("org", ""), "claims", "the token does not say which tenant it is for"},
		"tenant is a list":           {es("org", []string{"acme"}), "claims", "the token does not say which tenant it is for"},
		"scope is a number":          {es("scope", 5), "malformed", "the claims of the token are not valid"},
		"jti is a number":            {es("jti", 5), "malformed", "the claims of the token are not valid"},
		"ID token by typ":            {head("typ", "id_token"), "type", "the token is not an access token"},
		"logout token by typ":        {head("typ", "logout+jwt"), "type", "the token is not an access token"},
		"ID token by nonce":          {es("nonce", "n"), "type", "the token is an ID token; an access token is needed"},
		"ID token by at_hash":        {es("at_hash", "h"), "type", "the token is an ID token; an access token is needed"},
		"ID token by c_hash":         {es("c_hash", "h"), "type", "the token is an ID token; an access token is needed"},
		"alg none":                   {text(`{"alg":"none"}`) + "." + text(claimText) + ".", "algorithm", "the token is signed with an algorithm that is not allowed"},
		"alg None":                   {text(`{"alg":"None","kid":"e1"}`) + "." + text(claimText) + "." + parts[2], "algorithm", "the token is signed with an algorithm that is not allowed"},
		"alg empty":                  {head("alg", nil), "malformed", "the header of the token is not valid"},
		"alg is a list":              {head("alg", []string{"ES256"}), "malformed", "the header of the token is not valid"},
		"HMAC with the public key":   {hmacWith(rsaKey().N.Bytes()), "algorithm", "the token is signed with an algorithm that is not allowed"},
		"HMAC with the key set":      {hmacWith(keySetOf(rsa1())), "algorithm", "the token is signed with an algorithm that is not allowed"},
		"algorithm not configured":   {sign(rsaOther(), header("RS512", "r2"), claims()), "algorithm", "the token is signed with an algorithm that is not allowed"},
		"RS256 with a key for RS512": {sign(rsaOther(), header("RS256", "r2"), claims()), "unknown_key", "the token is signed with a key that its issuer does not publish"},
		"key for encryption":         {sign(ecOther(), header("ES256", "enc"), claims()), "unknown_key", "the token is signed with a key that its issuer does not publish"},
		"key too short":              {sign(rsaShort(), header("RS256", "short"), claims()), "unknown_key", "the token is signed with a key that its issuer does not publish"},
		"curve does not fit":         {sign(ecLong(), header("ES256", "e1"), claims()), "signature", "the signature of the token is not valid"},
		"RSA with an EC key":         {sign(rsaKey(), header("RS256", "e1"), claims()), "unknown_key", "the token is signed with a key that its issuer does not publish"},
		"unknown key id":             {sign(ecKey(), header("ES256", "e9"), claims()), "unknown_key", "the token is signed with a key that its issuer does not publish"},
		"key id is a number":         {head("kid", 1), "malformed", "the header of the token is not valid"},
		"key id is empty":            {sign(ecKey(), `{"alg":"ES256","kid":""}`, claims()), "malformed", "the header of the token is not valid"},
		"key id is huge":             {head("kid", strings.Repeat("k", maxKeyID+1)), "malformed", "the header of the token is not valid"},
		"signed by somebody else":    {sign(ecOther(), header("ES256", "e1"), claims()), "signature", "the signature of the token is not valid"},
		"signature of another token": {parts[0] + "." + text(strings.Replace(claimText, "alice", "carol", 1)) + "." + parts[2], "signature", "the signature of the token is not valid"},
		"no signature":               {parts[0] + "." + parts[1] + ".", "signature", "the signature of the token is not valid"},
		"critical extension":         {head("crit", []string{"b64"}), "malformed", "the token asks for an extension that is not supported"},
		"name twice in the header":   {sign(ecKey(), `{"alg":"none","alg":"ES256","kid":"e1"}`, claims()), "malformed", "the credential is neither a known API key nor a well-formed token"},
		"name twice in the claims":   {sign(ecKey(), header("ES256", "e1"), `{"sub":"carol",`+claimText[1:]), "malformed", "the claims of the token are not valid"},
		"name twice below":           {sign(ecKey(), header("ES256", "e1"), `{"x":{"a":1,"a":2},`+claimText[1:]), "malformed", "the claims of the token are not valid"},
		"name in other case":         {sign(ecKey(), header("ES256", "e1"), strings.Replace(claimText, `"sub"`, `"Sub"`, 1)), "claims", "the token has no subject"},
		"not UTF-8":                  {sign(ecKey(), header("ES256", "e1"), `{"x":"`+"\xff"+`",`+claimText[1:]), "malformed", "the claims of the token are not valid"},
		"claims then more":           {sign(ecKey(), header("ES256", "e1"), claimText+"{}"), "malformed", "the claims of the token are not valid"},
		"claims are a list":          {sign(ecKey(), header("ES256", "e1"), "["+claimText+"]"), "malformed", "the claims of the token are not valid"},
		"claims are nested deep":     {sign(ecKey(), header("ES256", "e1"), `{"x":`+strings.Repeat("[", 100)+strings.Repeat("]", 100)+`,`+claimText[1:]), "malformed", "the claims of the token are not valid"},
		"a number out of range":      {sign(ecKey(), header("ES256", "e1"), `{"x":1e999,`+claimText[1:]), "malformed", "the claims of the token are not valid"},
		"two parts":                  {parts[0] + "." + parts[1], "malformed", "the credential is neither a known API key nor a well-formed token"},
		"four parts":                 {fine + ".x", "malformed", "the credential is neither a known API key nor a well-formed token"},
		"five parts (encrypted)":     {fine + ".x.y", "malformed", "the credential is neither a known API key nor a well-formed token"},
		"padded":                     {fine + "=", "malformed", "the credential is neither a known API key nor a well-formed token"},
		"not base64url":              {parts[0] + "." + parts[1] + "." + parts[2][:len(parts[2])-4] + "+/+/", "malformed", "the credential is neither a known API key nor a well-formed token"},
		"opaque":                     {"0123456789abcdef", "malformed", "the credential is neither a known API key nor a well-formed token"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			before := o.count(c.outcome)
			p, err := a.Identify(with("Bearer "+c.raw), name)
			r := refusalOf(t, p, err)
			if r.Description != c.text || r.Fault.Public() != c.text || r.Kind != "invalid_token" || r.Fault.Code != fault.Unauthenticated {
				t.Errorf("%s %q (%s), want invalid_token %q", r.Kind, r.Description, r.Fault.Code.Name(), c.text)
			}
			if o.count(c.outcome) != before+1 {
				t.Errorf("outcome is not %q", c.outcome)
			}
			for _, part := range strings.Split(c.raw, ".") {
				if len(part) > 8 && strings.Contains(err.Error(), part) {
					t.Error("the refusal repeats the token")
				}
			}
		})
	}
}

func TestAChangedByteAnywhereIsRefused(t *testing.T) {
	idp := newProvider(t, ec1())
	a := start(t, Options{Issuers: []Issuer{idp.entry()}})
	raw := good(idp)
	if _, err := identify(a, raw); err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		b := []byte(raw)
		b[i] ^= 1
		if p, err := identify(a, string(b)); err == nil {
			t.Fatalf("with byte %d changed it is %v", i, p)
		}
	}
}

func TestTheHeaderIsOneBearerTokenAndNothingElse(t *testing.T) {
	idp := newProvider(t, ec1())
	a := start(t, Options{Issuers: []Issuer{idp.entry()}})
	raw := good(idp)
	for name, c := range map[string]struct {
		header http.Header
		kind   string
		text   string
	}{
		"none":                 {http.Header{}, "", "no credential was sent; send a token or an API key as Authorization: Bearer"},
		"nil":                  {nil, "", "no credential was sent; send a token or an API key as Authorization: Bearer"},
		"basic":                {with("Basic YTpi"), "", "the authorization scheme is not Bearer; send a token or an API key as Authorization: Bearer"},
		"dpop":                 {with("DPoP " + raw), "", "the authorization scheme is not Bearer; send a token or an API key as Authorization: Bearer"},
		"token alone":          {with(raw), "", "the authorization scheme is not Bearer; send a token or an API key as Authorization: Bearer"},
		"two headers":          {with("Bearer "+raw, "Bearer "+raw), "invalid_request", "more than one Authorization header was sent"},
		"two, one good":        {with("Bearer "+raw, "Basic YTpi"), "invalid_request", "more than one Authorization header was sent"},
		"two, one empty":       {with("", "Bearer "+raw), "invalid_request", "more than one Authorization header was sent"},
		"two values":           {with("Bearer " + raw + ", Bearer " + raw), "invalid_request", "the Authorization header is not Bearer and one token"},
		"two tokens":           {with("Bearer " + raw + " " + raw), "invalid_request", "the Authorization header is not Bearer and one token"},
		"empty":                {with(""), "invalid_request", "the Authorization header is not Bearer and one token"},
		"scheme alone":         {with("Bearer"), "invalid_request", "the Authorization header is not Bearer and one token"},
		"scheme and space":     {with("Bearer "), "invalid_request", "the Authorization header is not Bearer and one token"},
		"a tab":                {with("Bearer\t" + raw), "invalid_request", "the Authorization header is not Bearer and one token"},
		"a space at the end":   {with("Bearer " + raw + " "), "invalid_request", "the Authorization header is not Bearer and one token"},
		"a space at the start": {with(" Bearer " + raw), "invalid_request", "the Authorization header is not Bearer and one token"},
		"a zero byte":          {with("Bearer " + raw + "\x00"), "invalid_request", "the Authorization header is not Bearer and one token"},
		"a line end":           {with("Bearer " + raw[:20] + "\n" + raw[20:]), "invalid_request", "the Authorization header is not Bearer and one token"},
		"not ASCII":            {with("Bearer " + raw + "é"), "invalid_request", "the Authorization header is not Bearer and one token"},
		"= in the middle":      {with("Bearer a=b"), "invalid_request", "the Authorization header is not Bearer and one token"},
		"quoted":               {with(`Bearer "` + raw + `"`), "invalid_request", "the Authorization header is not Bearer and one token"},
		"huge":                 {with("Bearer " + strings.Repeat("a", maxBearer+1)), "invalid_request", "the token is too large"},
		"huge scheme":          {with(strings.Repeat("a", 1<<20)), "invalid_request", "the token is too large"},
		"another field":        {http.Header{"Proxy-Authorization": {"Bearer " + raw}}, "", "no credential was sent; send a token or an API key as Authorization: Bearer"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := a.Identify(c.header, "192.0.2.1")
			r := refusalOf(t, p, err)
			if r.Kind != c.kind || r.Fault.Public() != c.text || r.Fault.Code != fault.Unauthenticated {
				t.Errorf("%q %q, want %q %q", r.Kind, r.Fault.Public(), c.kind, c.text)
			}
		})
	}
	for _, value := range []string{"Bearer " + raw, "bearer " + raw, "BEARER   " + raw} {
		if _, err := a.Identify(with(value), ""); err != nil {
			t.Errorf("%s…: %v", value[:9], err)
		}
	}
}

func TestWithoutCredentialACallerIsAnonymousWhereThatIsAllowed(t *testing.T) {
	a := start(t, Options{Anonymous: true, RequiredScopes: []string{"mcp"}, APIKeys: []APIKey{{Name: "ci", Subject: "bot", Hash: hashOf("k")}}})
	p, err := a.Identify(http.Header{}, "")
	if err != nil || p != Anonymous() {
		t.Fatalf("%v, %v", p, err)
	}
	if err := a.Check(p); err != nil {
		t.Error(err)
	}
	for name, h := range map[string]http.Header{"bad": with("Bearer x"), "basic": with("Basic eA=="), "empty": with(""), "two": with("", "")} {
		if p, err := a.Identify(h, ""); err == nil {
			t.Errorf("%s: %v", name, p)
		}
	}
	strict := start(t, Options{})
	if err := strict.Check(Anonymous()); err == nil {
		t.Error("anonymous stays where it is not allowed any more")
	}
	if err := strict.Check(Local()); err != nil {
		t.Error(err)
	}
}

func TestAMissingScopeIsForbiddenAndNamed(t *testing.T) {
	idp := newProvider(t, ec1())
	a := start(t, Options{Issuers: []Issuer{idp.entry()}, RequiredScopes: []string{"write", "mcp"}})
	for range 2 { // remembered or not
		p, err := identify(a, good(idp))
		r := refusalOf(t, p, err)
		if r.Kind != "insufficient_scope" || r.Fault.Code != fault.InsufficientScope || r.Description != "the credential lacks the scope write" {
			t.Errorf("%s %q", r.Kind, r.Description)
		}
		if !slices.Equal(r.Scopes, []string{"mcp", "write"}) {
			t.Errorf("scopes %q", r.Scopes)
		}
	}
	if _, err := identify(a, good(idp, "scope", []string{"write", "mcp"})); err != nil {
		t.Error(err)
	}
}

func TestAnIssuerMayHaveSeveralAudiences(t *testing.T) {
	idp := newProvider(t, ec1())
	one, two := idp.entry(), idp.entry()
	two.Audience, two.TenantClaim = "second", "org"
	a := start(t, Options{Issuers: []Issuer{one, two}})
	if p, err := identify(a, good(idp)); err != nil || p.Tenant != "" {
		t.Errorf("%v, %v", p, err)
	}
	if p, err := identify(a, good(idp, "aud", "second", "org", "acme")); err != nil || p.Tenant != "acme" {
		t.Errorf("%v, %v", p, err)
	}
	p, err := identify(a, good(idp, "aud", "second"))
	if r := refusalOf(t, p, err); r != refusedTenant {
		t.Errorf("%q", r.Description)
	}
	p, err = identify(a, good(idp, "aud", "third"))
	if r := refusalOf(t, p, err); r != refusedAudience {
		t.Errorf("%q", r.Description)
	}
	if n := idp.fetches.Load(); n != 1 {
		t.Errorf("%d readings of one key set", n)
	}
}

func TestATokenOfOneIssuerDoesNotPassWithAKeyOfAnother(t *testing.T) {
	mine, theirs := newProvider(t, ec1()), newProvider(t, published{kid: "x1", key: ecOther()})
	a := start(t, Options{Issuers: []Issuer{mine.entry(), theirs.entry()}})
	p, err := identify(a, sign(ecOther(), header("ES256", "x1"), mine.claims()))
	if r := refusalOf(t, p, err); r != refusedUnknown {
		t.Errorf("%q", r.Description)
	}
}

func TestTwoEntriesOfAnIssuerDoNotDoubleTheWorkOfAForgery(t *testing.T) {
	idp := newProvider(t, ec1())
	one, two := idp.entry(), idp.entry()
	two.Audience = "second"
	a := start(t, Options{Issuers: []Issuer{one, two}})
	p, err := identify(a, sign(ecOther(), header("ES256", "e1"), idp.claims("aud", []string{"penstock", "second"})))
	if r := refusalOf(t, p, err); r != refusedSignature {
		t.Errorf("%v", r)
	}
	if l, _ := a.failures.sources.GetIfPresent("192.0.2.1"); l == nil || l.Tokens() < failuresBurst-1.5 {
		t.Error("it was checked twice")
	}
}
