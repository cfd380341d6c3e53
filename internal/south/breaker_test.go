package south

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
)

// failing is an upstream whose calls fail as the test says; its probe works
// unless it is down.
type failing struct {
	*stub
	down atomic.Bool
	how  atomic.Pointer[func(http.ResponseWriter, arrived)]
}

func newFailing(t *testing.T) *failing {
	f := &failing{stub: &stub{}}
	f.on = func(w http.ResponseWriter, _ *http.Request, a arrived) bool {
		if f.down.Load() {
			drop()
		}
		if how := f.how.Load(); how != nil && a.method == "tools/call" {
			(*how)(w, a)
			return true
		}
		return false
	}
	f.start(t)
	return f
}

func TestTheBreakerOpensAfterTransportFaultsInARow(t *testing.T) {
	f := newFailing(t)
	u := reach(t, f.url, func(o *Options) { o.Failures, o.OpenFor = 3, time.Hour })
	l := link(t, u, SessionKey{})
	call := func() error { _, err := send(t, l, toolsCall(l)); return err }
	f.down.Store(true)
	for range 2 {
		wantCode(t, call(), fault.ConnectionLost)
	}
	f.down.Store(false)
	wantCode(t, call(), 0) // not in a row
	f.down.Store(true)
	for range 3 {
		wantCode(t, call(), fault.ConnectionLost)
	}
	if u.State().Breaker != "open" || u.State().State != "down" {
		t.Errorf("state %+v", u.State())
	}
	before := len(f.got("tools/call"))
	err := call()
	wantCode(t, err, fault.UpstreamUnavailable)
	if len(f.got("tools/call")) != before || !strings.Contains(fault.From(err).Public(), "nothing ran") {
		t.Errorf("called while open: %v", err)
	}
}

func TestAnUpstreamsOwnErrorsNeverOpenTheBreaker(t *testing.T) {
	f := newFailing(t)
	u := reach(t, f.url, func(o *Options) { o.Failures = 2 })
	l := link(t, u, SessionKey{})
	for what, how := range map[string]func(http.ResponseWriter, arrived){
		"JSON-RPC error": func(w http.ResponseWriter, a arrived) {
			plainJSON(w, 200, `{"jsonrpc":"2.0","id":`+a.id+`,"error":{"code":-32603,"message":"x"}}`)
		},
		"isError":  func(w http.ResponseWriter, a arrived) { result(w, a.id, `{"isError":true,"content":[]}`) },
		"HTTP 400": func(w http.ResponseWriter, _ arrived) { say(w, 400, "text/plain", "no") },
		"HTTP 401": func(w http.ResponseWriter, _ arrived) { say(w, 401, "text/plain", "no") },
		"HTTP 500 with an error": func(w http.ResponseWriter, a arrived) {
			plainJSON(w, 500, `{"jsonrpc":"2.0","id":`+a.id+`,"error":{"code":-32603,"message":"x"}}`)
		},
		"a malformed message":      func(w http.ResponseWriter, _ arrived) { plainJSON(w, 200, `{"jsonrpc":`) },
		"an answer that was not":   func(w http.ResponseWriter, _ arrived) { say(w, 200, "text/html", "<html>") },
		"a response for elsewhere": func(w http.ResponseWriter, _ arrived) { plainJSON(w, 200, `{"jsonrpc":"2.0","id":"x","result":{}}`) },
	} {
		f.how.Store(&how)
		for range 5 {
			_, _ = send(t, l, toolsCall(l))
		}
		if s := u.State(); s.Breaker != "closed" {
			t.Fatalf("%s: breaker %s", what, s.Breaker)
		}
	}
}

func TestACallerThatLeavesNeverOpensTheBreaker(t *testing.T) {
	f := newFailing(t)
	u := reach(t, f.url, func(o *Options) { o.Failures = 2 })
	l := link(t, u, SessionKey{})
	entered := make(chan struct{}, 10)
	how := func(http.ResponseWriter, arrived) { entered <- struct{}{}; time.Sleep(50 * time.Millisecond); drop() }
	f.how.Store(&how)
	for range 4 {
		ctx, leave := context.WithCancel(t.Context())
		go func() { <-entered; leave() }()
		if _, err := l.Send(ctx, toolsCall(l)); err == nil || codeOf(err) != int(fault.Internal) {
			t.Errorf("error %v", err)
		}
		leave()
	}
	if s := u.State(); s.Breaker != "closed" || s.LastError != "" {
		t.Errorf("state %+v", s)
	}
}

func TestGatewayErrorsOfTheUpstreamCountAsFaults(t *testing.T) {
	f := newFailing(t)
	u := reach(t, f.url, func(o *Options) { o.Failures, o.OpenFor = 2, time.Hour })
	l := link(t, u, SessionKey{})
	how := func(w http.ResponseWriter, _ arrived) { say(w, 503, "text/plain", "restarting") }
	f.how.Store(&how)
	for range 2 {
		_, err := send(t, l, toolsCall(l))
		wantCode(t, err, fault.UpstreamUnavailable)
	}
	if s := u.State(); s.Breaker != "open" {
		t.Errorf("state %+v", s)
	}
}

// Servers that answer every call with an event stream send its head at once; a
// fault is one all the same when it shows only in the body.
func TestFaultsWithinABodyOpenTheBreaker(t *testing.T) {
	for what, c := range map[string]struct {
		how  func(http.ResponseWriter, arrived)
		code fault.Code
	}{
		"a stream that hangs": {func(w http.ResponseWriter, _ arrived) { stream(w)(": x\n\n"); time.Sleep(400 * time.Millisecond) }, fault.UpstreamTimeout},
		"a stream that is cut": {func(w http.ResponseWriter, _ arrived) {
			stream(w)("data: {\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n\n")
			drop()
		}, fault.ConnectionLost},
		"JSON that is cut": {func(w http.ResponseWriter, _ arrived) {
			plainJSON(w, 200, `{"jsonrpc":`)
			_ = http.NewResponseController(w).Flush()
			drop()
		}, fault.ConnectionLost},
	} {
		f := newFailing(t)
		f.how.Store(&c.how)
		u := reach(t, f.url, func(o *Options) { o.Failures, o.OpenFor, o.Timeout = 3, time.Hour, 100*time.Millisecond })
		l := link(t, u, SessionKey{})
		for range 3 {
			_, err := send(t, l, toolsCall(l))
			wantCode(t, err, c.code)
		}
		if s := u.State(); s.Breaker != "open" {
			t.Errorf("%s: breaker %s", what, s.Breaker)
		}
	}
}

// An upstream that is back is used again within seconds, however long the
// breaker would stay open by itself.
func TestRunClosesTheBreakerOfAnUpstreamThatIsBack(t *testing.T) {
	leakless(t)
	f := newFailing(t)
	u := reach(t, f.url, func(o *Options) { o.Failures, o.OpenFor = 2, time.Hour })
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan struct{})
	go func() { u.Run(ctx); close(ran) }()
	l := link(t, u, SessionKey{})
	f.down.Store(true)
	for range 3 {
		_, _ = send(t, l, toolsCall(l))
	}
	settle(t, "an open breaker", func() bool { return u.State().Breaker == "open" })
	time.Sleep(700 * time.Millisecond) // at least one attempt fails
	if u.State().Breaker != "open" {
		t.Error("the breaker closed while the upstream was down")
	}
	var changes atomic.Int32
	u.OnChange(func() { changes.Add(1) })
	f.down.Store(false)
	back := time.Now()
	settle(t, "a closed breaker", func() bool { return u.State().Breaker == "closed" })
	settle(t, "word of its return", func() bool { return changes.Load() == 1 })
	if took := time.Since(back); took > 5*time.Second {
		t.Errorf("recovered after %v", took)
	}
	if _, err := send(t, l, toolsCall(l)); err != nil {
		t.Errorf("after it is back: %v", err)
	}
	stop()
	<-ran
}

func TestARefusedHandshakeNeverOpensTheBreaker(t *testing.T) {
	for what, refuse := range map[string]func(http.ResponseWriter, arrived){
		"JSON-RPC error": func(w http.ResponseWriter, a arrived) {
			plainJSON(w, 200, `{"jsonrpc":"2.0","id":`+a.id+`,"error":{"code":-32000,"message":"too many sessions"}}`)
		},
		"HTTP 401": func(w http.ResponseWriter, _ arrived) { say(w, 401, "text/plain", "") },
		"HTTP 429": func(w http.ResponseWriter, _ arrived) { say(w, 429, "text/plain", "") },
	} {
		var refusing atomic.Bool
		s := (&stub{legacy: true, on: func(w http.ResponseWriter, _ *http.Request, a arrived) bool {
			if a.method != "initialize" || !refusing.Load() {
				return false
			}
			refuse(w, a)
			return true
		}}).start(t)
		u := reach(t, s.url, func(o *Options) { o.Failures, o.OpenFor = 2, time.Hour })
		l := link(t, u, SessionKey{})
		refusing.Store(true)
		for i := range 4 {
			if _, err := u.Link(t.Context(), SessionKey{North: itoa(i)}); err == nil {
				t.Fatalf("%s: no error", what)
			}
		}
		if _, err := send(t, l, toolsCall(l)); err != nil || u.State().Breaker != "closed" {
			t.Errorf("%s: breaker %s, and a call of an open session says %v", what, u.State().Breaker, err)
		}
	}
}
