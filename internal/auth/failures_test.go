package auth

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
)

// forged is a token of a known key id with a signature that does not hold.
func forged(idp *provider, id any) string {
	return sign(ecOther(), header("ES256", "e1"), idp.claims("jti", fmt.Sprint(id)))
}

func TestForgedTokensDoNotLockOutGoodOnesOfTheSameSource(t *testing.T) {
	idp := newProvider(t, ec1())
	a := start(t, Options{Issuers: []Issuer{idp.entry()}})
	var all sync.WaitGroup
	var limited atomic.Int64
	for w := range 8 {
		all.Go(func() {
			for i := range 100 {
				_, err := identify(a, forged(idp, fmt.Sprint(w, "-", i)))
				if err == nil {
					t.Error("let in")
				}
				if err == error(refusedLimited) {
					limited.Add(1)
				}
				if _, err := identify(a, good(idp, "jti", fmt.Sprint(w, "-", i))); err != nil {
					t.Errorf("a good token behind the same address: %v", err)
				}
			}
		})
	}
	all.Wait()
	if n := limited.Load(); n != 0 {
		t.Errorf("%d were not looked at", n)
	}
}

func TestOnlySignaturesThatDoNotHoldCountAgainstTheirSource(t *testing.T) {
	idp := newProvider(t, ec1())
	a := start(t, Options{Issuers: []Issuer{idp.entry()}})
	once := forged(idp, "once")
	for i := range 100 {
		for _, raw := range []string{once, "rubbish", good(idp, "exp", 1), good(idp, "aud", "x"), sign(ecKey(), header("ES256", fmt.Sprint(i)), idp.claims())} {
			if _, err := identify(a, raw); err == nil {
				t.Fatal("let in")
			}
		}
	}
	// The forged one counts again after the one reading for unknown ids.
	l, known := a.failures.sources.GetIfPresent("192.0.2.1")
	if !known || l.Tokens() < failuresBurst-2.5 {
		t.Errorf("%v failures left", l.Tokens())
	}
}

func TestSourcesThatFailedTooOftenTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFailures()
		for i := range failuresBurst {
			queued, ok := f.enter("192.0.2.1")
			if queued || !ok {
				t.Fatalf("failure %d: queued %v, ok %v", i, queued, ok)
			}
			f.leave("192.0.2.1", queued, true)
		}
		queued, ok := f.enter("192.0.2.1")
		if !queued || !ok {
			t.Fatal("it need not queue")
		}
		if q, ok := f.enter("192.0.2.2"); q || !ok {
			t.Error("another source has to queue")
		}
		// Another penalized source waits for the same turn, not for long.
		for range failuresBurst {
			f.leave("192.0.2.3", false, true)
		}
		begun := time.Now()
		if _, ok := f.enter("192.0.2.3"); ok || time.Since(begun) != time.Second {
			t.Errorf("ok %v after %v", ok, time.Since(begun))
		}
		// The queue has an end.
		for range failuresBurst {
			f.leave("192.0.2.1", false, true)
			f.leave("192.0.2.3", false, true)
		}
		var all sync.WaitGroup
		for range maxTurns {
			all.Go(func() {
				if q, ok := f.enter("192.0.2.3"); ok {
					f.leave("192.0.2.3", q, false)
				}
			})
		}
		synctest.Wait()
		if _, ok := f.enter("192.0.2.3"); ok {
			t.Error("the queue has no end")
		}
		f.leave("192.0.2.1", queued, false)
		all.Wait()
		if len(f.turn) != 0 || f.waiting.Load() != 0 {
			t.Error("a turn is not given back")
		}
		time.Sleep(30 * time.Second)
		if q, ok := f.enter("192.0.2.1"); q || !ok {
			t.Error("it is not forgotten")
		}
	})
}

func TestAFullQueueIsRefusedWithAPauseAndNotAs401(t *testing.T) {
	idp := newProvider(t, ec1())
	a := start(t, Options{Issuers: []Issuer{idp.entry()}})
	if _, err := identify(a, good(idp, "jti", "t2")); err != nil {
		t.Fatal(err)
	}
	for range 2 * failuresBurst {
		a.failures.leave("192.0.2.1", false, true)
	}
	a.failures.turn <- struct{}{} // somebody takes long
	p, err := identify(a, good(idp))
	r := refusalOf(t, p, err)
	if r.Fault.Code != fault.RateLimited || r.Fault.RetryAfter != time.Second || r.Kind != "" {
		t.Errorf("%v", r)
	}
	<-a.failures.turn
	if _, err := identify(a, good(idp)); err != nil {
		t.Error(err)
	}
}

func TestSourcesAreAddressesOrNetworksOfOneCustomer(t *testing.T) {
	for in, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1", "2001:db8:1:2:3::4": "2001:db8:1:2::/64",
		"2001:db8:1:2:ffff::1": "2001:db8:1:2::/64", "fe80::1%eth0": "fe80::/64", "stdio": "stdio", "": "",
	} {
		if got := household(in); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
}

func TestManySourcesAreBounded(t *testing.T) {
	f := newFailures()
	for i := range 3 * maxSources {
		f.leave(fmt.Sprint("source", i), false, true)
	}
	f.sources.CleanUp()
	if n := f.sources.EstimatedSize(); n > maxSources {
		t.Errorf("%d sources are kept", n)
	}
}
