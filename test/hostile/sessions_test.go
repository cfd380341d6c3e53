package hostile_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestAnUnknownSessionIsA404WithABody_toolhive4425(t *testing.T) {
	t.Parallel()
	g := open(t, members{"a": newModern(t).tool("t")})
	s := g.legacy("2025-11-25")
	for _, id := range []string{"nobody", s.id + "x", strings.Repeat("s", 4000), "ü"} {
		other := *s
		other.id = id
		for _, body := range []string{`{"jsonrpc":"2.0","id":9,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":9,"method":"ping"}`} {
			r := other.send(body)
			wantError(t, r, http.StatusNotFound, -32001)
			if r.Header.Get("Content-Type") != "application/json" || at(r.Body, "id") != "9" {
				t.Errorf("id %.20q: %v", id, r)
			}
		}
	}
	r, err := g.do(context.Background(), http.MethodDelete, "", "Mcp-Session-Id", "nobody")
	if err != nil || r.Status != http.StatusNotFound {
		t.Errorf("DELETE of an unknown session: %v %v", r, err)
	}
	healthy(t, s, "a__t")
}

func TestASessionSurvivesItsGetAndIsNeverEmpty_mcpjungle268(t *testing.T) {
	t.Parallel()
	dead := newModern(t).tool("late")
	dead.start()
	addr := dead.URL
	dead.stop()
	doc := quick + "\nupstreams: {a: {url: \"" + addr + "\"}, b: {url: \"" + newLegacy(t).tool("t").start().URL + "\"}}"
	g := serve(t, doc)
	s := g.legacy("2025-11-25")
	for range 3 {
		ctx, hangUp := context.WithCancel(context.Background())
		get, err := http.NewRequestWithContext(ctx, http.MethodGet, g.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		get.Header.Set("Mcp-Session-Id", s.id)
		get.Header.Set("Accept", "text/event-stream")
		r, err := g.http.Do(get)
		if err != nil || r.StatusCode != http.StatusOK {
			t.Errorf("GET: %v %v", r, err)
		} else {
			_ = r.Body.Close()
		}
		hangUp()
		healthy(t, s, "b__t")
	}
	alone := serve(t, quick+"\nupstreams: {a: {url: \""+addr+"\"}}")
	d := alone.legacy("2025-11-25")
	if r := d.call("tools/list", ""); at(r.message(), "error", "code") != "-31001" {
		t.Errorf("with every upstream down the list is %v", r)
	}
	if r := d.call("ping", ""); at(r.message(), "result") != "{}" {
		t.Errorf("the session itself is gone: %v", r)
	}
}

func TestTheVersionSouthIsTheOneNegotiatedThere_agentgateway2980(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2025-03-26", "2025-06-18", "2025-11-25"} {
		u := newUpstream(t, version, true).tool("t")
		m := newModern(t).tool("t")
		g := open(t, members{"old": u, "new": m})
		for _, c := range []caller{g, g.legacy("2025-11-25"), g.legacy("2025-06-18"), g.legacy("2025-03-26")} {
			healthy(t, c, "old__t")
			healthy(t, c, "new__t")
		}
		want := version
		if version == "2025-03-26" {
			want = "" // that revision has no such header
		}
		for _, method := range []string{"tools/call", "tools/list"} {
			for _, r := range u.requests(method) {
				if got := r.Header.Get("Mcp-Protocol-Version"); got != want || r.Header.Get("Mcp-Method") != "" || r.Header.Get("Mcp-Name") != "" {
					t.Errorf("%s upstream got %s with headers %v", version, method, r.Header)
				}
			}
			for _, r := range m.requests(method) {
				if r.Header.Get("Mcp-Protocol-Version") != modernVersion || r.Header.Get("Mcp-Method") != method || r.Session != "" ||
					text(r.Params, "_meta", "io.modelcontextprotocol/protocolVersion") != modernVersion {
					t.Errorf("the modern upstream got %s with %v %s", method, r.Header, r.Params)
				}
			}
		}
	}
}

func TestInitializeNegotiatesAndTheHeaderCountsAfterwards_EAG2542(t *testing.T) {
	t.Parallel()
	g := open(t, members{"a": newModern(t).tool("t")})
	for asked, want := range map[string]string{
		"2025-11-25": "2025-11-25", "2025-06-18": "2025-06-18", "2025-03-26": "2025-03-26",
		"2024-11-05": "2025-11-25", "2099-01-01": "2025-11-25", "garbage": "2025-11-25", "": "2025-11-25", "2026-07-28": "2025-11-25",
	} {
		s := g.legacy(asked)
		if s.version != want {
			t.Errorf("asked for %q, got %q", asked, s.version)
		}
		healthy(t, s, "a__t")
	}
	for _, header := range []string{"2025-06-18", "garbage"} { // it is not looked at on initialize
		if r := g.post(initialize("2025-11-25"), "MCP-Protocol-Version", header); r.Status != http.StatusOK || text(r.message(), "result", "protocolVersion") != "2025-11-25" {
			t.Errorf("initialize with header %q: %v", header, r)
		}
	}
	s := g.legacy("2025-11-25")
	ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for _, bad := range []string{"garbage", "2024-11-05", "1"} {
		if r := g.post(ping, "Mcp-Session-Id", s.id, "MCP-Protocol-Version", bad); r.Status != http.StatusBadRequest {
			t.Errorf("header %q: %v", bad, r)
		}
	}
	if r := g.post(ping, "Mcp-Session-Id", s.id); r.Status != http.StatusOK { // absent: the session's version
		t.Errorf("without the header: %v", r)
	}
}

func TestWhatAnUpstreamAnswersToTheProbeDecidesItsEra_rustsdk1040(t *testing.T) {
	t.Parallel()
	plain := func(status int, media, body string) func(*exchange) {
		return func(x *exchange) { x.body(status, media, body) }
	}
	code := func(status int, member string) func(*exchange) {
		return func(x *exchange) { x.body(status, "application/json", x.message(member)) }
	}
	for name, try := range map[string]struct {
		probe  func(*exchange)
		legacy bool
	}{
		"-32601":              {code(200, `"error":{"code":-32601,"message":"m"}`), true},
		"-32601 with 404":     {code(404, `"error":{"code":-32601,"message":"m"}`), true},
		"-32602":              {code(200, `"error":{"code":-32602,"message":"m"}`), true},
		"-32600 with 400":     {code(400, `"error":{"code":-32600,"message":"m"}`), true},
		"-32000 with 400":     {code(400, `"error":{"code":-32000,"message":"No valid session ID provided"}`), true},
		"-32000, no id":       {plain(400, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"m"}}`), true},
		"400 with text":       {plain(400, "text/plain", "Bad Request: no session"), true},
		"404 with HTML":       {plain(404, "text/html", "<html>no</html>"), true},
		"400 with nothing":    {plain(400, "", ""), true},
		"202":                 {plain(202, "", ""), true},
		"silence":             {(*exchange).hang, true},
		"-32022, legacy only": {code(400, `"error":{"code":-32022,"message":"m","data":{"supported":["2025-11-25"],"requested":"2026-07-28"}}`), true},
		"-32020":              {code(400, `"error":{"code":-32020,"message":"m"}`), false},
		"-32021":              {code(400, `"error":{"code":-32021,"message":"m","data":{"requiredCapabilities":{}}}`), false},
		"401":                 {plain(401, "text/plain", "no"), false},
		"403":                 {plain(403, "text/html", "<h1>no</h1>"), false},
		"503":                 {plain(503, "text/html", "<h1>later</h1>"), false},
		"500 with -32601":     {code(500, `"error":{"code":-32601,"message":"m"}`), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newLegacy(t).tool("t").handle("server/discover", try.probe)
			g := serve(t, document(members{"a": u}, nil, `limits: {list_timeout: 1s}`))
			_ = g.modern("server/discover", "")
			if try.legacy {
				eventually(t, "the upstream is served as a legacy one", 8e9, func() bool {
					r := g.modern("tools/call", `"name":"a__t"`)
					return text(r.message(), "result", "content", 0, "text") == "ok"
				})
				return
			}
			if r := g.modern("tools/list", ""); at(r.message(), "error", "code") != "-31001" {
				t.Errorf("want -31001, got %v", r)
			}
			if n := len(u.requests("initialize")); n != 0 {
				t.Errorf("it was taken for a legacy upstream: %d initialize", n)
			}
			// What was transient is not remembered: it recovers by itself.
			u.mu.Lock()
			delete(u.on, "server/discover")
			u.mu.Unlock()
			eventually(t, "it is served after it recovered", 8e9, func() bool {
				return text(g.modern("tools/call", `"name":"a__t"`).message(), "result", "content", 0, "text") == "ok"
			})
		})
	}
}

func TestARefusedProbeDoesNotSpoilInitialize_rustsdk1269(t *testing.T) {
	t.Parallel()
	u := newLegacy(t).tool("t")
	var from []string
	note := func(x *exchange) {
		u.mu.Lock()
		from = append(from, x.r.RemoteAddr)
		u.mu.Unlock()
	}
	u.handle("server/discover", func(x *exchange) { note(x); x.body(400, "text/plain", "unknown method") })
	u.handle("initialize", func(x *exchange) { note(x); x.handshake("2025-11-25") })
	g := open(t, members{"a": u})
	healthy(t, g, "a__t")
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(from) < 2 || from[0] != from[1] {
		t.Errorf("initialize did not come on the connection of the probe: %v", from)
	}
	if n := len(u.seen); n == 0 || u.seen[0].Method != "server/discover" {
		t.Errorf("the probe was not first: %d", n)
	}
}

func TestSentinelHeadersAreDecodedComparedAndMadeAnew_gosdk1234(t *testing.T) {
	t.Parallel()
	u := newModern(t)
	uris := []string{"file:///Zażółć", "=?base64?x?=", "=?BASE64?eA==?=", " lead", "trail ", "tab\there", "new\nline", "=?base64?eA==?=", ""}
	for _, uri := range uris {
		u.resource(uri)
		u.prompt("p" + uri)
	}
	g := through(t, u)
	for _, uri := range uris {
		if uri == "" {
			continue
		}
		wantResult(t, g.modern("resources/read", `"uri":`+quote(uri)))
		got := u.last(t, "resources/read")
		if text(got.Params, "uri") != uri || got.Header.Get("Mcp-Name") != sentinel(uri) {
			t.Errorf("%q went south as %s with Mcp-Name %q", uri, got.Params, got.Header.Get("Mcp-Name"))
		}
	}
	before := len(u.requests("resources/read"))
	for uri, headers := range map[string][]string{
		"file:///Zażółć": {sentinel("file:///Zazolc"), "file:///Zażółć", "=?base64?!!!!?=", "=?base64?" + "/w==" + "?=", "=?base64?ZmlsZQ?="},
		"=?base64?x?=":   {"=?base64?x?="},
		"plain":          {"Plain", "plain2", sentinel("läuft")},
	} {
		for _, h := range headers {
			r := g.post(modernBody("1", "resources/read", `"uri":`+quote(uri)), "MCP-Protocol-Version", modernVersion, "Mcp-Method", "resources/read", "Mcp-Name", h)
			wantError(t, r, http.StatusBadRequest, -32020)
		}
	}
	// A value that could be plain may be encoded all the same.
	encoded := "=?base64?ZmlsZTovLy9w?="
	r := g.post(modernBody("1", "resources/read", `"uri":"file:///p"`), "MCP-Protocol-Version", modernVersion, "Mcp-Method", "resources/read", "Mcp-Name", encoded)
	wantResult(t, r)
	if n := len(u.requests("resources/read")) - before; n != 1 {
		t.Errorf("%d of the mismatches went south", n-1)
	}
}

func TestAQuestionMakesTheRightRoundTripAndNoOther_mcpnest262(t *testing.T) {
	t.Parallel()
	const state = `up-state "<ü>\n`
	u := newModern(t).tool("ask", "other")
	u.handle("tools/call", func(x *exchange) {
		if at(x.Params, "inputResponses") == "" {
			x.result(`{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{"message":"m","n":1.0}}},"requestState":` + quote(state) + `}`)
			return
		}
		if text(x.Params, "requestState") != state {
			x.fail(-32602, "not the state that was given")
			return
		}
		x.result(`{"content":[{"type":"text","text":"ok"}]}`)
	})
	ring := quick + "\nkeys: {ring: [\"0123456789abcdef0123456789abcdef\"]}\n"
	g := serve(t, document(members{"a": u}, nil, ring))
	replica := serve(t, document(members{"a": u}, nil, ring))
	stranger := serve(t, document(members{"a": u}, nil, quick))

	asked := wantResult(t, g.modern("tools/call", `"name":"a__ask"`))
	sealed := text(asked, "requestState")
	if text(asked, "resultType") != "input_required" || at(asked, "inputRequests", "q", "params", "n") != "1.0" || sealed == "" || strings.Contains(asked, "up-state") {
		t.Fatalf("the question came as %s", asked)
	}
	if at(asked, "ttlMs") != "" || at(asked, "cacheScope") != "" {
		t.Errorf("a question must not be cached: %s", asked)
	}
	retry := func(c *client, tool, state string) *reply {
		return c.modern("tools/call", `"name":`+quote(tool)+`,"inputResponses":{"q":{"action":"accept","content":{}}},"requestState":`+quote(state))
	}
	for _, c := range []*client{g.client, replica.client} {
		if result := wantResult(t, retry(c, "a__ask", sealed)); text(result, "content", 0, "text") != "ok" {
			t.Errorf("the retry got %s", result)
		}
	}
	before := len(u.requests("tools/call"))
	flipped := []byte(sealed)
	flipped[len(flipped)/2] ^= 1
	for name, r := range map[string]*reply{
		"tampered":           retry(g.client, "a__ask", string(flipped)),
		"for another tool":   retry(g.client, "a__other", sealed),
		"the upstream's own": retry(g.client, "a__ask", state),
		"of other keys":      retry(stranger.client, "a__ask", sealed),
		"empty":              retry(g.client, "a__ask", ""),
	} {
		t.Run(name, func(t *testing.T) { wantError(t, r, http.StatusOK, -32602) })
	}
	if n := len(u.requests("tools/call")) - before; n != 0 {
		t.Errorf("%d refused retries reached the upstream", n)
	}
}

func TestTheScopeOfAMergedListIsOurs_modelcontextprotocol3207(t *testing.T) {
	t.Parallel()
	public := newModern(t).tool("a1", "a2", "a3")
	private := newModern(t).tool("b1", "b2")
	private.handle("tools/list", func(x *exchange) {
		x.result(`{"tools":[{"name":"b1"},{"name":"b2"}],"ttlMs":5,"cacheScope":"private"}`)
	})
	g := serve(t, document(members{"a": public, "b": private}, nil, quick+`
servers: {default: {page_size: 2}, pub: {upstreams: [a], page_size: 2}}`))
	params, scopes := "", []string{}
	for range 10 {
		result := wantResult(t, g.modern("tools/list", params))
		scopes = append(scopes, text(result, "cacheScope"))
		if at(result, "ttlMs") == "" || text(result, "resultType") != "complete" {
			t.Errorf("%s", result)
		}
		next := at(result, "nextCursor")
		if next == "" {
			break
		}
		params = `"cursor":` + next
	}
	if !slices.Equal(scopes, []string{"private", "private", "private"}) {
		t.Errorf("the scopes of the pages are %v", scopes)
	}
	if s := text(wantResult(t, g.at("/servers/pub/mcp").modern("tools/list", "")), "cacheScope"); s != "public" && s != "private" {
		t.Errorf("scope %q", s)
	}
}
