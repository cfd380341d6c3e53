package policy_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
)

// forms are arguments as they are sent, and what they are.
var forms = []struct {
	title, raw string
	args       map[string]any
}{
	{"dev", `"arguments":{"env":"dev"}`, map[string]any{"env": "dev"}},
	{"prod", `"arguments":{"env":"prod"}`, map[string]any{"env": "prod"}},
	{"none", ``, nil},
}

// tally counts cases by what was to come out of them.
type tally struct {
	mu sync.Mutex // guards by
	by map[string]map[result]int
}

func (c *tally) note(path string, r result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		c.by = map[string]map[result]int{}
	}
	if c.by[path] == nil {
		c.by[path] = map[result]int{}
	}
	c.by[path][r]++
}

func (c *tally) total() (n int) {
	for _, of := range c.by {
		for _, m := range of {
			n += m
		}
	}
	return n
}

// shortForms reads the short forms of long names off gateways that hide nothing.
func shortForms(t *testing.T) map[string]string {
	t.Helper()
	g := serve(t, worldDocument(home(t), old(t)))
	short := map[string]string{}
	for server, prefix := range map[string]string{"default": "", "pre": "pre "} {
		result := at(g.as(t, nil, serverPaths[server]).modern("tools/list", "").message(), "result", "tools")
		for _, name := range texts(result, "name") {
			if strings.Contains(name, "report_") {
				short[prefix+"home "+long] = name
			}
		}
	}
	if len(short) != 2 || len(short["home "+long]) > 64 {
		t.Fatalf("the short forms are %v", short)
	}
	return short
}

// Every case holds the answer on one path to one target to what the oracle says:
// listed exactly if visible, served by the upstream exactly if allowed; what is not
// visible is answered in the very bytes of what does not exist, what is visible and
// not allowed is "denied by policy", and of neither anything arrives upstream.
func TestListsAndCallsFollowOneDecisionOnEveryPath(t *testing.T) {
	short := shortForms(t)
	by := policies(short)
	var count tally
	t.Run("policies", func(t *testing.T) {
		for _, title := range slices.Sorted(maps.Keys(by)) {
			t.Run(title, func(t *testing.T) {
				t.Parallel()
				table(t, by[title], short, &count)
			})
		}
	})
	n := count.total()
	t.Logf("%d cases over %d paths and %d policies", n, len(count.by), len(by))
	if n < 5000 {
		t.Errorf("the table has %d cases", n)
	}
	for path, of := range count.by {
		want := []result{served, unseen}
		if strings.HasPrefix(path, "call") || strings.HasPrefix(path, "batch") || strings.HasPrefix(path, "retry") {
			want = append(want, refused)
		}
		for _, r := range want {
			if of[r] == 0 {
				t.Errorf("no case of %q ends with %s", path, r)
			}
		}
	}
}

// table runs the cases of one policy.
func table(t *testing.T, rules []rule, short map[string]string, count *tally) {
	h, o, id := home(t), old(t), newIssuer(t)
	ups := map[string]*upstream{"home": h, "old": o}
	document, store := stored(t, pinned(worldDocument(h, o))+id.section()+section(rules))
	g := serve(t, document, store)
	for _, who := range []*caller{
		id.known(t, caller{subject: "alice", tenant: "red", scopes: append([]string{"mcp", "admin"}, durableScopes...), claims: map[string]any{"dept": "ops"}}),
		id.known(t, caller{subject: "bob", tenant: "blue", scopes: append([]string{"mcp"}, durableScopes...), claims: map[string]any{"dept": "dev", "level": 3}}),
	} {
		if who.subject == "bob" && !byCaller(rules) {
			continue // to whom everything is the same
		}
		base := g.visit(t, who, serverPaths["default"])
		for _, server := range []string{"default", "pre", "raw"} {
			v := base
			if server != "default" {
				v = g.visit(t, who, serverPaths[server])
			}
			v.base = base
			lists := v.lists()
			for _, x := range world(server, short) {
				t.Run(fmt.Sprintf("%s/%s/%s", who.subject, server, x.title), func(t *testing.T) {
					c := &cell{t: t, v: v, u: ups[x.upstream], x: x, who: who, rules: rules, count: count}
					c.listed(lists)
					for _, p := range x.ways() {
						c.walk(p)
					}
				})
			}
		}
	}
}

// lists is what a caller is listed, by form of client and kind.
func (v *visit) lists() map[string][]string {
	out := map[string][]string{}
	for method, kind := range listKinds {
		member := map[string]string{"resources": "uri", "resourceTemplates": "uriTemplate"}[kind]
		if member == "" {
			member = "name"
		}
		for form, r := range map[string]*reply{"modern": v.client.modern(method, ""), "legacy": v.newer.call(method, ""), "batch": v.older.batched(method, "")} {
			list := at(r.message(), "result", kind)
			if !strings.HasPrefix(list, "[") {
				v.client.t.Errorf("%s of %s: %v", form, kind, r)
			}
			out[form+" "+kind] = texts(list, member)
		}
	}
	return out
}

// cell is one target of one caller.
type cell struct {
	t     *testing.T
	v     *visit
	u     *upstream
	x     *target
	who   *caller
	rules []rule
	count *tally
}

// listed holds the lists to what is visible.
func (c *cell) listed(lists map[string][]string) {
	if c.x.within {
		return // it is in no list
	}
	kind := c.x.kind + "s"
	if c.x.template {
		kind = "resourceTemplates"
	}
	visible := judge(c.rules, c.who, c.x, nil).visible
	for _, form := range []string{"modern", "legacy", "batch"} {
		n := 0
		for _, name := range lists[form+" "+kind] {
			if name == c.x.exposed {
				n++
			}
		}
		want := map[bool]int{true: 1, false: 0}[visible]
		if n != want {
			c.t.Errorf("list, %s: it is there %d times, and visible: %v", form, n, visible)
		}
		c.count.note("list, "+form, map[bool]result{true: served, false: unseen}[visible])
	}
}

// byCaller tells whether a rule looks at who calls.
func byCaller(rules []rule) bool {
	return slices.ContainsFunc(rules, func(r rule) bool {
		return r.subject+r.tenant != "" || r.scopes != nil || r.claims != nil || r.when != nil && strings.Contains(r.when.text, "principal")
	})
}

// byArguments tells whether a rule looks at arguments.
func byArguments(rules []rule) bool {
	return slices.ContainsFunc(rules, func(r rule) bool { return r.when != nil && strings.Contains(r.when.text, "arguments") })
}

// walk goes one path, under every name and with all kinds of arguments.
func (c *cell) walk(p way) {
	for _, way := range slices.Sorted(maps.Keys(c.x.called)) {
		name := c.x.called[way]
		for _, form := range forms {
			switch {
			case (p.sees || c.x.kind == "resource") && form.title != "none":
				continue // it has no arguments
			case !p.sees && c.x.kind != "resource" && form.title != "dev" && !byArguments(c.rules):
				continue // it has no need of others
			}
			want, verdict := served, judge(c.rules, c.who, c.x, form.args)
			switch {
			case !verdict.visible:
				want = unseen
			case !verdict.allowed && !p.sees:
				want = refused
			}
			c.t.Run(p.title+"/"+way+"/"+form.title, func(t *testing.T) {
				before := c.u.arrived(c.x.original)
				got := p.ask(c.v, name, form.raw)
				var absent *reply
				nowhere := c.x.nowhere(name)
				if want == unseen {
					absent = p.ask(c.v.base, nowhere, form.raw)
				}
				if r := got.of(name, nowhere, absent); r != want {
					t.Errorf("want it %s, got %s: %v\nand what does not exist: %v", want, r, got, absent)
				}
				n := c.u.arrived(c.x.original) - before
				if want == served && strings.HasPrefix(p.title, "subscription") {
					n += before // one subscription upstream serves everybody
				}
				if (n > 0) != (want == served) {
					t.Errorf("it is to be %s, and %d requests arrived upstream", want, n)
				}
			})
			c.count.note(p.title, want)
			if way != "exposed" {
				c.count.note("call by "+way, want)
			}
		}
	}
}
