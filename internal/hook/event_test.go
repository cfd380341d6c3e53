package hook

import (
	"testing"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

func TestEventsAreSpelledAsTheDocumentSpellsThem(t *testing.T) {
	for e, want := range map[Event]string{
		ToolBefore: "tool.before", ToolAfter: "tool.after", PromptBefore: "prompt.before",
		PromptAfter: "prompt.after", ResourceBefore: "resource.before", ResourceAfter: "resource.after",
	} {
		if e.String() != want {
			t.Errorf("%d is %q, want %q", e, e, want)
		}
		if got, ok := ParseEvent(want); !ok || got != e {
			t.Errorf("%q is %d, %v", want, got, ok)
		}
		if (want[len(want)-5:] == "after") != e.after() {
			t.Errorf("%s: after is %v", e, e.after())
		}
	}
	for _, s := range []string{"", "tool", "Tool.before", "tool.before ", "unknown"} {
		if e, ok := ParseEvent(s); ok {
			t.Errorf("%q is %s", s, e)
		}
	}
	if got := Event(200).String(); got != "unknown" {
		t.Error(got)
	}
}

func TestEveryKindHasItsEvents(t *testing.T) {
	for k, want := range map[mcp.Kind]Event{
		mcp.Tools: ToolBefore, mcp.Prompts: PromptBefore, mcp.Resources: ResourceBefore, mcp.Templates: ResourceBefore,
	} {
		if Before(k) != want || After(k) != want+1 {
			t.Errorf("%s: %s and %s", k, Before(k), After(k))
		}
	}
}
