package routing_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// listed draws the items of one kind, with odd members, and tells them apart by
// their description.
func listed(kind, key string, seed int) []string {
	return rapid.Custom(func(t *rapid.T) []string {
		g := &gen{t}
		var out []string
		for i := range 40 {
			id := fmt.Sprintf("%s-%d", kind, i)
			ms := []member{{"name", g.spell(id)}, {"description", quote(key + "|" + id)}}
			switch kind {
			case "resources":
				ms = append(ms, member{"uri", g.spell(g.pick("x", "ui") + "://" + key + "/" + id)})
			case "templates":
				ms = append(ms, member{"uriTemplate", g.spell("x://" + key + "/" + id + "/{a}")})
			case "tools":
				schema := g.pick(`{"type":"object"}`, "null", "", g.object(3, member{"type", `"object"`}, member{"$defs", g.value(2)}, member{"title", g.text()}))
				if schema != "" {
					ms = append(ms, member{"inputSchema", schema})
				}
				if g.rare(3) {
					ms = append(ms, member{"outputSchema", g.object(2, member{"type", g.pick(`"object"`, `"array"`)})})
				}
				if g.rare(3) {
					ms = append(ms, member{"execution", `{"taskSupport":"optional"}`})
				}
				if g.rare(3) {
					ms = append(ms, member{"_meta", g.object(2, member{"ui", g.object(1, member{"resourceUri", g.uri()})}, member{"ui/resourceUri", g.uri()})})
				}
			}
			if g.rare(2) {
				ms = append(ms, member{"title", g.text()}, member{"annotations", g.object(3)})
			}
			out = append(out, g.object(3, ms...))
		}
		return out
	}).Example(seed)
}

// DESIGN section 3, for what lists show: an item passes byte for byte, but for
// its identifier, its ui:// pointers, and what a revision adds or lacks.
func TestListedItemsPassByteForByte(t *testing.T) {
	t.Parallel()
	for seed := range 4 {
		checkListed(t, 100*seed)
	}
}

func checkListed(t *testing.T, seed int) {
	t.Helper()
	kinds := map[string]string{"tools": "tools", "prompts": "prompts", "resources": "resources", "resources/templates": "templates"}
	raw := map[string]string{} // kind, key and id to the item as its upstream lists it
	up := peers{"old": {legacy: true, page: 7}, "newer": {page: 9}}
	for key, p := range up {
		for i, kind := range []string{"tools", "prompts", "resources", "templates"} {
			items := listed(kind, key, seed+10*i+len(key))
			for _, item := range items {
				raw[kind+" "+unquote(find([]byte(item), "description"))] = item
			}
			switch kind {
			case "tools":
				p.tools = items
			case "prompts":
				p.prompts = items
			case "resources":
				p.resources = items
			default:
				p.templates = items
			}
		}
	}
	houses := []*house{
		{server: "", naming: "namespaced", sep: "__"}, {server: "pre", naming: "prefixed", sep: "-"}, {server: "pass", naming: "passthrough"},
	}
	gw := serve(t, up, "  default: {}\n  pre: {naming: prefixed}\n  pass: {naming: passthrough, upstreams: [newer]}")
	for _, h := range houses {
		for era, c := range gw.clients(t, h.server) {
			for method, kind := range kinds {
				n := 0
				params := ""
				for params != "end" {
					a := c.call(t, method+"/list", params)
					params = "end"
					if next := find(a.Result, "nextCursor"); next != nil {
						params = `{"cursor":` + string(next) + `}`
					}
					array := find(a.Result, strings.Replace(kind, "templates", "resourceTemplates", 1))
					spans, err := elements(array)
					if err != nil {
						t.Fatalf("%s: %v: %s", kind, err, a.raw)
					}
					for _, at := range spans {
						n++
						is := array[at[0]:at[1]]
						about := unquote(find(is, "description"))
						key, _, _ := strings.Cut(about, "|")
						was := raw[kind+" "+about]
						if err := h.itemRules(kind, key, c.modern(), []byte(was)).diff(kind, []byte(was), is); err != nil {
							t.Errorf("%s, %s client: %v\nsent: %s\ngot:  %s", h.naming, era, err, was, is)
						}
					}
				}
				if wanted := map[bool]int{true: 40, false: 80}[h.naming == "passthrough"]; n != wanted {
					t.Errorf("%s, %s client: %d %s, want %d", h.naming, era, n, kind, wanted)
				}
			}
		}
	}
}

func (h *house) itemRules(kind, key string, modern bool, was []byte) *rules {
	mapped := func(f func(string) string) func(was, is []byte) error {
		return func(was, is []byte) error {
			if s := unquote(was); f(s) == s {
				return same("what is not mapped", was, is)
			} else if unquote(is) != f(s) {
				return fmt.Errorf("%s became %s, not %q", was, is, f(s))
			}
			return nil
		}
	}
	name := func(s string) string {
		if h.naming == "passthrough" || h.naming == "namespaced" && kind != "tools" && kind != "prompts" {
			return s
		}
		return key + h.sep + s
	}
	uri := mapped(func(s string) string { return h.mapURI(key, s) })
	// Pointers are only rewritten where they are ui:// or the rule prefixes URIs.
	meta := &rules{
		changed: map[string]func(was, is []byte) error{"ui/resourceUri": uri},
		below:   map[string]*rules{"ui": {changed: map[string]func(was, is []byte) error{"resourceUri": uri}}},
	}
	r := &rules{
		changed: map[string]func(was, is []byte) error{"name": mapped(name), "uri": uri, "uriTemplate": uri},
		below:   map[string]*rules{},
	}
	if kind != "tools" {
		return r
	}
	r.below["_meta"] = meta
	schema, output := find(was, "inputSchema"), find(was, "outputSchema")
	r.ours = func(name string, value []byte) bool {
		switch name {
		case "inputSchema": // one is required, so an empty one is put
			return schema == nil && slices.Equal(value, []byte(`{"type":"object"}`)) || string(schema) == "null"
		case "execution": // it invites tasks, which are not offered
			return true
		case "outputSchema": // of an object, in the old era
			return !modern && string(find(output, "type")) != `"object"`
		}
		return false
	}
	return r
}
