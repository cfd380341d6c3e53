package auth

import (
	"crypto"
	"fmt"
	"net/http"
	"testing"
	"time"
)

func bench(b *testing.B, a *Authenticator, headers []http.Header) {
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if _, err := a.Identify(headers[i%len(headers)], "192.0.2.1"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkIdentify(b *testing.B) {
	idp := newProvider(b, ec1(), rsa1())
	// Nothing is remembered when every moment is a minute later, and the token lives.
	var tick time.Duration
	base := time.Now()
	a := start(b, Options{
		Issuers: []Issuer{idp.entry()}, APIKeys: []APIKey{{Name: "ci", Hash: hashOf("psk_key"), Subject: "bot"}},
	})
	b.Run("cached", func(b *testing.B) { bench(b, a, []http.Header{with("Bearer " + good(idp))}) })
	b.Run("cached/parallel", func(b *testing.B) {
		h := with("Bearer " + good(idp))
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := a.Identify(h, "192.0.2.1"); err != nil {
					b.Error(err)
				}
			}
		})
	})
	b.Run("key", func(b *testing.B) { bench(b, a, []http.Header{with("Bearer psk_key")}) })
	a.now = func() time.Time { tick += 2 * verifiedFor; return base.Add(tick) }
	for alg, key := range map[string]crypto.Signer{"RS256": rsaKey(), "ES256": ecKey()} {
		kid := map[string]string{"RS256": "r1", "ES256": "e1"}[alg]
		b.Run(alg+"/uncached", func(b *testing.B) {
			bench(b, a, []http.Header{with("Bearer " + sign(key, header(alg, kid), idp.claims("exp", int64(lastDate))))})
		})
	}
	a.now = time.Now
	b.Run("forged/remembered", func(b *testing.B) {
		h := with("Bearer " + forged(idp, 1))
		b.ReportAllocs()
		for range b.N {
			if _, err := a.Identify(h, "192.0.2.1"); err == nil {
				b.Fatal("let in")
			}
		}
	})
	b.Run("unknown-id", func(b *testing.B) {
		var list []http.Header
		for i := range 100 {
			list = append(list, with("Bearer "+sign(ecKey(), header("ES256", fmt.Sprint("x", i)), idp.claims())))
		}
		b.ReportAllocs()
		b.ResetTimer()
		for i := range b.N {
			if _, err := a.Identify(list[i%100], "192.0.2.1"); err == nil {
				b.Fatal("let in")
			}
		}
	})
}

func TestIdentifyAllocatesNothingForWhatItKnows(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	idp := newProvider(t, ec1())
	o := &told{}
	a := start(t, Options{
		Issuers: []Issuer{idp.entry()}, APIKeys: []APIKey{{Name: "ci", Hash: hashOf("psk_key"), Subject: "bot", Scopes: []string{"mcp"}}},
		RequiredScopes: []string{"mcp"}, Outcome: o.tell,
	})
	token := good(idp)
	p, err := identify(a, token)
	if err != nil {
		t.Fatal(err)
	}
	for name, h := range map[string]http.Header{"token": with("Bearer " + token), "key": with("Bearer psk_key")} {
		if n := testing.AllocsPerRun(1000, func() {
			if _, err := a.Identify(h, "192.0.2.1"); err != nil {
				t.Error(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	if n := testing.AllocsPerRun(1000, func() {
		if err := a.Check(p); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("Check: %v allocations", n)
	}
}
