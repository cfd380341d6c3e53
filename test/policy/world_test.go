package policy_test

import (
	"fmt"
	"strings"
	"testing"
)

// What there is to judge: two upstreams, one of each era, behind three virtual
// servers, one for each naming rule.

// long is a name that has a short form where a prefix comes to it.
var long = "report_" + strings.Repeat("x", 60)

const notes = `{"destructiveHint":true}`

// home is what the upstream of the newer era offers; its annotations are not
// trusted. The other's are.
func home(t testing.TB) *upstream {
	return newUpstream(t, "home", false).
		tool("plain", "wipe", "ask", long).
		list("tools", `{"name":"marked","inputSchema":{"type":"object"},"annotations":`+notes+`}`).
		prompt("greet").resource("file:///public/a.txt").resource("ui://widget/view").template("file:///data/{path}")
}

func old(t testing.TB) *upstream {
	return newUpstream(t, "old", true).
		tool("plain", "ask").
		list("tools", `{"name":"marked","inputSchema":{"type":"object"},"annotations":`+notes+`}`).
		prompt("greet").resource("memo://old/a")
}

// worldDocument is the part of a document that is about names.
func worldDocument(h, o *upstream) string {
	return fmt.Sprintf(`
limits: {list_timeout: 20s, call_timeout: 30s}
upstreams:
  home: {url: %q, namespace: h}
  old: {url: %q, namespace: o, trust_annotations: true}
servers:
  default: {aliases: {clean: {upstream: home, tool: wipe}}}
  pre: {naming: prefixed, aliases: {clean: {upstream: home, tool: wipe}}}
  raw: {naming: passthrough, upstreams: [home], aliases: {clean: {upstream: home, tool: wipe}}}
`, h.endpoint(), o.endpoint())
}

var serverPaths = map[string]string{"default": "/mcp", "pre": "/servers/pre/mcp", "raw": "/servers/raw/mcp"}

// target is one thing behind one virtual server, and every name it has.
type target struct {
	title            string // of the case
	server, upstream string
	kind             string // as policy calls it
	template         bool   // it is a template
	within           bool   // it is a resource of the template
	original         string
	exposed          string
	called           map[string]string // every name it can be called by, and what that name is
	names            []string          // every name it is judged under
	annotations      string            // as trusted
}

// world is every target of one virtual server.
func world(server string, short map[string]string) (out []*target) {
	space := map[string]string{"home": "h", "old": "o"}
	exposes := func(upstream, original string) string {
		switch server {
		case "default":
			if s := short[upstream+" "+original]; s != "" {
				return s
			}
			return space[upstream] + "__" + original
		case "pre":
			if s := short["pre "+upstream+" "+original]; s != "" {
				return s
			}
			return upstream + "-" + original
		}
		return original
	}
	named := func(kind, upstream, original, alias string) {
		plain := exposes(upstream, original)
		t := &target{
			title: kind + " " + upstream + "." + strings.TrimRight(original, "x"), server: server, upstream: upstream, kind: kind, original: original, exposed: plain,
			names: []string{space[upstream] + "__" + original, plain}, called: map[string]string{"exposed": plain},
		}
		if alias != "" {
			t.exposed = alias
			t.names = append(t.names, alias)
			t.called = map[string]string{"alias": alias, "unaliased": plain}
		}
		if plain != original && len(original) > 50 {
			t.called = map[string]string{"short": plain}
		}
		if upstream == "old" && original == "marked" {
			t.annotations = notes
		}
		out = append(out, t)
	}
	located := func(upstream, original string, change func(t *target)) {
		exposed := original
		switch rest, ui := strings.CutPrefix(original, "ui://"); {
		case server == "raw":
		case ui:
			exposed = "ui://" + upstream + "/" + rest
		case server == "pre":
			exposed = upstream + "-" + original
		}
		t := &target{
			title: "resource " + original, server: server, upstream: upstream, kind: "resource", original: original, exposed: exposed,
			names: []string{original, exposed}, called: map[string]string{"exposed": exposed},
		}
		change(t)
		out = append(out, t)
	}
	asItIs := func(*target) {}
	named("tool", "home", "plain", "")
	named("tool", "home", "wipe", "clean")
	named("tool", "home", long, "")
	named("tool", "home", "marked", "")
	named("tool", "home", "ask", "")
	named("prompt", "home", "greet", "")
	located("home", "file:///public/a.txt", asItIs)
	located("home", "ui://widget/view", asItIs)
	located("home", "file:///data/{path}", func(t *target) { t.template = true })
	of := out[len(out)-1]
	located("home", "file:///data/x.txt", func(t *target) {
		t.within = true
		t.names = append(t.names, of.names...) // a URI comes through its template
	})
	if server != "raw" {
		named("tool", "old", "plain", "")
		named("tool", "old", "marked", "")
		named("tool", "old", "ask", "")
		named("prompt", "old", "greet", "")
		located("old", "memo://old/a", asItIs)
	}
	return out
}
