package idp_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/test/idp"
)

type form map[string]string

// ask is a client's request to the token endpoint; redirects are shown, not followed.
func ask(t *testing.T, p *idp.Provider, f form, id, secret string) (int, map[string]any) {
	t.Helper()
	values := url.Values{}
	for name, value := range f {
		values.Set(name, value)
	}
	r, err := http.NewRequest(http.MethodPost, p.TokenURL(), strings.NewReader(values.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth(url.QueryEscape(id), url.QueryEscape(secret))
	c := client(t)
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	answer := map[string]any{"location": resp.Header.Get("Location")}
	_ = json.Unmarshal(raw, &answer)
	return resp.StatusCode, answer
}

// exchange is the form of a token exchange.
func exchange(subject, audience string) form {
	return form{
		"grant_type": idp.TokenExchange, "subject_token": subject,
		"subject_token_type": "urn:ietf:params:oauth:token-type:access_token", "audience": audience,
	}
}

func TestClientCredentialsBuyATokenOfTheClient(t *testing.T) {
	t.Parallel()
	p := idp.Start(t, "-client", "flagged:f-secret:"+idp.ClientCredentials)
	p.Client("svc", "s3cret", idp.ClientCredentials)
	p.Lifetime(90 * time.Second)
	status, answer := ask(t, p, form{"grant_type": idp.ClientCredentials, "scope": "read write"}, "svc", "s3cret")
	token, _ := answer["access_token"].(string)
	if status != 200 || token == "" {
		t.Fatalf("HTTP %d %v", status, answer)
	}
	if err := verify(t, p, token); err != nil {
		t.Error(err)
	}
	_, claims, err := idp.Read(token)
	if err != nil {
		t.Fatal(err)
	}
	if claims["sub"] != "svc" || claims["client_id"] != "svc" || claims["scope"] != "read write" {
		t.Errorf("claims %v", claims)
	}
	if left := answer["expires_in"].(float64); left < 60 || left > 90 {
		t.Errorf("it lives for %v s", left)
	}
	if status, answer := ask(t, p, form{"grant_type": idp.ClientCredentials}, "flagged", "f-secret"); status != 200 {
		t.Errorf("the client of the flag: HTTP %d %v", status, answer)
	}
	if c := p.Counts(); c.Token != 2 || c.ByGrant[idp.ClientCredentials] != 2 {
		t.Errorf("counted %+v", c)
	}
}

func TestAnExchangedTokenIsForTheAudienceAndOfTheSubject(t *testing.T) {
	t.Parallel()
	p := idp.Start(t)
	p.Client("gw", "s3cret", idp.TokenExchange)
	subject := p.Token(t, caller)
	status, answer := ask(t, p, exchange(subject, "upstream-a"), "gw", "s3cret")
	token, _ := answer["access_token"].(string)
	if status != 200 || token == "" || token == subject {
		t.Fatalf("HTTP %d %v", status, answer)
	}
	if answer["issued_token_type"] != "urn:ietf:params:oauth:token-type:access_token" || answer["token_type"] != "Bearer" || answer["refresh_token"] != nil {
		t.Errorf("%v", answer)
	}
	if err := verify(t, p, token); err != nil {
		t.Error(err)
	}
	_, claims, err := idp.Read(token)
	if err != nil {
		t.Fatal(err)
	}
	if claims["sub"] != "alice" || fmt.Sprint(claims["aud"]) != "[upstream-a]" || claims["client_id"] != "gw" || fmt.Sprint(claims["act"]) != "map[sub:gw]" {
		t.Errorf("claims %v", claims)
	}
	if c := p.Counts(); c.ByGrant[idp.TokenExchange] != 1 {
		t.Errorf("counted %+v", c)
	}
}

func TestTheTokenEndpointRefusesWhatItShould(t *testing.T) {
	t.Parallel()
	p := idp.Start(t)
	p.Client("gw", "s3cret", idp.TokenExchange)
	p.Client("svc", "s3cret", idp.ClientCredentials)
	key := p.Key()
	good := p.Token(t, caller)
	_, claims, err := idp.Read(good)
	if err != nil {
		t.Fatal(err)
	}
	with := func(change func(*idp.TokenSpec)) string {
		spec := caller
		change(&spec)
		return p.Token(t, spec)
	}
	other := idp.Start(t)
	idToken := exchange(good, "a")
	idToken["requested_token_type"] = "urn:ietf:params:oauth:token-type:id_token"
	for name, test := range map[string]struct {
		form       form
		id, secret string
	}{
		"a wrong secret":                  {form{"grant_type": idp.ClientCredentials}, "svc", "wrong"},
		"an unknown client":               {form{"grant_type": idp.ClientCredentials}, "nobody", "s3cret"},
		"a grant that is not its own":     {form{"grant_type": idp.ClientCredentials}, "gw", "s3cret"},
		"an exchange that is not its own": {exchange(good, "a"), "svc", "s3cret"},
		"an exchange with a wrong secret": {exchange(good, "a"), "gw", "wrong"},
		"garbage":                         {exchange("garbage", "a"), "gw", "s3cret"},
		"no subject token":                {exchange("", "a"), "gw", "s3cret"},
		"expired":                         {exchange(with(func(s *idp.TokenSpec) { s.TTL = -time.Minute }), "a"), "gw", "s3cret"},
		"of another issuer":               {exchange(other.Token(t, caller), "a"), "gw", "s3cret"},
		"that names another issuer":       {exchange(with(func(s *idp.TokenSpec) { s.Issuer = "https://else" }), "a"), "gw", "s3cret"},
		"of nobody":                       {exchange(with(func(s *idp.TokenSpec) { s.Subject = "" }), "a"), "gw", "s3cret"},
		"under an unknown key":            {exchange(with(func(s *idp.TokenSpec) { s.KeyID = "unknown" }), "a"), "gw", "s3cret"},
		"by a stranger":                   {exchange(idp.Stranger(key.ID, claims), "a"), "gw", "s3cret"},
		"unsigned":                        {exchange(idp.Unsigned(key.ID, claims), "a"), "gw", "s3cret"},
		"for an ID token":                 {idToken, "gw", "s3cret"},
		"an unknown grant":                {form{"grant_type": "password"}, "gw", "s3cret"},
	} {
		status, answer := ask(t, p, test.form, test.id, test.secret)
		if status != 400 && status != 401 || answer["error"] == nil || answer["access_token"] != nil {
			t.Errorf("%s: HTTP %d %v", name, status, answer)
		}
	}
	if status, answer := ask(t, p, exchange(good, "a"), "gw", "s3cret"); status != 200 {
		t.Errorf("the good one: HTTP %d %v", status, answer)
	}
	p.Rotate()
	p.Retire()
	if status, answer := ask(t, p, exchange(good, "a"), "gw", "s3cret"); status != 400 {
		t.Errorf("under a retired key: HTTP %d %v", status, answer)
	}
}

func TestFaultsAreDoneAndCountedAndTakenBack(t *testing.T) {
	t.Parallel()
	var followed atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Add(1) }))
	t.Cleanup(elsewhere.Close)
	p := idp.Start(t)
	p.Client("svc", "s3cret", idp.ClientCredentials)
	buy := func() (int, map[string]any) {
		return ask(t, p, form{"grant_type": idp.ClientCredentials}, "svc", "s3cret")
	}
	status := func(url string) int {
		resp, err := client(t).Get(url)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	p.Fail(idp.Faults{JWKS: 503, Token: 500, Discovery: 404})
	if s, _ := buy(); s != 500 || status(p.JWKSURL()) != 503 || status(p.DiscoveryURL()) != 404 {
		t.Errorf("they were not done: %d", s)
	}
	p.Fail(idp.Faults{RedirectToken: elsewhere.URL})
	if s, answer := buy(); s != http.StatusTemporaryRedirect || answer["location"] != elsewhere.URL || followed.Load() != 0 {
		t.Errorf("HTTP %d %v", s, answer)
	}
	p.Fail(idp.Faults{Delay: 50 * time.Millisecond})
	begun := time.Now()
	if s, _ := buy(); s != 200 || time.Since(begun) < 50*time.Millisecond {
		t.Errorf("HTTP %d after %v", s, time.Since(begun))
	}
	p.Fail(idp.Faults{})
	if s, _ := buy(); s != 200 || status(p.JWKSURL()) != 200 {
		t.Errorf("they were not taken back: %d", s)
	}
	c := p.Counts()
	if c.Token != 4 || c.JWKS != 2 || c.Discovery != 1 || c.ByGrant[idp.ClientCredentials] != 4 {
		t.Errorf("counted %+v", c)
	}
}
