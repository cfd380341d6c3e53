package south

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/wire"
)

func TestCloseDoesNotWaitLongForAnUpstreamThatDoesNotAnswer(t *testing.T) {
	s, _ := streaming(t)
	inner := s.on
	s.on = func(w http.ResponseWriter, r *http.Request, a arrived) bool {
		if a.method == "resources/unsubscribe" {
			<-r.Context().Done()
			return true
		}
		return inner(w, r, a)
	}
	w, n := watching(t, reach(t, s.url))
	w.Want(mcp.Filter{URIs: []string{"a://1", "a://2"}})
	n.await(t, `honoured {"resourceSubscriptions":["a://1","a://2"]}`)
	began := time.Now()
	w.Close()
	if took := time.Since(began); took < goodbyeTime/2 || took > goodbyeTime+time.Second {
		t.Errorf("Close took %v", took)
	}
}

func TestCloseDoesNotWaitForAHandshake(t *testing.T) {
	leakless(t)
	s, _ := streaming(t)
	inner := s.on
	var hangs atomic.Bool
	s.on = func(w http.ResponseWriter, r *http.Request, a arrived) bool {
		if a.method == "initialize" && hangs.Load() {
			<-r.Context().Done()
			return true
		}
		return inner(w, r, a)
	}
	u := reach(t, s.url)
	link(t, u, key("the probe's session is taken"))
	hangs.Store(true)
	w, n := watching(t, u)
	w.Want(allLists)
	settle(t, "a handshake", func() bool { return len(s.got("initialize")) == 2 })
	began := time.Now()
	w.Close()
	if took := time.Since(began); took > time.Second {
		t.Errorf("Close took %v", took)
	}
	n.await(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began = time.Now()
	u.Close(ctx)
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("Close of the upstream took %v", took)
	}
}

func TestAHundredWatchesLeaveNothingBehind(t *testing.T) {
	leakless(t)
	s, h := streaming(t)
	u := reach(t, s.url)
	var all []*Watch
	var sinks []*notes
	for i := range 100 {
		n := &notes{}
		w := u.Watch(key(itoa(i)), n)
		w.Want(mcp.Filter{Tools: true})
		all, sinks = append(all, w), append(sinks, n)
	}
	settle(t, "100 streams", func() bool { return h.len() == 100 })
	for i := range 100 {
		h.stream(t, i+1).event(changed(mcp.Tools))
	}
	for _, n := range sinks {
		n.await(t, onTools, "changed tools")
	}
	for _, w := range all {
		w.Close()
	}
	for i := range 100 {
		settle(t, "the end of every stream", func() bool { return isGone(h.stream(t, i+1)) })
	}
}

// Whatever happens while a watch is closed, nothing is told afterwards.
func TestNothingIsToldAfterClose(t *testing.T) {
	leakless(t)
	s, h := streaming(t)
	u := reach(t, s.url)
	for i := range 20 {
		n := &notes{}
		w := u.Watch(key("n"), n)
		w.Want(mcp.Filter{Tools: true})
		up := h.stream(t, i+1)
		stop := make(chan struct{})
		go func() {
			for !isGone(up) {
				up.event(changed(mcp.Tools))
			}
			close(stop)
		}()
		settle(t, "a change", func() bool { return n.count("changed") > 0 })
		w.Close()
		k := len(n.got())
		<-stop
		if now := len(n.got()); now != k {
			t.Fatalf("%d calls after Close", now-k)
		}
		var late wire.Answer // a child's reader may have it in hand
		if err := wire.Scan([]byte(changed(mcp.Tools)), &late); err != nil {
			t.Fatal(err)
		}
		w.notice(&late, true)
		if now := len(n.got()); now != k {
			t.Fatal("a message in hand was told after Close")
		}
		w.Want(allLists) // has no effect
		w.Close()
	}
}

func TestAWatchEndsWithItsUpstream(t *testing.T) {
	leakless(t)
	s, h := streaming(t)
	u := reach(t, s.url)
	w, n := watching(t, u)
	w.Want(mcp.Filter{Tools: true, URIs: []string{"a://1"}})
	n.await(t, `honoured {"toolsListChanged":true,"resourceSubscriptions":["a://1"]}`)
	u.Close(t.Context())
	settle(t, "the end of the stream", func() bool { return isGone(h.stream(t, 1)) })
	settle(t, "the end of the session", func() bool { return len(s.got(http.MethodDelete)) == 1 })
	if d := cmp.Diff([]string{"s1 subscribe a://1"}, subscribed(s)); d != "" {
		t.Error(d)
	}
	late, m := watching(t, u)
	late.Want(allLists)
	m.await(t)
	w.Close()
}
