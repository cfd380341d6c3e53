package routing_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestS27InitializeAsksAllUpstreamsAtOnceAndOneMayFail(t *testing.T) {
	t.Parallel()
	up := counters()
	m := newMeeting(len(up))
	for _, p := range up {
		p.before = func(got request) {
			if got.method == "server/discover" {
				m.wait()
			}
		}
	}
	up["dead"] = down()
	gw := serve(t, up, "")
	c := gw.legacy(t, "", legacyRevision)
	if !m.met() {
		t.Error("an upstream was asked only after another had answered")
	}
	want(t, c.named(t, "tools/call", "gateway-one__increment"), up["gateway-one"], "tools/call", "increment")
}

// S27, our rule: a deadline for each, and who is late joins later.
func TestS27InitializeDoesNotWaitForAnUpstreamThatHangs(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	up := peers{
		"fine": {tools: items("tools", "x"), caps: `{"tools":{}}`},
		"late": {caps: `{"tools":{},"prompts":{}}`, prompts: items("prompts", "p"), tools: items("tools", "y"), before: func(request) { <-release }},
	}
	gw := serveWith(t, up, "", "limits: {list_timeout: 300ms}")
	begun := time.Now()
	c := gw.legacy(t, "", legacyRevision)
	took := time.Since(begun)
	close(release)
	if took > 3*time.Second {
		t.Errorf("initialize took %s", took)
	}
	waitFor(t, "the late upstream joins", func() bool { return len(c.ids(t, "tools/list")) == 2 })
	want(t, c.named(t, "prompts/get", "late__p"), up["late"], "prompts/get", "p")
}

func TestS28EveryListIsServedInEveryPairOfEras(t *testing.T) {
	t.Parallel()
	for _, legacy := range []bool{false, true} {
		up := peers{"only": counters()["gateway-one"]}
		up["only"].legacy = legacy
		gw := serve(t, up, "")
		clients := gw.clients(t, "")
		for _, revision := range []string{"2025-06-18", "2025-03-26"} {
			clients[revision] = gw.legacy(t, "", revision)
		}
		wanted := map[string]string{
			"tools/list": "only__increment", "prompts/list": "only__greet",
			"resources/list": "memo://counter", "resources/templates/list": "memo://{id}",
		}
		for era, c := range clients {
			for method, id := range wanted {
				if diff := cmp.Diff([]string{id}, c.ids(t, method)); diff != "" {
					t.Errorf("%s client, legacy upstream %t, %s: %s", era, legacy, method, diff)
				}
			}
		}
	}
}

func TestS29AnExpandedTemplateFindsItsUpstream(t *testing.T) {
	t.Parallel()
	up := counters()
	up["79fabb70-a1"] = &peer{templates: items("templates", "memo://{id}", "file:///{+path}"), legacy: true}
	gw := serve(t, up, prefixed)
	for era, c := range gw.clients(t, "") {
		if got := c.ids(t, "resources/templates/list"); got[1] != "79fabb70-a1-memo://{id}" {
			t.Fatalf("%s: %q", era, got)
		}
		want(t, c.named(t, "resources/read", "79fabb70-a1-memo://x"), up["79fabb70-a1"], "resources/read", "memo://x")
		want(t, c.named(t, "resources/read", "79fabb70-a1-file:///a/b.txt"), up["79fabb70-a1"], "resources/read", "file:///a/b.txt")
		want(t, c.named(t, "resources/read", "gateway-two-memo://x"), up["gateway-two"], "resources/read", "memo://x")
	}
	// Under namespaced a template's URIs are unchanged, and still find their owner.
	up = peers{"a": {templates: items("templates", "a://{id}")}, "b": {templates: items("templates", "b://{id}"), legacy: true}}
	for _, c := range serve(t, up, "").clients(t, "") {
		want(t, c.named(t, "resources/read", "b://x"), up["b"], "resources/read", "b://x")
		want(t, c.named(t, "resources/read", "a://x"), up["a"], "resources/read", "a://x")
	}
}

func TestS30ACallGoesByTheNameTable(t *testing.T) {
	t.Parallel()
	for _, legacy := range []bool{false, true} {
		up := peers{"a": {legacy: legacy, tools: items("tools", "x__y", "x")}, "b": {tools: items("tools", "x")}}
		gw := serve(t, up, "  default: {aliases: {do: {upstream: a, tool: x}}}")
		for era, c := range gw.clients(t, "") {
			for name, original := range map[string]string{"do": "x", "a__x": "x", "a__x__y": "x__y"} {
				a := c.call(t, "tools/call", `{"name":"`+name+`","arguments":{"n":9007199254740993}}`)
				want(t, a, up["a"], "tools/call", original)
				got := up["a"].last(t, "tools/call")
				if !strings.Contains(string(got.params), `"arguments":{"n":9007199254740993}`) {
					t.Errorf("%s: arguments arrived as %s", era, got.params)
				}
				if h := got.header.Get("Mcp-Name"); !legacy && h != original || legacy && h != "" {
					t.Errorf("%s, legacy upstream %t: Mcp-Name %q", era, legacy, h)
				}
				if !strings.Contains(string(a.raw), `"penstock/upstream":"a"`) {
					t.Errorf("%s: no origin tag: %s", era, a.raw)
				}
			}
		}
	}
}

func TestS33AReadGoesToTheOwnerOfTheURI(t *testing.T) {
	t.Parallel()
	link := func(got request) string {
		if got.method == "tools/call" {
			return success("$ID", `"content":[{"type":"resource_link","uri":"hidden://only/in/results","name":"x"}]`)
		}
		return ""
	}
	up := peers{
		"a": {resources: items("resources", "shared://x", "a://x"), tools: items("tools", "link"), reply: link, legacy: true},
		"b": {resources: items("resources", "shared://x", "b://x")},
	}
	gw := serve(t, up, "")
	for era, c := range gw.clients(t, "") {
		want(t, c.named(t, "resources/read", "b://x"), up["b"], "resources/read", "b://x")
		want(t, c.named(t, "resources/read", "shared://x"), up["a"], "resources/read", "shared://x")
		want(t, c.named(t, "tools/call", "a__link"), up["a"], "tools/call", "link")
		want(t, c.named(t, "resources/read", "hidden://only/in/results"), up["a"], "resources/read", "hidden://only/in/results")
		a := c.named(t, "resources/read", "c://nobody")
		wanted := map[string]int{"modern": -32602, "legacy": -32002}[era]
		if a.code() != wanted || string(a.Failure.Data) != `{"uri":"c://nobody"}` {
			t.Errorf("%s: an unknown URI: %s", era, a.raw)
		}
	}
}

func TestS35APromptGoesToItsUpstream(t *testing.T) {
	t.Parallel()
	up := counters()
	gw := serve(t, up, "")
	for era, c := range gw.clients(t, "") {
		for _, key := range []string{"gateway-one", "gateway-two"} {
			a := c.call(t, "prompts/get", `{"name":"`+key+`__greet","arguments":{"who":"é"}}`)
			want(t, a, up[key], "prompts/get", "greet")
			if got := string(up[key].last(t, "prompts/get").params); !strings.Contains(got, `"arguments":{"who":"é"}`) {
				t.Errorf("%s: arguments arrived as %s", era, got)
			}
		}
		if a := c.named(t, "prompts/get", "greet"); a.code() != -32602 {
			t.Errorf("%s: an unknown prompt: %s", era, a.raw)
		}
	}
}

func TestS36ACompletionGoesByItsRef(t *testing.T) {
	t.Parallel()
	up := counters()
	up["mute"] = &peer{caps: `{"prompts":{},"resources":{}}`, prompts: items("prompts", "p"), templates: items("templates", "mute://{x}")}
	gw := serve(t, up, "")
	for era, c := range gw.clients(t, "") {
		want(t, c.named(t, "completion/complete", "gateway-two__greet"), up["gateway-two"], "completion/complete", "greet")
		resource := func(uri string) *answer {
			return c.call(t, "completion/complete", `{"ref":{"type":"ref/resource","uri":`+quote(uri)+`},"argument":{"name":"id","value":""}}`)
		}
		want(t, resource("memo://{id}"), up["gateway-one"], "completion/complete", "memo://{id}")
		up["mute"].forget()
		wantCode(t, c.named(t, "completion/complete", "mute__p"), -32601, "completion/complete", peers{"mute": up["mute"]})
		wantCode(t, resource("mute://{x}"), -32601, "completion/complete", peers{"mute": up["mute"]})
		for _, params := range []string{
			`{"ref":{"type":"ref/tool","name":"x"},"argument":{"name":"a","value":""}}`,
			`{"ref":{"type":"ref/prompt"},"argument":{"name":"a","value":""}}`,
			`{"ref":{"type":"ref/prompt","name":"nobody"},"argument":{"name":"a","value":""}}`,
			`{"ref":7,"argument":{"name":"a","value":""}}`,
			`{"argument":{"name":"a","value":""}}`,
		} {
			if a := c.call(t, "completion/complete", params); a.code() != -32602 {
				t.Errorf("%s %s: %s", era, params, a.raw)
			}
		}
	}
}

func TestS37PingIsAnsweredHereForLegacyClientsOnly(t *testing.T) {
	t.Parallel()
	up := counters()
	gw := serve(t, up, "")
	for _, revision := range []string{"2025-03-26", "2025-06-18", legacyRevision} {
		if a := gw.legacy(t, "", revision).call(t, "ping", ""); string(a.Result) != "{}" || a.status != http.StatusOK {
			t.Errorf("%s: HTTP %d %s", revision, a.status, a.raw)
		}
	}
	if a := gw.modern("").call(t, "ping", ""); a.code() != -32601 || a.status != http.StatusNotFound {
		t.Errorf("modern: HTTP %d %s", a.status, a.raw)
	}
	for key, p := range up {
		if n := len(p.got("ping")); n > 0 {
			t.Errorf("%s was pinged %d times", key, n)
		}
	}
}

// S38. The answer of DELETE, and that of its siblings.
func TestS38DeleteIsAnsweredWithoutABody(t *testing.T) {
	t.Parallel()
	gw := serve(t, counters(), "")
	c := gw.legacy(t, "", legacyRevision)
	if a := c.send(t, http.MethodDelete, nil, nil); a.status/100 != 2 || len(a.raw) > 0 {
		t.Errorf("DELETE: HTTP %d %q", a.status, a.raw)
	}
	c = gw.legacy(t, "", legacyRevision)
	c.accept = "application/json"
	if a := c.send(t, http.MethodGet, nil, nil); a.status != http.StatusNotAcceptable {
		t.Errorf("GET that takes no events: HTTP %d", a.status)
	}
}

// The last row of the table: what the seed's system did not serve.
func TestLastRowOfTheMethodTable(t *testing.T) {
	t.Parallel()
	up := peers{
		"logs":  {legacy: true, caps: `{"tools":{},"logging":{}}`, tools: items("tools", "x")},
		"quiet": {legacy: true, caps: `{"tools":{}}`, tools: items("tools", "x")},
		"new":   {caps: `{"tools":{},"logging":{}}`, tools: items("tools", "x")},
	}
	gw := serve(t, up, "")
	c := gw.legacy(t, "", legacyRevision)
	if a := c.call(t, "logging/setLevel", `{"level":"warning"}`); string(a.Result) != "{}" {
		t.Errorf("logging/setLevel: %s", a.raw)
	}
	for _, params := range []string{`{"level":"loud"}`, `{"level":3}`, `{}`} {
		if a := c.call(t, "logging/setLevel", params); a.code() != -32602 {
			t.Errorf("logging/setLevel %s: %s", params, a.raw)
		}
	}
	for key := range up {
		want(t, c.named(t, "tools/call", key+"__x"), up[key], "tools/call", "x")
	}
	if got := up["logs"].got("logging/setLevel"); len(got) != 1 || !strings.Contains(string(got[0].params), `"level":"warning"`) {
		t.Errorf("an upstream that logs was told %d times", len(got))
	}
	if n := len(up["quiet"].got("logging/setLevel")); n != 0 {
		t.Errorf("an upstream that does not log was told %d times", n)
	}
	if got := up["new"].last(t, "tools/call"); !strings.Contains(string(got.params), `"io.modelcontextprotocol/logLevel":"warning"`) {
		t.Errorf("a modern upstream is not told with the call: %s", got.params)
	}

	later := []string{
		"logging/setLevel", "resources/subscribe", "resources/unsubscribe",
		"tasks/result", "tasks/list", "tasks/get", "tasks/cancel", "tasks/update", "initialize", "sampling/createMessage", "no/such/method", "",
	}
	for _, method := range later {
		if method == "tasks/get" || method == "tasks/cancel" || method == "tasks/update" {
			continue // served, and held to their header
		}
		if a := gw.modern("").call(t, method, ""); a.code() != -32601 || a.status != http.StatusNotFound {
			t.Errorf("modern %q: HTTP %d %s", method, a.status, a.raw)
		}
	}
	for _, method := range append(later[3:], "subscriptions/listen") {
		// HTTP 404 would say that the session is gone (checklist T3).
		if method == "initialize" {
			continue
		}
		if a := c.call(t, method, ""); a.code() != -32601 || a.status != http.StatusOK {
			t.Errorf("legacy %q: HTTP %d %s", method, a.status, a.raw)
		}
	}
}
