package hostile_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestAnUpstreamThatLiesFailsThatCallAlone_badInput(t *testing.T) {
	type answer func(x *exchange)
	plain := func(status int, media, body string) answer {
		return func(x *exchange) { x.body(status, media, body) }
	}
	with := func(id, member string) answer {
		return func(x *exchange) {
			x.body(http.StatusOK, "application/json", `{"jsonrpc":"2.0","id":`+id+`,`+member+`}`)
		}
	}
	head := func(raw string) answer { return func(x *exchange) { x.bytes(raw) } }
	// A set of codes: what the catalogue has for it, and nothing vaguer.
	lies := map[string]struct {
		answer answer
		codes  string
	}{
		"HTML":                 {plain(200, "text/html", "<html>login</html>"), "-31007"},
		"HTML called JSON":     {plain(200, "application/json", "<html>"), "-31007"},
		"HTML with 404":        {plain(404, "text/html", "<html>"), "-31007 -31001"},
		"HTML with 500":        {plain(500, "text/html", "<html>"), "-31007"},
		"401":                  {plain(401, "text/plain", "who are you"), "-31001"},
		"403":                  {plain(403, "application/json", `{"error":"forbidden"}`), "-31001"},
		"429":                  {plain(429, "text/plain", "slow down"), "-31001"},
		"502":                  {plain(502, "text/html", "<html>"), "-31001"},
		"503":                  {plain(503, "", ""), "-31001"},
		"nothing":              {plain(200, "application/json", ""), "-31007"},
		"no media type":        {plain(200, "", "x"), "-31007"},
		"202":                  {plain(202, "", ""), "-31007"},
		"204":                  {plain(204, "", ""), "-31007"},
		"an array":             {plain(200, "application/json", "[]"), "-31007"},
		"another's id":         {with(`"nobody"`, `"result":{"content":[]}`), "-31007"},
		"our id as another":    {with(`1`, `"result":{"content":[]}`), "-31007"},
		"id null":              {with(`null`, `"result":{"content":[]}`), "-31007"},
		"version 1.0":          {func(x *exchange) { x.body(200, "application/json", `{"jsonrpc":"1.0","id":`+x.ID+`,"result":{}}`) }, "-31007"},
		"a request":            {with(`"q"`, `"method":"sampling/createMessage","params":{}`), "-31007"},
		"a notification":       {plain(200, "application/json", `{"jsonrpc":"2.0","method":"notifications/message","params":{}}`), "-31007"},
		"error without a code": {func(x *exchange) { x.body(200, "application/json", x.message(`"error":{"message":"m"}`)) }, "-31007"},
		"error a string":       {func(x *exchange) { x.body(200, "application/json", x.message(`"error":"m"`)) }, "-31007"},
		"result is a list":     {func(x *exchange) { x.body(200, "application/json", x.message(`"result":[]`)) }, "-31007"},
		"data behind":          {func(x *exchange) { x.body(200, "application/json", x.message(done)+"{}") }, "-31007"},
		"an empty stream":      {func(x *exchange) { x.stream("") }, "-31007 -31003"},
		"comments only":        {func(x *exchange) { x.stream(": hi\n\n: hi\n\n") }, "-31007 -31003"},
		"a stream of rubbish":  {func(x *exchange) { x.stream("data: <html>\n\n") }, "-31007"},
		"an endless field":     {func(x *exchange) { x.stream("id: " + strings.Repeat("i", 1<<20) + "\n\n") }, "-31007"},
		"a huge notification": {func(x *exchange) {
			x.stream(`data: {"jsonrpc":"2.0","method":"m","params":"` + strings.Repeat("n", 1<<20) + "\"}\n\n")
		}, "-31007"},
		"redirect elsewhere": {func(x *exchange) { x.w.Header().Set("Location", "http://127.0.0.1:1/mcp"); x.body(307, "", "") }, "-31007 -31001"},
		"redirect for ever":  {func(x *exchange) { x.w.Header().Set("Location", x.r.URL.Path+"x"); x.body(308, "", "") }, "-31007 -31001"},
		"301":                {func(x *exchange) { x.w.Header().Set("Location", "/other"); x.body(301, "", "") }, "-31007 -31001"},
		"no HTTP":            {head("hello\r\n\r\n"), "-31003 -31007"},
		"half a head":        {head("HTTP/1.1 200 OK\r\nContent-Ty"), "-31003 -31007"},
		"two lengths":        {head("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\n{}..."), "-31003 -31007"},
		"a bad chunk":        {head("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n"), "-31003 -31007"},
		"a length too long":  {head("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99999\r\n\r\n{}"), "-31003"},
		"a huge header":      {head("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("h", 1<<20) + "\r\n\r\n"), "-31003 -31007"},
		"an endless status":  {head(strings.Repeat("HTTP/1.1 ", 50_000)), "-31003 -31007"},
		"100 for ever":       {head(strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 1000)), "-31003 -31007"},
		"101":                {head("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"), "-31003 -31007"},
		"a task nobody offered": {func(x *exchange) {
			x.body(200, "application/json", x.message(`"result":{"resultType":"task","taskId":"t","status":"working"}`))
		}, "-31007"},
		"an unknown resultType": {func(x *exchange) { x.body(200, "application/json", x.message(`"result":{"resultType":"zzz"}`)) }, "-31007"},
		"resultType a number":   {func(x *exchange) { x.body(200, "application/json", x.message(`"result":{"resultType":7}`)) }, "-31007"},
		"our version is wrong":  {func(x *exchange) { x.body(400, "application/json", x.message(`"error":{"code":-32022,"message":"m"}`)) }, "-31007"},
		"our headers are wrong": {func(x *exchange) { x.body(400, "application/json", x.message(`"error":{"code":-32020,"message":"m"}`)) }, "-31007"},
		"a closed connection":   {func(x *exchange) { x.reset() }, "-31003"},
	}
	legacyToo := func(name string) bool { // resultType, versions and headers are of the modern era
		return !strings.Contains(name, "resultType") && !strings.Contains(name, "our ") && !strings.Contains(name, "task")
	}
	bothEras(t, func(t *testing.T, u *upstream) {
		for name := range lies {
			u.tool(name)
		}
		u.handle("tools/call", func(x *exchange) { lies[text(x.Params, "name")].answer(x) })
		g := serve(t, document(members{"a": u, "b": newModern(t).tool("fine")}, patient, quick+`
servers: {default: {aliases: {`+aliases(lies)+`}}}`))
		clients := g.clients()
		for name, lie := range lies {
			if u.legacy != "" && !legacyToo(name) {
				continue
			}
			t.Run(name, func(t *testing.T) {
				for era, c := range clients {
					start := time.Now()
					r := c.request("tools/call", `"name":`+quote("lie "+name))
					code := at(r.message(), "error", "code")
					if r.Status != http.StatusOK || code == "" || !strings.Contains(lie.codes, code) || at(r.message(), "id") == "" {
						t.Errorf("%s: want one of %s, got %v", era, lie.codes, r)
					}
					if m := text(r.message(), "error", "message"); !strings.Contains(m, `"a"`) || strings.Contains(m, "127.0.0.1") || strings.Contains(m, "<html>") {
						t.Errorf("%s: the message is %q", era, m)
					}
					if took := time.Since(start); took > 3*time.Second {
						t.Errorf("%s: it took %s", era, took)
					}
					healthy(t, c, "b__fine")
				}
			})
		}
	})
}

func aliases[V any](of map[string]V) string {
	var out []string
	for name := range of {
		out = append(out, fmt.Sprintf("%q: {upstream: a, tool: %q}", "lie "+name, name))
	}
	return strings.Join(out, ",\n  ")
}

// flood is an answer without an end.
func (x *exchange) flood(media, head, piece string) {
	x.w.Header().Set("Content-Type", media)
	_, _ = io.WriteString(x.w, head)
	for x.r.Context().Err() == nil {
		if _, err := io.WriteString(x.w, piece); err != nil {
			return
		}
		select {
		case <-x.u.closed:
			return
		default:
		}
	}
}

func TestAFloodIsCutAtItsBound_badInput(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		kilo := strings.Repeat("f", 1024)
		u.tool("json", "sse", "events", "declared", "spaces", "names")
		u.handle("tools/call", func(x *exchange) {
			begin := `{"jsonrpc":"2.0","id":` + x.ID + `,"result":{"content":[{"type":"text","text":"`
			switch text(x.Params, "name") {
			case "json":
				x.flood("application/json", begin, kilo)
			case "sse":
				x.flood("text/event-stream", "data: "+begin, kilo)
			case "events":
				x.flood("text/event-stream", "", event(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"`+kilo+`"}}`))
			case "declared":
				x.w.Header().Set("Content-Length", "999999999")
				x.flood("application/json", begin, kilo)
			case "spaces":
				x.flood("application/json", "", strings.Repeat(" ", 1024))
			case "names":
				x.flood("application/json", `{"jsonrpc":"2.0","`, kilo)
			}
		})
		g := serve(t, document(members{"a": u, "b": newModern(t).tool("fine")}, nil, `limits: {list_timeout: 2s, call_timeout: 10s, response_bytes: 1MiB}`))
		for era, c := range g.clients() {
			for _, tool := range []string{"json", "sse", "events", "declared", "spaces", "names"} {
				start := time.Now()
				name := "a__" + tool
				var r *reply
				if s, ok := c.(*session); ok {
					r = s.try(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+name+`"}}`, s.headers()...)
				} else {
					r = g.try(modernBody("1", "tools/call", `"name":"`+name+`"`), modernHeaders("tools/call", name)...)
				}
				code := at(r.message(), "error", "code")
				begun := code == "" && r.Err != nil && len(r.Body) < 2<<20
				if code != "-31008" && !begun && !(code == "-31007" && (tool == "spaces" || tool == "names")) {
					t.Errorf("%s %s: HTTP %d, %d bytes, %s, %v", era, tool, r.Status, len(r.Body), code, r.Err)
				}
				if took := time.Since(start); took > 5*time.Second {
					t.Errorf("%s %s took %s", era, tool, took)
				}
				healthy(t, c, "b__fine")
			}
		}
	})
}

func TestLiesInListsLeaveTheOthersListed_badInput(t *testing.T) {
	list := func(items string) func(*exchange) {
		return func(x *exchange) { x.result(`{"tools":` + items + `,"ttlMs":0,"cacheScope":"private"}`) }
	}
	for name, try := range map[string]struct {
		answer func(*exchange)
		listed string // what of the liar's tools is kept
	}{
		"HTML":             {func(x *exchange) { x.body(200, "text/html", "<html>") }, ""},
		"503":              {func(x *exchange) { x.body(503, "text/html", "<html>") }, ""},
		"reset":            {(*exchange).reset, ""},
		"a string":         {list(`"tools"`), ""},
		"an object":        {list(`{}`), ""},
		"two lists":        {list(`[],"tools":[{"name":"x"}]`), ""},
		"broken items":     {list(`[{"name":"good"},{},{"name":7},{"name":""},null,7,"x",[],{"name":"twice","name":"b"},{"nAme":"n"},{"name":"good"}]`), "a__good"},
		"a cursor number":  {list(`[{"name":"good"}],"nextCursor":7`), "a__good"},
		"ttl negative":     {list(`[{"name":"good"}],"x":1`), "a__good"},
		"invalid header":   {list(`[{"name":"good"},{"name":"bad","inputSchema":{"type":"object","properties":{"x":{"type":"number","x-mcp-header":"X"}}}}]`), "a__good"},
		"an error":         {func(x *exchange) { x.fail(-32000, "no") }, ""},
		"control in names": {list(`[{"name":"good"},{"name":"e\nvent: x"}]`), "a__good"},
	} {
		t.Run(name, func(t *testing.T) {
			bothEras(t, func(t *testing.T, u *upstream) {
				u.handle("tools/list", try.answer)
				g := open(t, members{"a": u, "b": newModern(t).tool("fine")})
				for era, c := range g.clients() {
					r := c.request("tools/list", "")
					result := wantResult(t, r)
					got := texts(at(result, "tools"), "name")
					if len(got) == 0 || !strings.Contains(strings.Join(got, " "), "b__fine") {
						t.Errorf("%s: %v", era, got)
					}
					if try.listed == "" && (len(got) != 1 || at(result, "_meta", "penstock/partial", 0) == "") {
						t.Errorf("%s: listed %v, partial %s", era, got, at(result, "_meta"))
					}
					if try.listed != "" && !slices.Contains(got, try.listed) {
						t.Errorf("%s: %v", era, got)
					}
					for _, n := range got {
						if !safeName.MatchString(n) {
							t.Errorf("%s: exposed name %q", era, n)
						}
					}
					healthy(t, c, "b__fine")
				}
			})
		})
	}
}

func TestAHandshakeThatLiesIsNotBelieved_badInput(t *testing.T) {
	for name, answer := range map[string]func(*exchange){
		"unknown version": func(x *exchange) { x.handshake("1999-01-01") },
		"modern version":  func(x *exchange) { x.handshake(modernVersion) },
		"no version":      func(x *exchange) { x.result(`{"capabilities":{}}`) },
		"a long session id": func(x *exchange) {
			x.w.Header().Set("Mcp-Session-Id", strings.Repeat("s", 5000))
			x.body(200, "application/json", x.message(`"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}`))
		},
		"a session id with spaces": func(x *exchange) {
			x.w.Header().Set("Mcp-Session-Id", "a b")
			x.body(200, "application/json", x.message(`"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}`))
		},
		"HTML":     func(x *exchange) { x.body(200, "text/html", "<html>") },
		"an error": func(x *exchange) { x.fail(-32603, "no") },
		"nothing":  (*exchange).hang,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newLegacy(t).tool("t").handle("initialize", answer)
			g := serve(t, document(members{"a": u, "b": newModern(t).tool("fine")}, nil, quick))
			for era, c := range g.clients() {
				r := c.request("tools/call", `"name":"a__t"`)
				if code := at(r.message(), "error", "code"); r.Status != http.StatusOK || code != "-31001" && code != "-31007" {
					t.Errorf("%s: %v", era, r)
				}
				result := wantResult(t, c.request("tools/list", ""))
				if !slices.Equal(texts(at(result, "tools"), "name"), []string{"b__fine"}) || text(result, "_meta", "penstock/partial", 0, "upstream") != "a" {
					t.Errorf("%s: %s", era, result)
				}
				healthy(t, c, "b__fine")
			}
			if n := len(u.requests("tools/call")); n != 0 {
				t.Errorf("%d calls were sent", n)
			}
		})
	}
}
