package auth

import (
	"strings"
	"testing"
)

func TestOptionsThatWouldLetTooManyInAreRefusedWithWhatToWrite(t *testing.T) {
	ok := Issuer{Issuer: "https://id.example.com", Audience: "penstock", Algorithms: []string{"RS256"}}
	change := func(f func(*Issuer)) Options {
		is := ok
		f(&is)
		return Options{Issuers: []Issuer{is}}
	}
	key := APIKey{Name: "ci", Hash: hashOf("k"), Subject: "bot"}
	for _, c := range []struct {
		want string
		o    Options
	}{
		{`"HS256" signs with a shared secret, which is not supported; use one of ES256`, change(func(i *Issuer) { i.Algorithms = []string{"RS256", "HS256"} })},
		{`"hs512" signs with a shared secret`, change(func(i *Issuer) { i.Algorithms = []string{"hs512"} })},
		{`"none" would accept tokens that nobody signed`, change(func(i *Issuer) { i.Algorithms = []string{"none"} })},
		{`"RS257" is not known; use one of ES256, ES384, ES512, EdDSA, PS256`, change(func(i *Issuer) { i.Algorithms = []string{"RS257"} })},
		{`"rs256" is not known`, change(func(i *Issuer) { i.Algorithms = []string{"rs256"} })},
		{"algorithms are missing; name those it signs with, such as RS256", change(func(i *Issuer) { i.Algorithms = nil })},
		{"the audience is missing", change(func(i *Issuer) { i.Audience = "" })},
		{`issuer "": not a name`, change(func(i *Issuer) { i.Issuer = "" })},
		{`issuer "penstock:local": not a name`, change(func(i *Issuer) { i.Issuer, i.JWKSURL = "penstock:local", "https://x/" })},
		{`"http://id.example.com" is not https, which only loopback addresses may do without`, change(func(i *Issuer) { i.Issuer = "http://id.example.com" })},
		{`jwks_url: "http://x/" is not https`, change(func(i *Issuer) { i.JWKSURL = "http://x/" })},
		{`jwks_url: "file:///etc/keys" is not an absolute URL`, change(func(i *Issuer) { i.JWKSURL = "file:///etc/keys" })},
		{`jwks_url: "https://me:xxxxx@x/" holds credentials`, change(func(i *Issuer) { i.JWKSURL = "https://me:secret@x/" })},
		{"cannot be discovered without jwks_url", change(func(i *Issuer) { i.Issuer = "accounts" })},
		{"it has a query", change(func(i *Issuer) { i.Issuer = "https://id.example.com?a=b" })},
		{"an API key has no name", Options{APIKeys: []APIKey{{Hash: hashOf("k"), Subject: "s"}}}},
		{`API key "ci" has no subject`, Options{APIKeys: []APIKey{{Name: "ci", Hash: hashOf("k")}}}},
		{`API key "ci" has no hash`, Options{APIKeys: []APIKey{{Name: "ci", Subject: "s"}}}},
		{`two API keys are named "ci"`, Options{APIKeys: []APIKey{key, {Name: "ci", Hash: hashOf("l"), Subject: "s"}}}},
		{`API key "b" has the hash of another`, Options{APIKeys: []APIKey{key, {Name: "b", Hash: hashOf("k"), Subject: "s"}}}},
		{`required scope "a b" is not a scope`, Options{RequiredScopes: []string{"a b"}}},
	} {
		a, err := New(c.o)
		if err == nil || a != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
	for _, o := range []Options{
		{},
		{Issuers: []Issuer{ok, ok}, APIKeys: []APIKey{key}},
		change(func(i *Issuer) { i.Issuer = "http://127.0.0.1:8080" }),
		change(func(i *Issuer) { i.Issuer = "http://[::1]:8080/realm" }),
		change(func(i *Issuer) { i.Issuer, i.JWKSURL = "accounts", "http://localhost/jwks" }),
	} {
		if _, err := New(o); err != nil {
			t.Error(err)
		}
	}
}
