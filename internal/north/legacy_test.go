package north

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/store/memory"
)

func TestInitializeNegotiatesALegacyRevision(t *testing.T) { // checklist 84, T6
	f := open(t, &rooms{})
	for asked, want := range map[string]string{
		"2025-03-26": "2025-03-26", "2025-06-18": "2025-06-18", "2025-11-25": "2025-11-25",
		"2026-07-28": "2025-11-25", "2024-11-05": "2025-11-25", "banana": "2025-11-25", "": "2025-11-25",
	} {
		g := f.post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+asked+`","capabilities":{}}}`, nil)
		if m := g.message(t); g.status != 200 || m.Result["protocolVersion"] != want {
			t.Errorf("%q: HTTP %d %s", asked, g.status, g.body)
		}
	}
}

func TestSessionIDsAreVisibleAndUnique(t *testing.T) { // checklist 87
	f := open(t, &rooms{}, func(o *Options) {})
	seen := map[string]bool{}
	for range 10 {
		id := f.initialize("2025-11-25")
		if seen[id] || len(id) < 22 || strings.ContainsFunc(id, func(r rune) bool { return r < 0x21 || r > 0x7e }) {
			t.Errorf("session id %q", id)
		}
		seen[id] = true
	}
}

func TestInitializeRefusesWhatItCannotKeep(t *testing.T) {
	f := open(t, &rooms{})
	for _, params := range []string{
		`{}`, `{"capabilities":{}}`, `{"protocolVersion":5,"capabilities":{}}`, `{"protocolVersion":"2025-06-18"}`,
		`{"protocolVersion":"2025-06-18","capabilities":[]}`,
		`{"protocolVersion":"2025-06-18","capabilities":{"x":"` + strings.Repeat("a", 17<<10) + `"}}`,
		`{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"x":"` + strings.Repeat("a", 17<<10) + `"}}`,
	} {
		g := f.post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":`+params+`}`, nil)
		if g.status != 200 || g.code(t) != -32602 || g.header.Get("Mcp-Session-Id") != "" {
			t.Errorf("%.80s: HTTP %d %s", params, g.status, g.body)
		}
	}
}

func TestASessionBelongsToItsServerAndPrincipal(t *testing.T) { // T54
	f := open(t, &rooms{identify: func(r *http.Request) (*Principal, error) {
		return &Principal{Key: [32]byte{byte(len(r.Header.Get("X-Who")))}}, nil
	}})
	session := f.initialize("2025-06-18")
	usual := map[string]string{"Content-Type": "application/json", "Mcp-Session-Id": session}
	if g := f.send("POST", "/mcp", ping, usual); g.status != 200 {
		t.Fatalf("its own: HTTP %d %s", g.status, g.body)
	}
	unknown := f.legacy("unknown", ping)
	elsewhere := f.send("POST", "/servers/other/mcp", ping, usual)
	stranger := f.legacy(session, ping, "X-Who", "b")
	for what, g := range map[string]got{"another server": elsewhere, "another principal": stranger} {
		if g.status != 404 || g.body != unknown.body {
			t.Errorf("%s: HTTP %d %s; an unknown session is answered %s", what, g.status, g.body, unknown.body)
		}
	}
	if g := f.send("DELETE", "/mcp", "", map[string]string{"Mcp-Session-Id": session, "X-Who": "b"}); g.status != 404 {
		t.Errorf("DELETE by a stranger: HTTP %d", g.status)
	}
	if g := f.legacy(session, ping); g.status != 200 {
		t.Errorf("after all that: HTTP %d %s", g.status, g.body)
	}
}

func TestDeleteEndsExactlyThatSession(t *testing.T) { // DESIGN section 7
	f := open(t, &rooms{})
	a, b := f.initialize("2025-11-25"), f.initialize("2025-11-25")
	g := f.send("DELETE", "/mcp", "", map[string]string{"Mcp-Session-Id": a})
	if g.status != http.StatusNoContent || g.body != "" {
		t.Errorf("HTTP %d %q", g.status, g.body)
	}
	if d := cmp.Diff([]string{a}, f.gone()); d != "" {
		t.Error(d)
	}
	if g := f.legacy(a, ping); g.status != 404 || g.code(t) != -32001 {
		t.Errorf("after its end: HTTP %d %s", g.status, g.body)
	}
	if g := f.legacy(b, ping); g.status != 200 {
		t.Errorf("the other session: HTTP %d %s", g.status, g.body)
	}
	for header, want := range map[string]int{a: 404, "": 400, "never": 404} {
		if g := f.send("DELETE", "/mcp", "", map[string]string{"Mcp-Session-Id": header}); g.status != want {
			t.Errorf("DELETE of %q: HTTP %d, want %d", header, g.status, want)
		}
	}
	if d := cmp.Diff([]string{a}, f.gone()); d != "" {
		t.Error(d)
	}
}

func TestLegacyNotificationsAndResponsesAreAccepted(t *testing.T) { // checklist 91
	f := open(t, &rooms{})
	session := f.initialize("2025-06-18")
	for _, body := range []string{
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`,
		`{"jsonrpc":"2.0","id":4,"result":{}}`,
		`{"jsonrpc":"2.0","id":4,"error":{"code":-1,"message":"no"}}`,
	} {
		if g := f.legacy(session, body); g.status != http.StatusAccepted || g.body != "" {
			t.Errorf("%s: HTTP %d %q", body, g.status, g.body)
		}
		if g := f.legacy("gone", body); g.status != 404 {
			t.Errorf("%s to no session: HTTP %d %q", body, g.status, g.body)
		}
	}
	if n := len(f.reached()); n != 0 {
		t.Errorf("%d of them reached the rooms behind", n)
	}
}

func TestOtherVerbsAreNotAllowed(t *testing.T) { // checklist 82
	f := open(t, &rooms{})
	for _, verb := range []string{"PUT", "PATCH", "HEAD"} {
		g := f.send(verb, "/mcp", "", map[string]string{"Accept": "text/event-stream"})
		if g.status != http.StatusMethodNotAllowed || !strings.Contains(g.header.Get("Allow"), "POST") {
			t.Errorf("%s: HTTP %d %v", verb, g.status, g.header)
		}
	}
}

func TestErrorsOfLegacyAnswersAreHTTP200(t *testing.T) {
	f := open(t, &rooms{serve: func(_ context.Context, x *Exchange) error {
		if x.Msg.Method == "ping" {
			return fault.New(fault.MissingCapability, "x")
		}
		return errors.New("dial tcp 10.0.0.9:80: secret")
	}})
	session := f.initialize("2025-06-18")
	if g := f.legacy(session, ping); g.status != 200 || g.code(t) != -32021 {
		t.Errorf("HTTP %d %s", g.status, g.body)
	}
	g := f.legacy(session, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	if g.status != 200 || g.code(t) != -32603 || strings.Contains(g.body, "10.0.0.9") {
		t.Errorf("HTTP %d %s", g.status, g.body)
	}
}

func TestALegacyClientThatHangsUpCancelsNothing(t *testing.T) { // T24
	began, ended := make(chan struct{}), make(chan error, 1)
	release := make(chan struct{})
	f := open(t, &rooms{serve: func(ctx context.Context, x *Exchange) error {
		close(began)
		<-release
		ended <- ctx.Err()
		return x.Result([]byte(`{}`))
	}})
	session := f.initialize("2025-06-18")
	ctx, hangUp := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url+"/mcp", strings.NewReader(ping))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan got, 1)
	go func() {
		done <- f.do(r, map[string]string{"Content-Type": "application/json", "Mcp-Session-Id": session})
	}()
	<-began
	hangUp()
	<-done
	time.Sleep(50 * time.Millisecond) // for the server to notice
	close(release)
	if err := <-ended; err != nil {
		t.Errorf("the context of the request ended: %v", err)
	}
}

func TestIdleSessionsAreSweptAndTold(t *testing.T) {
	g := &rooms{caller: &Principal{Key: [32]byte{1}}}
	now := time.Unix(1000, 0)
	f := build(t, g)
	f.h = New(f.options, g, memory.NewSessions(10, 2, f.options.Idle, func() time.Time { return now }))
	f.serveHandler()
	a := f.initialize("2025-06-18")
	now = now.Add(f.options.Idle / 2)
	b := f.initialize("2025-06-18")
	now = now.Add(f.options.Idle/2 + time.Second)
	if err := f.h.Sweep(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{a}, f.gone()); d != "" {
		t.Error(d)
	}
	if got := f.legacy(a, ping); got.status != 404 {
		t.Errorf("HTTP %d", got.status)
	}
	if got := f.legacy(b, ping); got.status != 200 {
		t.Errorf("HTTP %d", got.status)
	}
}

func TestBoundsOnSessions(t *testing.T) {
	now := time.Unix(1000, 0)
	who := byte(1)
	g := &rooms{identify: func(*http.Request) (*Principal, error) { return &Principal{Key: [32]byte{who}}, nil }}
	f := build(t, g)
	f.h = New(f.options, g, memory.NewSessions(3, 2, time.Hour, func() time.Time { return now }))
	f.serveHandler()
	try := func() got {
		return f.post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}`, nil)
	}
	first := f.initialize("2025-06-18")
	now = now.Add(time.Millisecond)
	f.initialize("2025-06-18")
	if g := try(); g.status != 503 || g.code(t) != -31009 || g.header.Get("Mcp-Session-Id") != "" {
		t.Errorf("third busy session of one caller: HTTP %d %s", g.status, g.body)
	}
	now = now.Add(time.Minute)
	if g := try(); g.status != 200 {
		t.Errorf("third session when others are idle: HTTP %d %s", g.status, g.body)
	}
	if d := cmp.Diff([]string{first}, f.gone()); d != "" {
		t.Error(d)
	}
	who = 2
	f.initialize("2025-06-18")
	who = 3
	if g := try(); g.status != 503 || g.code(t) != -31009 {
		t.Errorf("beyond the whole bound: HTTP %d %s", g.status, g.body)
	}
}
