package gateway

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// A cancel of a legacy client names its own request id. A legacy upstream gets
// one that names ours; a modern upstream sees its stream close.
func TestACancelOfALegacyClientReachesItsUpstream(t *testing.T) {
	for _, legacy := range []bool{true, false} {
		started := make(chan string, 4)
		gone := make(chan struct{}, 4)
		u := &up{legacy: legacy, on: func(_ http.ResponseWriter, r *http.Request, hd heard) bool {
			if hd.method != "tools/call" || !strings.Contains(hd.body, `"slow"`) {
				return false
			}
			started <- hd.id
			<-r.Context().Done()
			gone <- struct{}{}
			return true
		}}
		h := serving(t, map[string]*up{"u": u})
		_, send := h.session("2025-06-18", `{}`)
		_, other := h.session("2025-06-18", `{}`)
		answered := make(chan out, 1)
		go func() {
			answered <- send(`{"jsonrpc":"2.0","id":"my-1","method":"tools/call","params":{"name":"u__add","arguments":{"slow":1}}}`)
		}()
		ours := <-started
		// The same id of another session, and other ids, are somebody else's.
		for _, o := range []out{
			other(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"my-1"}}`),
			send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"my-2"}}`),
			send(`{"jsonrpc":"2.0","method":"notifications/cancelled"}`),
		} {
			if o.status != 202 {
				t.Errorf("HTTP %d %s", o.status, o.body)
			}
		}
		select {
		case <-answered:
			t.Fatal("a cancel for another request ended this one")
		case <-time.After(100 * time.Millisecond):
		}
		if o := send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"my-\u0031","reason":"enough"}}`); o.status != 202 {
			t.Errorf("HTTP %d %s", o.status, o.body)
		}
		select {
		case o := <-answered:
			if o.status != 202 || strings.Contains(o.body, "error") {
				t.Errorf("legacy upstream %v: a cancelled request was answered: HTTP %d %s", legacy, o.status, o.body)
			}
		case <-time.After(5 * time.Second):
			t.Fatal("the cancelled request goes on")
		}
		if legacy {
			deadline := time.Now().Add(5 * time.Second)
			for len(u.got("notifications/cancelled")) == 0 && time.Now().Before(deadline) {
				time.Sleep(5 * time.Millisecond)
			}
			if got := u.last(t, "notifications/cancelled").body; !strings.Contains(got, `"requestId":`+ours) {
				t.Errorf("the upstream's request is %s, and it was told %s", ours, got)
			}
		}
		select {
		case <-gone:
		case <-time.After(5 * time.Second):
			t.Errorf("legacy upstream %v: its stream stays open", legacy)
		}
		if o := send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"u__add"}}`); o.status != 200 || !strings.Contains(o.body, `"result"`) {
			t.Errorf("after a cancel: HTTP %d %s", o.status, o.body)
		}
	}
}

// A call that runs when the gateway stops is withdrawn at its upstream, and its client
// is told that it may have run.
func TestACallThatIsCutIsWithdrawnAndOfUnknownOutcome(t *testing.T) {
	for _, legacy := range []bool{true, false} {
		started, told := make(chan string, 1), make(chan string, 4)
		u := &up{legacy: legacy, on: func(_ http.ResponseWriter, r *http.Request, hd heard) bool {
			switch {
			case hd.method == "notifications/cancelled":
				told <- hd.body
			case hd.method == "tools/call":
				started <- hd.id
				<-r.Context().Done()
				told <- "closed"
				return true
			}
			return false
		}}
		h := serving(t, map[string]*up{"u": u})
		_, send := h.session("2025-06-18", `{}`)
		answered := make(chan out, 1)
		go func() {
			answered <- send(`{"jsonrpc":"2.0","id":"my-1","method":"tools/call","params":{"name":"u__add","arguments":{}}}`)
		}()
		ours := <-started
		h.cut(t.Context())
		if o := <-answered; o.status != 200 || !strings.Contains(o.body, `"id":"my-1","error":{"code":-31003,`) || !strings.Contains(o.body, "may have run") {
			t.Errorf("legacy upstream %v: HTTP %d %s", legacy, o.status, o.body)
		}
		select {
		case got := <-told:
			if legacy && got != "closed" && !strings.Contains(got, ours) {
				t.Errorf("the upstream was told %s, its request was %s", got, ours)
			}
		case <-time.After(5 * time.Second):
			t.Errorf("legacy upstream %v: it was not told", legacy)
		}
	}
}
