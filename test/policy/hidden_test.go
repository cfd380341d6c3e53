package policy_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
)

// deadEnd is an address that nobody listens on.
func deadEnd(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	return "http://" + ln.Addr().String() + "/mcp"
}

// An upstream that a caller may see nothing of is named in no list, error,
// instruction or capability of theirs, whether it is there or not.
func TestAnUpstreamThatNobodyMaySeeIsNamedNowhere(t *testing.T) {
	t.Parallel()
	for _, naming := range []string{"namespaced", "prefixed"} {
		t.Run(naming, func(t *testing.T) {
			t.Parallel()
			seen := newUpstream(t, "seen", false).tool("plain").resource("file:///a")
			seen.caps = `{"tools":{},"resources":{}}`
			gloom := newUpstream(t, "gloom", true).tool("plain").prompt("greet").resource("memo:///a").template("memo:///{x}")
			gloom.more = `"instructions":"ask gloom for it"`
			id := newIssuer(t)
			g := serve(t, fmt.Sprintf(`
limits: {list_timeout: 20s}
upstreams:
  seen: {url: %q}
  gloom: {url: %q, namespace: gloomy}
  dark: {url: %q, namespace: darkest}
servers: {default: {naming: %s}}
`, seen.endpoint(), gloom.endpoint(), deadEnd(t), naming)+id.section()+section([]rule{
				{id: "root", subject: "root", allow: everything},
				{id: "one", subject: "alice", upstream: "seen", allow: everything},
			}))
			alice := id.known(t, caller{subject: "alice", tenant: "t"})
			root := id.known(t, caller{subject: "root", tenant: "t"})
			nobody := id.known(t, caller{subject: "nobody", tenant: "t"})
			all := func(c *caller) (text string, v *visit) {
				var b strings.Builder
				v = g.visit(t, c, "/mcp")
				b.WriteString(v.newer.init + v.older.init)
				b.WriteString(v.client.modern("server/discover", "").Body)
				for method := range listKinds {
					b.WriteString(v.client.modern(method, "").Body + v.newer.call(method, "").Body)
				}
				for _, name := range []string{"gloomy__plain", "gloom-plain", "darkest__x", "dark-x", "dark__x"} {
					for _, kind := range []string{"tool", "prompt"} {
						x := target{kind: kind}
						for _, r := range []*reply{v.client.modern(x.method(), x.params(name, "")), v.newer.call(x.method(), x.params(name, ""))} {
							b.WriteString(strings.ReplaceAll(r.Body, name, "")) // what the caller said itself
						}
					}
				}
				for _, uri := range []string{"memo:///a", "memo:///b", "gloom-memo:///a", "dark-memo:///a", "ui://gloom/x", "ui://dark/x"} {
					read := v.client.modern("resources/read", `"uri":`+quote(uri)).Body
					b.WriteString(strings.ReplaceAll(read, uri, ""))
					complete := v.newer.call("completion/complete", `"ref":{"type":"ref/resource","uri":`+quote(uri)+`},"argument":{"name":"x","value":""}`).Body
					b.WriteString(strings.ReplaceAll(complete, uri, ""))
					subscribed := v.newer.call("resources/subscribe", `"uri":`+quote(uri)).Body
					b.WriteString(strings.ReplaceAll(subscribed, uri, ""))
				}
				h, honoured := v.client.listen(`{"toolsListChanged":true,"resourceSubscriptions":["memo:///a","gloom-memo:///a"]}`)
				h.close()
				b.WriteString(honoured)
				return b.String(), v
			}
			text, _ := all(root)
			for _, want := range []string{"gloom", "dark", "penstock/partial", "ask gloom for it", `"prompts":{`, `"completions":{`} {
				if !strings.Contains(text, want) {
					t.Errorf("root is not told of %q, so that this test shows nothing: %s", want, text)
				}
			}
			for _, c := range []*caller{alice, nobody} {
				text, v := all(c)
				for _, secret := range []string{"gloom", "dark", "penstock/partial", `"prompts":{`, `"completions":{`} {
					if at := strings.Index(text, secret); at >= 0 {
						t.Errorf("%s is told of %q: …%s", c.subject, secret, text[max(0, at-300):min(len(text), at+100)])
					}
				}
				r := v.client.modern("tools/call", `"name":`+quote(map[string]string{"namespaced": "seen__plain", "prefixed": "seen-plain"}[naming]))
				if (r.code() == "") != (c == alice) {
					t.Errorf("%s calls what is there: %v", c.subject, r)
				}
			}
		})
	}
}

// A list that cannot be had because everything is dead says so without naming what
// the caller may not know of.
func TestADeadUpstreamIsNamedToThoseWhoMaySeeItAlone(t *testing.T) {
	t.Parallel()
	id := newIssuer(t)
	g := serve(t, fmt.Sprintf("limits: {list_timeout: 10s}\nupstreams: {dark: {url: %q, namespace: darkest}}\n", deadEnd(t))+id.section()+section([]rule{
		{id: "root", subject: "root", allow: everything},
		{id: "none", subject: "alice", upstream: "another", allow: everything},
	}))
	for subject, told := range map[string]bool{"root": true, "alice": false, "nobody": false} {
		v := g.visit(t, id.known(t, caller{subject: subject, tenant: "t"}), "/mcp")
		text := ""
		for method := range listKinds {
			text += v.client.modern(method, "").Body + v.newer.call(method, "").Body
		}
		text += strings.ReplaceAll(v.client.modern("tools/call", `"name":"darkest__x"`).Body, "darkest__x", "")
		if strings.Contains(text, "dark") != told {
			t.Errorf("%s is told: %s", subject, text)
		}
	}
}
