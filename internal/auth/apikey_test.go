package auth

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-mcp/penstock/internal/fault"
)

func TestAnAPIKeyIsKnownByItsDigest(t *testing.T) {
	key, hash := NewKey()
	sum, err := hex.DecodeString(strings.TrimPrefix(hash, "sha256:"))
	if err != nil || !strings.HasPrefix(hash, "sha256:") || len(sum) != 32 {
		t.Fatalf("hash %q", hash)
	}
	a := start(t, Options{APIKeys: []APIKey{{Name: "ci", Hash: [32]byte(sum), Subject: "ci-bot", Tenant: "build", Scopes: []string{"b", "a", "b"}}}})
	p, err := identify(a, key)
	if err != nil {
		t.Fatal(err)
	}
	if p.Key != Key("penstock:key", "build", "ci-bot") || p.Issuer != "penstock:key" || p.Name != "ci" || p.Credential != "ci" {
		t.Errorf("%v", p)
	}
	if d := cmp.Diff([]string{"a", "b"}, p.Scopes); d != "" {
		t.Error(d)
	}
	if p.Bearer() != "" || p.Claims != nil || p.TokenHash != hashOf(key) || !p.Expires.IsZero() {
		t.Error("it bears what only a token does")
	}
	if again, _ := identify(a, key); again != p {
		t.Error("the second time it is another principal")
	}
	near := []string{
		key + "A", key + "=", key[:len(key)-1], strings.ToUpper(key), strings.ToLower(key), key[1:], "x" + key,
		strings.TrimPrefix(key, KeyPrefix), hash, hash[7:], key[:10] + "_" + key[11:], "ci",
	}
	for _, k := range near {
		p, err := identify(a, k)
		if k == key {
			continue
		}
		if err == nil {
			t.Errorf("a key that nearly matches is %v", p)
		}
	}
	p, err = identify(a, near[0])
	if r := refusalOf(t, p, err); r.Description != "the API key is not known" || r.Kind != "invalid_token" {
		t.Errorf("%s %q", r.Kind, r.Description)
	}
}

func TestNewKeysAreRandomAndLong(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		k, _ := NewKey()
		if !strings.HasPrefix(k, "psk_") || len(k) != 4+43 || !isToken68(k) || seen[k] {
			t.Fatalf("key %q", k)
		}
		seen[k] = true
	}
}

func TestAnAPIKeyIsRefusedFromItsDayOn(t *testing.T) {
	now := time.Date(2027, 6, 29, 23, 59, 59, 0, time.UTC)
	a := start(t, Options{
		Now: func() time.Time { return now },
		APIKeys: []APIKey{
			{Name: "ci", Hash: hashOf("k1"), Subject: "bot", Expires: time.Date(2027, 6, 30, 0, 0, 0, 0, time.UTC)},
			// The date as it is written, wherever the document was read.
			{Name: "far", Hash: hashOf("k2"), Subject: "bot", Expires: time.Date(2027, 6, 30, 0, 0, 0, 0, time.FixedZone("", 11*3600))},
		},
	})
	for _, k := range []string{"k1", "k2"} {
		if p, err := identify(a, k); err != nil || a.Check(p) != nil {
			t.Errorf("%s on its last day: %v", k, err)
		}
	}
	p, _ := identify(a, "k1")
	now = now.Add(time.Second)
	for _, k := range []string{"k1", "k2"} {
		got, err := identify(a, k)
		if r := refusalOf(t, got, err); r.Description != "the API key has expired" || r.Fault.Code != fault.Unauthenticated {
			t.Errorf("%s: %q", k, r.Description)
		}
	}
	if a.Check(p) == nil {
		t.Error("a stream outlives its key")
	}
}

func TestAPrincipalOfAnOldDocumentIsCheckedAgainstTheNew(t *testing.T) {
	idp := newProvider(t, ec1())
	key := APIKey{Name: "ci", Hash: hashOf("k"), Subject: "bot", Scopes: []string{"mcp"}}
	was := start(t, Options{Issuers: []Issuer{idp.entry()}, APIKeys: []APIKey{key}})
	byKey, err := identify(was, "k")
	if err != nil {
		t.Fatal(err)
	}
	byToken, err := identify(was, good(idp))
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, promoted := idp.entry(), key
	elsewhere.Audience = "other"
	promoted.Subject = "root"
	for name, c := range map[string]struct {
		o          Options
		key, token *Refusal
	}{
		"the same":         {Options{Issuers: []Issuer{idp.entry()}, APIKeys: []APIKey{key}}, nil, nil},
		"both taken out":   {Options{}, refusedGone, refusedGone},
		"changed":          {Options{Issuers: []Issuer{elsewhere}, APIKeys: []APIKey{promoted}}, refusedGone, refusedGone},
		"only keys":        {Options{APIKeys: []APIKey{key}}, nil, refusedGone},
		"anonymous by now": {Options{Anonymous: true}, refusedGone, refusedGone},
	} {
		a, err := New(c.o)
		if err != nil {
			t.Fatal(err)
		}
		a.Inherit(was)
		if r := a.check(byKey); r != c.key {
			t.Errorf("%s: the key: %v", name, r)
		}
		if r := a.check(byToken); r != c.token {
			t.Errorf("%s: the token: %v", name, r)
		}
	}
	scoped := start(t, Options{APIKeys: []APIKey{key}, RequiredScopes: []string{"admin"}})
	if r := scoped.check(byKey); r == nil || r.Kind != kindScope {
		t.Errorf("a scope that is asked for now: %v", r)
	}
	if was.Check(nil) == nil {
		t.Error("nobody is let in")
	}
}
