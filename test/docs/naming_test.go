package docs_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// What the table of names says is what the policy is asked about.
func TestTheNamesThatAreJudgedAreThoseOfTheTable(t *testing.T) {
	t.Parallel()
	servers := map[string]string{
		"`namespaced`":                         "naming: namespaced",
		"`namespaced` with `separator: \".\"`": `separator: "."`,
		"`prefixed`, several upstreams":        "naming: prefixed",
		"`prefixed`, one upstream":             "naming: prefixed",
		"`passthrough`":                        "naming: passthrough, upstreams: [docs]",
	}
	rows := table(t, page(t, "policy.md"), "naming", "tool `search` of upstream `docs` is judged as", "resource `file:///a` is judged as")
	if len(rows) != len(servers) {
		t.Errorf("%d rows", len(rows))
	}
	for _, cells := range rows {
		settings, ok := servers[cells[0]]
		if !ok {
			t.Errorf("what is %s?", cells[0])
			continue
		}
		other := "  other: # offers x\n    url: http://127.0.0.1:1/\n"
		if strings.Contains(cells[0], "one upstream") {
			other = ""
		}
		r := serve(t, fmt.Sprintf(`
upstreams:
  docs: # offers search, file:///a
    url: http://127.0.0.1:1/
%sservers:
  default: {%s}
policy:
  - {id: all, allow: {tools: ["*"], resources: ["*"]}}
`, other, settings), nil)
		r.listed("default", "") // what no list is known to have is told by its form
		kinds := []string{"tools", "resources"}
		for i, ids := range [][]string{{"search", "docs__search", "docs.search", "docs-search"}, {"file:///a", "docs-file:///a"}} {
			want := code(cells[i+1])
			found := false
			for _, id := range ids {
				all := r.explain(url.Values{"name": {id}, "as": {"local"}})
				for _, target := range all[0].Targets {
					if target.Upstream != "docs" || target.Kind != kinds[i] || target.Original != ids[0] {
						continue
					}
					found = true
					if got := slices.Sorted(slices.Values(target.Judged)); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
						t.Errorf("%s: %s is judged as %q, the page says %q", cells[0], id, got, want)
					}
				}
			}
			if !found {
				t.Errorf("%s: %s leads nowhere", cells[0], ids)
			}
		}
	}
}
