package south

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

var errFence = errors.New("not now")

// A fence is asked once for a request that leaves, and of one that it holds back no
// upstream sees a body, whatever carries it.
func TestAFenceHoldsARequestBackBeforeItsFirstByte(t *testing.T) {
	for name, maker := range map[string]func(hopOptions) hop{"plain": newPlainHop, "std": newStdHop} {
		t.Run(name, func(t *testing.T) {
			var whole atomic.Int64
			srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if b := new(strings.Builder); r.Body != nil {
					buf := [64]byte{}
					n, _ := r.Body.Read(buf[:])
					b.Write(buf[:n])
					if b.String() == "x" {
						whole.Add(1)
					}
				}
			}))
			t.Cleanup(srv.Close)
			h := maker(hopOptions{scheme: "http"})
			defer h.closeIdle()
			asked := 0
			r := post(mustURL(t, srv.URL), "x")
			r.fence = func() error { asked++; return nil }
			fetch(t, h, r)
			r = post(mustURL(t, srv.URL), "x")
			r.fence = func() error { asked++; return errFence }
			_, err := h.do(context.Background(), r)
			if !fenced(err) || !errors.Is(err, errFence) || r.sent || asked != 2 || whole.Load() != 1 {
				t.Errorf("%v, sent %v, asked %d times, %d requests arrived", err, r.sent, asked, whole.Load())
			}
		})
	}
}

// It says nothing of the upstream: neither the breaker nor the operator hears of it.
func TestAFenceIsNoFaultOfTheUpstream(t *testing.T) {
	check := func(t *testing.T, u *Upstream, l *Link) {
		r := toolsCall(l)
		r.Fence = func() error { return errFence }
		for range 20 {
			if _, err := l.Send(context.Background(), r); !errors.Is(err, errFence) {
				t.Fatalf("got %v", err)
			}
		}
		if s := u.State(); s.State != "up" || s.Breaker != "closed" || s.LastError != "" {
			t.Errorf("state %+v", s)
		}
	}
	t.Run("http", func(t *testing.T) {
		s := answering(t, false, saying(200, "application/json", okResult))
		u := reach(t, s.url)
		check(t, u, link(t, u, SessionKey{}))
		if n := len(s.got("tools/call")); n != 0 {
			t.Errorf("%d calls arrived", n)
		}
	})
	t.Run("child", func(t *testing.T) {
		u, _ := startChild(t, "modern")
		l := link(t, u, SessionKey{})
		check(t, u, l)
		if l.Over() {
			t.Error("the link is over")
		}
	})
}

// What is about work that runs already does not wait for a slot.
func TestARequestAsideTakesNoSlot(t *testing.T) {
	hold, entered := make(chan struct{}), make(chan struct{})
	var first atomic.Bool
	s := answering(t, false, func(w http.ResponseWriter, r *http.Request, a arrived) {
		if first.CompareAndSwap(false, true) {
			close(entered)
			<-hold
		}
		saying(200, "application/json", okResult)(w, r, a)
	})
	u := reach(t, s.url, func(o *Options) { o.MaxConcurrent = 1 })
	l := link(t, u, SessionKey{})
	done := make(chan error, 1)
	go func() {
		_, err := send(t, l, toolsCall(l))
		done <- err
	}()
	<-entered
	r := toolsCall(l)
	r.Aside = true
	_, err := send(t, l, r)
	close(hold)
	if err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
