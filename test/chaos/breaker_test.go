//go:build linux

package chaos_test

import (
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// slammed takes the place of an upstream and closes each connection at once.
func slammed(t *testing.T, address string) *atomic.Int64 {
	t.Helper()
	ln, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	var n atomic.Int64
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			n.Add(1)
			_ = c.Close()
		}
	}()
	return &n
}

// However many clients call, an upstream that is down is tried a few times only.
func TestCallsDoNotHammerAnUpstreamThatIsDown(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"it was known", "it was never reached"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			alpha, beta := newUpstream(t, "alpha", false), newUpstream(t, "beta", true)
			if name == "it was never reached" {
				beta.kill()
			}
			g := newGateway(t, "state: \"memory:\"\nlimits: {list_timeout: 1s}\nupstreams:\n"+member("alpha", alpha)+member("beta", beta)).run()
			l := newLoad(t)
			for range 8 {
				l.add(newClient(t, g.address), time.Millisecond, "alpha__count", "beta__count")
			}
			l.goesOn(t, 100)
			beta.kill()
			tried := slammed(t, beta.address)
			time.Sleep(time.Second) // until the breaker is open
			opened, before := tried.Load(), len(l.records())
			time.Sleep(3 * time.Second)
			// Two connections for each attempt, one for either era.
			if n := tried.Load() - opened; n > 24 {
				t.Errorf("%d connections in 3 s, to an upstream that is down", n)
			}
			all := l.stop()
			if len(all) < before+300 {
				t.Errorf("only %d requests", len(all)-before)
			}
			for _, r := range all {
				if r.err != nil || r.upstream() == "alpha" && r.failed() {
					t.Fatalf("%s: %v %v", r.target, r.a, r.err)
				}
			}
		})
	}
}
