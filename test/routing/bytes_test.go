package routing_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-mcp/penstock/internal/store/pgtest"
)

// cases of the byte property in a normal run.
const cases = "600"

func TestMain(m *testing.M) {
	flag.Parse()
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	// A failure prints its seed, which is all that is needed to repeat it.
	for name, value := range map[string]string{"rapid.checks": cases, "rapid.nofailfile": "true", "rapid.shrinktime": "5s"} {
		if given[name] {
			continue
		}
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(pgtest.Main(m))
}

// DESIGN section 3, in all four pairs of eras and under every naming rule.
func TestEveryByteThatNoRuleTouchesPasses(t *testing.T) {
	s := build(t, 1)
	seen := map[string]int{} // what the cases have reached, so that none is forgotten
	rapid.Check(t, func(t *rapid.T) {
		g := &gen{t}
		x := s.exchange(g)
		answer := x.ask(g)
		x.checkRequest(t)
		x.checkAnswer(t, answer)
		for _, what := range x.reached(answer) {
			seen[what]++
		}
	})
	if flag.Lookup("rapid.checks").Value.String() != cases {
		return
	}
	for _, what := range []string{
		"modern to modern", "modern to legacy", "legacy to modern", "legacy to legacy", "large request", "large answer", "event stream south",
		"event stream north", "error", "name changed", "namespaced", "prefixed", "passthrough", "tools/call", "prompts/get", "resources/read", "completion/complete",
	} {
		if seen[what] < 10 {
			t.Errorf("only %d cases reached %q: %v", seen[what], what, seen)
		}
	}
}

func (x *exchange) reached(a *answer) []string {
	era := map[bool]string{true: "modern", false: "legacy"}
	out := []string{era[x.modernClient()] + " to " + era[x.modernUpstream()], x.h.naming, x.method}
	for what, yes := range map[string]bool{
		"large request": len(x.request) > 64<<10, "large answer": len(x.sent) > 64<<10, "event stream south": x.sse,
		"event stream north": strings.Contains(a.header.Get("Content-Type"), "event-stream"), "error": a.Failure != nil,
		"name changed": x.target.id != x.target.exposed,
	} {
		if yes {
			out = append(out, what)
		}
	}
	return out
}

// checkRequest compares what reached the upstream with what the client sent.
func (x *exchange) checkRequest(t *rapid.T) {
	if x.got == nil {
		return // checkAnswer shows the refusal
	}
	name := func(was, is []byte) error {
		if unquote(is) != x.target.id {
			return fmt.Errorf("%s is not the original name %q", is, x.target.id)
		}
		if x.target.id == x.target.exposed {
			return same("an identifier that is not mapped", was, is)
		}
		return nil
	}
	named := map[string]func(was, is []byte) error{"name": name, "uri": name}
	below := map[string]*rules{
		"_meta": {
			ours: func(name string, _ []byte) bool { return slices.Contains(reserved, name) },
			changed: map[string]func(was, is []byte) error{
				"progressToken": func(_, is []byte) error { return nil },
			},
		},
	}
	params := &rules{
		ours:    func(name string, _ []byte) bool { return name == "task" },
		changed: named,
		below:   below,
	}
	if x.method == "completion/complete" {
		params.changed = nil
		below["ref"] = &rules{changed: named}
	}
	message := &rules{
		changed: map[string]func(was, is []byte) error{
			"id": func(_, is []byte) error { return nil },
		},
		below: map[string]*rules{"params": params},
	}
	if err := message.diff("message", trim(x.request), trim(x.got.body)); err != nil {
		t.Fatalf("%s, %s client, legacy upstream %t: the request changed on its way: %v\nsent: %s\ngot:  %s",
			x.h.about, x.revision, x.up.legacy, err, clip(x.request), clip(x.got.body))
	}
	if want, is := find(x.request, "params", "_meta", "progressToken"), find(x.got.body, "params", "_meta", "progressToken"); (want == nil) != (is == nil) {
		t.Fatalf("the progress token is lost or invented: sent %s, got %s", want, is)
	}
	if h := x.got.header.Get("Mcp-Name"); x.modernUpstream() && x.method != "completion/complete" && headerText(h) != x.target.id {
		t.Fatalf("Mcp-Name is %q for %q", h, x.target.id)
	}
	// What belongs to one hop is made for this one, and once.
	count := map[string]int{}
	meta := find(x.got.body, "params", "_meta")
	if meta != nil {
		ms, err := members(meta)
		if err != nil {
			t.Fatalf("_meta: %v", err)
		}
		for _, m := range ms {
			count[m.name]++
		}
	}
	for i, key := range reserved {
		wanted, most := 0, 0
		if x.modernUpstream() {
			wanted, most = []int{1, 1, 0, 0, 0, 0}[i], []int{1, 1, 1, 1, 0, 0}[i]
		}
		if count[key] < wanted || count[key] > most {
			t.Fatalf("%s client, legacy upstream %t: %s is there %d times: %s", x.revision, x.up.legacy, key, count[key], clip(meta))
		}
	}
}

func trim(b []byte) []byte { return bytes.Trim(b, " \t\r\n") }

// checkAnswer compares what reached the client with what the upstream sent.
func (x *exchange) checkAnswer(t *rapid.T, a *answer) {
	if x.sent == nil {
		t.Fatalf("%s, %s client: refused: HTTP %d %s\n%s", x.h.about, x.revision, a.status, clip(a.raw), clip(x.request))
	}
	was, is := trim(x.sent), trim(a.raw)
	// Who takes nothing but event streams gets an error that needs its HTTP status
	// as a plain body; it is made fit for framing all the same.
	if framed := strings.Contains(a.header.Get("Content-Type"), "event-stream"); framed || x.sse || x.c.accept == "text/event-stream" {
		was, is = flat(was), flat(is)
	}
	if err := x.answerRules().diff("message", was, is); err != nil {
		t.Fatalf("%s, %s client, legacy upstream %t, event stream %t: the answer changed on its way: %v\nsent: %s\ngot:  %s",
			x.h.about, x.revision, x.up.legacy, x.sse, err, clip(x.sent), clip(a.raw))
	}
	if a.Failure != nil {
		return
	}
	meta := func(key string) string { return string(find(a.raw, "result", "_meta", key)) }
	if got := meta(originTag); x.h.tag && got != quote(x.key) || !x.h.tag && got != "" {
		t.Fatalf("origin tag %s of %s", got, x.key)
	}
	info, kind := meta(reserved[4]), find(a.raw, "result", "resultType")
	if x.modernClient() && (!strings.Contains(info, `"penstock"`) || kind == nil) || !x.modernClient() && (info != "" || kind != nil) {
		t.Fatalf("%s client: serverInfo %q, resultType %q", x.revision, info, kind)
	}
}

// flat makes line ends between tokens alike: framing by lines turns each into a
// space. A raw one within a string would be invalid JSON, so there is none.
func flat(b []byte) []byte {
	return bytes.ReplaceAll(bytes.ReplaceAll(b, []byte("\n"), []byte(" ")), []byte("\r"), []byte(" "))
}

func (x *exchange) answerRules() *rules {
	uri := func(was, is []byte) error {
		mapped := x.h.mapURI(x.key, unquote(was))
		if mapped == unquote(was) {
			return same("a URI that is not mapped", was, is)
		}
		if unquote(is) != mapped {
			return fmt.Errorf("%s became %s, not %q", was, is, mapped)
		}
		return nil
	}
	uris := func(more map[string]*rules) *rules {
		return &rules{changed: map[string]func(was, is []byte) error{"uri": uri}, below: more}
	}
	block := uris(map[string]*rules{"resource": uris(nil)})
	result := &rules{
		ours: x.projected,
		below: map[string]*rules{
			"_meta": {
				ours: func(name string, _ []byte) bool {
					return name == "io.modelcontextprotocol/serverInfo" || x.h.tag && name == originTag
				},
				changed: map[string]func(was, is []byte) error{"ui/resourceUri": uri},
				below:   map[string]*rules{"ui": {changed: map[string]func(was, is []byte) error{"resourceUri": uri}}},
			},
			"content":  block,
			"contents": uris(nil),
			"messages": {below: map[string]*rules{"content": block}},
		},
	}
	return &rules{
		changed: map[string]func(was, is []byte) error{
			"id": func(_, is []byte) error { return same("the client's id", []byte(x.id), is) },
		},
		below: map[string]*rules{"result": result, "error": {below: map[string]*rules{"data": uris(nil)}}},
	}
}

// projected are members of a result that the client's revision adds or takes.
func (x *exchange) projected(name string, value []byte) bool {
	switch name {
	case "resultType", "ttlMs", "cacheScope":
		return !x.modernClient() || find(x.sent, "result", name) == nil
	case "structuredContent":
		return x.revision == "2025-03-26" || !x.modernClient() && value[0] != '{'
	}
	return false
}

// The oracle itself must see what it is there to see.
func TestTheOracleSeesEveryKindOfChange(t *testing.T) {
	t.Parallel()
	r := &rules{
		ours:    func(name string, _ []byte) bool { return name == "ours" },
		changed: map[string]func(was, is []byte) error{"free": func(_, _ []byte) error { return nil }},
		below:   map[string]*rules{"below": {}, "list": {}},
	}
	was := `{"a": 1.0,"free":1,"below":{"x" :"\u0041"},"list":[{"b":1}, 2],"ours":0}`
	for _, fine := range []string{
		was,
		`{"a": 1.0,"free":"other","below":{"x" :"\u0041"},"list":[{"b":1}, 2]}`,
		`{"ours":{"any":1},"a": 1.0,"free":[],"below":{"x" :"\u0041"},"list":[{"b":1}, 2]}`,
	} {
		if err := r.diff("", []byte(was), []byte(fine)); err != nil {
			t.Errorf("%s: %v", fine, err)
		}
	}
	for _, broken := range []string{
		strings.Replace(was, "1.0", "1", 1),
		strings.Replace(was, `": 1`, `":1`, 1),
		strings.Replace(was, `1.0,`, `1.0 ,`, 1),
		strings.Replace(was, `"a"`, `"\u0061"`, 1),
		strings.Replace(was, `"x" :`, `"x":`, 1),
		strings.Replace(was, `\u0041`, `A`, 1),
		strings.Replace(was, `}, 2`, `},2`, 1),
		strings.Replace(was, `, 2]`, `]`, 1),
		strings.Replace(was, `"list"`, `"x":1,"list"`, 1),
		`{"free":1,"a": 1.0,"below":{"x" :"\u0041"},"list":[{"b":1}, 2],"ours":0}`,
		`{"a": 1.0,"free":1,"list":[{"b":1}, 2],"ours":0}`,
		" " + was,
	} {
		if err := r.diff("", []byte(was), []byte(broken)); err == nil {
			t.Errorf("the change to %s is not seen", broken)
		}
	}
}
