package routing_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const prefixed = "  default: {naming: prefixed}"

// counters is the federation of the statements: two upstreams that offer the
// same things, of both eras.
func counters() peers {
	make := func(legacy bool) *peer {
		return &peer{
			legacy:    legacy,
			tools:     []string{`{"name":"increment","title":"increment it","description":"increment","inputSchema":{"type":"object","properties":{"increment":{"type":"integer"}}}}`},
			prompts:   []string{`{"name":"greet","title":"greet","description":"greet"}`},
			resources: []string{`{"uri":"memo://counter","name":"counter","title":"counter","description":"memo://counter"}`},
			templates: []string{`{"uriTemplate":"memo://{id}","name":"memo","title":"memo","description":"memo://{id}"}`},
		}
	}
	return peers{"gateway-one": make(false), "gateway-two": make(true)}
}

// want sees to it that a call succeeded and reached an upstream under the name.
func want(t *testing.T, a *answer, p *peer, method, name string) {
	t.Helper()
	if a.Failure != nil || a.Result == nil {
		t.Fatalf("%s: HTTP %d %s", method, a.status, a.raw)
	}
	if got := p.last(t, method).name; got != name {
		t.Errorf("%s reached its upstream as %q, want %q", method, got, name)
	}
}

// wantCode sees to it that a call was refused, and that nobody upstream saw it.
func wantCode(t *testing.T, a *answer, code int, method string, up peers) {
	t.Helper()
	if a.code() != code {
		t.Errorf("%s: code %d, want %d: %s", method, a.code(), code, a.raw)
	}
	for key, p := range up {
		if n := len(p.got(method)); n > 0 {
			t.Errorf("%s reached %s %d times", method, key, n)
		}
	}
}

// S1. DESIGN section 5: this is the rule `prefixed`; and unlike the seed it maps
// URIs inside results, too.
func TestS1MapKeysPrefixIdentifiersOfSeveralUpstreams(t *testing.T) {
	t.Parallel()
	up := counters()
	gw := serve(t, up, prefixed)
	for era, c := range gw.clients(t, "") {
		tools := c.walk(t, "tools/list")
		if diff := cmp.Diff([]string{"gateway-one-increment", "gateway-two-increment"}, c.ids(t, "tools/list")); diff != "" {
			t.Fatalf("%s: tools: %s", era, diff)
		}
		if tools[0].Title != "increment it" || tools[0].Description != "increment" ||
			string(tools[0].InputSchema) != `{"type":"object","properties":{"increment":{"type":"integer"}}}` {
			t.Errorf("%s: something beside the name was changed: %+v", era, tools[0])
		}
		if diff := cmp.Diff([]string{"gateway-one-greet", "gateway-two-greet"}, c.ids(t, "prompts/list")); diff != "" {
			t.Errorf("%s: prompts: %s", era, diff)
		}
		resources := c.walk(t, "resources/list")
		if resources[0].Name != "gateway-one-counter" || resources[0].URI != "gateway-one-memo://counter" || resources[0].Title != "counter" {
			t.Errorf("%s: resource %+v", era, resources[0])
		}
		templates := c.walk(t, "resources/templates/list")
		if templates[1].Name != "gateway-two-memo" || templates[1].URITemplate != "gateway-two-memo://{id}" || templates[1].Title != "memo" {
			t.Errorf("%s: template %+v", era, templates[1])
		}
		want(t, c.named(t, "tools/call", "gateway-one-increment"), up["gateway-one"], "tools/call", "increment")
		a := c.named(t, "resources/read", "gateway-two-memo://counter")
		want(t, a, up["gateway-two"], "resources/read", "memo://counter")
		if !strings.Contains(string(a.Result), `"uri":"gateway-two-memo://counter"`) {
			t.Errorf("%s: the contents name another URI than the list: %s", era, a.Result)
		}
	}
}

// S1, edge: what counts is what is configured, not what is connected.
func TestS1AnUpstreamThatIsDownStillMakesSeveral(t *testing.T) {
	t.Parallel()
	up := counters()
	up["gateway-two"].down.Store(true)
	c := serve(t, up, prefixed).modern("")
	if diff := cmp.Diff([]string{"gateway-one-increment"}, c.ids(t, "tools/list")); diff != "" {
		t.Error(diff)
	}
	want(t, c.named(t, "tools/call", "gateway-one-increment"), up["gateway-one"], "tools/call", "increment")
}

func TestS2ASingleUpstreamPassesIdentifiersUnchanged(t *testing.T) {
	t.Parallel()
	for _, legacy := range []bool{false, true} {
		up := peers{"one": {
			legacy: legacy, tools: items("tools", "increment", "one-increment"), prompts: items("prompts", "one-greet"),
			resources: items("resources", "one-memo://x"), templates: items("templates", "one-memo://{id}"),
		}}
		gw := serve(t, up, prefixed)
		for era, c := range gw.clients(t, "") {
			if diff := cmp.Diff([]string{"increment", "one-increment"}, c.ids(t, "tools/list")); diff != "" {
				t.Errorf("%s: %s", era, diff)
			}
			// A name that happens to begin with the key is not stripped.
			want(t, c.named(t, "tools/call", "one-increment"), up["one"], "tools/call", "one-increment")
			want(t, c.named(t, "prompts/get", "one-greet"), up["one"], "prompts/get", "one-greet")
			want(t, c.named(t, "resources/read", "one-memo://x"), up["one"], "resources/read", "one-memo://x")
			want(t, c.named(t, "resources/read", "one-memo://y"), up["one"], "resources/read", "one-memo://y")
			if diff := cmp.Diff([]string{"one-memo://x"}, c.ids(t, "resources/list")); diff != "" {
				t.Errorf("%s: %s", era, diff)
			}
			if diff := cmp.Diff([]string{"one-memo://{id}"}, c.ids(t, "resources/templates/list")); diff != "" {
				t.Errorf("%s: %s", era, diff)
			}
			a := c.call(t, "completion/complete", `{"ref":{"type":"ref/resource","uri":"one-memo://{id}"},"argument":{"name":"id","value":""}}`)
			want(t, a, up["one"], "completion/complete", "one-memo://{id}")
		}
	}
}

// S3 is a rule for whoever changes the code: merging and splitting stay in step.
func TestS3RenamingAMapKeyRenamesExactlyWhatIsListedAndRouted(t *testing.T) {
	t.Parallel()
	golden := map[string][]string{
		"old": {"old-x", "old-x-y", "zz-x"},
		"new": {"new-x", "new-x-y", "zz-x"},
	}
	for key, names := range golden {
		other := map[string]string{"old": "new", "new": "old"}[key]
		up := peers{key: {tools: items("tools", "x", "x-y")}, "zz": {tools: items("tools", "x")}}
		c := serve(t, up, prefixed).modern("")
		if diff := cmp.Diff(names, c.ids(t, "tools/list")); diff != "" {
			t.Errorf("%s: %s", key, diff)
		}
		for _, name := range names {
			k, original, _ := strings.Cut(name, "-")
			want(t, c.named(t, "tools/call", name), up[k], "tools/call", original)
		}
		for _, p := range up {
			p.forget()
		}
		wantCode(t, c.named(t, "tools/call", other+"-x"), -32602, "tools/call", up)
	}
}

func TestS4TheSplitterWantsAConfiguredKeyAndThenADash(t *testing.T) {
	t.Parallel()
	up := peers{
		"counter-on":    {tools: items("tools", "increment")},
		"counter-oneee": {tools: items("tools", "increment"), legacy: true},
		"counter-one":   {tools: items("tools", "increment")},
	}
	gw := serve(t, up, prefixed)
	for _, c := range gw.clients(t, "") {
		want(t, c.named(t, "tools/call", "counter-one-increment"), up["counter-one"], "tools/call", "increment")
		want(t, c.named(t, "tools/call", "counter-on-increment"), up["counter-on"], "tools/call", "increment")
		want(t, c.named(t, "tools/call", "counter-oneee-increment"), up["counter-oneee"], "tools/call", "increment")
		for _, p := range up {
			p.forget()
		}
		for _, name := range []string{
			"counter-oneincrement", // no dash behind the key
			"counter-one",          // no dash at all
			"counter-one-",         // nothing behind the dash
			"counter-one--increment",
			"Counter-one-increment", // keys are matched byte for byte
			"counter-one_increment",
			"increment", "-increment", "-", "",
		} {
			wantCode(t, c.named(t, "tools/call", name), -32602, "tools/call", up)
		}
	}
}

// S4, the ambiguous row: the longer key wins, and DESIGN section 5 exposes the
// other under its short form.
func TestS4WhereTwoKeysFitTheLongerWins(t *testing.T) {
	t.Parallel()
	up := peers{"a": {tools: items("tools", "b-tool", "tool")}, "a-b": {tools: items("tools", "tool", "other"), legacy: true}}
	gw := serve(t, up, prefixed)
	var first []string
	for _, c := range gw.clients(t, "") {
		names := c.ids(t, "tools/list")
		if first == nil {
			first = names
		}
		if diff := cmp.Diff(first, names); diff != "" {
			t.Errorf("two clients see different names: %s", diff)
		}
		short := ""
		for _, n := range names {
			if strings.HasPrefix(n, "a-b-tool_") {
				short = n
			}
		}
		if short == "" || len(names) != 4 {
			t.Fatalf("no short form for a's b-tool: %q", names)
		}
		want(t, c.named(t, "tools/call", "a-b-tool"), up["a-b"], "tools/call", "tool")
		want(t, c.named(t, "tools/call", short), up["a"], "tools/call", "b-tool")
	}

	// Alone, a's b-tool has the name, whatever the longer key could have offered.
	up = peers{"a": {tools: items("tools", "b-tool")}, "a-b": {tools: items("tools", "other")}}
	c := serve(t, up, prefixed).modern("")
	want(t, c.named(t, "tools/call", "a-b-tool"), up["a"], "tools/call", "b-tool")
}

// S4: before the catalog knows a name, it is split.
func TestS4BeforeTheCatalogKnowsANameTheLongestKeyWins(t *testing.T) {
	t.Parallel()
	blind := func(got request) string {
		if got.method == "tools/list" {
			return failure("$ID", -32603, "cannot list", "")
		}
		return ""
	}
	up := peers{"a": {reply: blind}, "a-b": {reply: blind}, "c": {tools: items("tools", "x")}}
	gw := serve(t, up, prefixed)
	c := gw.modern("")
	want(t, c.named(t, "tools/call", "a-b-tool"), up["a-b"], "tools/call", "tool")
	want(t, c.named(t, "tools/call", "a-tool"), up["a"], "tools/call", "tool")
	for _, p := range up {
		p.forget()
	}
	wantCode(t, c.named(t, "tools/call", "a-"), -32602, "tools/call", up)
	wantCode(t, c.named(t, "tools/call", "ab-tool"), -32602, "tools/call", up)
	wantCode(t, c.named(t, "tools/call", "c-unknown"), -32602, "tools/call", up)
}

func TestS4NoUpstreamsAndEmptyKeys(t *testing.T) {
	t.Parallel()
	c := serve(t, nil, "").modern("")
	wantCode(t, c.named(t, "tools/call", "a-tool"), -32602, "tools/call", nil)
	wantCode(t, c.named(t, "tools/call", "-x"), -32602, "tools/call", nil)

	problem := refused(t, "upstreams:\n  '': {url: 'http://127.0.0.1:1/mcp'}\n")
	if !strings.Contains(problem, "key") {
		t.Errorf("the problem does not speak of the key: %s", problem)
	}
}

// DESIGN section 5: names are merged the same way every time.
func TestS4NamesDoNotDependOnArrival(t *testing.T) {
	t.Parallel()
	var lists [][]string
	for round := range 4 {
		up := peers{"a": {tools: items("tools", "b-tool", "tool")}, "a-b": {tools: items("tools", "tool")}}
		slow := slices.Sorted(maps.Keys(up))[round%2]
		gate := make(chan struct{})
		up[slow].before = func(got request) {
			if got.method == "tools/list" {
				<-gate
			}
		}
		gw := serve(t, up, prefixed)
		go func() {
			defer close(gate)
			for name, p := range up {
				for name != slow && len(p.got("tools/list")) == 0 {
					pause()
				}
			}
		}()
		lists = append(lists, gw.modern("").ids(t, "tools/list"))
	}
	for _, l := range lists[1:] {
		if diff := cmp.Diff(lists[0], l); diff != "" {
			t.Error(diff)
		}
	}
}
