package auth

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The keys are made once: RSA ones take long under the race detector.
var (
	rsaKey    = sync.OnceValue(func() *rsa.PrivateKey { return must(rsa.GenerateKey(rand.Reader, 2048)) })
	rsaOther  = sync.OnceValue(func() *rsa.PrivateKey { return must(rsa.GenerateKey(rand.Reader, 2048)) })
	rsaShort  = sync.OnceValue(func() *rsa.PrivateKey { return must(rsa.GenerateKey(rand.Reader, 1024)) })
	ecKey     = sync.OnceValue(func() *ecdsa.PrivateKey { return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)) })
	ecOther   = sync.OnceValue(func() *ecdsa.PrivateKey { return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)) })
	ecLong    = sync.OnceValue(func() *ecdsa.PrivateKey { return must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader)) })
	edwardKey = sync.OnceValue(func() ed25519.PrivateKey { _, k, err := ed25519.GenerateKey(rand.Reader); return must(k, err) })
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// published is a public key as an issuer shows it.
type published struct {
	kid, alg, use string
	key           crypto.Signer
}

func keySetOf(list ...published) []byte {
	doc := jwkset.JWKSMarshal{Keys: []jwkset.JWKMarshal{}}
	for _, p := range list {
		opts := jwkset.JWKOptions{Metadata: jwkset.JWKMetadataOptions{KID: p.kid, ALG: jwkset.ALG(p.alg), USE: jwkset.USE(p.use)}}
		doc.Keys = append(doc.Keys, must(jwkset.NewJWKFromKey(p.key.Public(), opts)).Marshal())
	}
	return must(json.Marshal(doc))
}

// provider is a local identity provider whose answers a test can change.
type provider struct {
	*httptest.Server
	fetches   atomic.Int64 // of the key set
	discovers atomic.Int64
	mu        sync.Mutex
	keys      []byte
	answer    http.HandlerFunc // instead of the key set; nil: keys
}

func newProvider(t testing.TB, list ...published) *provider {
	p := &provider{keys: keySetOf(list...)}
	mux := http.NewServeMux()
	mux.HandleFunc("/jwks", func(w http.ResponseWriter, r *http.Request) {
		p.fetches.Add(1)
		p.mu.Lock()
		answer, keys := p.answer, p.keys
		p.mu.Unlock()
		if answer != nil {
			answer(w, r)
			return
		}
		_, _ = w.Write(keys)
	})
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		p.discovers.Add(1)
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": p.URL, "jwks_uri": p.URL + "/jwks", "token_endpoint": p.URL})
	})
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

func (p *provider) publish(list ...published) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys = keySetOf(list...)
}

func (p *provider) answers(h http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = h
}

func (p *provider) entry() Issuer {
	return Issuer{Issuer: p.URL, Audience: "penstock", JWKSURL: p.URL + "/jwks", Algorithms: []string{"RS256", "ES256"}}
}

// claims are those of a good token, changed by the pairs; a nil value takes one out.
func (p *provider) claims(pairs ...any) map[string]any {
	now := time.Now().Unix()
	c := map[string]any{
		"iss": p.URL, "sub": "alice", "aud": "penstock", "exp": now + 3600, "iat": now, "jti": "t1", "scope": "mcp read",
	}
	for i := 0; i < len(pairs); i += 2 {
		c[pairs[i].(string)] = pairs[i+1]
	}
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return c
}

func header(alg, kid string, pairs ...any) map[string]any {
	h := map[string]any{"alg": alg, "typ": "at+jwt", "kid": kid}
	for i := 0; i < len(pairs); i += 2 {
		h[pairs[i].(string)] = pairs[i+1]
	}
	maps.DeleteFunc(h, func(_ string, v any) bool { return v == nil || v == "" })
	return h
}

// sign makes a token of whatever header and claims, which are strings of JSON or
// are marshalled.
func sign(key crypto.Signer, h, c any) string {
	text := func(v any) string {
		if s, ok := v.(string); ok {
			return base64.RawURLEncoding.EncodeToString([]byte(s))
		}
		return base64.RawURLEncoding.EncodeToString(must(json.Marshal(v)))
	}
	signed := text(h) + "." + text(c)
	var m jwt.SigningMethod
	switch k := key.(type) {
	case *rsa.PrivateKey:
		m = jwt.SigningMethodRS256
	case *ecdsa.PrivateKey:
		m = map[int]jwt.SigningMethod{256: jwt.SigningMethodES256, 384: jwt.SigningMethodES384}[k.Params().BitSize]
	default:
		m = jwt.SigningMethodEdDSA
	}
	return signed + "." + base64.RawURLEncoding.EncodeToString(must(m.Sign(signed, key)))
}

func good(p *provider, pairs ...any) string {
	return sign(ecKey(), header("ES256", "e1"), p.claims(pairs...))
}

var (
	ec1  = func() published { return published{kid: "e1", alg: "ES256", use: "sig", key: ecKey()} }
	rsa1 = func() published { return published{kid: "r1", key: rsaKey()} }
)

// told counts what Outcome was told.
type told struct {
	mu sync.Mutex
	n  map[string]int
}

func (o *told) tell(word string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.n == nil {
		o.n = map[string]int{}
	}
	o.n[word]++
}

func (o *told) count(word string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.n[word]
}

// start runs an Authenticator until the test ends.
func start(t testing.TB, o Options) *Authenticator {
	t.Helper()
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	run(t, a)
	return a
}

func run(t testing.TB, a *Authenticator) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func with(values ...string) http.Header { return http.Header{"Authorization": values} }

func identify(a *Authenticator, token string) (*Principal, error) {
	return a.Identify(with("Bearer "+token), "192.0.2.1")
}

// refusalOf returns the refusal, and fails the test if there is none.
func refusalOf(t testing.TB, p *Principal, err error) *Refusal {
	t.Helper()
	var r *Refusal
	if !errors.As(err, &r) || p != nil {
		t.Fatalf("got principal %v and error %v, want a refusal", p, err)
	}
	return r
}

func hashOf(key string) [32]byte { return sha256.Sum256([]byte(key)) }

// eventually waits for what happens in another goroutine.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// httptestServer stands for a provider without a network.
var httptestServer = httptest.Server{URL: "https://id.test"}

// cannedKeys answers every request with the same key set.
type cannedKeys struct {
	asked atomic.Int64
	fail  atomic.Bool
	keys  []byte
}

func newCanned(keys []byte) *cannedKeys { return &cannedKeys{keys: keys} }

func (c *cannedKeys) RoundTrip(*http.Request) (*http.Response, error) {
	c.asked.Add(1)
	if c.fail.Load() {
		return nil, errors.New("no route")
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(c.keys))}, nil
}

func rands() string { return rand.Text() }

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }
