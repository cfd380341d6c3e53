package gateway

import (
	"slices"
	"testing"

	"github.com/penstock-mcp/penstock/internal/catalog"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

func TestAURIIsJudgedAsEachServerMayReadIt(t *testing.T) {
	for uri, want := range map[string][]string{
		"file:///public/a.txt":               nil,
		"file:///public/.hidden":             nil,
		"https://host/a?b=c#d":               nil,
		"urn:isbn:0451450523":                nil,
		"note":                               nil,
		"file:///public/../secret/x":         {"file:///secret/x"},
		"file:///public/%2e%2e/secret/x":     {"file:///secret/x"},
		"file:///public/%252e%252e/secret/x": {"file:///public/%2e%2e/secret/x", "file:///secret/x"},
		"file:///secret%2fx":                 {"file:///secret/x"},
		"file:///public/..\\secret/x":        {"file:///secret/x"},
		"file:////secret/x":                  {"file:///secret/x"},
		"FILE:///secret/x":                   {"file:///secret/x"},
		"https://HOST/secret":                {"https://host/secret"},
		"file:///%73ecret/x":                 {"file:///secret/x"},
		"file:///%zz/%73ecret/x":             {"file:///%zz/secret/x"},
		"file:///a/./b/":                     {"file:///a/b/"},
		"demo:../x":                          {"demo:x"},
		"file:///a/..":                       {"file:///"},
	} {
		var got []string
		for _, other := range spellings(&catalog.Target{Kind: mcp.Resources, ID: uri, Exposed: uri, Names: []string{uri}}) {
			got = append(got, other.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", uri, got, want)
		}
	}
	if spellings(&catalog.Target{Kind: mcp.Tools, ID: "a/../b"}) != nil {
		t.Error("a tool is no path")
	}
}
