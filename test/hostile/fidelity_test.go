package hostile_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// numbers are values that a typed round trip changes.
const numbers = `{"id":9007199254740993,"max":9223372036854775807,"one":1.0,"huge":1e400,"neg":-0,"esc":"\u00e9\/é<&>","z":1,"a":2}`

func TestNumbersKeepTheirBytesBothWays_gosdk1236(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		for _, sse := range []bool{false, true} {
			u.tool("echo")
			u.handle("tools/call", func(x *exchange) {
				x.answer(sse, x.message(`"result":{"content":[],"structuredContent":`+at(x.Params, "arguments")+`,"_meta":{"v/n":`+at(x.Params, "_meta", "v/n")+`},"resultType":"complete"}`))
			})
			g := open(t, members{"a": u})
			params := `"name":"a__echo","arguments":` + numbers
			s := g.legacy("2025-11-25")
			for era, r := range map[string]*reply{
				"modern": g.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+params+`,"_meta":{"v/n":`+numbers+`,`+meta+`}}}`, modernHeaders("tools/call", "a__echo")...),
				"legacy": s.call("tools/call", params+`,"_meta":{"v/n":`+numbers+`}`),
			} {
				result := wantResult(t, r)
				if got := at(u.requests("tools/call")[0].Params, "arguments"); got != numbers {
					t.Errorf("%s: the upstream got %s", era, got)
				}
				if got := at(result, "structuredContent"); got != numbers {
					t.Errorf("%s sse=%v: the client got %s", era, sse, got)
				}
				if got := at(result, "_meta", "v/n"); got != numbers {
					t.Errorf("%s sse=%v: _meta came as %s", era, sse, got)
				}
			}
			for _, r := range u.requests("tools/call") {
				if got := at(r.Params, "_meta", "v/n"); got != numbers {
					t.Errorf("_meta went as %s", got)
				}
			}
		}
	})
}

func TestEveryKindOfContentPasses_sparfenyuk133(t *testing.T) {
	content := `[{"type":"text","text":"t","annotations":{"priority":0.50,"audience":["user"],"lastModified":"2025-01-01T00:00:00Z"}},` +
		`{"type":"image","data":"aGk=","mimeType":"image/png","_meta":{"v/x":1}},{"type":"audio","data":"aGk=","mimeType":"audio/wav"},` +
		`{"type":"resource_link","uri":"file:///l","name":"l","title":"L","icons":[]},{"type":"resource","resource":{"uri":"file:///e","mimeType":"a/b","blob":"aGk=","_meta":{"q":1.0}}},` +
		`{"type":"vendor.com/new","payload":{"b":1,"a":[9007199254740993]}}]`
	bothEras(t, func(t *testing.T, u *upstream) {
		u.tool("all", "structured")
		u.handle("tools/call", func(x *exchange) {
			if text(x.Params, "name") == "structured" {
				x.result(`{"structuredContent":{"only":[1.0]},"unknown":{"k":null}}`)
				return
			}
			x.result(`{"content":` + content + `,"isError":false}`)
		})
		g := open(t, members{"a": u})
		for era, c := range g.clients() {
			if got := at(wantResult(t, c.request("tools/call", `"name":"a__all"`)), "content"); got != content {
				t.Errorf("%s: content\n got %s\nwant %s", era, got, content)
			}
			result := wantResult(t, c.request("tools/call", `"name":"a__structured"`))
			if at(result, "structuredContent") != `{"only":[1.0]}` || at(result, "unknown") != `{"k":null}` {
				t.Errorf("%s: %s", era, result)
			}
		}
	})
}

func TestRequestMetadataIsForwardedWithoutThatOfTheHop_sparfenyuk189(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		u.tool("echo").prompt("p").resource("memo://1")
		g := through(t, u)
		vendor := `"progressToken":"mine","com.example/k":{"a":1.0},"plain":true`
		for era, c := range map[string]func(method, params string) *reply{
			"legacy": func(method, params string) *reply {
				return g.legacy("2025-11-25").call(method, params+`,"_meta":{`+vendor+`}`)
			},
			"modern": func(method, params string) *reply {
				body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `,"_meta":{` + vendor + `,` + meta + `}}}`
				return g.post(body, modernHeaders(method, nameOf(method, params))...)
			},
		} {
			for method, params := range map[string]string{"tools/call": `"name":"echo"`, "prompts/get": `"name":"p"`, "resources/read": `"uri":"memo://1"`} {
				wantResult(t, c(method, params))
				got := at(u.last(t, method).Params, "_meta")
				if at(got, "com.example/k") != `{"a":1.0}` || at(got, "plain") != "true" {
					t.Errorf("%s %s: vendor keys: %s", era, method, got)
				}
				if token := at(got, "progressToken"); token == "" || token == `"mine"` {
					t.Errorf("%s %s: the progress token went as %q; it must be our own", era, method, token)
				}
				if version := text(got, "io.modelcontextprotocol/protocolVersion"); (u.legacy == "") != (version == modernVersion) {
					t.Errorf("%s %s: protocolVersion in _meta is %q", era, method, version)
				}
				if u.legacy != "" && strings.Contains(got, "io.modelcontextprotocol/") {
					t.Errorf("%s %s: a legacy upstream got %s", era, method, got)
				}
			}
		}
	})
}

func TestToolErrorProtocolErrorAndLostConnectionStayThree_contextforge6275(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		u.tool("tool-error", "error", "reset-json", "reset-sse", "fine")
		sse := func(x *exchange) bool { return at(x.Params, "arguments", "sse") == "true" }
		u.handle("tools/call", func(x *exchange) {
			switch text(x.Params, "name") {
			case "tool-error":
				x.answer(sse(x), x.message(`"result":{"content":[{"type":"text","text":"boom"}],"isError":true,"resultType":"complete"}`))
			case "error":
				x.answer(sse(x), x.message(`"error":{"code":-32602,"message":"bad x","data":{"field":"x","n":1.0}}`))
			case "reset-json":
				x.w.Header().Set("Content-Type", "application/json")
				x.w.Header().Set("Content-Length", "1000")
				_, _ = fmt.Fprint(x.w, `{"jsonrpc":"2.0","id":`)
				x.reset()
			case "reset-sse":
				x.stream("event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":" + x.ID + `,"result":{"con`)
				x.reset()
			default:
				x.result(`{"content":[{"type":"text","text":"ok"}]}`)
			}
		})
		g := open(t, members{"a": u})
		for era, c := range g.clients() {
			for _, sse := range []string{"false", "true"} {
				args := `,"arguments":{"sse":` + sse + `}`
				result := wantResult(t, c.request("tools/call", `"name":"a__tool-error"`+args))
				if at(result, "isError") != "true" || text(result, "content", 0, "text") != "boom" {
					t.Errorf("%s sse=%s: a tool's error became %s", era, sse, result)
				}
				r := c.request("tools/call", `"name":"a__error"`+args)
				wantError(t, r, http.StatusOK, -32602)
				if text(r.message(), "error", "message") != "bad x" || at(r.message(), "error", "data") != `{"field":"x","n":1.0}` {
					t.Errorf("%s sse=%s: the error became %v", era, sse, r)
				}
			}
			for _, name := range []string{"reset-json", "reset-sse"} {
				r := c.request("tools/call", `"name":"a__`+name+`"`)
				wantError(t, r, http.StatusOK, -31003)
				if m := text(r.message(), "error", "message"); !strings.Contains(m, `"a"`) || !strings.Contains(m, "may have run") {
					t.Errorf("%s: the error says neither where nor whether to retry: %s", era, m)
				}
			}
			healthy(t, c, "a__fine")
		}
		for _, name := range []string{"reset-json", "reset-sse"} {
			n := 0
			for _, r := range u.requests("tools/call") {
				if text(r.Params, "name") == name {
					n++
				}
			}
			if n != 2 { // once for each client: a call is never sent twice
				t.Errorf("%s was called %d times by two clients", name, n)
			}
		}
	})
}

func TestErrorsAndDenialsAreNever500_agentgateway2082(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		u.tool("rm", "fail")
		u.handle("tools/call", func(x *exchange) { x.fail(-32099, "broken") })
		g := serve(t, document(members{"a": u}, nil, quick+`
servers: {default: {expose: {tools: {deny: ["*rm"]}}}}`))
		for _, version := range []string{"2025-11-25", "2025-06-18", "2025-03-26"} {
			s := g.legacy(version)
			wantError(t, s.call("tools/call", `"name":"a__fail"`), http.StatusOK, -32099)
			wantError(t, s.call("tools/call", `"name":"a__rm"`), http.StatusOK, -32602)
			wantError(t, s.call("no/such", ``), http.StatusOK, -32601)
			if r := s.call("ping", ""); at(r.message(), "result") != "{}" {
				t.Errorf("%s: the session is broken by the errors: %v", version, r)
			}
		}
		if n := len(u.requests("tools/call")); n != 3 {
			t.Errorf("the upstream got %d calls; the denied one must not be among them", n)
		}
	})
}

func TestIdsKeepTypeAndValue_pythonsdk961(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		for _, sse := range []bool{false, true} {
			u.tool("echo")
			u.handle("tools/call", func(x *exchange) { x.answer(sse, x.message(`"result":{"content":[],"resultType":"complete"}`)) })
			g := open(t, members{"a": u})
			s := g.legacy("2025-11-25")
			for _, id := range []string{`"1"`, `1`, `0`, `""`, `"req-abc"`, `9007199254740993`, `-1`, `"\u00e9\n\u2028"`} {
				for method, params := range map[string]string{"tools/call": `"name":"a__echo"`, "tools/list": "", "no/such": ""} {
					r := g.post(modernBody(id, method, params), modernHeaders(method, nameOf(method, params))...)
					if got := at(r.message(), "id"); got != id {
						t.Errorf("modern %s: id %s came back as %s: %v", method, id, got, r)
					}
					r = s.send(`{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + params + `}}`)
					if got := at(r.message(), "id"); got != id {
						t.Errorf("legacy %s: id %s came back as %s: %v", method, id, got, r)
					}
				}
			}
		}
		ours := map[string]bool{}
		for _, r := range u.requests("tools/call") {
			if ours[r.ID] {
				t.Errorf("the id %s went south twice", r.ID)
			}
			ours[r.ID] = true
		}
	})
}

func TestRawJSONCalledAnEventStreamIsNoEmptyList_EAG2218(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		u.tool("t")
		lie := func(body func(*exchange) string) func(*exchange) {
			return func(x *exchange) { x.body(http.StatusOK, "text/event-stream", body(x)) }
		}
		u.handle("tools/list", lie(func(x *exchange) string {
			return x.message(`"result":{"tools":[{"name":"t"}]}`)
		})).handle("tools/call", lie(func(x *exchange) string {
			answer := x.message(`"result":{"content":[]}`)
			// As it is, as lines ended by an empty one, and spread over lines.
			switch text(x.Params, "arguments", "form") {
			case "ended":
				return answer + "\n\n"
			case "spread":
				return strings.ReplaceAll(answer, ",", ",\r\n\r\n") + "\r\n\r\n"
			}
			return answer
		}))
		g := open(t, members{"a": u, "b": newModern(t).tool("fine")})
		for era, c := range g.clients() {
			result := wantResult(t, c.request("tools/list", ""))
			if text(result, "_meta", "penstock/partial", 0, "upstream") != "a" {
				t.Errorf("%s: what is missing is not named: %s", era, result)
			}
			for _, form := range []string{"plain", "ended", "spread"} {
				r := c.request("tools/call", `"name":"a__t","arguments":{"form":"`+form+`"}`)
				if code := at(r.message(), "error", "code"); r.Status != http.StatusOK || code != "-31007" {
					t.Errorf("%s, %s: want -31007, got %v", era, form, r)
				}
			}
			healthy(t, c, "b__fine")
		}
		alone := through(t, u)
		if r := alone.modern("tools/list", ""); at(r.message(), "error", "code") == "" {
			t.Errorf("nothing could be served, and the list is %v", r)
		}
	})
}

func TestCompressionIsNotOfferedAndRefused_EAG1938(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		u.tool("gzip", "br", "identity")
		u.handle("tools/call", func(x *exchange) {
			answer := x.message(`"result":{"content":[{"type":"text","text":"ok"}],"resultType":"complete"}`)
			switch name := text(x.Params, "name"); name {
			case "gzip":
				var b bytes.Buffer
				z := gzip.NewWriter(&b)
				_, _ = z.Write([]byte(answer))
				_ = z.Close()
				x.w.Header().Set("Content-Encoding", "gzip")
				x.body(http.StatusOK, "application/json", b.String())
			default:
				x.w.Header().Set("Content-Encoding", name)
				x.body(http.StatusOK, "application/json", answer)
			}
		})
		g := open(t, members{"a": u})
		for era, c := range g.clients() {
			for _, name := range []string{"gzip", "br"} {
				r := c.request("tools/call", `"name":"a__`+name+`"`)
				wantError(t, r, http.StatusOK, -31007)
				if !strings.Contains(text(r.message(), "error", "message"), name) {
					t.Errorf("%s: the error does not name the encoding: %v", era, r)
				}
			}
			healthy(t, c, "a__identity")
		}
		for _, m := range []string{"tools/call", "tools/list"} {
			if e := u.last(t, m).Header.Get("Accept-Encoding"); e != "identity" && e != "" {
				t.Errorf("%s offers %q", m, e)
			}
		}
	})
}

func TestContentLengthIsThatOfTheChangedBody_wso2(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		u.tool("echo")
		g := open(t, members{"a": u})
		for era, c := range g.clients() {
			r := c.request("tools/call", `"name":"a__echo","arguments":{"x":"üü"}`)
			wantResult(t, r)
			if r.Length >= 0 && r.Length != int64(len(r.Body)) {
				t.Errorf("%s: Content-Length %d of %d bytes", era, r.Length, len(r.Body))
			}
			if got := u.last(t, "tools/call"); got.Length != int64(len(got.Raw)) || strings.Contains(string(got.Raw), "a__echo") {
				t.Errorf("%s: southbound Content-Length %d of %d bytes: %s", era, got.Length, len(got.Raw), got.Raw)
			}
		}
	})
}
