package routing_test

import (
	"strings"
	"testing"
)

const (
	appSettings = `{"mimeTypes":["text/html;profile=mcp-app"]}`
	apps        = `{"extensions":{"io.modelcontextprotocol/ui":` + appSettings + `}}`
	panel       = "ui://panel/main"
)

// appServer offers a tool with a panel, which it calls what every other server
// calls its own. The panel is in its list of resources, or is not.
func appServer(legacy, listed bool) *peer {
	p := &peer{
		legacy: legacy,
		caps:   `{"tools":{},"resources":{},"extensions":{"io.modelcontextprotocol/ui":` + appSettings + `}}`,
		tools:  []string{`{"name":"show","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"` + panel + `","visibility":["model"]},"ui/resourceUri":"` + panel + `"}}`},
	}
	if listed {
		p.resources = []string{`{"uri":"` + panel + `","name":"panel","mimeType":"text/html;profile=mcp-app"}`}
	}
	p.reply = func(got request) string {
		if got.method != "tools/call" {
			return ""
		}
		return p.complete("$ID", `"content":[],"_meta":{"ui":{"resourceUri":"`+panel+`"},"ui/resourceUri":"`+panel+`"}`)
	}
	return p
}

// DESIGN section 5, checklist T59: every server's panel has a URI of its own, and
// whoever reads it reaches that server, by the server's own URI.
func TestPanelsOfAppsStayApartUnderEveryRule(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		servers string
		keys    []string
		tool    func(key string) string
		uri     func(key string) string
	}{
		{"  default: {naming: namespaced}", []string{"a", "b"}, func(k string) string { return k + "__show" }, func(k string) string { return "ui://" + k + "/panel/main" }},
		{"  default: {naming: prefixed}", []string{"a", "b"}, func(k string) string { return k + "-show" }, func(k string) string { return "ui://" + k + "/panel/main" }},
		{"  default: {naming: namespaced, aliases: {one: {upstream: a, tool: show}, two: {upstream: b, tool: show}}}", []string{"a", "b"}, func(k string) string { return map[string]string{"a": "one", "b": "two"}[k] }, func(k string) string { return "ui://" + k + "/panel/main" }},
		{"  default: {naming: namespaced}", []string{"a"}, func(k string) string { return k + "__show" }, func(k string) string { return "ui://" + k + "/panel/main" }},
		{"  default: {naming: prefixed}", []string{"a"}, func(string) string { return "show" }, func(string) string { return panel }},
		{"  default: {naming: passthrough}", []string{"a"}, func(string) string { return "show" }, func(string) string { return panel }},
	} {
		for _, listed := range []bool{true, false} {
			up := peers{}
			for _, key := range tc.keys {
				up[key] = appServer(key == "b", listed)
			}
			gw := serve(t, up, tc.servers)
			for era, c := range gw.clients(t, "") {
				tools := string(c.call(t, "tools/list", "").Result)
				for _, key := range tc.keys {
					tool, uri := tc.tool(key), tc.uri(key)
					pointers := `"_meta":{"ui":{"resourceUri":"` + uri + `","visibility":["model"]},"ui/resourceUri":"` + uri + `"}`
					if !strings.Contains(tools, `{"name":"`+tool+`","inputSchema":{"type":"object"},`+pointers) {
						t.Errorf("%s %s: %s and %s are not in %s", tc.servers, era, tool, uri, tools)
					}
					result := c.named(t, "tools/call", tool).Result
					if got := string(find(result, "_meta", "ui", "resourceUri")); got != quote(uri) {
						t.Errorf("%s %s: a result of %s points at %s", tc.servers, era, tool, got)
					}
					if got := string(find(result, "_meta", "ui/resourceUri")); got != quote(uri) {
						t.Errorf("%s %s: a result of %s points at %s", tc.servers, era, tool, got)
					}
					read := c.named(t, "resources/read", uri)
					want(t, read, up[key], "resources/read", panel)
					if !strings.Contains(string(read.Result), `"uri":`+quote(uri)) {
						t.Errorf("%s %s: %s is read as %s", tc.servers, era, uri, read.Result)
					}
					for other, p := range up {
						if n := len(p.got("resources/read")); other != key && n > 0 {
							t.Errorf("%s %s: %s was read at %s, too", tc.servers, era, uri, other)
						}
						p.forget()
					}
				}
				if listed && strings.Count(strings.Join(c.ids(t, "resources/list"), " "), "ui://") != len(tc.keys) {
					t.Errorf("%s %s: %v", tc.servers, era, c.ids(t, "resources/list"))
				}
			}
		}
	}
}

// MCP Apps: servers are told what the client of the call declared, and nothing of
// what another did.
func TestServersLearnWhoShowsApps(t *testing.T) {
	t.Parallel()
	up := peers{"m": appServer(false, true), "l": appServer(true, true)}
	gw := serve(t, up, "  default: {}")
	for _, tc := range []struct {
		revision, caps, modern, legacy string
	}{
		{modernRevision, apps, apps, ""},
		{modernRevision, `{}`, `{}`, ""},
		{"2025-11-25", apps, apps, apps},
		{"2025-11-25", `{"extensions":{"vendor/x":{},"io.modelcontextprotocol/tasks":{}}}`, `{}`, `{}`},
		{"2025-06-18", apps, apps, apps},
		{"2025-03-26", apps, `{}`, `{}`},
	} {
		c := gw.modern("")
		c.caps = tc.caps
		if tc.revision != modernRevision {
			c = &client{url: gw.path(""), revision: tc.revision, caps: tc.caps}
			hello := c.initialize(t)
			got := string(find(hello.Result, "capabilities", "extensions"))
			if is := got == `{"io.modelcontextprotocol/ui":`+appSettings+`}`; is != (tc.revision == "2025-11-25") {
				t.Errorf("%s is told of the extensions %q", tc.revision, got)
			}
		}
		for _, p := range up {
			p.forget()
		}
		c.named(t, "tools/call", "m__show")
		if got := string(find(up["m"].last(t, "tools/call").params, "_meta", "io.modelcontextprotocol/clientCapabilities")); got != tc.modern {
			t.Errorf("%s with %s: a modern server is told %s", tc.revision, tc.caps, got)
		}
		c.named(t, "tools/call", "l__show")
		if tc.legacy == "" {
			continue
		}
		if got := string(find(up["l"].last(t, "initialize").params, "capabilities")); got != tc.legacy {
			t.Errorf("%s with %s: a legacy server is told %s", tc.revision, tc.caps, got)
		}
	}
}
