package auth

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

// clock is a time that a test moves.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time          { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *clock) advance(d time.Duration) { c.ahead.Add(int64(d)) }

func TestAVerifiedTokenIsRememberedForAMinuteAndNeverBeyondItsExpiry(t *testing.T) {
	idp := newProvider(t, ec1())
	c := new(clock)
	a := start(t, Options{Issuers: []Issuer{idp.entry()}, Now: c.now})
	long, short := good(idp), good(idp, "exp", time.Now().Unix()+300, "jti", "t2")
	first, err := identify(a, long)
	if err != nil {
		t.Fatal(err)
	}
	c.advance(30 * time.Second)
	if p, _ := identify(a, long); p != first {
		t.Error("it is forgotten after half a minute")
	}
	c.advance(31 * time.Second)
	second, err := identify(a, long)
	if err != nil || second == first {
		t.Errorf("it is remembered for more than a minute: %v", err)
	}
	c.advance(200 * time.Second)
	p, err := identify(a, short)
	if err != nil || a.Check(p) != nil {
		t.Fatal(err)
	}
	c.advance(45 * time.Second)
	got, err := identify(a, short)
	if r := refusalOf(t, got, err); r != refusedExpired {
		t.Errorf("%v", r)
	}
	if r := a.check(p); r != refusedExpired {
		t.Errorf("a stream of it: %v", r)
	}
}

func TestARepeatedForgeryIsCheckedOnce(t *testing.T) {
	idp := newProvider(t, ec1())
	c := new(clock)
	a := start(t, Options{Issuers: []Issuer{idp.entry()}, Now: c.now})
	raw := forged(idp, 1)
	checked := func() float64 {
		l, _ := a.failures.sources.GetIfPresent("192.0.2.1")
		return failuresBurst - l.TokensAt(time.Now())
	}
	if _, err := identify(a, raw); err == nil {
		t.Fatal("let in")
	}
	before := checked()
	for range 15 {
		got, err := identify(a, raw)
		if r := refusalOf(t, got, err); r != refusedSignature {
			t.Errorf("%v", r)
		}
	}
	if after := checked(); after > before {
		t.Errorf("checked again: %v, then %v", before, after)
	}
	c.advance(11 * time.Second)
	for range 3 { // remembered for a while only
		if _, err := identify(a, raw); err == nil {
			t.Fatal("let in")
		}
	}
	if _, ok := a.remembered.bad.GetIfPresent(hashOf(raw)); !ok {
		t.Error("it is not remembered anew")
	}
}

func TestAFloodOfForgeriesPushesOutNoGoodToken(t *testing.T) {
	r := newRemembered()
	now := time.Now()
	good := hashOf("good")
	p := &Principal{Expires: now.Add(time.Hour), signed: new(signingKey)}
	r.keep(good, p, now)
	for i := range 3 * maxRefused {
		r.refuse(hashOf(fmt.Sprint(i)), now, new(keySet), nil)
	}
	r.bad.CleanUp()
	if n := r.bad.EstimatedSize(); n > maxRefused {
		t.Errorf("%d refused tokens are kept", n)
	}
	if r.verified(good, now) != p {
		t.Error("the good one is gone")
	}
	for i := range 3 * maxVerified {
		r.keep(hashOf(fmt.Sprint(i)), p, now)
	}
	r.good.CleanUp()
	if n := r.good.EstimatedSize(); n > maxVerified {
		t.Errorf("%d verified tokens are kept", n)
	}
}
