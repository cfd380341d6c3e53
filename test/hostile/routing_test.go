package hostile_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNearlyEqualKeysAndExactAliases_contextforge6491(t *testing.T) {
	t.Parallel()
	a, b := newModern(t).tool("run"), newLegacy(t).tool("run", "Tool: X")
	g := serve(t, document(members{"My-API": a, "my-api": b}, nil, quick+`
servers: {default: {aliases: {Public.Tool: {upstream: my-api, tool: "Tool: X"}, "weird name/1": {upstream: My-API, tool: run}}}}`))
	for era, c := range g.clients() {
		got := names(t, c, "tools/list")
		if diff := cmp.Diff([]string{"Public.Tool", "my-api__run", "weird name/1"}, got); diff != "" {
			t.Errorf("%s: %s", era, diff)
		}
		for _, n := range append(got, "My-API__run") {
			healthy(t, c, n)
		}
		wantError(t, c.request("tools/call", `"name":"public.tool"`), http.StatusOK, -32602)
	}
	if n := len(a.requests("tools/call")); n != 4 {
		t.Errorf("My-API got %d calls", n)
	}
	if got := text(b.requests("tools/call")[0].Params, "name"); got != "Tool: X" {
		t.Errorf("the alias called %q", got)
	}
	if why := refused(t, `upstreams: {"My API": {url: "http://127.0.0.1:1/mcp"}}`); !strings.Contains(why, "My API") {
		t.Error(why)
	}
}

func TestResultsOfToolsWithAnOutputSchemaPass_contextforge4042(t *testing.T) {
	results := map[string]string{
		"both":  `{"content":[{"type":"text","text":"{\"x\":1}"}],"structuredContent":{"x":1}}`,
		"empty": `{"content":[],"structuredContent":{"x":1}}`,                                // #5472
		"error": `{"content":[{"type":"text","text":"the real error"}],"isError":true}`,      // PR #4204
		"wrong": `{"content":[],"structuredContent":{"not":"what the schema says","n":1.0}}`, // the client's to judge
	}
	bothEras(t, func(t *testing.T, u *upstream) {
		for n := range results {
			u.list("tools", `{"name":"`+n+`","inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"]}}`)
		}
		u.handle("tools/call", func(x *exchange) { x.result(results[text(x.Params, "name")]) })
		g := open(t, members{"a": u})
		for era, c := range g.clients() {
			for i := range 4 {
				if at(wantResult(t, c.request("tools/list", "")), "tools", i, "outputSchema", "required") != `["x"]` {
					t.Errorf("%s: an outputSchema is stripped", era)
				}
			}
			for n, want := range results {
				got := wantResult(t, c.request("tools/call", `"name":"a__`+n+`"`))
				for _, member := range []string{"content", "structuredContent", "isError"} {
					if at(got, member) != at(want, member) {
						t.Errorf("%s: %s of %q is %s", era, member, n, got)
					}
				}
			}
		}
	})
}

func TestUnknownAndForbiddenAreIndistinguishable_contextforge6576(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		u.tool("hidden", "fine").prompt("hidden").resource("memo://hidden")
		g := serve(t, document(members{"a": u}, nil, quick+`
servers: {default: {expose: {tools: {deny: [hidden]}, prompts: {deny: [hidden]}, resources: {deny: ["memo://hidden", "memo://absent"]}}}}`))
		for era, c := range g.clients() {
			for method, of := range map[string][2]string{
				"tools/call":     {`"name":"a__hidden"`, `"name":"a__absent"`},
				"prompts/get":    {`"name":"a__hidden"`, `"name":"a__absent"`},
				"resources/read": {`"uri":"memo://hidden"`, `"uri":"memo://absent"`},
			} {
				hidden, absent := c.request(method, of[0]), c.request(method, of[1])
				if _, legacy := c.(*session); !legacy || method != "resources/read" {
					wantError(t, hidden, http.StatusOK, -32602)
				}
				if !strings.Contains(hidden.Body, "hidden") {
					t.Errorf("%s %s: the error does not name it: %v", era, method, hidden)
				}
				a := strings.ReplaceAll(hidden.message(), "hidden", "absent")
				if at(a, "error") != at(absent.message(), "error") || hidden.Status != absent.Status {
					t.Errorf("%s %s: hidden %v, absent %v", era, method, hidden, absent)
				}
			}
			healthy(t, c, "a__fine")
		}
		for _, m := range []string{"tools/call", "prompts/get", "resources/read"} {
			for _, r := range u.requests(m) {
				if strings.Contains(r.Params, "hidden") {
					t.Errorf("the upstream got %s of what is hidden", m)
				}
			}
		}
	})
}

func TestAServerOfSomeUpstreamsHasTheirResourcesAndTemplates_contextforge4306(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		u.tool("t").resource("memo://static").template("file:///{path}")
		other := newModern(t).tool("o").resource("memo://other")
		for _, naming := range []string{"namespaced", "prefixed"} {
			g := serve(t, document(members{"a": u, "b": other}, nil, quick+`
servers: {default: {}, v: {upstreams: [a, b], naming: `+naming+`}, one: {upstreams: [a], naming: passthrough}}`))
			for path, prefix := range map[string]string{"/servers/v/mcp": map[string]string{"prefixed": "a-"}[naming], "/servers/one/mcp": ""} {
				for era, c := range g.at(path).clients() {
					if !slices.Contains(names(t, c, "resources/list"), prefix+"memo://static") || !slices.Contains(names(t, c, "resources/templates/list"), prefix+"file:///{path}") {
						t.Errorf("%s %s %s: %v %v", naming, path, era, names(t, c, "resources/list"), names(t, c, "resources/templates/list"))
					}
					for _, uri := range []string{"memo://static", "file:///x"} {
						result := wantResult(t, c.request("resources/read", `"uri":`+quote(prefix+uri)))
						if got := text(u.last(t, "resources/read").Params, "uri"); got != uri {
							t.Errorf("%s: %s went south as %q", naming, uri, got)
						}
						if got := text(result, "contents", 0, "uri"); got != prefix+uri {
							t.Errorf("%s: contents name %q", naming, got)
						}
					}
				}
			}
		}
		if n := len(other.requests("resources/read")); n != 0 {
			t.Errorf("the other upstream got %d reads", n)
		}
	})
}

func TestAnAllowListHoldsForListsAndCalls_contextforge5270(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		u.tool("echo", "rm")
		g := serve(t, document(members{"a": u}, nil, quick+`
servers: {default: {aliases: {wipe: {upstream: a, tool: rm}}, expose: {tools: {allow: [echo]}}}, plain: {naming: passthrough, expose: {tools: {allow: [echo]}}}}`))
		for era, c := range g.clients() {
			if got := names(t, c, "tools/list"); !slices.Equal(got, []string{"a__echo"}) {
				t.Errorf("%s: %v", era, got)
			}
			for _, n := range []string{"a__rm", "rm", "wipe", "a__rm ", "A__rm"} {
				wantError(t, c.request("tools/call", `"name":"`+n+`"`), http.StatusOK, -32602)
			}
			healthy(t, c, "a__echo")
		}
		p := g.at("/servers/plain/mcp")
		wantError(t, p.modern("tools/call", `"name":"rm"`), http.StatusOK, -32602)
		healthy(t, p, "echo")
		for _, r := range u.requests("tools/call") {
			if text(r.Params, "name") != "echo" {
				t.Errorf("a call of %s reached the upstream", r.Params)
			}
		}
	})
}

func TestDisjointCapabilitiesAreMerged_contextforge5255(t *testing.T) {
	bothEras(t, func(t *testing.T, a *upstream) {
		a.caps = `{"tools":{}}`
		b := newUpstream(t, a.legacy, a.session).prompt("p")
		b.caps = `{"prompts":{},"completions":{}}`
		g := open(t, members{"a": a, "b": b})
		for era, caps := range map[string]string{
			"modern": at(wantResult(t, g.modern("server/discover", "")), "capabilities"),
			"legacy": at(g.legacy("2025-11-25").init, "capabilities"),
		} {
			for name, want := range map[string]bool{"tools": true, "prompts": true, "completions": true, "resources": false} {
				if (at(caps, name) != "") != want {
					t.Errorf("%s: %s in %s", era, name, caps)
				}
			}
		}
	})
}

func TestCompletionGoesToItsOwner_contextforge6629(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		u.prompt("p").template("file:///{x}")
		lacking := newUpstream(t, u.legacy, u.session).prompt("q")
		lacking.caps = `{"prompts":{}}`
		g := open(t, members{"a": u, "b": lacking})
		argument := `,"argument":{"name":"x","value":"v"}`
		for era, c := range g.clients() {
			for ref, want := range map[string]string{
				`{"type":"ref/prompt","name":"a__p"}`:         `{"type":"ref/prompt","name":"p"}`,
				`{"type":"ref/resource","uri":"file:///{x}"}`: `{"type":"ref/resource","uri":"file:///{x}"}`,
			} {
				result := wantResult(t, c.request("completion/complete", `"ref":`+ref+argument))
				if at(result, "completion", "values") != `["ok"]` || at(u.last(t, "completion/complete").Params, "ref") != want {
					t.Errorf("%s: %s went as %s and gave %s", era, ref, u.last(t, "completion/complete").Params, result)
				}
			}
			status := http.StatusOK
			if era == "modern" {
				status = http.StatusNotFound
			}
			wantError(t, c.request("completion/complete", `"ref":{"type":"ref/prompt","name":"b__q"}`+argument), status, -32601)
			wantError(t, c.request("completion/complete", `"ref":{"type":"ref/prompt","name":"b__zzz"}`+argument), http.StatusOK, -32602)
			wantError(t, c.request("completion/complete", `"ref":{"type":"ref/other"}`+argument), http.StatusOK, -32602)
		}
		if n := len(lacking.requests("completion/complete")); n != 0 {
			t.Errorf("an upstream without completions was asked %d times", n)
		}
	})
}

func TestOnlyConfiguredCredentialsGoSouth_contextforge1046(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		u.tool("t")
		bare := newUpstream(t, u.legacy, u.session).tool("t")
		g := serve(t, document(members{"a": u, "b": bare}, map[string]string{"a": "credentials: {bearer: ours}, headers: {X-Team: platform}"}, quick))
		for _, name := range []string{"a__t", "b__t"} {
			r := g.post(modernBody("1", "tools/call", `"name":"`+name+`"`), append(modernHeaders("tools/call", name),
				"Authorization", "Bearer the-callers", "X-Team", "evil", "Cookie", "c=1", "X-Forwarded-For", "1.2.3.4", "Proxy-Authorization", "Basic x")...)
			wantResult(t, r)
		}
		if got := u.last(t, "tools/call").Header; !slices.Equal(got["Authorization"], []string{"Bearer ours"}) || !slices.Equal(got["X-Team"], []string{"platform"}) {
			t.Errorf("south: %v", got)
		}
		for _, v := range []*upstream{u, bare} {
			got := v.last(t, "tools/call").Header
			if strings.Contains(fmt.Sprint(got), "the-callers") || got.Get("Cookie") != "" || got.Get("Proxy-Authorization") != "" || got.Get("X-Forwarded-For") != "" {
				t.Errorf("what was the gateway's went south: %v", got)
			}
		}
	})
}

func TestAServerListsOnlyWhatItExposes_contextforge704(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		u.list("tools", plainTools(0, 10)...)
		g := serve(t, document(members{"a": u}, nil, quick+`
servers: {default: {}, two: {expose: {tools: {allow: [t003, "*t007"]}}}}`))
		for era, c := range g.at("/servers/two/mcp").clients() {
			if got := names(t, c, "tools/list"); !slices.Equal(got, []string{"a__t003", "a__t007"}) {
				t.Errorf("%s: %v", era, got)
			}
			wantError(t, c.request("tools/call", `"name":"a__t001"`), http.StatusOK, -32602)
		}
		healthy(t, g, "a__t001")
	})
}

func TestHyphensInKeysAndToolsCollideInNoOrder_litellm15725(t *testing.T) {
	t.Parallel()
	a, b := newModern(t).tool("b-c"), newLegacy(t).tool("c")
	for range 4 { // the same however the upstreams answer
		g := serve(t, document(members{"a": a, "a-b": b}, nil, quick+"\nservers: {default: {naming: prefixed}}"))
		got := names(t, g, "tools/list")
		if len(got) != 2 || !slices.Contains(got, "a-b-c") {
			t.Fatalf("%v", got)
		}
		before := len(b.requests("tools/call"))
		healthy(t, g, "a-b-c")
		if len(b.requests("tools/call")) != before+1 {
			t.Error("the longer key does not win")
		}
		for _, n := range got {
			if n != "a-b-c" {
				before := len(a.requests("tools/call"))
				healthy(t, g, n)
				if len(a.requests("tools/call")) != before+1 {
					t.Errorf("%q does not go to the other", n)
				}
			}
		}
		if !strings.Contains(g.log.String(), "a-b-c") {
			t.Error("the collision is not reported")
		}
	}
}

func TestOneSeparatorEverywhere_contextforge387(t *testing.T) {
	t.Parallel()
	u, v := newModern(t).tool("x-y_z.w").prompt("p-q"), newLegacy(t).tool("t")
	for _, sep := range []string{"__", "-", ".", "_", "---"} {
		g := serve(t, document(members{"k1": u, "k2": v}, nil, quick+`
servers: {default: {separator: "`+sep+`"}, pre: {naming: prefixed, separator: "`+sep+`"}}`))
		for path, method := range map[string]string{"/mcp": "tools/list", "/servers/pre/mcp": "tools/list"} {
			if got := names(t, g.at(path), method); !slices.Equal(got, sorted("k1"+sep+"x-y_z.w", "k2"+sep+"t")) {
				t.Errorf("separator %q at %s: %v", sep, path, got)
			}
			if got := names(t, g.at(path), "prompts/list"); !slices.Equal(got, []string{"k1" + sep + "p-q"}) {
				t.Errorf("separator %q at %s: %v", sep, path, got)
			}
			healthy(t, g.at(path), "k1"+sep+"x-y_z.w")
		}
	}
}

func TestADocumentOfOneLineLoads_badInput(t *testing.T) {
	t.Parallel()
	var aliases []string
	for i := range 200 {
		aliases = append(aliases, fmt.Sprintf(`"x%d": {"upstream": "a", "tool": "t"}`, i))
	}
	u := newModern(t).tool("t").start()
	g := serve(t, `{"upstreams": {"a": {"url": "`+u.URL+`"}}, "servers": {"default": {"aliases": {`+strings.Join(aliases, ", ")+`}}}}`)
	healthy(t, g, "x199")
}
