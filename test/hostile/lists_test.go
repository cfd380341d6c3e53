package hostile_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var safeName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

func TestLongNamesGetAStableShortFormThatRoutesBack_vscode243602(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		long := strings.Repeat("y", 40)
		u.tool(long, long[1:]+"z").prompt(long)
		key := strings.Repeat("k", 30)
		var before []string
		for range 2 { // a second gateway gives the same names
			g := open(t, members{key: u})
			for era, c := range g.clients() {
				got := names(t, c, "tools/list")
				if len(got) != 2 || got[0] == got[1] {
					t.Fatalf("%s: a tool is lost: %v", era, got)
				}
				for _, n := range append(got, names(t, c, "prompts/list")...) {
					if !safeName.MatchString(n) {
						t.Errorf("%s: exposed name %q", era, n)
					}
				}
				if before != nil && !slices.Equal(before, got) {
					t.Errorf("%s: names changed from %v to %v", era, before, got)
				}
				before = got
				var called []string
				for _, n := range got {
					healthy(t, c, n)
					called = append(called, text(u.last(t, "tools/call").Params, "name"))
				}
				if diff := cmp.Diff(sorted(long, long[1:]+"z"), sorted(called...)); diff != "" {
					t.Errorf("%s: %s", era, diff)
				}
			}
		}
	})
}

func TestColonAndSlashStayOffExposedNames_docker228(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		originals := []string{"ns:run", "ns.run", "ns/run", "läuft", "a b", "x+y"}
		u.tool(originals...)
		for _, naming := range []string{"namespaced", "prefixed"} {
			g := serve(t, document(members{"k.1": u, "other": newModern(t).tool("o")}, nil, quick+"\nservers: {default: {naming: "+naming+"}}"))
			var called []string
			for _, n := range names(t, g, "tools/list") {
				if !safeName.MatchString(n) {
					t.Errorf("%s: exposed name %q", naming, n)
				}
				if before := len(u.requests("tools/call")); strings.HasPrefix(n, "k.1") {
					healthy(t, g, n)
					if after := u.requests("tools/call"); len(after) == before+1 {
						called = append(called, text(after[before].Params, "name"))
					}
				}
			}
			if diff := cmp.Diff(sorted(slices.Clone(originals)...), sorted(called...)); diff != "" {
				t.Errorf("%s: what went upstream: %s", naming, diff)
			}
		}
		g := through(t, u)
		if diff := cmp.Diff(sorted(slices.Clone(originals)...), names(t, g, "tools/list")); diff != "" {
			t.Errorf("passthrough: %s", diff)
		}
		healthy(t, g, "ns:run")
	})
}

func TestNoNameIsAmbiguousOrTheConfigurationIsRefused_agentgateway1622(t *testing.T) {
	t.Parallel()
	a, b := newModern(t).tool("x_y", "x__y", "p+q"), newLegacy(t).tool("y", "_y", "p+q")
	ups := members{"b1": a, "b1_x": b}
	if why := refused(t, document(ups, nil, `servers: {default: {separator: "_"}}`)); !strings.Contains(why, "b1_x") {
		t.Errorf("the refusal does not name the key: %s", why)
	}
	for _, more := range []string{quick, quick + `
servers: {default: {naming: prefixed, separator: "_"}}`} {
		g := serve(t, document(ups, nil, more))
		got := names(t, g, "tools/list")
		if len(got) != 6 || len(slices.Compact(slices.Clone(got))) != 6 {
			t.Fatalf("six tools are listed as %v", got)
		}
		targets := map[string]string{}
		for _, n := range got {
			x, y := len(a.requests("tools/call")), len(b.requests("tools/call"))
			healthy(t, g, n)
			for key, now := range map[string][]received{"b1/": a.requests("tools/call")[x:], "b1_x/": b.requests("tools/call")[y:]} {
				for _, r := range now {
					targets[key+text(r.Params, "name")] += n
				}
			}
		}
		if len(targets) != 6 {
			t.Errorf("six names go to %d targets: %v", len(targets), targets)
		}
	}
}

func TestTwoToolsOfOneNameAreBothThere_docker567(t *testing.T) {
	t.Parallel()
	first := `{"name":"search","description":"first","inputSchema":{"type":"object"}}`
	second := `{"name":"search","description":"second","inputSchema":{"type":"object"}}`
	a, b := newModern(t).list("tools", first, second), newLegacy(t).tool("search")
	for range 3 { // the same every time
		g := open(t, members{"a": a, "b": b})
		result := wantResult(t, g.modern("tools/list", ""))
		if diff := cmp.Diff([]string{"a__search", "b__search"}, texts(at(result, "tools"), "name")); diff != "" {
			t.Fatal(diff)
		}
		if d := text(result, "tools", 0, "description"); d != "first" {
			t.Errorf("of two equal names %q is kept", d)
		}
		if !strings.Contains(g.log.String(), "an upstream lists an identifier twice") {
			t.Error("the duplicate is not reported")
		}
		healthy(t, g, "a__search")
		healthy(t, g, "b__search")
	}
}

func TestASecondUpstreamChangesNoName_agentgateway495(t *testing.T) {
	t.Parallel()
	u := newModern(t).tool("run").prompt("p").resource("file:///x").template("file:///{y}")
	one := open(t, members{"a": u})
	two := open(t, members{"a": u, "z": newLegacy(t).tool("run").resource("memo://1")})
	for _, method := range []string{"tools/list", "prompts/list", "resources/list", "resources/templates/list"} {
		for _, n := range names(t, one, method) {
			if !slices.Contains(names(t, two, method), n) {
				t.Errorf("%s: %q is gone with a second upstream", method, n)
			}
		}
	}
	healthy(t, two, "a__run")
}

func TestAnItemIsTheSameBytesButForItsName_contextforge1258(t *testing.T) {
	item := `{"title":"T <&> ü","name":"echo","description":"d","inputSchema":{"type":"object","$defs":{"N":{"type":"number","minimum":1.0,"x":1e400}},"properties":{"n":{"$ref":"#/$defs/N"},"b":{"const":9007199254740993}},"oneOf":[true]},` +
		`"outputSchema":{"type":"object","$schema":"https://json-schema.org/draft/2020-12/schema","properties":{"r":{"anyOf":[{"type":"string"},{"type":"null"}]}}},` +
		`"annotations":{"readOnlyHint":true,"vendor":[1, 2]},"icons":[{"src":"https://x/i.png","mimeType":"image/png","sizes":["48x48"]}],"_meta":{"com.example/k":{"b":1,"a":2}},"unknown":null}`
	bothEras(t, func(t *testing.T, u *upstream) {
		u.list("tools", item)
		g := open(t, members{"a": u})
		want := strings.Replace(item, `"name":"echo"`, `"name":"a__echo"`, 1)
		for era, c := range g.clients() {
			if got := at(wantResult(t, c.request("tools/list", "")), "tools", 0); got != want {
				t.Errorf("%s:\n got %s\nwant %s", era, got, want)
			}
		}
		if got := at(wantResult(t, through(t, u).modern("tools/list", "")), "tools", 0); got != item {
			t.Errorf("passthrough:\n got %s\nwant %s", got, item)
		}
	})
}

func TestNullSchemasAndListsAreTolerated_1mcp(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		u.list("tools", `{"name":"none"}`, `{"name":"null","inputSchema":null}`)
		null := func(kind string) func(*exchange) {
			return func(x *exchange) { x.result(`{"` + kind + `":null}`) }
		}
		u.handle("prompts/list", null("prompts")).handle("resources/list", null("resources")).handle("resources/templates/list", null("resourceTemplates"))
		nulls := newUpstream(t, u.legacy, u.session)
		nulls.handle("tools/list", null("tools"))
		g := open(t, members{"a": u, "b": nulls})
		for era, c := range g.clients() {
			result := wantResult(t, c.request("tools/list", ""))
			if got := texts(at(result, "tools"), "name"); !slices.Equal(got, []string{"a__none", "a__null"}) {
				t.Errorf("%s: tools %v", era, got)
			}
			for i := range 2 {
				if s := at(result, "tools", i, "inputSchema"); s != `{"type":"object"}` {
					t.Errorf("%s: inputSchema %d is %s", era, i, s)
				}
			}
			for method, kind := range map[string]string{"prompts/list": "prompts", "resources/list": "resources", "resources/templates/list": "resourceTemplates"} {
				if got := at(wantResult(t, c.request(method, "")), kind); got != "[]" {
					t.Errorf("%s: %s of null is %q", era, kind, got)
				}
			}
			healthy(t, c, "a__none")
		}
	})
}

func TestTitlesIconsAndMetadataAreKept_fastmcp2496(t *testing.T) {
	prompt := `{"name":"p","title":"P","icons":[{"src":"data:image/png;base64,AA=="}],"arguments":[{"name":"x","title":"X","required":true}],"_meta":{"v/k":1}}`
	resource := `{"uri":"memo://1","name":"m","title":"M","mimeType":"text/x","size":12,"icons":[{"src":"https://x/i"}],"annotations":{"audience":["user"],"priority":0.30},"_meta":{"v/k":1}}`
	contents := `{"uri":"memo://1","mimeType":"text/x","text":"ü","_meta":{"v/c":[1]}}`
	bothEras(t, func(t *testing.T, u *upstream) {
		u.list("prompts", prompt).list("resources", resource)
		u.handle("resources/read", func(x *exchange) { x.result(`{"contents":[` + contents + `],"_meta":{"v/r":{"a":1.0}}}`) })
		g := through(t, u)
		for era, c := range g.clients() {
			if got := at(wantResult(t, c.request("prompts/list", "")), "prompts", 0); got != prompt {
				t.Errorf("%s: prompt %s", era, got)
			}
			if got := at(wantResult(t, c.request("resources/list", "")), "resources", 0); got != resource {
				t.Errorf("%s: resource %s", era, got)
			}
			read := wantResult(t, c.request("resources/read", `"uri":"memo://1"`))
			if at(read, "contents", 0) != contents || at(read, "_meta", "v/r") != `{"a":1.0}` {
				t.Errorf("%s: read %s", era, read)
			}
		}
	})
}

func TestCapabilitiesAreAUnionAndAbsentOnesAreNotCalled_agentgateway1850(t *testing.T) {
	bothEras(t, func(t *testing.T, tools *upstream) {
		tools.caps = `{"tools":{}}`
		tools.tool("t")
		prompts := newUpstream(t, tools.legacy, tools.session).prompt("p")
		prompts.caps = `{"prompts":{}}`
		liar := newUpstream(t, tools.legacy, tools.session)
		liar.caps = `{"resources":{}}`
		for _, m := range []string{"resources/list", "resources/templates/list"} {
			liar.handle(m, func(x *exchange) { x.fail(-32601, "method not found") })
		}
		g := open(t, members{"a": tools, "b": prompts, "c": liar})
		for era, c := range g.clients() {
			for method, want := range map[string][]string{
				"tools/list": {"a__t"}, "prompts/list": {"b__p"}, "resources/list": nil, "resources/templates/list": nil,
			} {
				if got := names(t, c, method); !slices.Equal(got, want) {
					t.Errorf("%s: %s gives %v", era, method, got)
				}
				if result := wantResult(t, c.request(method, "")); at(result, "_meta", "penstock/partial") != "" {
					t.Errorf("%s: %s is marked partial: %s", era, method, result)
				}
			}
		}
		for name, n := range map[string]int{
			"prompts/list of a":   len(tools.requests("prompts/list")),
			"resources/list of a": len(tools.requests("resources/list")),
			"tools/list of b":     len(prompts.requests("tools/list")),
			"tools/list of c":     len(liar.requests("tools/list")),
		} {
			if n != 0 {
				t.Errorf("%s was called without the capability", name)
			}
		}
	})
}

func TestWhatIsNotServedIsNotAdvertised_mcphangar879(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		u.caps = `{"tools":{"listChanged":true},"experimental":{"x":{}},"tasks":{"list":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
		u.tool("t")
		g := open(t, members{"a": u})
		for era, caps := range map[string]string{
			"modern": at(wantResult(t, g.modern("server/discover", "")), "capabilities"),
			"legacy": at(g.legacy("2025-11-25").init, "capabilities"),
		} {
			if at(caps, "tools") == "" {
				t.Errorf("%s: tools are served and not advertised: %s", era, caps)
			}
			for _, absent := range []string{"prompts", "resources", "completions", "tasks"} {
				if at(caps, absent) != "" {
					t.Errorf("%s: %s is advertised: %s", era, absent, caps)
				}
			}
			// The tasks extension is served to modern clients, with upstreams that have it in their own era.
			if got, want := strings.Contains(caps, "modelcontextprotocol/tasks"), era == "modern"; got != want {
				t.Errorf("%s: the tasks extension is advertised: %v: %s", era, got, caps)
			}
			if strings.Contains(caps, `"subscribe":true`) {
				t.Errorf("%s: subscriptions are advertised, and no upstream has them: %s", era, caps)
			}
		}
		// listChanged is advertised, and served.
		if _, honoured := g.listen("1", `{"toolsListChanged":true}`); honoured != `{"toolsListChanged":true}` {
			t.Errorf("acknowledged: %s", honoured)
		}
	})
}

func TestMissingOrNullCapabilitiesAndNoSessionDoNoHarm_EAG1364(t *testing.T) {
	t.Parallel()
	for _, caps := range []string{"", "{}", "null", `{"tools":null}`, `[]`} {
		for _, legacy := range []string{"", "2025-06-18"} {
			t.Run("caps="+caps+"/"+legacy, func(t *testing.T) {
				t.Parallel()
				u := newUpstream(t, legacy, false).tool("t")
				u.caps = caps
				for _, g := range []*gateway{through(t, u), open(t, members{"a": u, "b": newModern(t).tool("fine")})} {
					for _, c := range g.clients() {
						_ = names(t, c, "tools/list")
						_ = names(t, c, "prompts/list")
					}
				}
				healthy(t, through(t, u), "t")
			})
		}
	}
}
