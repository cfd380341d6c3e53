package south

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
)

func TestSlotsBoundTheCallsInFlight(t *testing.T) {
	leakless(t)
	var inFlight, most atomic.Int32
	release := make(chan struct{})
	s := answering(t, false, func(w http.ResponseWriter, _ *http.Request, a arrived) {
		n := inFlight.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		<-release
		inFlight.Add(-1)
		result(w, a.id, `{}`)
	})
	u := reach(t, s.url, func(o *Options) { o.MaxConcurrent = 2 })
	l := link(t, u, SessionKey{})
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			if _, err := send(t, l, toolsCall(l)); err != nil {
				t.Errorf("call: %v", err)
			}
		})
	}
	settle(t, "two calls in flight", func() bool { return inFlight.Load() == 2 })
	r := toolsCall(l)
	r.Timeout = 100 * time.Millisecond
	_, err := send(t, l, r)
	wantCode(t, err, fault.AtCapacity)
	if u.State().InFlight != 2 {
		t.Errorf("state %+v", u.State())
	}
	close(release)
	wg.Wait()
	if most.Load() != 2 || len(s.got("tools/call")) != 6 {
		t.Errorf("%d at once, %d in all", most.Load(), len(s.got("tools/call")))
	}
	if u.State().InFlight != 0 {
		t.Errorf("state %+v", u.State())
	}
}

func TestSlotsComeBackAfterFailures(t *testing.T) {
	s := answering(t, false, func(w http.ResponseWriter, _ *http.Request, _ arrived) { say(w, 200, "text/html", "") })
	u := reach(t, s.url, func(o *Options) { o.MaxConcurrent = 1 })
	l := link(t, u, SessionKey{})
	for range 3 {
		_, err := send(t, l, toolsCall(l))
		wantCode(t, err, fault.InvalidAnswer)
	}
	a, err := l.Send(t.Context(), &Request{Method: "server/discover", ID: []byte(`"x"`), Body: []byte(`{"jsonrpc":"2.0","id":"x","method":"server/discover"}`)})
	if err != nil {
		t.Fatal(err)
	}
	a.Close()
	a.Close() // gives the slot back once
	if u.State().InFlight != 0 {
		t.Errorf("state %+v", u.State())
	}
}

func TestWhatWaitsForSomethingElseTakesNoSlot(t *testing.T) {
	leakless(t)
	waits, release := make(chan struct{}), make(chan struct{})
	var begun atomic.Bool
	s := answering(t, false, func(w http.ResponseWriter, _ *http.Request, a arrived) {
		if !begun.Swap(true) {
			close(waits)
			<-release
		}
		result(w, a.id, `{}`)
	})
	u := reach(t, s.url, func(o *Options) { o.MaxConcurrent = 1 })
	l := link(t, u, SessionKey{})
	var wg sync.WaitGroup
	wg.Go(func() {
		r := toolsCall(l)
		r.Aside = true
		if _, err := send(t, l, r); err != nil {
			t.Errorf("the wait: %v", err)
		}
	})
	<-waits
	if _, err := send(t, l, toolsCall(l)); err != nil {
		t.Errorf("a call beside it: %v", err)
	}
	close(release)
	wg.Wait()
	if u.State().InFlight != 0 {
		t.Errorf("state %+v", u.State())
	}
}
