package idp

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"testing"
	"time"
)

// The grants of the token endpoint, as it spells them.
const (
	ClientCredentials = "client_credentials"
	TokenExchange     = "urn:ietf:params:oauth:grant-type:token-exchange"
)

// TokenSpec is a token to be minted, with exactly this content. The zero value is a token of an hour, for nobody.
type TokenSpec struct {
	Subject   string         // "": the claim is left out
	Audience  []string       // nil: left out
	Scopes    []string       // nil: left out
	TTL       time.Duration  // 0: an hour; less: expired
	NoExpiry  bool           // exp is left out
	NotBefore time.Duration  // from now: too early
	Issuer    string         // "": the provider's own
	Claims    map[string]any // on top of all others; nil takes one away
	IDToken   bool           // an ID token as a login would give it to its client

	KeyID     string // "": the key's own
	NoKeyID   bool   // the header has no kid
	Algorithm string // "": the current key's
	Type      string // header typ; "": JWT
}

// Token mints a token, or ends the test.
func (p *Provider) Token(t testing.TB, spec TokenSpec) string {
	t.Helper()
	token, err := p.Mint(spec)
	if err != nil {
		t.Fatalf("mint a token: %v", err)
	}
	return token
}

// Mint is Token for goroutines that are not the test's own.
func (p *Provider) Mint(spec TokenSpec) (string, error) {
	body := map[string]any{"audience": spec.Audience, "scopes": spec.Scopes, "id_token": spec.IDToken, "alg": spec.Algorithm, "typ": spec.Type}
	if spec.Subject != "" {
		body["subject"] = spec.Subject
	}
	if !spec.NoExpiry {
		ttl := spec.TTL
		if ttl == 0 {
			ttl = time.Hour
		}
		body["ttl_seconds"] = ttl.Seconds()
	}
	claims := map[string]any{}
	if spec.NotBefore != 0 {
		claims["nbf"] = time.Now().Add(spec.NotBefore).Unix()
	}
	if spec.Issuer != "" {
		claims["iss"] = spec.Issuer
	}
	maps.Copy(claims, spec.Claims)
	body["claims"] = claims
	switch {
	case spec.NoKeyID:
		body["kid"] = ""
	case spec.KeyID != "":
		body["kid"] = spec.KeyID
	}
	var out struct {
		Token string `json:"token"`
	}
	err := p.ask(http.MethodPost, "token", body, &out)
	return out.Token, err
}

// Rotate publishes a new key, signs with it from now on, and returns its id. Older keys stay published.
func (p *Provider) Rotate() string {
	p.t.Helper()
	var out struct {
		KID string `json:"kid"`
	}
	p.must("rotate", struct{}{}, &out)
	return out.KID
}

// Retire takes all keys but the current one from the key set.
func (p *Provider) Retire() {
	p.t.Helper()
	p.must("retire", struct{}{}, nil)
}

// Counts is how often the endpoints were asked since the provider started, answered or not.
type Counts struct {
	JWKS      int            `json:"jwks"`
	Token     int            `json:"token"`
	Discovery int            `json:"discovery"`
	ByGrant   map[string]int `json:"by_grant"` // of Token; ClientCredentials, TokenExchange
}

// Counts returns what was counted.
func (p *Provider) Counts() Counts {
	p.t.Helper()
	var out Counts
	if err := p.ask(http.MethodGet, "counts", nil, &out); err != nil {
		p.t.Fatalf("control counts: %v", err)
	}
	return out
}

// Faults are how the provider misbehaves; the zero value is not at all.
type Faults struct {
	JWKS, Token, Discovery int           // HTTP statuses to answer with
	RedirectToken          string        // where the token endpoint redirects to, with a 307 that keeps the body
	Delay                  time.Duration // of all three, in whole milliseconds
}

// Fail makes the provider misbehave in this way alone.
func (p *Provider) Fail(f Faults) {
	p.t.Helper()
	p.must("fail", map[string]any{
		"jwks": f.JWKS, "token": f.Token, "discovery": f.Discovery,
		"redirect_token": f.RedirectToken, "delay_ms": f.Delay.Milliseconds(),
	}, nil)
}

// Client registers a client that may use these grants, or replaces it.
func (p *Provider) Client(id, secret string, grants ...string) {
	p.t.Helper()
	p.must("client", map[string]any{"id": id, "secret": secret, "grants": grants}, nil)
}

// Lifetime is how long tokens live that the token endpoint issues from now on; at first five minutes.
func (p *Provider) Lifetime(d time.Duration) {
	p.t.Helper()
	p.must("lifetime", map[string]any{"seconds": d.Seconds()}, nil)
}

// Key is what the world knows of the current signing key.
type Key struct {
	ID        string          `json:"kid"`
	Algorithm string          `json:"alg"`
	PEM       string          `json:"pem"`
	JWK       json.RawMessage `json:"jwk"`
	Public    crypto.PublicKey
}

// Key returns the current key's public half.
func (p *Provider) Key() Key {
	p.t.Helper()
	var out Key
	p.must("key", struct{}{}, &out)
	block, _ := pem.Decode([]byte(out.PEM))
	if block == nil {
		p.t.Fatalf("the key is no PEM: %q", out.PEM)
	}
	var err error
	if out.Public, err = x509.ParsePKIXPublicKey(block.Bytes); err != nil {
		p.t.Fatal(err)
	}
	return out
}

func (p *Provider) must(what string, in, out any) {
	p.t.Helper()
	if err := p.ask(http.MethodPost, what, in, out); err != nil {
		p.t.Fatalf("control %s: %v", what, err)
	}
}

// ask sends one command to the control endpoints; out may be nil.
func (p *Provider) ask(verb, what string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	if in == nil {
		body = nil
	}
	r, err := http.NewRequest(verb, p.issuer+"/control/"+what, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := p.control.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("HTTP %d: %s", resp.StatusCode, raw)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(raw, out)
}
