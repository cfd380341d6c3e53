package policy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"pgregory.net/rapid"
)

// guarded is a gateway whose policy forbids a tool, some files, and calls in prod.
type guarded struct {
	up     *lenient
	visits []*visit // namespaced, prefixed, passthrough
}

func newGuarded(t testing.TB) *guarded {
	t.Helper()
	up := newLenient(t)
	other := newUpstream(t, "other", false)
	g := serve(t, fmt.Sprintf(`
limits: {list_timeout: 20s}
upstreams: {up: {url: %q, namespace: u}, other: {url: %q}}
servers:
  default: {aliases: {bad: {upstream: up, tool: forbidden}, fine: {upstream: up, tool: ok}}}
  pre: {naming: prefixed, aliases: {bad: {upstream: up, tool: forbidden}}}
  raw: {naming: passthrough, upstreams: [up], aliases: {bad: {upstream: up, tool: forbidden}}}
`, up.Server.URL+"/mcp", other.endpoint())+section([]rule{
		{id: "forbidden", deny: names{[]string{"u__forbidden"}, nil, []string{"file:///secret/*"}}},
		{id: "no-prod", deny: tools("*"), when: byEnv("prod")},
		all,
	}))
	g.http.Timeout = patience
	out := &guarded{up: up}
	for _, server := range []string{"default", "pre", "raw"} {
		out.visits = append(out.visits, g.visit(t, nil, serverPaths[server]))
	}
	return out
}

// patience is how long an answer is waited for: a request may have opened a stream.
const patience = 3 * time.Second

// try sends one body in one form, holds what was executed to what is allowed, and
// counts it.
func (g *guarded) try(t interface{ Errorf(string, ...any) }, form uint8, body []byte, more ...string) (executed int) {
	v := g.visits[int(form)%len(g.visits)]
	form /= uint8(len(g.visits))
	g.up.take()
	var r *reply
	var err error
	switch form % 5 {
	case 0:
		r, err = v.client.try(string(body), append(headersOf(body, firstMember), more...)...)
	case 1:
		r, err = v.client.try(string(body), append(headersOf(body, lastMember), more...)...)
	case 2:
		r, err = v.newer.try(string(body), append(v.newer.headers(), more...)...)
	case 3:
		r, err = v.older.try(string(body), append(v.older.headers(), more...)...)
	case 4:
		r, err = v.older.try("["+string(body)+","+string(body)+"]", append(v.older.headers(), more...)...)
	}
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no answer to %q: %v", body, err)
	}
	all := g.up.take()
	for _, e := range all {
		if what := e.forbidden(); what != "" {
			t.Errorf("form %d: %s was executed: %v\nof the request %q\nwhich was answered %v", form, what, e, body, r)
		}
	}
	return len(all)
}

// headersOf are those that a body demands, by one way to read it.
func headersOf(body []byte, get func(obj []byte, name string) []byte) []string {
	method, params := str(get(body, "method")), get(body, "params")
	h := []string{"MCP-Protocol-Version", modernVersion, "Mcp-Method", printable(method)}
	switch method {
	case "tools/call", "prompts/get":
		return append(h, "Mcp-Name", headerValue(str(get(params, "name"))))
	case "resources/read":
		return append(h, "Mcp-Name", headerValue(str(get(params, "uri"))))
	}
	return h
}

// printable is what a header can hold of a text.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, s)
}

var (
	toolNames = []string{
		"u__ok", "up-ok", "ok", "fine", "u__forbidden", "up-forbidden", "forbidden", "bad", "u__u__forbidden", "U__forbidden", "u__Forbidden", " forbidden", "forbidden ",
		"u__ok\x00forbidden", "forbidden\x00", "u__forb\u0131dden", "u__forbidde\uff4e", "u__forbid\u0301den", "u__\ufeffforbidden", "u__\u200bforbidden", "./forbidden", "up__forbidden", "up-u__forbidden",
		"u__ok/../forbidden", "u__%66orbidden", "%66orbidden", "u__" + long, "other__forbidden", "", "_", "u__", "up-",
	}
	uris = []string{
		"file:///public/a", "file:///secret/b", "FILE:///secret/b", "File:///Secret/b", "file:/secret/b", "file:secret/b", "file://localhost/secret/b", "file://LOCALHOST/secret/b", "file://x@y:1/secret/b",
		"file:////secret/b", "file:///./secret/b", "file:///public/../secret/b", "file:///public/%2e%2e/secret/b", "file:///public/..%2fsecret/b", "file:///%73ecret/b", "file:///%2573ecret/b", "file:///secret%2fb", "file:///secret%252fb",
		`file:///public\..\secret\b`, `file:\\\secret\b`, "file:///public/%5c..%5c..%5csecret/b", "file:///public?/../../secret/b", "file:///public%3f/../secret/b", "file:///public%23/../secret/b", "file:///public#/../secret/b",
		"file:///public/a/b%2fc/../../../secret/b", "file:///a%2fb/../secret/b", "file:///secret/b?x=1", "file:///secret/../secret/b", "file:///secret/./b#f", " file:///secret/b", "file:///secret/b ", "fi\tle:///secret/b", "file:///sec\nret/b",
		"file:///%zz/../secret/b", "file:///%zz%2f..%2fsecret/b", "file:///sec%00ret/b", "up-file:///secret/b", "up-FILE:///secret/b", "up-file:///public/../secret/b", "up-file:///%73ecret/b", "file://%6cocalhost/secret/b", "file:///public/..;/secret/b", "file:///%c0%ae%c0%ae/secret/b",
		"ui://up/../secret/b", "x:file:///secret/b", "file:///secret", "file:///secret/", "file:///\uff53ecret/b", "file:", "file://", "file://secret/b", "file:///public/.%2e/secret/b", "file:///public/%252e%252e/secret/b",
	}
	nameKeys = []string{"name", "Name", "NAME", `n\u0061me`, `na\u006de`, `name\u0000`, `\u006eame`, "nаme", "uri", "URI", "Uri", `\u0075ri`, "ur\u0131"}
	envKeys  = []string{"env", "Env", "ENV", `\u0065nv`, `e\u006ev`, "еnv", "env ", "environment", `env\u0000`}
	envs     = []string{`"dev"`, `"prod"`, `"pro\u0064"`, `"\u0070rod"`, `"PROD"`, `null`, `["prod"]`, `{"env":"prod"}`, `1e400`, `9007199254740993`, `"prod\u0000"`, `"dev","x":"prod"`}
	argKeys  = []string{"arguments", "Arguments", `argu\u006dents`, "ARGUMENTS", "argumentſ"}
	methods  = []string{"tools/call", "resources/read", "resources/subscribe", "prompts/get", "completion/complete", "Tools/Call", `tools\/call`, "tools/call ", "tools/list"}
	extras   = []string{
		`"task":{"ttl":1}`, `"requestState":"x"`, `"inputResponses":{}`, `"_Meta":{}`, `"uri":"file:///secret/b"`, `"name":"u__forbidden"`, `"params":{"name":"forbidden"}`, `"arguments":{"env":"prod"}`, `"method":"tools/call"`, `"ref":{"type":"ref/resource","uri":"file:///secret/b"}`,
		`"argument":{"name":"env","value":"prod"}`, `"":""`, `"x":` + strings.Repeat("[", 60) + strings.Repeat("]", 60), `"x":1e9999`, `"level":"debug"`, `"cursor":"u__forbidden"`,
	}
	frames = []string{"%s", "\ufeff%s", "%s{}", "%s\n%[1]s", "// c\n%s", "/* c */%s", "\x00%s", "%s\x00", "[%s]", "[%s,%[1]s]", "[[%s]]", " \r\n%s\t", "%s,", "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\",\"params\":%s}"}
)

// draft is a request to be written down, member by member.
type draft struct {
	method string
	params []string // members in order
	tail   []string // members of the envelope behind params
	frame  string
}

func (d draft) body(meta bool) []byte {
	params := d.params
	if meta {
		params = append(params[:len(params):len(params)], declares)
	}
	members := append([]string{`"jsonrpc":"2.0"`, `"id":1`, `"method":"` + d.method + `"`, `"params":{` + strings.Join(params, ",") + `}`}, d.tail...)
	frame := d.frame
	if frame == "" {
		frame = "%s"
	}
	return fmt.Appendf(nil, frame, "{"+strings.Join(members, ",")+"}")
}

func member(key, value string) string { return `"` + key + `":` + value }

// escaped is a string with some of its characters written as escapes.
func escaped(s string, mask uint32) string {
	var b strings.Builder
	b.WriteByte('"')
	for i, r := range []rune(s) {
		switch {
		case r < ' ' || r == '"' || r == '\\' || mask>>(i%32)&1 == 1:
			for _, u := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, `\u%04x`, u)
			}
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// corpus are requests of every shape that was thought of, in every form.
func corpus(add func(form uint8, body []byte)) {
	dev := member("arguments", `{"env":"dev"}`)
	var all []draft
	call := func(params ...string) { all = append(all, draft{method: "tools/call", params: params}) }
	for i, name := range toolNames {
		call(member("name", escaped(name, 0)), dev)
		call(member("name", escaped(name, 1<<(i%9)|4)), dev)
		call(member("name", `"u__ok"`), member(nameKeys[i%len(nameKeys)], escaped(name, 0)), dev)
		call(member(nameKeys[i%len(nameKeys)], escaped(name, 0)), member("name", `"ok"`), dev)
	}
	for _, key := range nameKeys {
		call(member("name", `"ok"`), dev, member(key, `"forbidden"`))
		call(member(key, `"forbidden"`), member("name", `"up-ok"`), dev)
	}
	for _, key := range envKeys {
		for _, env := range envs {
			for _, name := range []string{`"u__ok"`, `"up-ok"`, `"ok"`} {
				call(member("name", name), member("arguments", "{"+member(key, env)+"}"))
			}
		}
		call(member("name", `"ok"`), member("arguments", `{"env":"dev",`+member(key, `"prod"`)+"}"))
		call(member("name", `"fine"`), member("arguments", `{`+member(key, `"prod"`)+`,"env":"dev"}`))
	}
	for _, key := range argKeys {
		call(member("name", `"ok"`), dev, member(key, `{"env":"prod"}`))
		call(member("name", `"up-ok"`), member(key, `{"env":"prod"}`), dev)
	}
	for _, args := range []string{`null`, `[]`, `""`, `"{\"env\":\"prod\"}"`, `{}`, `[{"env":"prod"}]`, `{"arguments":{"env":"dev"}}`, `{"env":"dev","env":"prod"}`, `{"env":{"env":"dev"}}`, `{"a":` + strings.Repeat(`{"a":`, 300) + "1" + strings.Repeat("}", 300) + `,"env":"dev"}`} {
		for _, name := range []string{`"u__ok"`, `"up-ok"`, `"ok"`} {
			call(member("name", name), member("arguments", args))
		}
	}
	for _, uri := range uris {
		for _, method := range []string{"resources/read", "resources/subscribe"} {
			all = append(all, draft{method: method, params: []string{member("uri", escaped(uri, 0))}})
		}
		all = append(all, draft{method: "resources/read", params: []string{member("uri", escaped(uri, 0x5a5))}})
		all = append(all, draft{method: "resources/read", params: []string{member("uri", escaped("up-"+uri, 0))}})
	}
	for _, x := range extras {
		call(member("name", `"ok"`), dev, x)
		all = append(all, draft{method: "tools/call", params: []string{member("name", `"u__ok"`), dev}, tail: []string{x}})
	}
	for _, frame := range frames {
		for _, name := range []string{`"u__forbidden"`, `"forbidden"`} {
			all = append(all, draft{method: "tools/call", params: []string{member("name", name), dev}, frame: frame})
		}
	}
	for _, method := range methods {
		all = append(all, draft{method: method, params: []string{member("name", `"forbidden"`), member("uri", `"file:///secret/b"`), dev}})
	}
	for i, d := range all {
		for form := range uint8(15) {
			if frugal := i%3 != int(form)%3 && d.method == "tools/call"; frugal {
				continue
			}
			add(form, d.body(form/3 < 2))
		}
	}
	wide := utf16.Encode([]rune(string(all[0].body(true))))
	raw := []byte{0xff, 0xfe}
	for _, u := range wide {
		raw = append(raw, byte(u), byte(u>>8))
	}
	add(0, raw)
}

// Whatever a request looks like, no reading of what arrives upstream is forbidden.
func FuzzPolicySeesWhatTheUpstreamExecutes(f *testing.F) {
	// The coverage of every seed is taken before any is changed: some of each kind do.
	n := 0
	corpus(func(form uint8, body []byte) {
		if n++; n%97 == 0 && len(body) < 1<<12 {
			f.Add(form, body)
		}
	})
	g := newGuarded(f)
	f.Fuzz(func(t *testing.T, form uint8, body []byte) {
		if bytes.Contains(body, []byte("subscriptions")) {
			t.Skip("it stays open")
		}
		g.try(t, form, body)
	})
}

func TestNoKnownShapeEscapesThePolicy(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	n := 0
	corpus(func(form uint8, body []byte) {
		n++
		g.try(t, form, body)
	})
	t.Logf("%d requests", n)
	ok := g.visits[0].client.modern("tools/call", `"name":"u__ok","arguments":{"env":"dev"}`)
	if all := g.up.take(); len(all) == 0 || ok.code() != "" {
		t.Errorf("what is allowed is not executed: %v", ok)
	}
}

// madeUp is how long requests are made up.
const madeUp = 3 * time.Second

func TestNoMadeUpShapeEscapesThePolicy(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	one := func(t *rapid.T, from []string) string { return rapid.SampledFrom(from).Draw(t, "one") }
	ran := 0
	check := func(t *rapid.T) {
		name := func() string { return escaped(one(t, toolNames), rapid.Uint32().Draw(t, "mask")) }
		uri := func() string { return escaped(one(t, uris), rapid.Uint32().Draw(t, "mask")) }
		d := draft{method: one(t, methods[:3]), frame: "%s"}
		if rapid.Bool().Draw(t, "begins well") {
			d.params = []string{member("arguments", `{"env":"dev"}`)}
			if d.method == "tools/call" {
				d.params = append(d.params, member("name", escaped(one(t, []string{"u__ok", "up-ok", "ok", "fine"}), rapid.Uint32().Draw(t, "mask"))))
			}
		}
		for range rapid.IntRange(0, 3).Draw(t, "members") {
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				value := name()
				if d.method != "tools/call" {
					value = uri()
				}
				key := "name"
				if d.method != "tools/call" {
					key = "uri"
				}
				if rapid.Bool().Draw(t, "plain") {
					key = one(t, nameKeys)
				}
				d.params = append(d.params, member(key, value))
			case 1, 2:
				var in []string
				for range rapid.IntRange(0, 3).Draw(t, "arguments") {
					in = append(in, member(one(t, envKeys), one(t, envs)))
				}
				d.params = append(d.params, member(one(t, argKeys), "{"+strings.Join(in, ",")+"}"))
			case 3:
				d.params = append(d.params, one(t, extras))
			}
		}
		if rapid.IntRange(0, 3).Draw(t, "framed") == 0 {
			d.frame = one(t, frames)
		}
		var more []string
		if rapid.IntRange(0, 4).Draw(t, "disagree") == 0 {
			more = []string{one(t, []string{"Mcp-Name", "Mcp-Method", "MCP-Protocol-Version", "Mcp-Param-Env", "Content-Type"}), one(t, []string{"forbidden", "tools/call", "2025-11-25", "prod", "application/json; charset=utf-16"})}
		}
		form := uint8(rapid.IntRange(0, 14).Draw(t, "form"))
		body := d.body(form/3 < 2)
		if !json.Valid(body) && d.frame == "%s" {
			t.Skip("not what was meant")
		}
		ran += g.try(t, form, body, more...)
	}
	for end := time.Now().Add(madeUp); time.Now().Before(end) && !t.Failed(); {
		rapid.Check(t, check)
	}
	if ran == 0 {
		t.Error("nothing was executed at all")
	}
	t.Logf("%d executions were allowed", ran)
}
