package gateway

import (
	"slices"
	"testing"

	"github.com/penstock-mcp/penstock/internal/catalog"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

func TestAReadIsJudgedUnderEveryURIThatAServerMayTakeItFor(t *testing.T) {
	for uri, want := range map[string][]string{
		"file:///public/a":                 nil,
		"file:///public/../secret":         {"file:///secret"},
		"file:///public/%2e%2e/secret":     {"file:///secret"},
		"file:///public/%252e%252e/secret": {"file:///public/%2e%2e/secret", "file:///secret"},
		`file:///public\..\secret`:         {"file:///secret"},
		"file:///public/..%5csecret":       {"file:///secret"},
		"file:///../../secret":             {"file:///secret"},
		"file:///public//a/":               {"file:///public/a/"},
		"crm://acme/orders":                nil,
		"crm://acme/../globex/orders":      {"crm://globex/orders", "crm://acme/globex/orders"},
		"crm://acme/../../globex":          {"crm://globex", "crm://acme/globex"},
		"crm://acme%2f..%2fglobex":         {"crm://globex", "crm://acme/globex", "crm://acme/../globex"},
		"crm:acme/../globex":               {"crm:globex"},
		"https://a/b?c=/../d":              nil,
	} {
		for _, prefix := range []string{"", "docs-"} {
			var got []string
			for _, s := range spellings(&catalog.Target{Kind: mcp.Resources, ID: uri, Exposed: prefix + uri, Names: []string{prefix + uri}}) {
				got = append(got, s.ID)
				names := []string{s.ID}
				if prefix != "" {
					names = append(names, prefix+s.ID)
				}
				if s.Exposed != prefix+s.ID || !slices.Equal(s.Names, names) {
					t.Errorf("%s: exposed as %q and judged as %q", uri, s.Exposed, s.Names)
				}
			}
			if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
				t.Errorf("%s is also judged as %q, want %q", uri, got, want)
			}
		}
	}
	for _, kind := range []mcp.Kind{mcp.Tools, mcp.Prompts, mcp.Templates} {
		if s := spellings(&catalog.Target{Kind: kind, ID: "a/../b", Exposed: "a/../b"}); s != nil {
			t.Errorf("a %s has %v", kind, s)
		}
	}
}
