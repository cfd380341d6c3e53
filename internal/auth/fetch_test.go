package auth

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestAProviderThatMisbehavesTakesNothingFromWhatIsKnown(t *testing.T) {
	elsewhere := newProvider(t, published{kid: "evil", key: ecOther()})
	huge := append([]byte(`{"pad":"`+strings.Repeat("x", 2<<20)+`",`), keySetOf(ec1())[1:]...)
	for name, answer := range map[string]http.HandlerFunc{
		"redirects to another origin": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL+"/jwks", http.StatusFound)
		},
		"redirects for ever":     func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/jwks", http.StatusFound) },
		"is huge":                func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(huge) },
		"answers rubbish":        func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>sign in</html>")) },
		"answers another object": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"error":"x"}`)) },
		"answers null":           func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`null`)) },
		"answers null keys":      func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"keys":null}`)) },
		"answers keys twice":     func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"keys":[],"keys":[]}`)) },
		"answers nothing":        func(http.ResponseWriter, *http.Request) {},
		"answers half":           func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(keySetOf(ec1())[:40]) },
		"fails":                  func(w http.ResponseWriter, _ *http.Request) { http.Error(w, string(keySetOf()), http.StatusBadGateway) },
		"hangs up":               func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			idp := newProvider(t, ec1())
			a := start(t, Options{Issuers: []Issuer{idp.entry()}})
			if _, err := identify(a, good(idp)); err != nil {
				t.Fatal(err)
			}
			idp.answers(answer)
			p, err := identify(a, sign(ecOther(), header("ES256", "evil"), idp.claims()))
			if r := refusalOf(t, p, err); r != refusedUnavailable {
				t.Errorf("an unknown key id: %v", r)
			}
			if strings.Contains(err.Error(), "127.0.0.1") {
				t.Error("the refusal names an address")
			}
			if _, err := identify(a, good(idp, "jti", "t2")); err != nil {
				t.Errorf("a known key: %v", err)
			}
		})
	}
	if n := elsewhere.fetches.Load(); n != 0 {
		t.Errorf("the other origin was asked %d times", n)
	}
}

func TestAProviderThatHangsHoldsUpOnlyThoseWhoNeedIt(t *testing.T) {
	idp := newProvider(t, ec1())
	a := start(t, Options{Issuers: []Issuer{idp.entry()}})
	if _, err := identify(a, good(idp)); err != nil {
		t.Fatal(err)
	}
	entered, release := make(chan struct{}), make(chan struct{})
	idp.answers(func(http.ResponseWriter, *http.Request) {
		close(entered)
		<-release
	})
	refused := make(chan error, 1)
	go func() {
		_, err := identify(a, sign(ecOther(), header("ES256", "e2"), idp.claims()))
		refused <- err
	}()
	<-entered
	for i := range 20 {
		if _, err := identify(a, good(idp, "jti", fmt.Sprint(i))); err != nil {
			t.Errorf("a known key: %v", err)
		}
	}
	select {
	case err := <-refused:
		t.Errorf("it did not wait: %v", err)
	default:
	}
	idp.answers(nil)
	close(release)
	if err := <-refused; err == nil {
		t.Error("let in")
	}
}

func TestARedirectWithinTheOriginIsFollowed(t *testing.T) {
	idp := newProvider(t, ec1())
	idp.answers(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "" {
			_, _ = w.Write(keySetOf(ec1()))
			return
		}
		http.Redirect(w, r, "/jwks?again", http.StatusFound)
	})
	a := start(t, Options{Issuers: []Issuer{idp.entry()}})
	if _, err := identify(a, good(idp)); err != nil {
		t.Error(err)
	}
}

func TestTheEnvironmentsProxyIsNotUsed(t *testing.T) {
	tr := ownClient().Transport.(*http.Transport)
	if tr.Proxy != nil {
		t.Error("a proxy may be used")
	}
	if tr.TLSClientConfig.MinVersion < 0x0303 || tr.TLSClientConfig.InsecureSkipVerify {
		t.Error("TLS is too weak")
	}
}

func TestKeysThatCannotVerifyArePassedOver(t *testing.T) {
	var doc struct{ Keys []json.RawMessage }
	if err := json.Unmarshal(keySetOf(ec1(), ec1(), rsa1(), published{kid: "s", key: rsaShort()}, published{kid: "enc", use: "enc", key: rsaKey()}), &doc); err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{
		`{"kty":"oct","kid":"e1","k":"c2VjcmV0"}`, `{"kty":"oct","alg":"HS256","k":"c2VjcmV0"}`, `{"kty":"AKP","alg":"ML-DSA-44","pub":"AAAA"}`,
		`{"kty":"EC","crv":"P-256","x":"AAAA","y":"AAAA","kid":"off"}`, `{"kty":"EC","crv":"secp256k1","x":"AA","y":"AA"}`,
		`{"kty":"RSA","n":"!!!","e":"AQAB"}`, `{"kty":"RSA"}`, `{"kty":"OKP","crv":"X25519","x":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}`, `{}`, `[]`, `7`,
		`{"kty":"RSA","kty":"EC"}`, `{"kid":5}`,
	} {
		doc.Keys = append(doc.Keys, json.RawMessage(other))
	}
	set, skipped, err := parseKeys(must(json.Marshal(map[string]any{"keys": doc.Keys[:len(doc.Keys)-2]})))
	if err != nil {
		// A name twice makes the whole document one that cannot be trusted.
		t.Fatal(err)
	}
	if len(set.all) != 2 || skipped != 13 {
		t.Errorf("%d keys, %d skipped", len(set.all), skipped)
	}
	if len(set.find("e1", "ES256")) != 1 || len(set.find("", "RS256")) != 1 || len(set.find("e1", "RS256")) != 0 {
		t.Error("the keys are not found by id and algorithm")
	}
}

func TestAPrivateKeyThatIsPublishedIsOnlyVerifiedWith(t *testing.T) {
	raw := fmt.Sprintf(`{"keys":[{"kty":"EC","kid":"e1","crv":"P-256","x":%q,"y":%q,"d":%q}]}`,
		b64(ecKey().X.FillBytes(make([]byte, 32))), b64(ecKey().Y.FillBytes(make([]byte, 32))), b64(must(ecKey().Bytes())))
	set, _, err := parseKeys([]byte(raw))
	if err != nil || len(set.find("e1", "ES256")) != 1 {
		t.Fatalf("%v", err)
	}
}

func TestAnIssuersKeysAreDiscovered(t *testing.T) {
	idp := newProvider(t, ec1())
	is := idp.entry()
	is.JWKSURL = ""
	a := start(t, Options{Issuers: []Issuer{is}})
	if _, err := identify(a, good(idp)); err != nil {
		t.Fatal(err)
	}
	if err := a.sets[0].read(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := idp.discovers.Load(); n != 1 {
		t.Errorf("discovered %d times", n)
	}
}

func TestMetadataIsLookedForInEveryPlaceAndBelievedForItsIssuerOnly(t *testing.T) {
	for place, ok := range map[string]bool{
		"/realm/.well-known/openid-configuration":         true,
		"/.well-known/openid-configuration/realm":         true,
		"/.well-known/oauth-authorization-server/realm":   true,
		"/realm/.well-known/oauth-authorization-server":   true,
		"/.well-known/openid-configuration":               false,
		"/.well-known/oauth-authorization-server/realm/x": false,
	} {
		t.Run(place, func(t *testing.T) {
			var asked atomic.Int64
			var srv *httptest.Server
			srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				if r.URL.Path != place {
					http.NotFound(w, r)
					return
				}
				_ = json.NewEncoder(w).Encode(map[string]any{"issuer": srv.URL + "/realm", "jwks_uri": srv.URL + "/k"})
			}))
			defer srv.Close()
			got, err := discover(t.Context(), homebound(ownClient()), srv.URL+"/realm")
			if (err == nil) != ok || ok && got != srv.URL+"/k" {
				t.Errorf("%q, %v", got, err)
			}
			if asked.Load() > 4 {
				t.Errorf("asked %d times", asked.Load())
			}
		})
	}
	for name, c := range map[string][3]string{
		"another issuer":       {"https://id.test", `{"issuer":"https://evil.test","jwks_uri":"https://id.test/k"}`, "is of issuer"},
		"a slash more":         {"https://id.test", `{"issuer":"https://id.test/","jwks_uri":"https://id.test/k"}`, "is of issuer"},
		"no keys":              {"https://id.test", `{"issuer":"https://id.test"}`, "jwks_uri"},
		"keys without TLS":     {"https://id.test", `{"issuer":"https://id.test","jwks_uri":"http://id.test/k"}`, "not https"},
		"keys on our loopback": {"https://id.test", `{"issuer":"https://id.test","jwks_uri":"http://127.0.0.1/k"}`, "not https"},
		"keys in a file":       {"https://id.test", `{"issuer":"https://id.test","jwks_uri":"file:///etc/passwd"}`, "not an absolute URL"},
		"issuer twice":         {"https://id.test", `{"issuer":"https://evil.test","issuer":"https://id.test","jwks_uri":"https://id.test/k"}`, "not valid JSON"},
		"rubbish":              {"https://id.test", `<html>`, "not valid JSON"},
	} {
		if got, err := keysOf([]byte(c[1]), c[0]); err == nil || !strings.Contains(err.Error(), c[2]) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	u, _ := url.Parse("https://id.test/")
	if got := places(u); !slices.Equal(got, []string{
		"https://id.test/.well-known/openid-configuration", "https://id.test/.well-known/oauth-authorization-server",
	}) {
		t.Errorf("%q", got)
	}
}

func TestRunEndsInTheMiddleOfAReading(t *testing.T) {
	idp := newProvider(t, ec1())
	entered := make(chan struct{})
	idp.answers(func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
	})
	a, err := New(Options{Issuers: []Issuer{idp.entry()}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	<-entered
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("it does not end")
	}
}
