package routing_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func pause() { time.Sleep(5 * time.Millisecond) }

func TestS5AnAliasIsResolvedBeforeAnyPrefix(t *testing.T) {
	t.Parallel()
	for _, naming := range []string{"prefixed", "namespaced"} {
		up := peers{"one": {tools: items("tools", "increment", "start_job")}, "two": {legacy: true, tools: items("tools", "increment")}}
		sep := map[string]string{"prefixed": "-", "namespaced": "__"}[naming]
		gw := serve(t, up, "  default:\n    naming: "+naming+"\n    aliases:\n      deploy: {upstream: one, tool: start_job}\n      one"+sep+"increment: {upstream: two, tool: increment}")
		for _, c := range gw.clients(t, "") {
			want(t, c.named(t, "tools/call", "deploy"), up["one"], "tools/call", "start_job")
			// An alias that spells another tool's name wins over it.
			want(t, c.named(t, "tools/call", "one"+sep+"increment"), up["two"], "tools/call", "increment")
			want(t, c.named(t, "tools/call", "two"+sep+"increment"), up["two"], "tools/call", "increment")
		}
	}
}

// S6. In the system of the seed aliases leaked into prompts and resources; here
// each kind has a table of its own (DESIGN section 5).
func TestS6PromptsResourcesAndCompletionsRouteAlikeAndIgnoreAliases(t *testing.T) {
	t.Parallel()
	up := counters()
	up["gateway-one"].tools = items("tools", "hello_tool")
	gw := serve(t, up, "  default:\n    naming: prefixed\n    aliases:\n      greet: {upstream: gateway-one, tool: hello_tool}\n      'memo://x': {upstream: gateway-one, tool: hello_tool}\n      gateway-two-greet: {upstream: gateway-one, tool: hello_tool}")
	for era, c := range gw.clients(t, "") {
		one, two := up["gateway-one"], up["gateway-two"]
		want(t, c.named(t, "prompts/get", "gateway-two-greet"), two, "prompts/get", "greet")
		want(t, c.named(t, "resources/read", "gateway-one-memo://counter"), one, "resources/read", "memo://counter")
		want(t, c.named(t, "completion/complete", "gateway-two-greet"), two, "completion/complete", "greet")
		want(t, c.call(t, "completion/complete", `{"ref":{"type":"ref/resource","uri":"gateway-two-memo://{id}"},"argument":{"name":"id","value":"x"}}`), two, "completion/complete", "memo://{id}")
		want(t, c.named(t, "tools/call", "greet"), one, "tools/call", "hello_tool")
		for _, p := range up {
			p.forget()
		}
		wantCode(t, c.named(t, "prompts/get", "greet"), -32602, "prompts/get", up)
		wantCode(t, c.named(t, "completion/complete", "greet"), -32602, "completion/complete", up)
		missing := map[string]int{"modern": -32602, "legacy": -32002}[era]
		wantCode(t, c.named(t, "resources/read", "memo://x"), missing, "resources/read", up)
		wantCode(t, c.named(t, "resources/read", "gateway-three-memo://x"), missing, "resources/read", up)
		wantCode(t, c.call(t, "completion/complete", `{"ref":{"type":"ref/tool","name":"greet"},"argument":{"name":"a","value":""}}`), -32602, "completion/complete", up)
	}
}

// S6, the table of errors, with the codes of DESIGN section 13.
func TestS6EveryFailureHasItsCode(t *testing.T) {
	t.Parallel()
	custom := func(got request) string {
		if got.method == "tools/call" || got.method == "prompts/get" {
			return failure("$ID", -32050, "mine alone", `{"n":9007199254740993}`)
		}
		return ""
	}
	up := peers{
		"dead":  {tools: items("tools", "x")},
		"fails": {tools: items("tools", "x"), prompts: items("prompts", "p"), reply: custom},
		"slow": {tools: items("tools", "x"), legacy: true, before: func(got request) {
			if got.method == "tools/call" {
				time.Sleep(1500 * time.Millisecond)
			}
		}},
		"odd": {tools: items("tools", "x"), reply: func(got request) string {
			if got.method == "tools/call" {
				return `{"jsonrpc":"2.0","id":$ID}`
			}
			return ""
		}},
	}
	gw := serveWith(t, up, "", "limits: {list_timeout: 1s, call_timeout: 500ms}")
	for era, c := range gw.clients(t, "") {
		c.ids(t, "tools/list")
		if a := c.named(t, "tools/call", "fails__x"); a.code() != -32050 || a.Failure.Message != "mine alone" || string(a.Failure.Data) != `{"n":9007199254740993}` {
			t.Errorf("%s: an upstream's own error did not pass unchanged: %s", era, a.raw)
		}
		if a := c.named(t, "prompts/get", "fails__p"); a.code() != -32050 {
			t.Errorf("%s: %s", era, a.raw)
		}
		if a := c.named(t, "tools/call", "slow__x"); a.code() != -31002 {
			t.Errorf("%s: an upstream that does not answer: %s", era, a.raw)
		}
		if a := c.named(t, "tools/call", "odd__x"); a.code() != -31007 {
			t.Errorf("%s: an upstream that answers with no response: %s", era, a.raw)
		}
	}
	up["dead"].down.Store(true)
	for era, c := range gw.clients(t, "") {
		a := c.named(t, "tools/call", "dead__x")
		if a.code() != -31001 && a.code() != -31003 {
			t.Errorf("%s: an upstream that cuts every connection: %s", era, a.raw)
		}
	}
}

const twoAliases = `  default:
    naming: %
    aliases:
      beta: {upstream: one, tool: run}
      Alpha.Now_v2: {upstream: one, tool: run}
      absent: {upstream: one, tool: no_such_tool}`

// S7a: an alias does not hide the original. DESIGN section 5: an aliased tool
// is listed once, under its alias.
func TestS7aAnAliasAndItsCanonicalNameAreBothCallable(t *testing.T) {
	t.Parallel()
	up := peers{"one": {tools: items("tools", "run")}, "two": {tools: items("tools", "walk")}}
	for naming, canonical := range map[string]string{"prefixed": "one-run", "namespaced": "one__run"} {
		c := serve(t, up, strings.ReplaceAll(twoAliases, "%", naming)).modern("")
		for _, name := range []string{"beta", "Alpha.Now_v2", canonical} {
			want(t, c.named(t, "tools/call", name), up["one"], "tools/call", "run")
		}
		if slices.Contains(c.ids(t, "tools/list"), canonical) {
			t.Errorf("%s: the aliased tool is listed under its canonical name, too", naming)
		}
	}
	// One upstream alone: alias and raw name.
	up = peers{"one": {legacy: true, tools: items("tools", "run", "walk")}}
	for _, naming := range []string{"prefixed", "passthrough"} {
		for _, c := range serve(t, up, strings.ReplaceAll(twoAliases, "%", naming)).clients(t, "") {
			for _, name := range []string{"beta", "run"} {
				want(t, c.named(t, "tools/call", name), up["one"], "tools/call", "run")
			}
			if diff := cmp.Diff([]string{"Alpha.Now_v2", "walk"}, c.ids(t, "tools/list")); diff != "" {
				t.Errorf("%s: %s", naming, diff)
			}
		}
	}
}

func TestS7bOfTwoAliasesTheFirstInByteOrderIsListed(t *testing.T) {
	t.Parallel()
	up := peers{"one": {tools: items("tools", "run")}, "two": {tools: items("tools", "walk")}}
	c := serve(t, up, strings.ReplaceAll(twoAliases, "%", "prefixed")).modern("")
	if diff := cmp.Diff([]string{"Alpha.Now_v2", "two-walk"}, c.ids(t, "tools/list")); diff != "" {
		t.Error(diff)
	}
	up["one"].forget()
	// Exactly as published: case, dots and underscores count.
	for _, name := range []string{"alpha.now_v2", "Alpha_Now_v2", "Alpha.Now.v2", "Beta", "one-beta", "beta-run"} {
		wantCode(t, c.named(t, "tools/call", name), -32602, "tools/call", up)
	}
}

// S7c: what is not offered is not listed, and answered as unknown: the whole
// list of the upstream is known, and lacks it.
func TestS7cAnAliasOfAToolThatIsNotOfferedIsUnknown(t *testing.T) {
	t.Parallel()
	up := peers{"one": {tools: items("tools", "run")}, "two": {tools: items("tools", "walk")}}
	for _, naming := range []string{"prefixed", "namespaced"} {
		c := serve(t, up, strings.ReplaceAll(twoAliases, "%", naming)).modern("")
		if slices.Contains(c.ids(t, "tools/list"), "absent") {
			t.Errorf("%s: listed", naming)
		}
		wantCode(t, c.named(t, "tools/call", "absent"), -32602, "tools/call", up)
	}
}

// S7d: the alias wins, and DESIGN section 5 exposes the other under its short form.
func TestS7dAnAliasThatSpellsAnotherToolsNameShadowsItOnce(t *testing.T) {
	t.Parallel()
	up := peers{"one": {tools: items("tools", "run")}, "two": {tools: items("tools", "run", "walk")}}
	gw := serve(t, up, "  default:\n    naming: prefixed\n    aliases:\n      two-walk: {upstream: one, tool: run}")
	for _, c := range gw.clients(t, "") {
		names := c.ids(t, "tools/list")
		if len(names) != 3 || names[0] != "two-run" || names[1] != "two-walk" || !strings.HasPrefix(names[2], "two-walk_") {
			t.Fatalf("listed: %q", names)
		}
		want(t, c.named(t, "tools/call", "two-walk"), up["one"], "tools/call", "run")
		want(t, c.named(t, "tools/call", names[2]), up["two"], "tools/call", "walk")
	}
}

// S7e: filters judge a target under all its names, so that an alias escapes none.
func TestS7eAnAliasDoesNotEscapeExpose(t *testing.T) {
	t.Parallel()
	up := peers{"one": {tools: items("tools", "drop_all", "run")}, "two": {tools: items("tools", "walk")}}
	gw := serve(t, up, `  default:
    naming: prefixed
    aliases:
      harmless: {upstream: one, tool: drop_all}
      go: {upstream: one, tool: run}
    expose: {tools: {deny: ["*drop*"]}}
  few:
    naming: namespaced
    aliases: {go: {upstream: one, tool: run}}
    expose: {tools: {allow: [go]}}`)
	c := gw.modern("")
	if diff := cmp.Diff([]string{"go", "two-walk"}, c.ids(t, "tools/list")); diff != "" {
		t.Error(diff)
	}
	for _, name := range []string{"harmless", "one-drop_all"} {
		hidden := c.named(t, "tools/call", name)
		wantCode(t, hidden, -32602, "tools/call", up)
		unknown := c.named(t, "tools/call", "one-no_such")
		if strings.ReplaceAll(hidden.Failure.Message, name, "") != strings.ReplaceAll(unknown.Failure.Message, "one-no_such", "") {
			t.Errorf("a hidden tool is told from an unknown one: %q, %q", hidden.Failure.Message, unknown.Failure.Message)
		}
	}
	few := gw.modern("few")
	if diff := cmp.Diff([]string{"go"}, few.ids(t, "tools/list")); diff != "" {
		t.Error(diff)
	}
	want(t, few.named(t, "tools/call", "one__run"), up["one"], "tools/call", "run")
	up["two"].forget()
	wantCode(t, few.named(t, "tools/call", "two__walk"), -32602, "tools/call", peers{"two": up["two"]})
}

// S7f: two equal aliases are an error of the document (DESIGN section 5).
func TestS7fTwoEqualAliasesDoNotLoad(t *testing.T) {
	t.Parallel()
	problem := refused(t, `upstreams:
  one: {url: 'http://127.0.0.1:1/mcp'}
  two: {url: 'http://127.0.0.1:2/mcp'}
servers:
  default:
    aliases:
      deploy: {upstream: one, tool: run}
      deploy: {upstream: two, tool: run}
`)
	if !strings.Contains(problem, "deploy") || !strings.Contains(problem, "8:") {
		t.Errorf("the problem names neither alias nor line: %s", problem)
	}
}
