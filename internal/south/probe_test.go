package south

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

// discoverError answers server/discover with a JSON-RPC error.
func discoverError(status, code int, data string) func(http.ResponseWriter, *http.Request, arrived) {
	return func(w http.ResponseWriter, _ *http.Request, a arrived) {
		if data != "" {
			data = `,"data":` + strings.TrimPrefix(data, `,"data":`)
		}
		plainJSON(w, status, `{"jsonrpc":"2.0","id":`+a.id+`,"error":{"code":`+itoa(code)+`,"message":"no"`+data+`}}`)
	}
}

func discoverSays(status int, kind, body string) func(http.ResponseWriter, *http.Request, arrived) {
	return func(w http.ResponseWriter, _ *http.Request, _ arrived) { say(w, status, kind, body) }
}

func discovers(versions string) func(http.ResponseWriter, *http.Request, arrived) {
	return func(w http.ResponseWriter, _ *http.Request, a arrived) {
		result(w, a.id, `{"resultType":"complete","supportedVersions":`+versions+`,"capabilities":{"prompts":{}},"ttlMs":0,"cacheScope":"public"}`)
	}
}

// Checklist 112 to 115, T7, T8, rust-sdk#1040: what an upstream answers to
// server/discover, and what it is taken for. Behind each stands a server that
// does take initialize.
func TestAnUpstreamIsTakenForWhatItAnswers(t *testing.T) {
	const unknown = mcp.EraUnknown
	for what, c := range map[string]struct {
		discover func(http.ResponseWriter, *http.Request, arrived)
		era      mcp.Era
	}{
		"modern":                         {discovers(`["2026-07-28"]`), mcp.Modern},
		"both eras":                      {discovers(`["2026-07-28","2025-11-25"]`), mcp.Modern},
		"both eras, older first":         {discovers(`["2025-11-25","2026-07-28"]`), mcp.Modern},
		"legacy versions alone":          {discovers(`["2025-11-25","2025-06-18"]`), mcp.Legacy},
		"no versions":                    {discovers(`[]`), mcp.Legacy},
		"-32022 with legacy versions":    {discoverError(400, -32022, `{"supported":["2025-11-25"],"requested":"2026-07-28"}`), mcp.Legacy},
		"-32022 in HTTP 200":             {discoverError(200, -32022, `{"supported":["2025-11-25"],"requested":"2026-07-28"}`), mcp.Legacy},
		"-32601 in HTTP 200":             {discoverError(200, -32601, ""), mcp.Legacy},
		"-32601 in HTTP 404":             {discoverError(404, -32601, ""), mcp.Legacy},
		"-32601 in HTTP 400":             {discoverError(400, -32601, ""), mcp.Legacy},
		"-32602":                         {discoverError(200, -32602, ""), mcp.Legacy},
		"-32602 in HTTP 400":             {discoverError(400, -32602, ""), mcp.Legacy},
		"-32600 in HTTP 400":             {discoverError(400, -32600, ""), mcp.Legacy},
		"-32000 in HTTP 400":             {discoverError(400, -32000, ""), mcp.Legacy},
		"-32603":                         {discoverError(200, -32603, ""), mcp.Legacy},
		"HTTP 400 with text":             {discoverSays(400, "text/plain", "Bad Request: no session"), mcp.Legacy},
		"HTTP 400 with nothing":          {discoverSays(400, "", ""), mcp.Legacy},
		"HTTP 400 with another JSON":     {discoverSays(400, "application/json", `{"detail":"no"}`), mcp.Legacy},
		"HTTP 404 with text":             {discoverSays(404, "text/plain", "not found"), mcp.Legacy},
		"HTTP 405":                       {discoverSays(405, "", ""), mcp.Legacy},
		"HTTP 406":                       {discoverSays(406, "text/plain", "no"), mcp.Legacy},
		"HTTP 422":                       {discoverSays(422, "application/json", `{"detail":[]}`), mcp.Legacy},
		"HTML in HTTP 200":               {discoverSays(200, "text/html", "<html></html>"), mcp.Legacy},
		"HTTP 202 with nothing":          {discoverSays(202, "", ""), mcp.Legacy},
		"silence":                        {func(_ http.ResponseWriter, r *http.Request, _ arrived) { <-r.Context().Done() }, mcp.Legacy},
		"an event stream without events": {discoverSays(200, "text/event-stream", ""), mcp.Legacy},

		"-32020":                         {discoverError(400, -32020, ""), unknown},
		"-32021":                         {discoverError(400, -32021, `{"requiredCapabilities":{}}`), unknown},
		"HTTP 401":                       {discoverSays(401, "text/plain", "who?"), unknown},
		"HTTP 401 with a JSON-RPC error": {discoverError(401, -32001, ""), unknown},
		"HTTP 403":                       {discoverSays(403, "text/plain", "no"), unknown},
		"HTTP 403 with a JSON-RPC error": {discoverError(403, -32000, ""), unknown},
		"HTTP 429":                       {discoverSays(429, "text/plain", "slow down"), unknown},
		"HTTP 429 with a JSON-RPC error": {discoverError(429, -32000, ""), unknown},
		"HTTP 500":                       {discoverSays(500, "text/plain", "oops"), unknown},
		"HTTP 500 with a JSON-RPC error": {discoverError(500, -32603, ""), unknown},
		"HTTP 502":                       {discoverSays(502, "text/html", "<html></html>"), unknown},
		"HTTP 503":                       {discoverSays(503, "text/plain", "starting"), unknown},
		"HTTP 504":                       {discoverSays(504, "", ""), unknown},
		"a cut connection":               {func(http.ResponseWriter, *http.Request, arrived) { drop() }, unknown},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			var healthy atomic.Bool
			s := (&stub{legacy: true, on: func(w http.ResponseWriter, r *http.Request, a arrived) bool {
				if a.method != "server/discover" || healthy.Load() {
					return false
				}
				c.discover(w, r, a)
				return true
			}}).start(t)
			u := reach(t, s.url, func(o *Options) { o.ProbeTimeout = time.Second })
			l, err := u.Link(t.Context(), SessionKey{})
			tried := len(s.got("initialize")) > 0
			switch c.era {
			case unknown:
				if err == nil || u.Info() != nil || tried {
					t.Fatalf("error %v, info %+v, initialize sent: %v", err, u.Info(), tried)
				}
				if state := u.State(); state.State != "down" || state.LastError == "" {
					t.Errorf("state %+v", state)
				}
				// Only certainty is kept: it is asked again.
				healthy.Store(true)
				if _, err := u.Link(t.Context(), SessionKey{}); err != nil || u.Info().Era != mcp.Legacy {
					t.Errorf("after it recovered: %v", err)
				}
			default:
				if err != nil || u.Info().Era != c.era || l.Era != c.era || tried != (c.era == mcp.Legacy) {
					t.Fatalf("error %v, info %+v, initialize sent: %v", err, u.Info(), tried)
				}
				if state := u.State(); state.State != "up" || state.Era != c.era.String() || state.LastError != "" {
					t.Errorf("state %+v", state)
				}
			}
		})
	}
}

func TestAConfiguredEraIsNotProbed(t *testing.T) {
	old := (&stub{legacy: true}).start(t)
	u := reach(t, old.url, func(o *Options) { o.Era = mcp.Legacy })
	link(t, u, SessionKey{})
	if d := cmp.Diff([]string{"POST initialize", "POST notifications/initialized"}, old.log()); d != "" {
		t.Error(d)
	}
	u = reach(t, old.url, func(o *Options) { o.Era = mcp.Modern })
	if _, err := u.Link(t.Context(), SessionKey{}); err == nil || len(old.got("initialize")) != 1 {
		t.Errorf("a legacy upstream configured as modern: %v, %v", err, old.log())
	}
}

func TestWhatAnUpstreamSaysOfItselfIsKept(t *testing.T) {
	for _, legacy := range []bool{false, true} {
		s := (&stub{legacy: legacy, caps: `{"tools":{"listChanged":true},"x":{"y":1}}`, revision: "2025-06-18"}).start(t)
		u := reach(t, s.url)
		var changes atomic.Int32
		u.OnChange(func() { changes.Add(1) })
		link(t, u, SessionKey{})
		want := &Info{
			Era: mcp.Modern, Revision: mcp.V20260728, Instructions: "hi",
			Capabilities: []byte(`{"tools":{"listChanged":true},"x":{"y":1}}`), ServerInfo: []byte(`{"name":"stub","version":"1"}`),
		}
		if legacy {
			want.Era, want.Revision = mcp.Legacy, mcp.V20250618
		}
		if d := cmp.Diff(want, u.Info()); d != "" {
			t.Error(d)
		}
		if changes.Load() != 1 {
			t.Errorf("%d changes were told", changes.Load())
		}
	}
}

func TestTheProbeSendsWhatTheRevisionDemands(t *testing.T) { // checklist 106 to 108
	s := (&stub{}).start(t)
	u := reach(t, s.url, func(o *Options) { o.Header = http.Header{"Authorization": {"Bearer t"}, "X-Team": {"a"}} })
	link(t, u, SessionKey{})
	a := s.got("server/discover")[0]
	for name, want := range map[string]string{
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "server/discover", "Accept": "application/json, text/event-stream",
		"Content-Type": "application/json", "Authorization": "Bearer t", "X-Team": "a", "Accept-Encoding": "identity", "Mcp-Name": "", "Mcp-Session-Id": "",
	} {
		if got := a.header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if !strings.Contains(a.body, `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"gw","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`) {
		t.Error(a.body)
	}
}

func TestManyCallersShareOneProbe(t *testing.T) {
	leakless(t)
	s := (&stub{on: func(http.ResponseWriter, *http.Request, arrived) bool {
		time.Sleep(50 * time.Millisecond)
		return false
	}}).start(t)
	u := reach(t, s.url)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if _, err := u.Link(t.Context(), SessionKey{}); err != nil {
				t.Errorf("link: %v", err)
			}
		})
	}
	wg.Wait()
	if n := len(s.got("server/discover")); n != 1 {
		t.Errorf("%d probes", n)
	}
}

func TestACallerDoesNotWaitLongerThanItWants(t *testing.T) {
	release := make(chan struct{})
	s := (&stub{on: func(http.ResponseWriter, *http.Request, arrived) bool { <-release; return false }}).start(t)
	t.Cleanup(sync.OnceFunc(func() { close(release) }))
	u := reach(t, s.url)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := u.Link(ctx, SessionKey{})
	wantCode(t, err, fault.UpstreamUnavailable)
	if u.Tried() {
		t.Error("a probe that goes on counts as tried")
	}
}

func TestAnAnswerToInitializeThatCannotBeUsedIsAnError(t *testing.T) {
	for what, c := range map[string]struct {
		session, body string
		status        int
	}{
		"a modern version":            {"", `{"jsonrpc":"2.0","id":$ID,"result":{"protocolVersion":"2026-07-28","capabilities":{},"serverInfo":{}}}`, 200},
		"an unknown version":          {"", `{"jsonrpc":"2.0","id":$ID,"result":{"protocolVersion":"1.0","capabilities":{},"serverInfo":{}}}`, 200},
		"no version":                  {"", `{"jsonrpc":"2.0","id":$ID,"result":{}}`, 200},
		"an error":                    {"", `{"jsonrpc":"2.0","id":$ID,"error":{"code":-32000,"message":"full"}}`, 200},
		"a session id with a space":   {"a b", `{"jsonrpc":"2.0","id":$ID,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{}}}`, 200},
		"a session id beyond ASCII":   {"aü", `{"jsonrpc":"2.0","id":$ID,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{}}}`, 200},
		"a session id without end":    {strings.Repeat("a", 1100), `{"jsonrpc":"2.0","id":$ID,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{}}}`, 200},
		"an answer to something else": {"", `{"jsonrpc":"2.0","id":"other","result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{}}}`, 200},
		"HTTP 500":                    {"", `oops`, 500},
	} {
		s := (&stub{legacy: true, on: func(w http.ResponseWriter, _ *http.Request, a arrived) bool {
			if a.method != "initialize" {
				return false
			}
			if c.session != "" {
				w.Header().Set("Mcp-Session-Id", c.session)
			}
			plainJSON(w, c.status, strings.ReplaceAll(c.body, "$ID", a.id))
			return true
		}}).start(t)
		u := reach(t, s.url)
		if _, err := u.Link(t.Context(), SessionKey{}); err == nil || u.Info() != nil || len(s.got("notifications/initialized")) != 0 {
			t.Errorf("%s: error %v, info %+v", what, err, u.Info())
		}
	}
}

func TestRunConnectsAtOnceAndAgainUntilItWorks(t *testing.T) {
	leakless(t)
	var up atomic.Bool
	s := (&stub{on: func(http.ResponseWriter, *http.Request, arrived) bool {
		if !up.Load() {
			drop()
		}
		return false
	}}).start(t)
	u := reach(t, s.url)
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan struct{})
	go func() { u.Run(ctx); close(ran) }()
	settle(t, "a first attempt", u.Tried)
	if st := u.State(); st.State != "down" {
		t.Errorf("state %+v", st)
	}
	up.Store(true)
	settle(t, "connected after the upstream's return", func() bool { return u.Info() != nil })
	if st := u.State(); st.State != "up" || st.LastError != "" {
		t.Errorf("state %+v", st)
	}
	stop()
	<-ran
}

func TestAnUpstreamThatChangedItsEraIsProbedAgain(t *testing.T) {
	s := (&stub{}).start(t)
	u := reach(t, s.url)
	if l := link(t, u, SessionKey{}); l.Era != mcp.Modern {
		t.Fatal("not modern")
	}
	u.Forget()
	s.legacy = true
	if l := link(t, u, SessionKey{}); l.Era != mcp.Legacy {
		t.Error("still modern after it was forgotten")
	}
}

// An upstream that is away all night is one line a minute, not one for each try.
func TestAnUpstreamThatStaysAwayDoesNotFillTheLog(t *testing.T) {
	s := (&stub{on: func(w http.ResponseWriter, _ *http.Request, _ arrived) bool {
		say(w, 503, "text/plain", "starting")
		return true
	}}).start(t)
	var log logBuffer
	u := reach(t, s.url, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	u.Start()
	for end := time.Now().Add(20 * time.Second); len(s.got("server/discover")) < 4; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it is not tried again: %v", s.log())
		}
	}
	if n := strings.Count(log.String(), "upstream not reached"); n != 1 {
		t.Errorf("%d lines:\n%s", n, log.String())
	}
}
