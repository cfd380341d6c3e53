package idp_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/test/idp"
)

var caller = idp.TokenSpec{Subject: "alice", Audience: []string{"penstock"}, Scopes: []string{"mcp", "more"}}

func TestTokensVerifyAgainstThePublishedKeys(t *testing.T) {
	t.Parallel()
	for _, alg := range []string{"RS256", "ES256"} {
		t.Run(alg, func(t *testing.T) {
			t.Parallel()
			p := idp.Start(t, "-alg", alg)
			token := p.Token(t, caller)
			if err := verify(t, p, token); err != nil {
				t.Error(err)
			}
			header, claims, err := idp.Read(token)
			if err != nil {
				t.Fatal(err)
			}
			if header["alg"] != alg || header["kid"] != p.Key().ID || header["typ"] != "JWT" {
				t.Errorf("header %v", header)
			}
			if claims["iss"] != p.Issuer() || claims["sub"] != "alice" || claims["scope"] != "mcp more" || fmt.Sprint(claims["aud"]) != "[penstock]" {
				t.Errorf("claims %v", claims)
			}
			if left := claims["exp"].(float64) - float64(time.Now().Unix()); left < 3000 || left > 3600 {
				t.Errorf("it lives for %v s more", left)
			}
			broken := token[:len(token)-8] + "AAAAAAAA"
			if verify(t, p, broken) == nil {
				t.Error("the test's own check lets a broken signature pass")
			}
		})
	}
}

func TestDiscoveryNamesTheEndpoints(t *testing.T) {
	t.Parallel()
	p := idp.Start(t)
	var doc struct {
		Issuer string   `json:"issuer"`
		JWKS   string   `json:"jwks_uri"`
		Token  string   `json:"token_endpoint"`
		Grants []string `json:"grant_types_supported"`
	}
	fetch(t, p.DiscoveryURL(), &doc)
	if doc.Issuer != p.Issuer() || doc.JWKS != p.JWKSURL() || doc.Token != p.TokenURL() {
		t.Errorf("%+v", doc)
	}
	if !slices.Contains(doc.Grants, idp.ClientCredentials) || !slices.Contains(doc.Grants, idp.TokenExchange) {
		t.Errorf("grants %v", doc.Grants)
	}
}

func TestATokenHasExactlyTheContentThatWasAskedFor(t *testing.T) {
	t.Parallel()
	p := idp.Start(t)
	now := float64(time.Now().Unix())
	for name, test := range map[string]struct {
		spec  idp.TokenSpec
		holds func(header, claims map[string]any) bool
	}{
		"expired": {idp.TokenSpec{TTL: -time.Hour}, func(_, c map[string]any) bool {
			return c["exp"].(float64) < now-3000 && c["nbf"].(float64) < c["exp"].(float64)
		}},
		"early":         {idp.TokenSpec{NotBefore: time.Hour}, func(_, c map[string]any) bool { return c["nbf"].(float64) > now+3000 }},
		"other issuer":  {idp.TokenSpec{Issuer: "https://else"}, func(_, c map[string]any) bool { return c["iss"] == "https://else" }},
		"nobody":        {idp.TokenSpec{}, func(_, c map[string]any) bool { return lacks(c, "sub", "aud", "scope", "nonce") }},
		"for ever":      {idp.TokenSpec{NoExpiry: true}, func(_, c map[string]any) bool { return lacks(c, "exp") }},
		"taken away":    {idp.TokenSpec{Claims: map[string]any{"jti": nil, "x": 1}}, func(_, c map[string]any) bool { return lacks(c, "jti") && c["x"] == 1.0 }},
		"ID token":      {idp.TokenSpec{IDToken: true}, func(_, c map[string]any) bool { return c["nonce"] != nil && c["at_hash"] != nil && lacks(c, "scope") }},
		"other key id":  {idp.TokenSpec{KeyID: "k"}, func(h, _ map[string]any) bool { return h["kid"] == "k" }},
		"no key id":     {idp.TokenSpec{NoKeyID: true}, func(h, _ map[string]any) bool { return lacks(h, "kid") }},
		"other type":    {idp.TokenSpec{Type: "at+jwt"}, func(h, _ map[string]any) bool { return h["typ"] == "at+jwt" }},
		"other RSA alg": {idp.TokenSpec{Algorithm: "PS256"}, func(h, _ map[string]any) bool { return h["alg"] == "PS256" && h["kid"] == p.Key().ID }},
	} {
		header, claims, err := idp.Read(p.Token(t, test.spec))
		if err != nil {
			t.Fatal(err)
		}
		if !test.holds(header, claims) {
			t.Errorf("%s: %v %v", name, header, claims)
		}
	}
	es := p.Token(t, idp.TokenSpec{Algorithm: "ES256"})
	if err := verify(t, p, es); err != nil {
		t.Errorf("a second algorithm: %v", err)
	}
	if _, err := p.Mint(idp.TokenSpec{Algorithm: "HS256"}); err == nil {
		t.Error("it has no keys for HS256")
	}
}

func lacks(m map[string]any, names ...string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { _, there := m[name]; return there })
}

func TestARotatedKeyStaysPublishedUntilItIsRetired(t *testing.T) {
	t.Parallel()
	p := idp.Start(t)
	first, old := p.Key().ID, p.Token(t, caller)
	second := p.Rotate()
	fresh := p.Token(t, caller)
	if header, _, _ := idp.Read(fresh); first == second || header["kid"] != second || p.Key().ID != second {
		t.Errorf("after the rotation: %v, %s, %s", header, first, second)
	}
	for _, token := range []string{old, fresh} {
		if err := verify(t, p, token); err != nil {
			t.Errorf("before retirement: %v", err)
		}
	}
	p.Retire()
	if verify(t, p, old) == nil {
		t.Error("the old key is still published")
	}
	if err := verify(t, p, fresh); err != nil {
		t.Errorf("after retirement: %v", err)
	}
}

func TestARestartKeepsPortAndKeysAndClients(t *testing.T) {
	t.Parallel()
	p := idp.Start(t)
	p.Client("c", "s", idp.ClientCredentials)
	p.Rotate()
	issuer, token, published := p.Issuer(), p.Token(t, caller), keySet(t, p)
	p.Kill()
	p.Kill()
	if _, err := p.Mint(caller); err == nil {
		t.Fatal("it is not dead")
	}
	p.Restart()
	if p.Issuer() != issuer || !maps.Equal(keySet(t, p), published) {
		t.Errorf("restarted as %s with other keys", p.Issuer())
	}
	if err := verify(t, p, token); err != nil {
		t.Error(err)
	}
	if status, answer := ask(t, p, form{"grant_type": idp.ClientCredentials}, "c", "s"); status != 200 {
		t.Errorf("HTTP %d %v", status, answer)
	}
}

func TestForgeriesAreNoTokensOfTheProvider(t *testing.T) {
	t.Parallel()
	p := idp.Start(t)
	key := p.Key()
	good := p.Token(t, caller)
	_, claims, err := idp.Read(good)
	if err != nil {
		t.Fatal(err)
	}
	renamed, err := idp.Rename(good, "unknown")
	if err != nil {
		t.Fatal(err)
	}
	for name, token := range map[string]string{
		"unsigned": idp.Unsigned(key.ID, claims),
		"HMAC":     idp.HMAC(key.ID, claims, []byte(key.PEM)),
		"stranger": idp.Stranger(key.ID, claims),
		"renamed":  renamed,
	} {
		if _, got, err := idp.Read(token); err != nil || !maps.Equal(flat(got), flat(claims)) || strings.Count(token, ".") != 2 {
			t.Errorf("%s: %v %v", name, got, err)
		}
		if verify(t, p, token) == nil {
			t.Errorf("%s verifies", name)
		}
	}
}

func flat(claims map[string]any) map[string]string {
	out := map[string]string{}
	for name, value := range claims {
		out[name] = fmt.Sprint(value)
	}
	return out
}
