package peers

import (
	"fmt"
	"path/filepath"
	"testing"
)

// Checklist 34 to 37, X9: each kind of client cancels at the first event of a call that would report again three seconds
// later, and the server is told before that. The same client then asks the server what it saw, so that nothing but the
// cancel can have told it.
func TestACancelOfEveryClientReachesEveryUpstreamBeforeItsNextEvent(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many real peers: not with -short")
	}
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	record := filepath.Join(t.TempDir(), "record")
	gateway := servePairs(t, Witness(false, record), Witness(true, record), witnessArgv(root, record))
	gateway.everyPair(t, func(t *testing.T, client AskedClient, u pairedUpstream, at string) {
		script := AskedScript{Name: client.Name, InOrder: true, Capabilities: map[string]any{}}
		call := t.Name()
		script.Steps = []AskedStep{
			{Name: "wait", Arguments: map[string]any{"call": call, "every_ms": 3000}, CancelAfter: 1},
			{Name: "seen", Arguments: map[string]any{"call": call}},
		}
		report, err := client.Run(t.Context(), at, script)
		if err != nil {
			t.Fatal(err)
		}
		if got := report.ProtocolVersion >= "2026"; got != client.Modern {
			t.Errorf("the client speaks %s", report.ProtocolVersion)
		}
		if got := fmt.Sprint(report.Answers[0]); got != "map[cancelled:1]" {
			t.Errorf("the client's own call ended with %s", got)
		}
		want := "cancelled after 1 in legacy"
		if u.modern {
			want = "cancelled after 1 in modern"
		}
		if report.Answers[1] != want {
			t.Errorf("the server saw: %v, want %q", report.Answers[1], want)
		}
	})
}
