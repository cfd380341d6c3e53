package hostile_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

const regionTool = `{"name":"q","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"opts":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"Count"}}},"on":{"type":"boolean","x-mcp-header":"On"}}}}`

func TestParameterHeadersAreCheckedAndMadeAnew_badInput(t *testing.T) {
	t.Parallel()
	u := newModern(t).list("tools", regionTool)
	g := open(t, members{"a": u})
	_ = names(t, g, "tools/list")
	call := func(args string, headers ...string) *reply {
		return g.post(modernBody("1", "tools/call", `"name":"a__q","arguments":`+args), append(modernHeaders("tools/call", "a__q"), headers...)...)
	}
	for _, ok := range []struct {
		args    string
		headers []string
		south   map[string]string
	}{
		{`{"region":"eu"}`, []string{"Mcp-Param-Region", "eu"}, map[string]string{"Mcp-Param-Region": "eu"}},
		{`{"region":"Zażółć"}`, []string{"Mcp-Param-Region", sentinel("Zażółć")}, map[string]string{"Mcp-Param-Region": sentinel("Zażółć")}},
		{`{"opts":{"n":42}}`, []string{"Mcp-Param-Count", "42.0"}, map[string]string{"Mcp-Param-Count": "42"}},
		{`{"on":true}`, []string{"mcp-param-on", "true"}, map[string]string{"Mcp-Param-On": "true"}},
		{`{"region":null}`, nil, nil},
		{`{}`, nil, nil},
		{`{"region":"eu"}`, []string{"Mcp-Param-Region", "eu", "Mcp-Param-Vendor", "x y"}, map[string]string{"Mcp-Param-Region": "eu", "Mcp-Param-Vendor": "x y"}},
	} {
		wantResult(t, call(ok.args, ok.headers...))
		got := map[string]string{}
		for name, v := range u.last(t, "tools/call").Header {
			if strings.HasPrefix(name, "Mcp-Param-") {
				got[name] = v[0]
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(ok.south) && len(got)+len(ok.south) > 0 {
			t.Errorf("%s went with %v, not %v", ok.args, got, ok.south)
		}
	}
	before := len(u.requests("tools/call"))
	for name, bad := range map[string][]string{
		"missing":       {`{"region":"eu"}`},
		"other":         {`{"region":"eu"}`, "Mcp-Param-Region", "us"},
		"other case":    {`{"region":"eu"}`, "Mcp-Param-Region", "EU"},
		"twice":         {`{"region":"eu"}`, "Mcp-Param-Region", "eu", "Mcp-Param-Region", "us"},
		"undecodable":   {`{"region":"eu"}`, "Mcp-Param-Region", "=?base64?!?="},
		"not ASCII":     {`{"region":"ü"}`, "Mcp-Param-Region", "ü"},
		"other number":  {`{"opts":{"n":42}}`, "Mcp-Param-Count", "42.5"},
		"past 2^53":     {`{"opts":{"n":9007199254740993}}`, "Mcp-Param-Count", "9007199254740992"},
		"no number":     {`{"opts":{"n":42}}`, "Mcp-Param-Count", "forty-two"},
		"other boolean": {`{"on":true}`, "Mcp-Param-On", "false"},
	} {
		t.Run(name, func(t *testing.T) { check(t, call(bad[0], bad[1:]...), wants{400, -32020}) })
	}
	if n := len(u.requests("tools/call")) - before; n != 0 {
		t.Errorf("%d refused calls reached the upstream", n)
	}
	// A legacy client knows nothing of them: they are made for it (checklist T15).
	s := g.legacy("2025-11-25")
	wantResult(t, s.call("tools/call", `"name":"a__q","arguments":{"region":"eu","opts":{"n":7}}`))
	if h := u.last(t, "tools/call").Header; h.Get("Mcp-Param-Region") != "eu" || h.Get("Mcp-Param-Count") != "7" {
		t.Errorf("for a legacy client: %v", h)
	}
}

func TestAnUpstreamThatChangedItsSchemaIsReadAgainOnce_checklist110(t *testing.T) {
	t.Parallel()
	u := newModern(t)
	changed := false
	u.handle("tools/list", func(x *exchange) {
		u.mu.Lock()
		defer u.mu.Unlock()
		item := `{"name":"q","inputSchema":{"type":"object","properties":{"region":{"type":"string"}}}}`
		if changed {
			item = regionTool
		}
		x.result(`{"tools":[` + item + `],"ttlMs":600000,"cacheScope":"public"}`)
	})
	u.handle("tools/call", func(x *exchange) {
		if x.Header.Get("Mcp-Param-Region") != "eu" {
			x.body(http.StatusBadRequest, "application/json", x.message(`"error":{"code":-32020,"message":"header Mcp-Param-Region is missing"}`))
			return
		}
		x.result(`{"content":[{"type":"text","text":"ok"}]}`)
	})
	g := open(t, members{"a": u})
	_ = names(t, g, "tools/list")
	u.mu.Lock()
	changed = true
	u.mu.Unlock()
	s := g.legacy("2025-11-25")
	if got := text(wantResult(t, s.call("tools/call", `"name":"a__q","arguments":{"region":"eu"}`)), "content", 0, "text"); got != "ok" {
		t.Errorf("got %q", got)
	}
	if n := len(u.requests("tools/call")); n != 2 {
		t.Errorf("the call went %d times", n)
	}
}

func TestWhatAClientLacksIsToldInItsEra_checklist26(t *testing.T) {
	t.Parallel()
	u := newModern(t).tool("t").prompt("p")
	lacking := func(x *exchange) {
		x.body(http.StatusBadRequest, "application/json", x.message(`"error":{"code":-32021,"message":"needs it","data":{"requiredCapabilities":{"elicitation":{}}}}`))
	}
	u.handle("tools/call", lacking).handle("prompts/get", lacking)
	g := open(t, members{"a": u})
	r := g.modern("tools/call", `"name":"a__t"`)
	wantError(t, r, http.StatusBadRequest, -32021)
	if at(r.Body, "error", "data", "requiredCapabilities") != `{"elicitation":{}}` {
		t.Errorf("%v", r)
	}
	s := g.legacy("2025-11-25")
	if result := wantResult(t, s.call("tools/call", `"name":"a__t"`)); at(result, "isError") != "true" {
		t.Errorf("%s", result)
	}
	if r := s.call("prompts/get", `"name":"a__p"`); r.Status != http.StatusOK || at(r.message(), "error", "code") != "-32603" {
		t.Errorf("%v", r)
	}
}

func TestALegacyHangUpCancelsNothing_checklist93(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		u.tool("t")
		entered, ended := make(chan struct{}), make(chan error, 1)
		u.handle("tools/call", func(x *exchange) {
			close(entered)
			select {
			case <-x.r.Context().Done():
				ended <- x.r.Context().Err()
			case <-time.After(700 * time.Millisecond):
				ended <- nil
			}
			x.result(`{"content":[]}`)
		})
		g := open(t, members{"a": u})
		s := g.legacy("2025-11-25")
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			_, _ = g.do(ctx, http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__t"}}`, s.headers()...)
		}()
		<-entered
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the call was cut: %v", err)
		}
		if n := len(u.requests("notifications/cancelled")); n != 0 {
			t.Errorf("%d cancels were sent", n)
		}
		if r := s.call("ping", ""); at(r.message(), "result") != "{}" {
			t.Errorf("the session is gone: %v", r)
		}
	})
}

func TestLogsReachOnlyWhoAskedAndFromTheirLevelOn_checklist63(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		u.tool("t")
		u.handle("tools/call", func(x *exchange) {
			for _, level := range []string{"debug", "info", "warning", "error", "nonsense"} {
				x.stream(event(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"` + level + `","data":{"n":1.0}}}`))
			}
			x.stream(event(x.message(done)))
		})
		g := open(t, members{"a": u})
		levels := func(r *reply) (out []string) {
			wantResult(t, r)
			for _, e := range r.Events {
				if l := text(e, "params", "level"); l != "" {
					out = append(out, l)
				}
			}
			return out
		}
		if got := levels(g.modern("tools/call", `"name":"a__t"`)); len(got) != 0 {
			t.Errorf("modern, unasked: %v", got)
		}
		body := strings.Replace(modernBody("1", "tools/call", `"name":"a__t"`), meta, meta+`,"io.modelcontextprotocol/logLevel":"warning"`, 1)
		if got := levels(g.post(body, modernHeaders("tools/call", "a__t")...)); !slices.Equal(got, []string{"warning", "error"}) {
			t.Errorf("modern, from warning: %v", got)
		}
		s := g.legacy("2025-11-25")
		wantError(t, s.call("logging/setLevel", `"level":"loud"`), http.StatusOK, -32602)
		wantResult(t, s.call("logging/setLevel", `"level":"error"`))
		if got := levels(s.call("tools/call", `"name":"a__t"`)); !slices.Equal(got, []string{"error"}) {
			t.Errorf("legacy, from error: %v", got)
		}
		if other := levels(g.legacy("2025-11-25").call("tools/call", `"name":"a__t"`)); slices.Contains(other, "nonsense") {
			t.Errorf("another session: %v", other)
		}
	})
}

func TestURIsOfTwoUpstreamsDoNotCross_badInput(t *testing.T) {
	t.Parallel()
	a, b := newModern(t).resource("memo://1").resource("ui://app").template("same://{x}"), newLegacy(t).resource("memo://1").resource("ui://app").resource("memo://b").template("same://{x}")
	link := `{"contents":[],"_meta":{"ui":{"resourceUri":"ui://app"}}}`
	for _, u := range []*upstream{a, b} {
		u.tool("t").handle("tools/call", func(x *exchange) {
			x.result(`{"content":[{"type":"resource_link","uri":"ui://app","name":"l"},{"type":"resource","resource":{"uri":"memo://1","text":"x"}}],"_meta":` + at(link, "_meta") + `}`)
		})
	}
	for naming, want := range map[string][]string{
		"namespaced": {"memo://1", "memo://b", "ui://a/app", "ui://b/app"},
		"prefixed":   {"a-memo://1", "b-memo://1", "b-memo://b", "ui://a/app", "ui://b/app"},
	} {
		g := serve(t, document(members{"a": a, "b": b}, nil, quick+"\nservers: {default: {naming: "+naming+"}}"))
		for era, c := range g.clients() {
			got := names(t, c, "resources/list")
			if !slices.Equal(got, want) {
				t.Errorf("%s %s: %v", naming, era, got)
			}
			for _, uri := range got {
				na, nb := len(a.requests("resources/read")), len(b.requests("resources/read"))
				result := wantResult(t, c.request("resources/read", `"uri":`+quote(uri)))
				if text(result, "contents", 0, "uri") != uri {
					t.Errorf("%s: %s reads as %s", naming, uri, result)
				}
				toB := strings.Contains(uri, "b-") || strings.Contains(uri, "//b")
				if (len(b.requests("resources/read"))-nb == 1) != toB || (len(a.requests("resources/read"))-na == 1) == toB {
					t.Errorf("%s: %s went to the wrong upstream", naming, uri)
				}
			}
			tool := map[string]string{"namespaced": "b__t", "prefixed": "b-t"}[naming]
			result := wantResult(t, c.request("tools/call", `"name":"`+tool+`"`))
			for _, uri := range []string{text(result, "content", 0, "uri"), text(result, "content", 1, "resource", "uri"), text(result, "_meta", "ui", "resourceUri")} {
				if !slices.Contains(got, uri) {
					t.Errorf("%s: a result names %q, which is in no list", naming, uri)
				}
			}
		}
	}
}

func TestOldAndOddHTTPClientsAreServed_badInput(t *testing.T) {
	t.Parallel()
	g := open(t, members{"a": newModern(t).tool("t")})
	body := modernBody("1", "tools/call", `"name":"a__t"`)
	head := "Host: localhost\r\nContent-Type: application/json\r\nMCP-Protocol-Version: 2026-07-28\r\nmcp-method: tools/call\r\nMCP-NAME: a__t\r\n"
	for name, raw := range map[string]string{
		"HTTP/1.0":     "POST /mcp HTTP/1.0\r\n" + head + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body),
		"100-continue": "POST /mcp HTTP/1.1\r\n" + head + fmt.Sprintf("Connection: close\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n%s", len(body), body),
		"chunks of 1":  "POST /mcp HTTP/1.1\r\n" + head + "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + chunksOfOne(body),
		"absolute URL": "POST http://localhost/mcp HTTP/1.1\r\n" + head + fmt.Sprintf("Connection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), body),
	} {
		r, err := rawHTTP(t, g.addr, raw, http.MethodPost)
		if err != nil || (r.Status != http.StatusOK && r.Status != http.StatusContinue) {
			t.Errorf("%s: %v %v", name, r, err)
		}
	}
}

func chunksOfOne(body string) string {
	var b strings.Builder
	for i := range len(body) {
		b.WriteString("1\r\n" + body[i:i+1] + "\r\n")
	}
	return b.String() + "0\r\n\r\n"
}
