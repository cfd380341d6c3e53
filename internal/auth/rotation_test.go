package auth

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestAnIssuerRotatesItsKeysUnderLoadWithoutOneRefusedRequest(t *testing.T) {
	idp := newProvider(t, ec1())
	a := start(t, Options{Issuers: []Issuer{idp.entry()}})
	var next atomic.Pointer[func(n int) string]
	old := func(n int) string { return good(idp, "jti", fmt.Sprint("old", n)) }
	fresh := func(n int) string {
		return sign(ecOther(), header("ES256", "e2"), idp.claims("jti", fmt.Sprint("new", n)))
	}
	next.Store(&old)
	var all sync.WaitGroup
	var served [2]atomic.Int64
	for w := range 8 {
		all.Go(func() {
			for i := range 150 {
				if w == 0 && i == 40 {
					// As issuers do: the new key is there before it signs, and the old one
					// as long as its tokens live.
					idp.publish(ec1(), published{kid: "e2", key: ecOther()})
					next.Store(&fresh)
				}
				raw := (*next.Load())(w*1000 + i/2) // each token twice
				p, err := a.Identify(with("Bearer "+raw), "192.0.2.1")
				if err != nil {
					t.Errorf("refused: %v", err)
					return
				}
				if p.Credential[:3] == "new" {
					served[1].Add(1)
				} else {
					served[0].Add(1)
				}
			}
		})
	}
	all.Wait()
	if served[0].Load() == 0 || served[1].Load() == 0 {
		t.Errorf("served %d with the old key and %d with the new", served[0].Load(), served[1].Load())
	}
	if n := idp.fetches.Load(); n != 2 {
		t.Errorf("%d readings of the key set, want 2", n)
	}
}

func TestAFloodOfUnknownKeyIDsReachesTheIssuerOnceAndHarmsNobody(t *testing.T) {
	idp := newProvider(t, ec1())
	o := &told{}
	a := start(t, Options{Issuers: []Issuer{idp.entry()}, Outcome: o.tell})
	steady := good(idp)
	body := strings.Split(steady, ".")[1:]
	begun := time.Now()
	var all sync.WaitGroup
	for w := range 10 {
		all.Go(func() {
			for i := range 1000 {
				head := fmt.Sprintf(`{"alg":"ES256","kid":"k%d-%d"}`, w, i)
				forged := b64([]byte(head)) + "." + strings.Join(body, ".")
				if p, err := identify(a, forged); err == nil {
					t.Errorf("let in: %v", p)
				}
				if i%20 != 0 {
					continue
				}
				// From the same address: remembered ones, and ones never seen before.
				for _, raw := range []string{steady, good(idp, "jti", fmt.Sprint(w, i))} {
					if _, err := identify(a, raw); err != nil {
						t.Errorf("a good token is refused: %v", err)
					}
				}
			}
		})
	}
	all.Wait()
	// A machine that takes more than half a minute for this may ask again.
	if n := idp.fetches.Load(); n > 2+int64(time.Since(begun)/seldom) {
		t.Errorf("the issuer was asked %d times for its keys", n)
	}
	if n := o.count("unknown_key"); n != 10_000 {
		t.Errorf("%d of 10000 were refused for their key", n)
	}
}

func TestKeysThatAreKnownOutliveTheirProvider(t *testing.T) {
	idp := newProvider(t, ec1())
	a := start(t, Options{Issuers: []Issuer{idp.entry()}})
	for i := range 50 {
		if i == 25 {
			idp.Server.Close()
		}
		if _, err := identify(a, good(idp, "jti", fmt.Sprint(i))); err != nil {
			t.Fatalf("token %d: %v", i, err)
		}
	}
	// Nobody can say now whether this key is the issuer's.
	p, err := identify(a, sign(ecOther(), header("ES256", "e2"), idp.claims()))
	if r := refusalOf(t, p, err); r != refusedUnavailable || r.Kind != "" || r.Fault.RetryAfter == 0 {
		t.Errorf("an unknown key id while the issuer is away: %v", r)
	}
}

func TestAReloadWhileTheProviderIsAwayKeepsItsKeys(t *testing.T) {
	idp := newProvider(t, ec1())
	was := start(t, Options{Issuers: []Issuer{idp.entry()}})
	p, err := identify(was, good(idp))
	if err != nil {
		t.Fatal(err)
	}
	idp.Server.Close()
	a, err := New(Options{Issuers: []Issuer{idp.entry()}})
	if err != nil {
		t.Fatal(err)
	}
	a.Inherit(was)
	run(t, a)
	if _, err := identify(a, good(idp)); err != nil {
		t.Error(err)
	}
	if err := a.Check(p); err != nil {
		t.Error(err)
	}
}

func TestAKeyThatIsTakenBackEndsWhatItSigned(t *testing.T) {
	idp := newProvider(t, ec1(), rsa1())
	a := start(t, Options{Issuers: []Issuer{idp.entry()}})
	raw, kept := good(idp), sign(rsaKey(), header("RS256", "r1"), idp.claims())
	p, err := identify(a, raw)
	if err != nil {
		t.Fatal(err)
	}
	stays, err := identify(a, kept)
	if err != nil {
		t.Fatal(err)
	}
	idp.publish(rsa1(), published{kid: "e2", key: ecOther()})
	if _, err := identify(a, sign(ecOther(), header("ES256", "e2"), idp.claims())); err != nil {
		t.Fatal(err)
	}
	got, err := identify(a, raw)
	if r := refusalOf(t, got, err); r != refusedUnknown {
		t.Errorf("%v", r)
	}
	if r := a.check(p); r != refusedWithdrawn {
		t.Errorf("a stream of it: %v", r)
	}
	if again, err := identify(a, kept); again != stays || a.Check(stays) != nil {
		t.Errorf("a token of a key that stays is verified anew: %v", err)
	}
	idp.publish()
	if err := a.sets[0].read(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p, err := identify(a, kept); err == nil {
		t.Errorf("an issuer without keys vouches for %v", p)
	}
}

func TestAKeyUnderTheSameIDIsAnotherKey(t *testing.T) {
	idp := newProvider(t, ec1())
	a := start(t, Options{Issuers: []Issuer{idp.entry()}})
	raw := sign(ecOther(), header("ES256", "e1"), idp.claims())
	if _, err := identify(a, raw); err == nil {
		t.Fatal("let in")
	}
	idp.publish(published{kid: "e1", key: ecOther()})
	if err := a.sets[0].read(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The refusal that is remembered is of the old key.
	if _, err := identify(a, raw); err != nil {
		t.Error(err)
	}
}

func TestAnIssuerWithoutKeyIDsMayRotateToo(t *testing.T) {
	idp := newProvider(t, published{key: ecKey()})
	a := start(t, Options{Issuers: []Issuer{idp.entry()}})
	if _, err := identify(a, sign(ecKey(), header("ES256", ""), idp.claims())); err != nil {
		t.Fatal(err)
	}
	idp.publish(published{key: ecOther()})
	if _, err := identify(a, sign(ecOther(), header("ES256", ""), idp.claims())); err != nil {
		t.Error(err)
	}
	idp.publish(published{key: ecOther()}, published{key: ecKey()})
	if err := a.sets[0].read(t.Context()); err != nil {
		t.Fatal(err)
	}
	p, err := identify(a, sign(ecOther(), header("ES256", ""), idp.claims("jti", "t2")))
	if r := refusalOf(t, p, err); r != refusedNameless {
		t.Errorf("with two keys: %v", r)
	}
	if n := idp.fetches.Load(); n != 3 {
		t.Errorf("%d readings", n)
	}
}

func TestTheKeySetIsReadHourlyAndSeldomForUnknownIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		idp := &provider{Server: &httptestServer}
		c := newCanned(keySetOf(ec1()))
		is := Issuer{Issuer: "https://id.test", Audience: "penstock", JWKSURL: "https://id.test/jwks", Algorithms: []string{"ES256"}}
		a, err := New(Options{Issuers: []Issuer{is}, HTTP: &http.Client{Transport: c}})
		if err != nil {
			t.Fatal(err)
		}
		stop := run(t, a)
		defer stop()
		synctest.Wait()
		if n := c.asked.Load(); n != 1 {
			t.Fatalf("%d readings at the start", n)
		}
		unknown := func() {
			t.Helper()
			if p, err := identify(a, sign(edwardKey(), header("ES256", rands()), idp.claims("exp", time.Now().Add(time.Hour).Unix(), "iat", nil))); err == nil {
				t.Errorf("let in: %v", p)
			}
		}
		for i, want := range []int64{2, 2, 2, 3} { // at 0, 10, 20 and 30 s
			if i > 0 {
				time.Sleep(10 * time.Second)
			}
			unknown()
			if n := c.asked.Load(); n != want {
				t.Errorf("%d readings after %d unknown ids, want %d", n, i+1, want)
			}
		}
		before := c.asked.Load()
		time.Sleep(24 * time.Hour)
		if n := c.asked.Load() - before; n < 23 || n > 28 {
			t.Errorf("%d readings a day", n)
		}
	})
}

func TestARequestWaitsForTheFirstKeysButNotForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		idp := &provider{Server: &httptestServer}
		c := newCanned(keySetOf(ec1()))
		c.fail.Store(true)
		is := Issuer{Issuer: "https://id.test", Audience: "penstock", JWKSURL: "https://id.test/jwks", Algorithms: []string{"ES256"}}
		a, err := New(Options{Issuers: []Issuer{is}, HTTP: &http.Client{Transport: c}})
		if err != nil {
			t.Fatal(err)
		}
		stop := run(t, a)
		defer stop()
		raw := good(idp, "exp", time.Now().Add(time.Hour).Unix(), "iat", nil)
		begun := time.Now()
		p, err := identify(a, raw)
		if r := refusalOf(t, p, err); r != refusedUnavailable || time.Since(begun) != 5*time.Second {
			t.Errorf("after %v: %v", time.Since(begun), r)
		}
		go func() {
			time.Sleep(time.Second)
			c.fail.Store(false)
		}()
		// Whatever the backoff has come to, a later request is served.
		begun = time.Now()
		for err = error(refusedUnavailable); err != nil; _, err = identify(a, raw) {
			if time.Since(begun) > 2*time.Minute {
				t.Fatal("the keys are not read")
			}
		}
		// Many failures are few requests.
		c.fail.Store(true)
		before := c.asked.Load()
		time.Sleep(3 * time.Hour)
		if n := c.asked.Load() - before; n < 60 || n > 400 {
			t.Errorf("%d readings in three hours of failure", n)
		}
		if _, err := identify(a, raw); err == nil {
			t.Error("an expired token is let in")
		}
		stop()
		begun = time.Now()
		p, err = identify(a, sign(ecOther(), header("ES256", "later"), idp.claims("exp", time.Now().Add(time.Hour).Unix(), "iat", nil)))
		if r := refusalOf(t, p, err); r != refusedUnavailable || time.Since(begun) > 0 {
			t.Errorf("after the end, %v: %v", time.Since(begun), r)
		}
	})
}

func TestOnlySoManyRequestsWaitForAKeySet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newKeySet("i", "https://id.test", nil, nil)
		var all sync.WaitGroup
		for range maxParked {
			all.Go(func() { s.park(s.first) })
		}
		synctest.Wait()
		begun := time.Now()
		if _, _, r := s.lookup("k", "ES256"); r != refusedUnavailable || time.Since(begun) > 0 {
			t.Errorf("one more waits %v: %v", time.Since(begun), r)
		}
		all.Wait()
	})
}
