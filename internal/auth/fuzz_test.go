package auth

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"pgregory.net/rapid"
)

func FuzzBearer(f *testing.F) {
	for _, s := range []string{"Bearer abc", "bearer  a.b-c_~+/==", "Basic x", "Bearer", "Bearer a b", "Bearer a,b", "", "\x00", "Bearer a=b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		raw, r := bearer([]string{s})
		if (r == nil) == (raw == "") {
			t.Fatalf("%q: token %q, refusal %v", s, raw, r)
		}
		if r != nil {
			return
		}
		// What is taken is the whole rest of the value, and harmless in a header.
		if !strings.HasSuffix(s, " "+raw) || !strings.EqualFold(strings.TrimRight(strings.TrimSuffix(s, raw), " "), "bearer") || len(raw) > maxBearer+len(" ") {
			t.Errorf("%q: token %q", s, raw)
		}
		if strings.ContainsAny(raw, " ,\"\\\r\n\t;") {
			t.Errorf("token %q", raw)
		}
		if _, r := bearer([]string{s, s}); r != refusedTwice {
			t.Errorf("twice: %v", r)
		}
	})
}

// FuzzToken holds the parser to what two others read: whatever it takes, they
// must read the same.
func FuzzToken(f *testing.F) {
	parts := func(h, c string) string {
		return b64([]byte(h)) + "." + b64([]byte(c)) + "." + b64([]byte("signature"))
	}
	const head, body = `{"alg":"RS256","kid":"k"}`, `{"iss":"i","sub":"s","exp":4102444800,"aud":["a"],"jti":"j"}`
	for _, s := range []string{
		parts(head, body), parts(`{"alg":"none"}`, body), parts(head, `{"iss":"i","iss":"j"}`), parts(head, `{"exp":1e3}`), "a.b.c", "..", "",
		parts(head, `{"iss":"i","sub":"s","exp":1.5e9,"x":{"y":[1,null,true,-0.0]}}`), parts(head, "[]"), parts(`{"alg":"RS256","ALG":"none"}`, body),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		w, r := parse(raw, []string{"RS256"})
		if (r == nil) != (w != nil) {
			t.Fatalf("token %v, refusal %v", w, r)
		}
		if r != nil {
			return
		}
		var claims jwt.MapClaims
		other, _, err := jwt.NewParser().ParseUnverified(raw, &claims)
		if err != nil {
			t.Fatalf("taken, but %v", err)
		}
		if other.Header["alg"] != "RS256" || w.algorithm != "RS256" {
			t.Errorf("algorithm %v and %v", w.algorithm, other.Header["alg"])
		}
		if kid, _ := other.Header["kid"].(string); kid != w.keyID {
			t.Errorf("key id %q and %q", w.keyID, kid)
		}
		sub, _ := claims.GetSubject()
		iss, _ := claims.GetIssuer()
		exp, _ := claims.GetExpirationTime()
		if sub != w.subject || iss != w.issuer || exp.Unix() != w.expires.Unix() {
			t.Errorf("%q %q %v and %q %q %v", w.subject, w.issuer, w.expires, sub, iss, exp)
		}
		if w.subject == "" || w.expires.IsZero() {
			t.Error("taken without subject or expiry")
		}
		if w.signed+"."+base64.RawURLEncoding.EncodeToString(w.signature) != raw {
			t.Error("the signed part is not the token's")
		}
	})
}

func FuzzKeySet(f *testing.F) {
	f.Add([]byte(`{"keys":[]}`))
	f.Add([]byte(`{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"},{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]}`))
	f.Add(keySetOf(ec1(), published{kid: "d", key: edwardKey()}))
	f.Fuzz(func(t *testing.T, raw []byte) {
		set, _, err := parseKeys(raw)
		if err != nil {
			return
		}
		for _, k := range set.all {
			if !set.holds(k) || k.id != "" && len(set.byID[k.id]) == 0 {
				t.Error("a key is not found")
			}
			for alg := range algorithms {
				if k.fits(alg) && k.verify(&webToken{algorithm: alg, signed: "a.b", signature: []byte("x")}) {
					t.Error("anything verifies")
				}
			}
		}
		if gone := must2(parseKeys(raw)).succeed(set); len(gone) != 0 {
			t.Errorf("%d keys of the same document are gone", len(gone))
		}
	})
}

func must2[T any](v T, _ int, err error) T { return must(v, err) }

func TestClaimsDecodeExactly(t *testing.T) {
	for raw, want := range map[string]any{
		`0`: int64(0), `-0`: int64(0), `1.0`: int64(1), `1e3`: int64(1000), `1.5`: 1.5, `1e300`: 1e300, `-1.25e2`: int64(-125),
		`9223372036854775807`: int64(math.MaxInt64), `-9223372036854775808`: int64(math.MinInt64),
		`9223372036854775808`: float64(1 << 63), `9007199254740993`: int64(9007199254740993), `1e-400`: int64(0),
		`"a"`: "a", `null`: nil, `true`: true, `[]`: []any{}, `{}`: map[string]any{}, `[1,"\u00e9",{"a":false}]`: []any{int64(1), "é", map[string]any{"a": false}},
	} {
		m, err := object([]byte(`{"v":` + raw + `}`))
		if err != nil || !reflect.DeepEqual(m["v"], want) {
			t.Errorf("%s is %#v (%v), want %#v", raw, m["v"], err, want)
		}
	}
	for _, raw := range []string{
		``, ` `, `null`, `[]`, `"x"`, `{`, `{}x`, `{} {}`, `{"a":1,}`, `{"a":1,"a":1}`, `{"a":{"b":1,"\u0062":1}}`, "{\"a\":\"\xff\"}",
		`{"a":01}`, `{"a":1e999}`, `{"a":NaN}`, `{'a':1}`, `{"a":"\ud800"}`, `{"a":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`,
	} {
		if m, err := object([]byte(raw)); err == nil {
			t.Errorf("%q is %v", raw, m)
		}
	}
}

func TestWhateverNumberAClaimHasItsValueIsKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := string(must(json.Marshal(rapid.OneOf(rapid.Int64().AsAny(), rapid.Float64().AsAny()).Draw(t, "n"))))
		got, err := number(raw)
		if err != nil {
			t.Fatal(err)
		}
		want, _ := new(big.Float).SetPrec(2000).SetString(raw)
		var have *big.Float
		switch n := got.(type) {
		case int64:
			have = new(big.Float).SetPrec(2000).SetInt64(n)
		case float64:
			f, _ := want.Float64()
			if f != n {
				t.Fatalf("%s became %v", raw, n)
			}
			return
		}
		if f, _ := want.Float64(); have.Cmp(want) != 0 && have.Cmp(big.NewFloat(f)) != 0 {
			t.Fatalf("%s became %v", raw, got)
		}
	})
}

func TestDatesAreSecondsOfThisEra(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.Int64().AsAny(), rapid.Int64Range(0, lastDate).AsAny(), rapid.Float64().AsAny()).Draw(t, "n")
		at, ok := date(n)
		if ok && (at.Before(time.Unix(0, 0)) || at.Year() > 9999) {
			t.Fatalf("%v is %v", n, at)
		}
		if i, is := n.(int64); is && i >= 0 && i <= lastDate && (!ok || at.Unix() != i) {
			t.Fatalf("%d is %v, %v", i, at, ok)
		}
	})
	for _, v := range []any{"1", nil, true, math.NaN(), math.Inf(1), -1.5, int64(-1), []any{}} {
		if at, ok := date(v); ok {
			t.Errorf("%v is %v", v, at)
		}
	}
}

func TestEveryCredentialIsEitherGoodOrOneRefusal(t *testing.T) {
	idp := newProvider(t, ec1())
	o := &told{}
	a := start(t, Options{Issuers: []Issuer{idp.entry()}, Outcome: o.tell, APIKeys: []APIKey{{Name: "ci", Hash: hashOf("key"), Subject: "bot"}}})
	fine := good(idp)
	words := map[string]bool{}
	for _, w := range Outcomes() {
		words[w] = true
	}
	calls := 0
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.OneOf(
			rapid.SampledFrom([]string{"Bearer " + fine, "Bearer key", "bearer " + fine + "x", "Basic eA==", "", "Bearer " + fine[:20]}),
			rapid.StringMatching(`Bearer [a-zA-Z0-9._~+/=-]{0,80}`), rapid.String(),
		), 0, 3).Draw(t, "values")
		calls++
		p, err := a.Identify(map[string][]string{"Authorization": values}, rapid.SampledFrom([]string{"", "192.0.2.1", "::1"}).Draw(t, "source"))
		if (p == nil) == (err == nil) {
			t.Fatalf("%v, %v", p, err)
		}
		if r, is := err.(*Refusal); err != nil && (!is || r.Fault == nil) {
			t.Fatalf("%v is no refusal", err)
		}
		if p != nil && (len(values) != 1 || p.Subject != "alice" && p.Subject != "bot") {
			t.Fatalf("%q is %v", values, p)
		}
	})
	sum := 0
	for w, n := range o.n {
		if !words[w] {
			t.Errorf("outcome %q is not announced", w)
		}
		sum += n
	}
	if sum != calls {
		t.Errorf("%d outcomes of %d requests", sum, calls)
	}
}
