package south

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

// answering is a stub whose tools/call is answered by f.

func answering(t *testing.T, legacy bool, f func(w http.ResponseWriter, r *http.Request, a arrived)) *stub {
	t.Helper()
	return (&stub{legacy: legacy, on: func(w http.ResponseWriter, r *http.Request, a arrived) bool {
		if a.method != "tools/call" {
			return false
		}
		f(w, r, a)
		return true
	}}).start(t)
}

// saying answers with a body in which $ID stands for the id.

func saying(status int, kind, body string) func(http.ResponseWriter, *http.Request, arrived) {
	return func(w http.ResponseWriter, _ *http.Request, a arrived) {
		say(w, status, kind, strings.ReplaceAll(body, "$ID", a.id))
	}
}

const okResult = `{"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}`

// What an upstream can answer to a call, and what the caller gets: the message

// itself (code 0), or an error of ours.

func TestAnswersAreTakenOrRefused(t *testing.T) {
	const stream, js = "text/event-stream", "application/json"
	for what, c := range map[string]struct {
		f    func(http.ResponseWriter, *http.Request, arrived)
		want string // the message, with $ID; "": an error
		code fault.Code
	}{
		"JSON":                       {saying(200, js, okResult), okResult, 0},
		"JSON with a charset":        {saying(200, "application/json; charset=utf-8", okResult), okResult, 0},
		"JSON with spaces":           {saying(200, js, " \r\n"+okResult+"\n"), " \r\n" + okResult + "\n", 0},
		"an event":                   {saying(200, stream, "event: message\ndata: "+okResult+"\n\n"), okResult, 0},
		"an event of many lines":     {saying(200, stream, "data: {\"jsonrpc\":\"2.0\",\ndata: \"id\":$ID,\"result\":{}}\n\n"), "{\"jsonrpc\":\"2.0\",\n\"id\":$ID,\"result\":{}}", 0},
		"an event behind others":     {saying(200, stream, ": x\n\nid: 1\ndata:\n\nevent: ping\ndata: {}\n\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\ndata: "+okResult+"\n\ndata: trash\n\n"), okResult, 0},
		"an error":                   {saying(200, js, `{"jsonrpc":"2.0","id":$ID,"error":{"code":5,"message":"m","data":[1]}}`), `{"jsonrpc":"2.0","id":$ID,"error":{"code":5,"message":"m","data":[1]}}`, 0},
		"an error in HTTP 400":       {saying(400, js, `{"jsonrpc":"2.0","id":$ID,"error":{"code":-32602,"message":"m"}}`), `{"jsonrpc":"2.0","id":$ID,"error":{"code":-32602,"message":"m"}}`, 0},
		"an error in HTTP 500":       {saying(500, js, `{"jsonrpc":"2.0","id":$ID,"error":{"code":-32603,"message":"m"}}`), `{"jsonrpc":"2.0","id":$ID,"error":{"code":-32603,"message":"m"}}`, 0},
		"an error without id":        {saying(400, js, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"m"}}`), `{"jsonrpc":"2.0","error":{"code":-32600,"message":"m"}}`, 0},
		"an error of id null":        {saying(400, js, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"m"}}`), `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"m"}}`, 0},
		"another's response first":   {saying(200, stream, "data: {\"jsonrpc\":\"2.0\",\"id\":\"zz\",\"result\":{\"secret\":1}}\n\ndata: "+okResult+"\n\n"), okResult, 0},
		"a batch of one":             {saying(200, js, "["+okResult+"]"), okResult, 0},
		"a batch with notifications": {saying(200, stream, "data: [{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"},"+okResult+"]\n\n"), okResult, 0},
		"a result in HTTP 500":       {saying(500, js, okResult), "", fault.InvalidAnswer},
		"another's response alone":   {saying(200, js, `{"jsonrpc":"2.0","id":"zz","result":{}}`), "", fault.InvalidAnswer},
		"the id unquoted":            {saying(200, js, `{"jsonrpc":"2.0","id":1,"result":{}}`), "", fault.InvalidAnswer},
		"a result without id":        {saying(200, js, `{"jsonrpc":"2.0","result":{}}`), "", fault.InvalidAnswer},
		"neither result nor error":   {saying(200, js, `{"jsonrpc":"2.0","id":$ID}`), "", fault.InvalidAnswer},
		"result and error":           {saying(200, js, `{"jsonrpc":"2.0","id":$ID,"result":{},"error":{"code":1,"message":""}}`), "", fault.InvalidAnswer},
		"two results":                {saying(200, js, `{"jsonrpc":"2.0","id":$ID,"result":{},"result":{}}`), "", fault.InvalidAnswer},
		"JSON cut short":             {saying(200, js, `{"jsonrpc":"2.0","id":$ID,"result":{`), "", fault.InvalidAnswer},
		"JSON and more":              {saying(200, js, okResult+"x"), "", fault.InvalidAnswer},
		"an empty body":              {saying(200, js, ""), "", fault.InvalidAnswer},
		"an empty batch":             {saying(200, js, "[]"), "", fault.InvalidAnswer},
		"a string":                   {saying(200, js, `"hello"`), "", fault.InvalidAnswer},
		"HTML":                       {saying(200, "text/html", "<html>"), "", fault.InvalidAnswer},
		"no media type":              {saying(200, "", ""), "", fault.InvalidAnswer},
		"HTTP 202":                   {saying(202, "", ""), "", fault.InvalidAnswer},
		"HTTP 204":                   {saying(204, "", ""), "", fault.InvalidAnswer},
		"HTTP 301":                   {saying(301, "text/html", "moved"), "", fault.InvalidAnswer},
		"HTTP 400":                   {saying(400, "text/plain", "secret 10.0.0.9"), "", fault.InvalidAnswer},
		"HTTP 500":                   {saying(500, "text/html", "trace"), "", fault.InvalidAnswer},
		"HTTP 500 as a stream":       {saying(500, stream, "data: "+okResult+"\n\n"), "", fault.InvalidAnswer},
		"HTTP 401":                   {saying(401, "text/plain", ""), "", fault.UpstreamUnavailable},
		"HTTP 403":                   {saying(403, "text/plain", ""), "", fault.UpstreamUnavailable},
		"HTTP 429":                   {saying(429, "text/plain", ""), "", fault.UpstreamUnavailable},
		"HTTP 502":                   {saying(502, "text/html", ""), "", fault.UpstreamUnavailable},
		"HTTP 503":                   {saying(503, "text/plain", ""), "", fault.UpstreamUnavailable},
		"HTTP 504":                   {saying(504, "text/plain", ""), "", fault.UpstreamUnavailable},
		"a stream without events":    {saying(200, stream, ""), "", fault.InvalidAnswer},
		"a stream of other events":   {saying(200, stream, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\n"), "", fault.ConnectionLost},
		"a stream that breaks":       {saying(200, stream, "data: {\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n\ndata: {\"jsonrpc\""), "", fault.ConnectionLost},
		"a stream of trash":          {saying(200, stream, "data: trash\n\n"), "", fault.InvalidAnswer},
		"a compressed answer": {func(w http.ResponseWriter, _ *http.Request, a arrived) {
			w.Header().Set("Content-Encoding", "gzip")
			result(w, a.id, `{}`)
		}, "", fault.InvalidAnswer},
		"an explicit identity": {func(w http.ResponseWriter, _ *http.Request, a arrived) {
			w.Header().Set("Content-Encoding", "identity")
			result(w, a.id, `{"content":[]}`)
		}, okResult, 0},
		"a body shorter than it says": {func(w http.ResponseWriter, _ *http.Request, a arrived) {
			w.Header().Set("Content-Length", "500")
			result(w, a.id, `{}`)
		}, "", fault.ConnectionLost},
		"a cut before any answer": {func(http.ResponseWriter, *http.Request, arrived) { drop() }, "", fault.ConnectionLost},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			for _, legacy := range []bool{false, true} {
				s := answering(t, legacy, c.f)
				l := link(t, reach(t, s.url), SessionKey{})
				r := toolsCall(l)
				got, err := send(t, l, r)
				wantCode(t, err, c.code)
				if want := strings.ReplaceAll(c.want, "$ID", string(r.ID)); got != want {
					t.Errorf("legacy %v: %q, want %q", legacy, got, want)
				}
				if err != nil && strings.Contains(fault.From(err).Public(), "10.0.0.9") {
					t.Errorf("the upstream's own words reach the client: %v", fault.From(err).Public())
				}
				if n := len(s.got("tools/call")); n != 1 {
					t.Errorf("legacy %v: sent %d times", legacy, n)
				}
			}
		})
	}
}

func TestWhatIsNoReadIsNeverSentTwice(t *testing.T) {
	s := answering(t, false, func(http.ResponseWriter, *http.Request, arrived) { drop() })
	u := reach(t, s.url, func(o *Options) { o.Failures = 100 })
	l := link(t, u, SessionKey{})
	for _, safe := range []bool{false, true} {
		before := len(s.got("tools/call"))
		r := toolsCall(l)
		r.Safe = safe
		_, err := send(t, l, r)
		wantCode(t, err, fault.ConnectionLost)
		if n, want := len(s.got("tools/call"))-before, map[bool]int{false: 1, true: 2}[safe]; n != want {
			t.Errorf("safe %v: sent %d times, want %d", safe, n, want)
		}
	}
}

func TestAReadIsRepeatedOverALostConnection(t *testing.T) {
	var n atomic.Int32
	s := answering(t, false, func(w http.ResponseWriter, _ *http.Request, a arrived) {
		if n.Add(1) == 1 {
			drop()
		}
		result(w, a.id, `{}`)
	})
	l := link(t, reach(t, s.url), SessionKey{})
	r := toolsCall(l)
	r.Safe = true
	if _, err := send(t, l, r); err != nil {
		t.Error(err)
	}
}

func TestDeadlinesTellWhetherAnythingMayHaveRun(t *testing.T) { // DESIGN section 13
	silent := func(_ http.ResponseWriter, r *http.Request, _ arrived) { <-r.Context().Done() }
	half := func(w http.ResponseWriter, r *http.Request, _ arrived) {
		stream(w)("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\n")
		<-r.Context().Done()
	}
	for what, f := range map[string]func(http.ResponseWriter, *http.Request, arrived){"silent": silent, "silent after an event": half} {
		s := answering(t, false, f)
		u := reach(t, s.url, func(o *Options) { o.Timeout = 200 * time.Millisecond })
		l := link(t, u, SessionKey{})
		began := time.Now()
		_, err := send(t, l, toolsCall(l))
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("%s: took %v", what, took)
		}
		wantCode(t, err, fault.UpstreamTimeout)
	}
	// A TLS handshake that never ends: the request was not sent.
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	u := reach(t, "https://"+ln.Addr().String()+"/mcp", func(o *Options) { o.Timeout = 200 * time.Millisecond })
	u.setInfo(&Info{Era: mcp.Modern, Revision: mcp.LatestModern})
	l := link(t, u, SessionKey{})
	_, err = send(t, l, toolsCall(l))
	wantCode(t, err, fault.UpstreamUnavailable)
	// Nobody listens: neither.
	u = reach(t, "http://127.0.0.1:1/mcp")
	u.setInfo(&Info{Era: mcp.Modern, Revision: mcp.LatestModern})
	l = link(t, u, SessionKey{})
	_, err = send(t, l, toolsCall(l))
	wantCode(t, err, fault.UpstreamUnavailable)
}

func TestARequestsOwnTimeoutCounts(t *testing.T) {
	s := answering(t, false, func(_ http.ResponseWriter, r *http.Request, _ arrived) { <-r.Context().Done() })
	l := link(t, reach(t, s.url), SessionKey{})
	r := toolsCall(l)
	r.Timeout = 100 * time.Millisecond
	began := time.Now()
	_, err := send(t, l, r)
	wantCode(t, err, fault.UpstreamTimeout)
	if time.Since(began) > 3*time.Second {
		t.Errorf("took %v", time.Since(began))
	}
}

// Checklist 135: there a closed connection is not a cancellation.

func TestALegacyUpstreamIsToldThatNobodyWaits(t *testing.T) {
	leakless(t)
	s := answering(t, true, func(_ http.ResponseWriter, r *http.Request, _ arrived) { <-r.Context().Done() })
	u := reach(t, s.url)
	l := link(t, u, SessionKey{})
	r := toolsCall(l)
	r.Timeout = 100 * time.Millisecond
	_, err := send(t, l, r)
	wantCode(t, err, fault.UpstreamTimeout)
	settle(t, "notifications/cancelled", func() bool { return len(s.got("notifications/cancelled")) == 1 })
	a := s.got("notifications/cancelled")[0]
	if !strings.Contains(a.body, `"requestId":`+string(r.ID)) || a.header.Get("Mcp-Session-Id") != "s1" {
		t.Errorf("%v %s", a.header, a.body)
	}
}

func TestALegacyUpstreamIsToldThatTheCallerLeft(t *testing.T) { // checklist 6.1, ML
	entered := make(chan struct{})
	s := answering(t, true, func(_ http.ResponseWriter, r *http.Request, _ arrived) { close(entered); <-r.Context().Done() })
	l := link(t, reach(t, s.url), SessionKey{})
	ctx, leave := context.WithCancel(t.Context())
	go func() { <-entered; leave() }()
	r := toolsCall(l)
	if _, err := l.Send(ctx, r); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	settle(t, "notifications/cancelled", func() bool { return len(s.got("notifications/cancelled")) == 1 })
	if a := s.got("notifications/cancelled")[0]; !strings.Contains(a.body, `"requestId":`+string(r.ID)) {
		t.Error(a.body)
	}
}

// Checklist 120: towards a modern upstream closing the stream is the cancellation.

func TestAModernUpstreamSeesTheStreamClosed(t *testing.T) {
	leakless(t)
	closed, entered := make(chan struct{}), make(chan struct{})
	s := answering(t, false, func(w http.ResponseWriter, r *http.Request, _ arrived) {
		stream(w)(": x\n\n")
		close(entered)
		<-r.Context().Done()
		close(closed)
	})
	l := link(t, reach(t, s.url), SessionKey{})
	ctx, leave := context.WithCancel(t.Context())
	go func() { <-entered; leave() }()
	_, err := l.Send(ctx, toolsCall(l))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	<-closed
	if n := len(s.got("notifications/cancelled")); n != 0 {
		t.Errorf("%d cancellations were posted", n)
	}
}

// call_timeout is "without progress": each progress notification restarts it, as

// far as call_timeout_max.
