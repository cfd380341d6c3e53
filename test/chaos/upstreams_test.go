//go:build linux

package chaos_test

import (
	"fmt"
	"testing"
	"time"
)

// trio is a gateway in front of three upstreams under a load of both eras.
type trio struct {
	alpha, beta, gamma *upstream
	g                  *gateway
}

func newTrio(t *testing.T, limits string) *trio {
	t.Helper()
	x := &trio{alpha: newUpstream(t, "alpha", true), beta: newUpstream(t, "beta", true), gamma: newUpstream(t, "gamma", false)}
	x.g = newGateway(t, "state: \"memory:\"\n"+limits+"\nupstreams:\n"+member("alpha", x.alpha)+
		fmt.Sprintf("  beta: {url: %q, timeout: 3s}\n", x.beta.url())+member("gamma", x.gamma)).run()
	a, err := newClient(t, x.g.address).ask(list, "", "") // all are known
	if n := len(must(t, a, err).Result.Tools); n != 12 {
		t.Fatalf("%d tools", n)
	}
	return x
}

// mixed adds four clients of each era.
func (x *trio) mixed(t *testing.T, l *load, pause time.Duration) {
	t.Helper()
	for range 4 {
		targets := []string{"alpha__count", "beta__count", "gamma__count", "alpha__count", "gamma__count", list}
		l.add(open(t, x.g.address), pause, targets...)
		l.add(newClient(t, x.g.address), pause, targets...)
	}
}

func TestAKilledUpstreamFailsOnlyItsOwnCallsAndComesBackByItself(t *testing.T) {
	t.Parallel()
	x := newTrio(t, `limits: {list_timeout: 2s}`)
	l := newLoad(t)
	x.mixed(t, l, 2*time.Millisecond)
	total := times(1000, 20000)
	l.reaches(t, total/3)
	killed := time.Now()
	x.beta.kill()
	l.reaches(t, 2*total/3)
	x.beta.start()
	back := eventually(t, "the upstream is up", 15*time.Second, func() bool { return x.g.status()["beta"].State == "up" })
	served := time.Now().Add(time.Second)
	l.reaches(t, total)
	if time.Now().Before(served.Add(time.Second)) {
		time.Sleep(2 * time.Second)
	}
	lost := 0
	for _, r := range l.stop() {
		mine := r.upstream() == "beta"
		during := r.sent.After(killed.Add(-time.Second)) && r.sent.Before(served)
		switch {
		case !r.failed():
			for _, m := range r.a.Result.Meta.Partial {
				if m.Upstream != "beta" || !during {
					t.Errorf("a list lacks %+v", m)
				}
			}
		case !mine || !during || r.err != nil:
			t.Errorf("%s, %s after the kill: %v %v", r.target, r.sent.Sub(killed), r.a, r.err)
		case r.a.code() != -31001 && r.a.code() != -31003:
			t.Errorf("%s: %v", r.target, r.a)
		default:
			lost++
		}
		if t.Failed() {
			return
		}
	}
	if lost == 0 {
		t.Error("no call was made to the upstream while it was gone")
	}
	t.Logf("%d calls to the killed upstream failed; it was up %s after its start", lost, back)
}

// Nobody calls the upstream while it is gone, and it is there when somebody does.
func TestAnUpstreamWithAnOpenBreakerIsTriedAgainWithoutAClient(t *testing.T) {
	t.Parallel()
	x := newTrio(t, `limits: {list_timeout: 2s}`)
	modern, legacy := newClient(t, x.g.address), open(t, x.g.address)
	a, err := legacy.call("beta__count", 0)
	must(t, a, err)
	x.beta.kill()
	for range 12 { // beyond the breaker's bound
		if a, err := modern.call("beta__count", 0); err != nil || a.code() != -31001 && a.code() != -31003 {
			t.Fatalf("%v %v", a, err)
		}
	}
	x.beta.start()
	back := eventually(t, "the upstream is up and its breaker closed", 10*time.Second, func() bool {
		s := x.g.status()["beta"]
		return s.State == "up" && s.Breaker == "closed"
	})
	a, err = modern.call("beta__count", 0)
	must(t, a, err)
	a, err = legacy.call("beta__count", 0) // its session ended with the process, and is made anew
	must(t, a, err)
	t.Logf("back %s after its start", back)
}

func TestAFrozenUpstreamCostsTheOthersOneListTimeout(t *testing.T) {
	t.Parallel()
	const timeout = 2 * time.Second
	x := newTrio(t, `limits: {list_timeout: 2s}`)
	l := newLoad(t)
	for range 4 {
		for _, c := range []*client{open(t, x.g.address), newClient(t, x.g.address)} {
			l.add(c, 5*time.Millisecond, "alpha__count", "gamma__count", "gamma__count", list)
		}
	}
	victims := newLoad(t)
	for range 2 {
		victims.add(open(t, x.g.address), 50*time.Millisecond, "beta__count")
	}
	l.goesOn(t, 100)
	x.beta.freeze()
	frozen := time.Now()
	t.Cleanup(x.beta.thaw)
	time.Sleep(lasting(7*time.Second, 20*time.Second))
	slow := map[int]int{}
	var worst, worstList time.Duration
	n := 0
	for _, r := range l.records() {
		if r.failed() {
			t.Fatalf("%s: %v %v", r.target, r.a, r.err)
		}
		if r.sent.Before(frozen) {
			continue
		}
		n++
		if r.target != list {
			worst = max(worst, r.a.took)
			continue
		}
		worstList = max(worstList, r.a.took)
		if r.a.took > timeout*9/10 {
			slow[r.client]++
		}
	}
	if worst > timeout {
		t.Errorf("a call to another upstream took %s", worst)
	}
	if worstList > 2*timeout {
		t.Errorf("a list took %s", worstList)
	}
	for client, n := range slow {
		if n > 1 {
			t.Errorf("client %d waited %d times for the frozen upstream", client, n)
		}
	}
	thawed := time.Now()
	x.beta.thaw()
	eventually(t, "the lists are whole and the calls served", 15*time.Second, func() bool {
		a, err := newClient(t, x.g.address).ask(list, "", "")
		if err != nil || a.Error != nil || len(a.Result.Meta.Partial) > 0 || len(a.Result.Tools) != 12 {
			return false
		}
		a, err = newClient(t, x.g.address).call("beta__count", 0)
		return err == nil && a.Error == nil
	})
	back := time.Since(thawed)
	for _, r := range l.stop() {
		if r.failed() {
			t.Fatalf("%s: %v %v", r.target, r.a, r.err)
		}
	}
	for _, r := range victims.stop() {
		if r.err != nil || r.a.Error != nil && r.a.code() != -31001 && r.a.code() != -31002 && r.a.code() != -31003 {
			t.Fatalf("%s: %v %v", r.target, r.a, r.err)
		}
	}
	t.Logf("%d requests while it was frozen; the slowest call to another took %s, the slowest list %s; whole %s after the thaw", n, worst, worstList, back)
}
