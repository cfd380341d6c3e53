package peers

import (
	"path/filepath"
	"slices"
	"testing"
)

// Checklist 56 to 61, 79: every client hears through Penstock that the tools changed, and that a resource it watches did,
// from every upstream. go-everything updates its watched resource every three seconds.
func TestEveryClientHearsOfChangesAtEveryUpstream(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many real peers: not with -short")
	}
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	gateway := servePairs(t, GoEverything(false), GoEverything(true), []string{filepath.Join(root, "build/peers/go-everything")})
	gateway.everyPair(t, func(t *testing.T, client AskedClient, u pairedUpstream, at string) {
		const watched = "test://watched-resource"
		want := []string{"tools", watched}
		if u.name == "modern-stdio" {
			// Another filter there leaves a gap, after which it is told that the resource may have changed.
			want = append(want, watched)
		}
		report, err := client.Run(t.Context(), at, AskedScript{
			Name: client.Name, Capabilities: map[string]any{},
			Watch: &Watch{URIs: []string{watched}, Trigger: AskedStep{Name: "test_trigger_tool_change", Arguments: map[string]any{}}, Want: want},
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := report.ProtocolVersion >= "2026"; got != client.Modern {
			t.Errorf("the client speaks %s", report.ProtocolVersion)
		}
		left := slices.Clone(want)
		for _, what := range report.Heard {
			if i := slices.Index(left, what); i >= 0 {
				left = slices.Delete(left, i, i+1)
			} else if !slices.Contains(want, what) {
				t.Errorf("heard of %q, which it did not ask for", what)
			}
		}
		if len(left) > 0 {
			t.Errorf("did not hear of %q, but of %q, after %d changes of the tools", left, report.Heard, report.Triggers)
		}
	})
}
