package governance_test

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/test/idp"
)

const workers = 8

// load runs f in every worker until stop is closed or the test has failed, with the worker's number and that of the turn.
// It returns how often, once all have ended.
func load(t *testing.T, stop <-chan struct{}, f func(worker, turn int)) (turns func() int64) {
	var all sync.WaitGroup
	var done atomic.Int64
	for w := range workers {
		all.Go(func() {
			for turn := 0; !t.Failed(); turn++ {
				select {
				case <-stop:
					return
				default:
				}
				f(w, turn)
				done.Add(1)
			}
		})
	}
	return func() int64 {
		all.Wait()
		return done.Load()
	}
}

// There is one rotation, as a key set is read again for unknown keys but seldom: providers rotate once in weeks.
func TestKeysRotateUnderLoadWithoutOneRefusal(t *testing.T) {
	t.Parallel()
	p, u := idp.Start(t), newUpstream(t)
	g := serve(t, document(p, u, ""))
	g.ready(t, p.Token(t, good))

	stop := make(chan struct{})
	turns := load(t, stop, func(worker, turn int) {
		spec := good
		spec.Subject = fmt.Sprintf("worker-%d", worker)
		token, err := p.Mint(spec)
		if err != nil {
			t.Errorf("mint: %v", err)
			return
		}
		if r := g.call("load", bearer(token)); !r.served() {
			t.Errorf("worker %d, turn %d: %v", worker, turn, r)
		}
	})
	time.Sleep(time.Second)
	p.Rotate()
	time.Sleep(time.Second)
	p.Retire()
	time.Sleep(time.Second)
	close(stop)
	if n := turns(); n < 3*workers {
		t.Errorf("only %d calls in three seconds prove little", n)
	}
	if c := p.Counts(); c.JWKS != 2 {
		t.Errorf("the keys were read %d times, once at the start and once for the new key were enough", c.JWKS)
	}
}

func TestAFloodOfUnknownKeyIDsReadsTheKeysOnceMoreAndLocksNobodyOut(t *testing.T) {
	t.Parallel()
	const flood = 10_000
	p, u := idp.Start(t), newUpstream(t)
	g := serve(t, document(p, u, ""))
	token := p.Token(t, good)
	g.ready(t, token)
	if c := p.Counts(); c.JWKS != 1 {
		t.Fatalf("the keys were read %d times for the start", c.JWKS)
	}

	began := time.Now()
	var next atomic.Int64
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for n := next.Add(1); n <= flood && !t.Failed(); n = next.Add(1) {
				bad, err := idp.Rename(token, fmt.Sprintf("unknown-%d", n))
				if err != nil {
					t.Error(err)
					return
				}
				// 429 would be fair towards the one who floods, if the good ones below were served nevertheless.
				if r := g.call("flood", bearer(bad)); r.Status != http.StatusUnauthorized && r.Status != http.StatusTooManyRequests {
					t.Errorf("flood %d: %v", n, r)
				}
				if n%100 != 0 {
					continue
				}
				fresh, err := p.Mint(good) // never seen before, so that no memory of verified tokens helps
				if err != nil {
					t.Errorf("mint: %v", err)
					continue
				}
				if r := g.call("good", bearer(fresh)); !r.served() {
					t.Errorf("the good one beside flood %d: %v", n, r)
				}
			}
		})
	}
	all.Wait()
	// Once more for all of it, and again each half a minute, should this machine need as long.
	if c, most := p.Counts(), 2+int(time.Since(began)/(30*time.Second)); c.JWKS > most {
		t.Errorf("%d unknown key ids had the keys read %d times", flood, c.JWKS-1)
	}
	if u.saw(`"flood"`) {
		t.Error("the upstream saw some of the flood")
	}
	if n := len(u.requests("tools/call")); n < flood/100 {
		t.Errorf("the upstream saw %d calls of the good ones", n)
	}
}

func TestKnownKeysGoOnWhenTheProviderDies(t *testing.T) {
	t.Parallel()
	p, u := idp.Start(t), newUpstream(t)
	g := serve(t, document(p, u, ""))
	// A token for many turns each, minted before: the dead mint none. Most are first seen after the death.
	tokens := make([]string, 400)
	for i := range tokens {
		spec := good
		spec.Subject = fmt.Sprintf("caller-%d", i)
		tokens[i] = p.Token(t, spec)
	}
	g.ready(t, tokens[0])

	var next atomic.Int64
	stop := make(chan struct{})
	turns := load(t, stop, func(worker, turn int) {
		time.Sleep(10 * time.Millisecond) // so that the tokens last
		token := tokens[next.Add(1)%int64(len(tokens))]
		if r := g.call("load", bearer(token)); !r.served() {
			t.Errorf("worker %d, turn %d: %v", worker, turn, r)
		}
	})
	time.Sleep(300 * time.Millisecond)
	p.Kill()
	time.Sleep(500 * time.Millisecond)
	unknown, err := idp.Rename(tokens[0], "unknown")
	if err != nil {
		t.Fatal(err)
	}
	// Nobody can say now whether that key is good, but it is not served.
	if r := g.call("unknown", bearer(unknown)); r.Status != http.StatusUnauthorized && r.Status != http.StatusServiceUnavailable {
		t.Errorf("an unknown key while the provider is dead: %v", r)
	}
	time.Sleep(time.Second)
	p.Restart()
	time.Sleep(200 * time.Millisecond)
	close(stop)
	if n := turns(); n < 3*workers {
		t.Errorf("only %d calls prove little", n)
	}
	if r := g.call("after", bearer(p.Token(t, good))); !r.served() {
		t.Errorf("after the restart: %v", r)
	}
	if u.saw(`"unknown"`) {
		t.Error("the upstream saw the call under an unknown key")
	}
}
