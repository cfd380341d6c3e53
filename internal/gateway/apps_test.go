package gateway

import (
	"fmt"
	"strings"
	"testing"
)

// T59, DESIGN section 5: two upstreams may have one ui:// URI. Outside
// passthrough each keeps its own, in lists, under an alias, in results, and in
// what is read.
func TestInterfacesOfTwoUpstreamsStayApart(t *testing.T) {
	const (
		uri  = `ui://panel/main`
		tool = `"tools":[{"name":"add","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://panel/main","visibility":["model"]},"ui/resourceUri":"ui://panel/main"}}]`
	)
	stub := func(legacy bool) *up {
		return &up{
			legacy: legacy, lists: map[string]string{"tools/list": tool, "resources/list": `"resources":[{"uri":"ui://panel/main","name":"p"}]`},
			on: func(w responseWriter, _ *request, h heard) bool {
				switch h.method {
				case "tools/call":
					reply(w, 200, `{"jsonrpc":"2.0","id":`+h.id+`,"result":{"content":[],"_meta":{"ui":{"resourceUri":"ui://panel/main"},"ui/resourceUri":"ui://panel/main"}}}`)
				case "resources/read":
					reply(w, 200, `{"jsonrpc":"2.0","id":`+h.id+`,"result":{"contents":[{"uri":"ui://panel/main","text":"`+h.header.Get("Mcp-Session-Id")+`"}]}}`)
				default:
					return false
				}
				return true
			},
		}
	}
	for _, rule := range []string{"namespaced", "prefixed"} {
		ups := map[string]*up{"a": stub(false), "b": stub(true)}
		h := serving(t, ups, "servers: {default: {naming: "+rule+", aliases: {mine: {upstream: b, tool: add}}}}")
		pointers := func(key string) string {
			return fmt.Sprintf(`"_meta":{"ui":{"resourceUri":"ui://%s/panel/main","visibility":["model"]},"ui/resourceUri":"ui://%[1]s/panel/main"}`, key)
		}
		list := h.modern("tools/list", "", "").body
		if !strings.Contains(list, `"name":"mine"`) || !strings.Contains(list, pointers("a")) || !strings.Contains(list, pointers("b")) || strings.Contains(list, `"ui://panel`) {
			t.Errorf("%s: %s", rule, list)
		}
		if list = h.modern("resources/list", "", "").body; !strings.Contains(list, `"uri":"ui://a/panel/main"`) || !strings.Contains(list, `"uri":"ui://b/panel/main"`) {
			t.Errorf("%s: %s", rule, list)
		}
		if got := h.modern("tools/call", "mine", `"name":"mine"`).body; strings.Count(got, `"ui://b/panel/main"`) != 2 {
			t.Errorf("%s: %s", rule, got)
		}
		_, legacy := h.session("2025-11-25", `{}`)
		for key, u := range ups {
			exposed := "ui://" + key + "/panel/main"
			for era, got := range map[string]string{
				"modern": h.modern("resources/read", exposed, `"uri":"`+exposed+`"`).body,
				"legacy": legacy(`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"` + exposed + `"}}`).body,
			} {
				if !strings.Contains(got, `"uri":"`+exposed+`"`) {
					t.Errorf("%s, %s client: %s", rule, era, got)
				}
			}
			if all := u.got("resources/read"); len(all) != 2 || !strings.Contains(all[0].body, `"uri":"`+uri+`"`) || !strings.Contains(all[1].body, `"uri":"`+uri+`"`) {
				t.Errorf("%s: %s was read as %v", rule, key, all)
			}
		}
	}
	u := stub(false)
	h := serving(t, map[string]*up{"a": u}, "servers: {default: {naming: passthrough}}")
	if list := h.modern("tools/list", "", "").body; strings.Count(list, `"`+uri+`"`) != 2 {
		t.Errorf("passthrough: %s", list)
	}
	if got := h.modern("resources/read", uri, `"uri":"`+uri+`"`).body; !strings.Contains(got, `"uri":"`+uri+`"`) || !strings.Contains(u.last(t, "resources/read").body, `"uri":"`+uri+`"`) {
		t.Errorf("passthrough: %s", got)
	}
}
