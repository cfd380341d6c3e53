package hostile_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// kinds are the lists, and the method that a listed item answers to.
var kinds = []struct{ list, use, member, item string }{
	{"tools/list", "tools/call", "name", "t"},
	{"prompts/list", "prompts/get", "name", "p"},
	{"resources/list", "resources/read", "uri", "file:///r"},
}

func TestAChangedPrefixIsServedAtOnceAndTheOldOneRefused_kuadrant150(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		u.tool("t").prompt("p").resource("file:///r")
		fine := newModern(t).tool("fine")
		for naming, separator := range map[string]string{"namespaced": "__", "prefixed": "-"} {
			more := quick + "\nservers: {default: {naming: " + naming + "}}"
			g := serve(t, document(members{"a": u, "b": fine}, nil, more))
			callers := g.clients()
			was := "a" + separator
			for _, now := range []string{"z" + separator, "y" + separator} {
				prefix := strings.TrimSuffix(now, separator)
				if naming == "namespaced" {
					g.reload(document(members{"a": u, "b": fine}, map[string]string{"a": "namespace: " + prefix}, more))
				} else { // there the key is the prefix
					g.reload(document(members{prefix: u, "b": fine}, nil, more))
				}
				for era, c := range callers {
					for _, k := range kinds {
						fixed := k.member == "uri" && naming == "namespaced" // a URI stays as it is
						item := k.item
						if !fixed {
							item = now + item
						}
						got := names(t, c, k.list) // the first one after the change
						got = slices.DeleteFunc(got, func(name string) bool { return strings.HasPrefix(name, "b"+separator) })
						if !slices.Equal(got, []string{item}) {
							t.Errorf("%s, %s: %s has %v, not %s", naming, era, k.list, got, item)
						}
						use := func(name string) *reply { return c.request(k.use, fmt.Sprintf(`%q:%s`, k.member, quote(name))) }
						_ = wantResult(t, use(item))
						if fixed {
							continue
						}
						seen := len(u.requests(k.use))
						r := use(was + k.item)
						if code := at(r.message(), "error", "code"); code != "-32602" && code != "-32002" {
							t.Errorf("%s, %s: the old name %s got %v", naming, era, was+k.item, r)
						}
						if len(u.requests(k.use)) != seen {
							t.Errorf("%s, %s: the old name %s reached the upstream", naming, era, was+k.item)
						}
					}
					healthy(t, c, "b"+separator+"fine")
				}
				was = now
			}
		}
	})
}

func TestAnUpstreamAddedByReloadChangesNoName_agentgateway495(t *testing.T) {
	bothEras(t, func(t *testing.T, u *upstream) {
		u.tool("run").prompt("p").resource("file:///x").template("file:///{y}")
		g := open(t, members{"a": u})
		callers := g.clients()
		all := []string{"tools/list", "prompts/list", "resources/list", "resources/templates/list"}
		before := map[string][]string{}
		for _, method := range all {
			before[method] = names(t, g, method)
			if len(before[method]) != 1 {
				t.Fatalf("%s: %v", method, before[method])
			}
		}
		// Tools and prompts of the same names: without their owner they would be taken twice.
		same := newUpstream(t, u.legacy, u.session).tool("run").prompt("p").resource("file:///z").template("memo:///{y}")
		g.reload(document(members{"a": u, "z": same}, nil, quick))
		for era, c := range callers {
			for _, method := range all {
				if got := names(t, c, method); len(got) != 2 || !slices.Contains(got, before[method][0]) {
					t.Errorf("%s, %s: %v became %v", era, method, before[method], got)
				}
			}
			seen := len(u.requests("tools/call"))
			healthy(t, c, before["tools/list"][0])
			if len(u.requests("tools/call")) != seen+1 {
				t.Errorf("%s: the call went to another upstream", era)
			}
		}
	})
}
