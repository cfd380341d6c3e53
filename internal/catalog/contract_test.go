package catalog

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

// The statements of the routing contract that this room decides.

func prefixed(o *Options) { o.Naming = Prefixed }

func twoGateways() *fleet {
	f := newFleet()
	for _, key := range []string{"gateway-one", "gateway-two"} {
		f.up(key, map[mcp.Kind][]string{
			mcp.Tools:     {tool("increment")},
			mcp.Prompts:   {`{"name":"greet","title":"Greet"}`},
			mcp.Resources: {`{"uri":"memo://x","name":"counter","title":"Counter"}`},
			mcp.Templates: {uriTemplate("note://{id}", "note")},
		})
	}
	return f
}

func TestS1KeysBecomePublicIdentifiersUnderPrefixed(t *testing.T) {
	s := serve(t, twoGateways(), prefixed)
	want := map[mcp.Kind]string{
		mcp.Tools:     "gateway-one-increment",
		mcp.Prompts:   "gateway-one-greet",
		mcp.Resources: "gateway-one-memo://x",
		mcp.Templates: "gateway-one-note://{id}",
	}
	for kind, id := range want {
		if got := all(t, s, alice, kind); len(got) != 2 || got[0] != id {
			t.Errorf("%s: got %q, want %q first of two", kind, got, id)
		}
	}
	l, err := s.List(t.Context(), alice, nil, mcp.Resources, mcp.LatestModern, "", false)
	if err != nil {
		t.Fatal(err)
	}
	first := items(t, l)[0]
	if first["name"] != "gateway-one-counter" || first["title"] != "Counter" {
		t.Errorf("resource: got %v, want its name prefixed and its title not", first)
	}
	goesTo(t, s, mcp.Resources, "gateway-two-memo://x", "gateway-two", "memo://x")
	goesTo(t, s, mcp.Resources, "gateway-two-note://7", "gateway-two", "note://7")
	goesTo(t, s, mcp.Templates, "gateway-two-note://{id}", "gateway-two", "note://{id}")
	goesTo(t, s, mcp.Prompts, "gateway-two-greet", "gateway-two", "greet")
}

func TestS1PrefixCountsConfiguredNotConnectedUpstreams(t *testing.T) {
	f := newFleet()
	f.up("one", tools("echo"))
	f.up("two", nil).err = fault.New(fault.UpstreamUnavailable, "it refused the connection")
	s := serve(t, f, prefixed)
	if got := all(t, s, alice, mcp.Tools); !slices.Equal(got, []string{"one-echo"}) {
		t.Errorf("got %q, want one-echo although two is down", got)
	}
}

func TestS2SingleUpstreamPassesIdentifiersThrough(t *testing.T) {
	f := newFleet()
	f.up("one", map[mcp.Kind][]string{
		mcp.Tools:     {tool("one-increment"), tool("a b/ü")},
		mcp.Resources: {resource("ui://panel/x", "panel")},
	})
	for _, rule := range []Naming{Prefixed, Passthrough} {
		s := serve(t, f, func(o *Options) { o.Naming = rule })
		if got := all(t, s, alice, mcp.Tools); !slices.Equal(got, []string{"a b/ü", "one-increment"}) {
			t.Errorf("%s: got %q", rule, got)
		}
		goesTo(t, s, mcp.Tools, "one-increment", "one", "one-increment")
		if got := goesTo(t, s, mcp.Tools, "not-listed", "one", "not-listed"); got.Known {
			t.Errorf("%s: an unlisted name is called known", rule)
		}
		goesTo(t, s, mcp.Resources, "ui://panel/x", "one", "ui://panel/x")
		goesTo(t, s, mcp.Resources, "any://thing", "one", "any://thing")
	}
}

func TestS3NamesArePinnedForAFixedConfiguration(t *testing.T) {
	s := serve(t, twoGateways(), func(o *Options) { o.Separator = "__" })
	got := all(t, s, alice, mcp.Tools)
	if want := []string{"gateway-one__increment", "gateway-two__increment"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestS4SplittingNeedsTheSeparatorRightAfterTheKey(t *testing.T) {
	f := newFleet()
	for _, key := range []string{"counter-on", "counter-one", "counter-oneee", "a", "a-b"} {
		f.up(key, nil).answer = func(Scope, mcp.Kind, []byte) (string, error) {
			return "", fault.New(fault.UpstreamTimeout, "no answer")
		}
	}
	s := serve(t, f, prefixed)
	got := goesTo(t, s, mcp.Tools, "counter-one-increment", "counter-one", "increment")
	if got.Rule != "split" || got.Known {
		t.Errorf("got rule %q known %v, want a split", got.Rule, got.Known)
	}
	goesTo(t, s, mcp.Tools, "a-b-tool", "a-b", "tool")
	goesTo(t, s, mcp.Tools, "a-c", "a", "c")
	for _, id := range []string{"counter-oneincrement", "counter-one-", "counter-one", "", "A-tool", "-x"} {
		isRefused(t, s, mcp.Tools, id)
	}
}

func TestS4TheCatalogDecidesBeforeSplitting(t *testing.T) {
	f := newFleet()
	f.up("a", tools("b-c", "b-only"))
	f.up("a-b", tools("c"))
	s := serve(t, f, prefixed)
	goesTo(t, s, mcp.Tools, "a-b-c", "a-b", "c")
	goesTo(t, s, mcp.Tools, "a-b-only", "a", "b-only")
	isRefused(t, s, mcp.Tools, "a-b-nothing")

	names := all(t, s, alice, mcp.Tools)
	if len(names) != 3 || !slices.Contains(names, "a-b-c") || !slices.Contains(names, "a-b-only") {
		t.Fatalf("got %q, want both of a and that of a-b", names)
	}
	for _, name := range names {
		if name != "a-b-c" && name != "a-b-only" {
			goesTo(t, s, mcp.Tools, name, "a", "b-c")
		}
	}
	got := s.Collisions()
	if len(got) != 1 || got[0].Winner != (Origin{"a-b", "c"}) || got[0].Loser != (Origin{"a", "b-c"}) || got[0].Exposed == "" {
		t.Errorf("collisions: got %+v", got)
	}
}

func TestS5AliasesWinOverPrefixes(t *testing.T) {
	f := newFleet()
	f.up("one", tools("deploy", "x"))
	f.up("two", tools("start"))
	s := serve(t, f, func(o *Options) {
		o.Naming = Prefixed
		o.Aliases = map[string]Alias{"one-deploy": {"two", "start"}}
	})
	if got := goesTo(t, s, mcp.Tools, "one-deploy", "two", "start"); got.Rule != "alias" {
		t.Errorf("rule: got %q", got.Rule)
	}
	names := all(t, s, alice, mcp.Tools)
	if len(names) != 3 || !slices.Contains(names, "one-deploy") || !slices.Contains(names, "one-x") {
		t.Fatalf("got %q", names)
	}
	for _, n := range names {
		if n != "one-deploy" && n != "one-x" {
			goesTo(t, s, mcp.Tools, n, "one", "deploy")
		}
	}
	if c := s.Collisions(); len(c) != 1 || c[0].Loser != (Origin{"one", "deploy"}) {
		t.Errorf("collisions: got %+v", c)
	}
}

func TestS6AliasesNeverLeakAcrossKinds(t *testing.T) {
	f := newFleet()
	f.up("one", map[mcp.Kind][]string{
		mcp.Tools:     {tool("hello")},
		mcp.Prompts:   {`{"name":"greet"}`},
		mcp.Resources: {resource("mem://greet", "greet")},
	})
	f.up("two", tools("other"))
	s := serve(t, f, func(o *Options) {
		o.Aliases = map[string]Alias{"one__greet": {"one", "hello"}, "mem://greet": {"two", "other"}}
	})
	goesTo(t, s, mcp.Prompts, "one__greet", "one", "greet")
	goesTo(t, s, mcp.Tools, "one__greet", "one", "hello")
	goesTo(t, s, mcp.Resources, "mem://greet", "one", "mem://greet")
}

func TestS7AliasesAreExactAndListedOnce(t *testing.T) {
	f := newFleet()
	f.up("jobs", tools("start_job", "stop"))
	f.up("other", tools("t"))
	s := serve(t, f, func(o *Options) {
		o.Aliases = map[string]Alias{
			"Public.Tool": {"jobs", "start_job"},
			"deploy":      {"jobs", "start_job"},
			"gone":        {"jobs", "not_offered"},
		}
	})
	if got, want := all(t, s, alice, mcp.Tools), []string{"Public.Tool", "jobs__stop", "other__t"}; !slices.Equal(got, want) {
		t.Errorf("listed: got %q, want %q", got, want)
	}
	for _, name := range []string{"Public.Tool", "deploy", "jobs__start_job"} {
		if got := goesTo(t, s, mcp.Tools, name, "jobs", "start_job"); got.Exposed != "Public.Tool" {
			t.Errorf("%s: exposed as %q", name, got.Exposed)
		}
	}
	isRefused(t, s, mcp.Tools, "public.tool")
	isRefused(t, s, mcp.Tools, "gone")
	if got := s.ExposeName("jobs", mcp.Tools, "start_job"); got != "Public.Tool" {
		t.Errorf("ExposeName: got %q", got)
	}
}

func TestS8AllListsFanOutAndMerge(t *testing.T) {
	s := serve(t, twoGateways(), nil)
	for kind := range mcp.NumKinds {
		got := all(t, s, alice, kind)
		want := 2
		if kind == mcp.Resources || kind == mcp.Templates {
			want = 1 // both offer one URI; the first key has it
		}
		if len(got) != want {
			t.Errorf("%s: got %q, want %d", kind, got, want)
		}
	}
	goesTo(t, s, mcp.Resources, "memo://x", "gateway-one", "memo://x")
	if c := s.Collisions(); len(c) != 2 || c[0].Kind != mcp.Resources || c[0].Loser.Upstream != "gateway-two" {
		t.Errorf("collisions: got %+v", c)
	}
}

func TestS9AFailedUpstreamIsMissingByNameAndNothingElse(t *testing.T) {
	f := newFleet()
	f.up("dead", nil).err = fault.New(fault.UpstreamUnavailable, "it refused the connection")
	f.up("live", tools("a"))
	s := serve(t, f, nil)
	l, err := s.List(t.Context(), alice, nil, mcp.Tools, mcp.LatestModern, "", false)
	if err != nil {
		t.Fatal(err)
	}
	if got := ids(t, mcp.Tools, l); !slices.Equal(got, []string{"live__a"}) {
		t.Errorf("got %q", got)
	}
	want := []Missing{{Upstream: "dead", Reason: "it refused the connection"}}
	if diff := cmp.Diff(want, l.Missing); diff != "" {
		t.Error(diff)
	}
	if l.TTL > partialTTL {
		t.Errorf("a partial list promises %s", l.TTL)
	}
}

func TestS9WhenNothingCanBeServedThatIsAnError(t *testing.T) {
	f := newFleet()
	f.up("dead", nil).err = fault.New(fault.UpstreamUnavailable, "it refused the connection")
	s := serve(t, f, nil)
	_, err := s.List(t.Context(), alice, nil, mcp.Tools, mcp.LatestModern, "", false)
	if codeOf(err) != fault.UpstreamUnavailable || !strings.Contains(fault.From(err).Message, "dead") {
		t.Errorf("got %v, want upstream unavailable that names it", err)
	}
}

func TestS10NamesDoNotChangeWhenAnUpstreamIsAdded(t *testing.T) {
	f := newFleet()
	f.up("one", map[mcp.Kind][]string{mcp.Tools: {tool("echo")}, mcp.Resources: {resource("m://x", "x")}})
	before := serve(t, f, nil)
	tools1, uris1 := all(t, before, alice, mcp.Tools), all(t, before, alice, mcp.Resources)
	f.up("two", tools("echo"))
	after := serve(t, f, nil)
	tools2, uris2 := all(t, after, alice, mcp.Tools), all(t, after, alice, mcp.Resources)
	if !slices.Contains(tools2, tools1[0]) || !slices.Equal(uris1, uris2) {
		t.Errorf("names changed: %q to %q, %q to %q", tools1, tools2, uris1, uris2)
	}
}

func TestS11TheMergedListIsSortedOverAllPages(t *testing.T) {
	f := newFleet()
	f.up("b", tools("z", "a", "M"))
	f.up("a", tools("q", "B"))
	s := serve(t, f, func(o *Options) { o.PageSize = 2 })
	got := all(t, s, alice, mcp.Tools)
	if want := []string{"a__B", "a__q", "b__M", "b__a", "b__z"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestS13CursorsAreOursAndEndTheWalk(t *testing.T) {
	f := newFleet()
	f.up("a", tools("1", "2", "3"))
	f.up("b", tools("1", "2"))
	s := serve(t, f, func(o *Options) { o.PageSize = 2 })
	first, err := s.List(t.Context(), alice, nil, mcp.Tools, mcp.LatestModern, "", false)
	if err != nil || first.Next == "" {
		t.Fatalf("first page: %v, next %q", err, first.Next)
	}
	list := func(s *Server, scope Scope, kind mcp.Kind, cursor string) error {
		_, err := s.List(t.Context(), scope, nil, kind, mcp.LatestModern, cursor, true)
		return err
	}
	otherServer := serve(t, f, func(o *Options) { o.Name = "other"; o.PageSize = 2 })
	otherKey := serve(t, f, func(o *Options) { o.CursorKey = []byte("another key of some length here!") })
	raw, _ := base64.RawURLEncoding.DecodeString(first.Next)
	raw[len(raw)-1] ^= 1
	altered := base64.RawURLEncoding.EncodeToString(raw)
	for what, err := range map[string]error{
		"empty":             list(s, alice, mcp.Tools, ""),
		"foreign":           list(s, alice, mcp.Tools, "8"),
		"json":              list(s, alice, mcp.Tools, `{"op":"list_tools","backends":{"ghost":"x"}}`),
		"altered":           list(s, alice, mcp.Tools, altered),
		"padded":            list(s, alice, mcp.Tools, first.Next+"="),
		"of another kind":   list(s, alice, mcp.Prompts, first.Next),
		"of another caller": list(s, bob, mcp.Tools, first.Next),
		"of another server": list(otherServer, alice, mcp.Tools, first.Next),
		"of another key":    list(otherKey, alice, mcp.Tools, first.Next),
	} {
		if codeOf(err) != fault.InvalidParams {
			t.Errorf("a cursor that is %s: got %v, want invalid params", what, err)
		}
	}
	if err := list(s, alice, mcp.Tools, first.Next); err != nil {
		t.Errorf("our own cursor: %v", err)
	}
}

func TestS14AWalkContinuesWhateverComesAndGoesMeanwhile(t *testing.T) {
	f := newFleet()
	a := f.up("a", tools("1", "2", "3"))
	b := f.up("b", tools("1", "2"))
	s := serve(t, f, func(o *Options) { o.PageSize = 2 })
	first, err := s.List(t.Context(), alice, nil, mcp.Tools, mcp.LatestModern, "", false)
	if err != nil {
		t.Fatal(err)
	}
	f.set(func() {
		a.pages[mcp.Tools] = []string{result(mcp.Tools, "", tool("0"), tool("1"), tool("9"))}
		b.pages[mcp.Tools] = []string{result(mcp.Tools, "")}
	})
	s.Invalidate("a", mcp.Tools, false)
	s.Invalidate("b", mcp.Tools, true)
	next, err := s.List(t.Context(), alice, nil, mcp.Tools, mcp.LatestModern, first.Next, true)
	if err != nil {
		t.Fatal(err)
	}
	if got := ids(t, mcp.Tools, next); !slices.Equal(got, []string{"a__9"}) || next.Next != "" {
		t.Errorf("got %q and next %q, want what sorts behind the first page, and an end", got, next.Next)
	}
	// Another instance with the same key continues the same walk.
	other := serve(t, f, func(o *Options) { o.PageSize = 2 })
	if l, err := other.List(t.Context(), alice, nil, mcp.Tools, mcp.LatestModern, first.Next, true); err != nil || l.Count != 1 {
		t.Errorf("on another instance: %d items, %v", l.Count, err)
	}
}

func TestS19ToS25CapabilitiesAreAUnion(t *testing.T) {
	caps := func(c ...string) (out [][]byte) {
		for _, s := range c {
			out = append(out, []byte(s))
		}
		return out
	}
	for _, tc := range []struct {
		name  string
		caps  [][]byte
		rev   mcp.Revision
		relay Relay
		want  string
	}{
		{"S24 nothing is declared", nil, mcp.V20251125, Relay{}, `{}`},
		{"S24 broken, null and empty ones declare nothing", caps("", "null", "{}", "[1]", `{"tools":null,"prompts":false}`), mcp.V20251125, Relay{}, `{}`},
		{
			"S20 disjoint ones are joined", caps(`{"tools":{"listChanged":true}}`, `{"prompts":{}}`, `{"completions":{},"logging":{}}`), mcp.V20250326,
			Relay{},
			`{"completions":{},"logging":{},"prompts":{},"tools":{}}`,
		},
		{
			"S21 S22 as far as they are relayed", caps(`{"resources":{"subscribe":true}}`, `{"resources":{},"tools":{}}`), mcp.V20251125,
			Relay{ListChanged: true, Subscribe: true},
			`{"resources":{"listChanged":true,"subscribe":true},"tools":{"listChanged":true}}`,
		},
		{"S21 nobody subscribes", caps(`{"resources":{"subscribe":false}}`), mcp.V20251125, Relay{Subscribe: true}, `{"resources":{}}`},
		{"S25 foreign ones are not copied", caps(`{"experimental":{"x":{}},"tasks":{},"tools":{}}`), mcp.V20260728, Relay{}, `{"tools":{}}`},
		{
			"apps for modern clients", caps(`{"extensions":{"io.modelcontextprotocol/ui":{"a":1},"vendor/x":{}}}`), mcp.V20260728,
			Relay{},
			`{"extensions":{"io.modelcontextprotocol/ui":{"a":1}}}`,
		},
		{
			"MCP Apps for legacy clients, and no other extension", caps(`{"extensions":{"io.modelcontextprotocol/ui":{},"io.modelcontextprotocol/tasks":{}}}`),
			mcp.V20251125,
			Relay{},
			`{"extensions":{"io.modelcontextprotocol/ui":{}}}`,
		},
		{
			"tasks of 2025-11-25, as those declared them who make them", caps(`{"tools":{}}`), mcp.V20251125,
			Relay{Legacy: caps(`{"cancel":{},"list":true}`, `{"list":{},"requests":{"tools":{"call":{}},"sampling":{}}}`)},
			`{"tasks":{"cancel":{},"list":{},"requests":{"tools":{"call":{}}}},"tools":{}}`,
		},
		{
			"no list for who cannot be told from others", nil, mcp.V20251125,
			Relay{NoList: true, Legacy: caps(`{"list":{},"requests":{"tools":{"call":{}}}}`)},
			`{"tasks":{"requests":{"tools":{"call":{}}}}}`,
		},
		{"no tasks of 2025-11-25 for others", nil, mcp.V20250618, Relay{Legacy: caps(`{"requests":{"tools":{"call":{}}}}`)}, `{}`},
		{"tasks of 2025-11-25 as the extension, for modern clients", nil, mcp.V20260728, Relay{Tasks: true, Legacy: caps(`{"list":{},"requests":{"tools":{"call":{}}}}`)}, `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`},
		{"not where calls are no tasks", nil, mcp.V20260728, Relay{Tasks: true, Legacy: caps(`{"list":{}}`)}, `{}`},
		{"not where tasks are not relayed", nil, mcp.V20260728, Relay{Legacy: caps(`{"requests":{"tools":{"call":{}}}}`)}, `{}`},
		{"no extensions before 2025-11-25", caps(`{"extensions":{"io.modelcontextprotocol/ui":{}}}`), mcp.V20250618, Relay{}, `{}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := string(MergeCapabilities(tc.caps, tc.rev, tc.relay)); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			slices.Reverse(tc.caps)
			if got := string(MergeCapabilities(tc.caps, tc.rev, tc.relay)); got != tc.want {
				t.Errorf("S23 in another order: got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestS19InstructionsHaveASectionPerUpstreamWithinABound(t *testing.T) {
	parts := []Part{{"b", "use b"}, {"a", "use a\n"}, {"c", "  "}}
	if got, want := MergeInstructions("own", parts, 0), "own\n\n## a\nuse a\n\n## b\nuse b"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := MergeInstructions("", []Part{{"a", " as it is\n"}}, 0); got != " as it is\n" {
		t.Errorf("a single text changed: %q", got)
	}
	long := []Part{{"a", strings.Repeat("ä", 500)}, {"b", "short"}}
	for most := range 200 {
		got := MergeInstructions("own text", long, most)
		if most > 0 && len(got) > most || !strings.HasPrefix("own text", got[:min(len(got), 5)]) && most > 0 && most >= 8 {
			t.Fatalf("bound %d: got %d bytes %q", most, len(got), got)
		}
		if strings.Contains(got, "\uFFFD") {
			t.Fatalf("bound %d cuts a character", most)
		}
	}
	if got := MergeInstructions("", long, 200); !strings.Contains(got, "## b\nshort") {
		t.Errorf("one long text crowds out another: %q", got)
	}
}

func TestUnknownAndHiddenNamesReadTheSame(t *testing.T) {
	f := newFleet()
	f.up("a", tools("echo", "rm"))
	s := serve(t, f, func(o *Options) {
		o.Aliases = map[string]Alias{"remove": {"a", "rm"}}
		o.Expose[mcp.Tools] = Expose{Deny: []string{"a__rm"}}
	})
	if got := all(t, s, alice, mcp.Tools); !slices.Equal(got, []string{"a__echo"}) {
		t.Errorf("listed: %q", got)
	}
	for _, id := range []string{"a__rm", "remove", "a__nothing", "rm"} {
		isRefused(t, s, mcp.Tools, id)
		_, err := s.Resolve(t.Context(), alice, mcp.Tools, id)
		if got, want := fault.From(err).Public(), fmt.Sprintf("unknown tool %q", id); got != want {
			t.Errorf("%s: got %q, want %q", id, got, want)
		}
	}
}
