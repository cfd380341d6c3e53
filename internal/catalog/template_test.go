package catalog

import (
	"strings"
	"testing"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

func TestTemplatesMatchTheirExpansions(t *testing.T) {
	for _, tc := range []struct {
		template, uri string
		want          bool
	}{
		{"memo://{id}", "memo://7", true},
		{"memo://{id}", "memo://a/b", false},
		{"memo://{id}", "mem://7", false},
		{"memo://{id}/x", "memo://7/x", true},
		{"memo://{id}/x", "memo://7/y", false},
		{"file:///{+path}", "file:///a/b/c.txt", true},
		{"file:///{path*}", "file:///a", true},
		{"file://{/path*}", "file:///a/b", true},
		{"file://{/path*}", "file://", true},
		{"file://{/path*}", "file://a", false},
		{"db://t/{table}{?q,n}", "db://t/users?q=1&n=2", true},
		{"db://t/{table}{?q}", "db://t/users", true},
		{"db://t{.ext}", "db://t.json", true},
		{"db://t{;a,b}", "db://t;a=1;b=2", true},
		{"doc://x{#frag}", "doc://x#y/z", true},
		{"q://{a}{&rest}", "q://1&x=2", true},
		{"a.c://{x}", "abc://1", false},
		{"plain://x", "plain://x", true},
		{"plain://x", "plain://xy", false},
		{"broken://{x", "broken://1", false},
		{"broken://}x", "broken://}x", true},
		{"broken://{}", "broken://", false},
		{"broken://{a{b}}", "broken://1}", false},
		{"lines://{x}", "lines://a\nb", true},
		{"long://{x}" + strings.Repeat("y", maxTemplate), "long://1", false},
	} {
		if got := newTemplate(tc.template).match(tc.uri); got != tc.want {
			t.Errorf("%.40s against %q: got %v, want %v", tc.template, tc.uri, got, tc.want)
		}
	}
}

func FuzzTemplate(f *testing.F) {
	f.Add("memo://{id}", "memo://1")
	f.Add("{+a}{/b*}{?c}", "x/y?z")
	f.Add("a{b{c}d}", "a")
	f.Fuzz(func(t *testing.T, text, uri string) {
		tm := newTemplate(text)
		if tm.match(uri) && !strings.HasPrefix(uri, tm.literal) {
			t.Fatalf("%q matches %q without its literal", text, uri)
		}
		if !strings.ContainsAny(text, "{}") && tm.match(uri) != (text == uri) {
			t.Fatalf("%q without expressions matches %q", text, uri)
		}
	})
}

func resourceFleet() *fleet {
	f := newFleet()
	f.up("docs", map[mcp.Kind][]string{
		mcp.Resources: {resource("file:///readme", "readme"), resource("ui://panel/main", "panel")},
		mcp.Templates: {uriTemplate("file:///{+path}", "files"), uriTemplate("ui://widget/{id}", "widgets")},
	})
	f.up("db", map[mcp.Kind][]string{
		mcp.Resources: {resource("file:///readme", "other"), resource("db://users", "users")},
		mcp.Templates: {uriTemplate("file:///data/{name}", "data"), uriTemplate("db://{table}", "tables")},
	})
	return f
}

func TestURIsRouteUnderNamespaced(t *testing.T) {
	s := serve(t, resourceFleet(), nil)
	for _, tc := range []struct{ uri, upstream, original, rule string }{
		{"file:///readme", "db", "file:///readme", "catalog"}, // the first key in byte order
		{"db://users", "db", "db://users", "catalog"},
		{"db://orders", "db", "db://orders", "template"},
		{"file:///data/x", "db", "file:///data/x", "template"}, // the longer literal
		{"file:///data/x/y", "docs", "file:///data/x/y", "template"},
		{"ui://docs/panel/main", "docs", "ui://panel/main", "catalog"},
		{"ui://docs/widget/7", "docs", "ui://widget/7", "template"},
		{"ui://db/any/thing", "db", "ui://any/thing", "ui"},
	} {
		if got := goesTo(t, s, mcp.Resources, tc.uri, tc.upstream, tc.original); got.Rule != tc.rule || got.Kind != mcp.Resources {
			t.Errorf("%s: found by %q as %s, want %q", tc.uri, got.Rule, got.Kind, tc.rule)
		}
	}
	for _, uri := range []string{"ui://panel/main", "ui://ghost/x", "seen://1", "", "db://a/b"} {
		isRefused(t, s, mcp.Resources, uri)
	}
	_, err := s.Resolve(t.Context(), alice, mcp.Resources, `no"such`)
	if got := string(fault.From(err).Data); got != `{"uri":"no\"such"}` {
		t.Errorf("data: got %s", got)
	}

	s.Remember("docs", "seen://1")
	goesTo(t, s, mcp.Resources, "seen://1", "docs", "seen://1")
	s.Remember("db", "seen://1") // two claim it: the first key has it
	s.Remember("docs", "seen://1")
	goesTo(t, s, mcp.Resources, "seen://1", "db", "seen://1")

	goesTo(t, s, mcp.Templates, "db://{table}", "db", "db://{table}")
	goesTo(t, s, mcp.Templates, "ui://docs/widget/{id}", "docs", "ui://widget/{id}")
	goesTo(t, s, mcp.Templates, "db://users", "db", "db://users")
	isRefused(t, s, mcp.Templates, "ghost://{x}")
}

func TestURIsRouteUnderPrefixed(t *testing.T) {
	s := serve(t, resourceFleet(), prefixed)
	for _, tc := range []struct{ uri, upstream, original, rule string }{
		{"db-file:///readme", "db", "file:///readme", "catalog"},
		{"docs-file:///readme", "docs", "file:///readme", "catalog"},
		{"docs-file:///data/x", "docs", "file:///data/x", "template"},
		{"db-other://x", "db", "other://x", "split"},
		{"ui://docs/panel/main", "docs", "ui://panel/main", "catalog"},
		{"ui://docs/widget/7", "docs", "ui://widget/7", "template"},
	} {
		if got := goesTo(t, s, mcp.Resources, tc.uri, tc.upstream, tc.original); got.Rule != tc.rule {
			t.Errorf("%s: found by %q, want %q", tc.uri, got.Rule, tc.rule)
		}
	}
	for _, uri := range []string{"file:///readme", "dbfile:///readme", "db-", "db://users"} {
		isRefused(t, s, mcp.Resources, uri)
	}
}

func TestKeysThatAreNoSchemeStillPrefixURIs(t *testing.T) {
	f := newFleet()
	f.up("79fabb70_x", map[mcp.Kind][]string{mcp.Templates: {uriTemplate("memo://{id}", "memo")}})
	f.up("b", nil)
	s := serve(t, f, prefixed)
	goesTo(t, s, mcp.Resources, "79fabb70_x-memo://1", "79fabb70_x", "memo://1")
}

func TestURIsInResultsFollowTheListsMap(t *testing.T) {
	for _, tc := range []struct {
		rule Naming
		uri  string
		want string
	}{
		{Namespaced, "file:///x", ""},
		{Namespaced, "ui://a/b", "ui://docs/a/b"},
		{Prefixed, "file:///x", "docs-file:///x"},
		{Prefixed, "ui://a/b", "ui://docs/a/b"},
	} {
		s := serve(t, resourceFleet(), func(o *Options) { o.Naming = tc.rule })
		out, changed := s.ExposeURI("docs", []byte("kept "), tc.uri)
		if got := strings.TrimPrefix(string(out), "kept "); got != tc.want || changed != (tc.want != "") {
			t.Errorf("%s %s: got %q changed %v, want %q", tc.rule, tc.uri, got, changed, tc.want)
		}
		if changed {
			goesTo(t, s, mcp.Resources, tc.want, "docs", tc.uri)
		}
	}
}

func TestAnOnlyUpstreamGetsEveryURIUnderNamespaced(t *testing.T) {
	f := newFleet()
	f.up("u", nil)
	goesTo(t, serve(t, f, nil), mcp.Resources, "any://x", "u", "any://x")
}

func TestExposeJudgesAResourceUnderAllItsNames(t *testing.T) {
	for _, tc := range []struct {
		name            string
		rule            Naming
		expose          Expose
		allowed, hidden []string
	}{
		{"denied by URI, dynamic ones too", Namespaced, Expose{Deny: []string{"file:///data/*"}}, []string{"file:///x", "db://users"}, []string{"file:///data/x"}},
		{"denied by the name of the template", Namespaced, Expose{Deny: []string{"tables"}}, []string{"db://users"}, []string{"db://orders"}},
		{"denied by the name of a resource", Namespaced, Expose{Deny: []string{"users"}}, []string{"db://orders"}, []string{"db://users"}},
		{"allowed by the name of the template", Namespaced, Expose{Allow: []string{"files"}}, []string{"file:///x"}, []string{"db://users", "db://orders", "ui://docs/panel/main"}},
		{"the original URI under prefixed", Prefixed, Expose{Deny: []string{"file:*"}}, []string{"db-db://users"}, []string{"docs-file:///readme", "docs-file:///q"}},
		{"the exposed URI under prefixed", Prefixed, Expose{Allow: []string{"db-*"}}, []string{"db-db://users", "db-x://y"}, []string{"docs-file:///readme", "docs-x://y", "ui://docs/panel/main"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := serve(t, resourceFleet(), func(o *Options) { o.Naming = tc.rule; o.Expose[mcp.Resources] = tc.expose })
			for _, uri := range tc.allowed {
				if _, err := s.Resolve(t.Context(), alice, mcp.Resources, uri); err != nil {
					t.Errorf("%s: %v", uri, err)
				}
			}
			for _, uri := range tc.hidden {
				isRefused(t, s, mcp.Resources, uri)
			}
			for _, kind := range []mcp.Kind{mcp.Resources, mcp.Templates} {
				for _, id := range all(t, s, alice, kind) {
					if _, err := s.Resolve(t.Context(), alice, kind, id); err != nil {
						t.Errorf("%s is listed and refused: %v", id, err)
					}
				}
			}
		})
	}
	t.Run("passthrough", func(t *testing.T) {
		f := newFleet()
		f.up("u", map[mcp.Kind][]string{mcp.Resources: {resource("db://users", "users")}})
		s := serve(t, f, func(o *Options) {
			o.Naming = Passthrough
			o.Expose[mcp.Resources] = Expose{Deny: []string{"users"}}
		})
		isRefused(t, s, mcp.Resources, "db://users")
		goesTo(t, s, mcp.Resources, "db://other", "u", "db://other")
	})
}

func TestExposeJudgesAToolUnderAllItsNames(t *testing.T) {
	long := strings.Repeat("long_", 16)
	for _, pattern := range []string{"a__" + long, "a__long*", long, "rename", "*" + long[50:], "a__*"} {
		f := newFleet()
		f.up("a", tools(long))
		f.up("b", tools("x"))
		s := serve(t, f, func(o *Options) {
			o.Aliases = map[string]Alias{"rename": {"a", long}}
			o.Expose[mcp.Tools] = Expose{Deny: []string{pattern}}
		})
		short := s.names.short(0, long, 0)
		if got := all(t, s, alice, mcp.Tools); len(got) != 1 {
			t.Errorf("deny %q lists %q", pattern, got)
		}
		for _, id := range []string{"rename", short, "a__" + long} {
			isRefused(t, s, mcp.Tools, id)
		}
	}
}

func TestExposeHidesANameBeforeItsListIsKnown(t *testing.T) {
	f := newFleet()
	f.up("a", nil).err = fault.New(fault.Internal, "it failed to list")
	s := serve(t, f, func(o *Options) {
		o.Aliases = map[string]Alias{"tidy": {"a", "rm"}}
		o.Expose[mcp.Tools] = Expose{Deny: []string{"rm"}}
	})
	isRefused(t, s, mcp.Tools, "a__rm")
	isRefused(t, s, mcp.Tools, "tidy")
	goesTo(t, s, mcp.Tools, "a__ls", "a", "ls")
}

func TestGlobs(t *testing.T) {
	for _, tc := range []struct {
		pattern, name string
		want          bool
	}{
		{"", "", true},
		{"", "a", false},
		{"*", "", true},
		{"*", "a/b", true},
		{"a*", "b", false},
		{"*delete*", "a__delete_b", true},
		{"a?c", "abc", true},
		{"a?c", "ac", false},
		{"a?c", "aüc", true},
		{"a*b*c", "aXbYbZc", true},
		{"a*b*c", "aXbY", false},
		{"[a]", "a", false},
		{"A", "a", false},
		{"**", "x", true},
		{strings.Repeat("*a", 30) + "b", strings.Repeat("a", 2000), false},
	} {
		if got := mcp.Glob(tc.pattern, tc.name); got != tc.want {
			t.Errorf("%q against %q: got %v", tc.pattern, tc.name, got)
		}
	}
}

func TestMemoryIsBounded(t *testing.T) {
	f := newFleet()
	f.up("a", nil)
	f.up("b", nil)
	s := serve(t, f, nil)
	for i := range 30000 {
		s.Remember("b", "x://"+strings.Repeat("y", i%50)+string(rune('a'+i%26))+strings.Repeat("z", i/50))
	}
	total := 0
	for i := range s.memory.shards {
		total += len(s.memory.shards[i].young) + len(s.memory.shards[i].old)
	}
	if total > 10000 || total < 4000 {
		t.Errorf("%d URIs are remembered", total)
	}
}

func TestExplainTellsRuleNamesAndCollisions(t *testing.T) {
	f := newFleet()
	f.up("a", tools("b-c"))
	f.up("a-b", tools("c", "hidden"))
	s := serve(t, f, func(o *Options) {
		o.Naming = Prefixed
		o.Expose[mcp.Tools] = Expose{Deny: []string{"hidden"}}
	})
	got := s.Explain(t.Context(), alice, "a-b-c")
	if len(got) != 1 || got[0].Target.Upstream != "a-b" || got[0].Target.Rule != "catalog" || len(got[0].Collisions) != 1 ||
		len(got[0].Shadowed) != 1 || got[0].Shadowed[0] != (Origin{"a", "b-c"}) || got[0].Why == "" {
		t.Errorf("got %+v", got)
	}
	if got = s.Explain(t.Context(), alice, "a-b-hidden"); len(got) != 1 || !got[0].Hidden || got[0].Err == nil || got[0].Target.ID != "hidden" {
		t.Errorf("hidden: got %+v", got)
	}
	if got = s.Explain(t.Context(), alice, "ghost"); len(got) != 1 || got[0].Err == nil {
		t.Errorf("unknown: got %+v", got)
	}
}
