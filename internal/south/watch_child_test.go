package south

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// speak has a child write a line of its own.
func speak(t *testing.T, u *Upstream, tool, line string) {
	t.Helper()
	args, err := json.Marshal(map[string]string{"line": line})
	if err != nil {
		t.Fatal(err)
	}
	mustCall(t, u, tool, string(args))
}

func listenNote(kind mcp.Kind, id string) string {
	return `{"jsonrpc":"2.0","method":"` + kind.Changed() + `","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `}}}`
}

func TestAModernChildIsListenedTo(t *testing.T) { // checklist 36, 121, T27
	leakless(t)
	u, _ := startChild(t, "tells")
	w, n := watching(t, u)
	w.Want(mcp.Filter{Tools: true})
	n.await(t, onTools)
	first := mustCall(t, u, "listen-id", "")
	speak(t, u, "say", listenNote(mcp.Tools, "$LISTEN"))
	speak(t, u, "say", listenNote(mcp.Tools, `"of another"`))
	speak(t, u, "say", changed(mcp.Tools)) // of nobody
	speak(t, u, "say", listenNote(mcp.Prompts, "$LISTEN"))
	n.await(t, onTools, "changed tools")
	w.Want(mcp.Filter{Prompts: true})
	const then = `honoured {"promptsListChanged":true}`
	n.await(t, onTools, "changed tools", then, "reopened")
	settle(t, "the cancel of the first", func() bool { return mustCall(t, u, "cancelled", "") == first })
	speak(t, u, "say", listenNote(mcp.Tools, first)) // too late
	speak(t, u, "say", listenNote(mcp.Prompts, "$LISTEN"))
	n.await(t, onTools, "changed tools", then, "reopened", "changed prompts")
	second := mustCall(t, u, "listen-id", "")
	w.Close()
	if got := mustCall(t, u, "cancelled", ""); got != first+" "+second {
		t.Errorf("cancelled %s; want %s %s", got, first, second)
	}
	if got := mustCall(t, u, "asked", ""); got != "listen {\"toolsListChanged\":true}\nlisten {\"promptsListChanged\":true}" {
		t.Error(got)
	}
}

// A server on the Go SDK forgets all that a session listens to when one of its
// listens ends, which it says after that.
func TestAChildIsListenedToOnceAtATime(t *testing.T) {
	leakless(t)
	u, _ := startChild(t, "tells,one-listen")
	w, n := watching(t, u)
	w.Want(mcp.Filter{Tools: true})
	n.await(t, onTools)
	w.Want(mcp.Filter{Tools: true, URIs: []string{"a://1"}})
	const both = `honoured {"toolsListChanged":true,"resourceSubscriptions":["a://1"]}`
	n.await(t, onTools, both, "reopened")
	mustCall(t, u, "change", "")
	n.await(t, onTools, both, "reopened", "changed tools")
	w.Want(mcp.Filter{Tools: true, Prompts: true}) // it does not take this one
	n.await(t, onTools, both, "reopened", "changed tools", both, "reopened", onTools)
	mustCall(t, u, "change", "")
	n.await(t, onTools, both, "reopened", "changed tools", both, "reopened", onTools, "changed tools")
	w.Close()
	if got := mustCall(t, u, "asked", ""); strings.Count(got, "listen") != 4 {
		t.Error(got)
	}
}

// Checklist 62, T32: a listen is no call that a log message could belong to.
func TestAListenTakesNoLogMessageFromTheOneCall(t *testing.T) {
	u, _ := startChild(t, "tells")
	w, n := watching(t, u)
	w.Want(mcp.Filter{Tools: true})
	n.await(t, onTools)
	logged := 0
	if _, err := (toolCall{name: "log", onEvent: func(*wire.Answer) error { logged++; return nil }}).send(t.Context(), u); err != nil || logged != 1 {
		t.Errorf("%d log messages, %v", logged, err)
	}
	n.await(t, onTools)
}

func TestAModernChildThatCannotNotifyIsNotAskedAgain(t *testing.T) {
	u, _ := startChild(t, "tells,deaf")
	w, n := watching(t, u)
	w.Want(mcp.Filter{Tools: true})
	n.await(t, "honoured {}")
	time.Sleep(500 * time.Millisecond)
	if got := mustCall(t, u, "asked", ""); strings.Count(got, "listen") != 1 {
		t.Error(got)
	}
}

func TestAChildThatEndsAListenIsAskedAgain(t *testing.T) { // checklist 60
	u, _ := startChild(t, "tells")
	w, n := watching(t, u)
	w.Want(mcp.Filter{Tools: true})
	n.await(t, onTools)
	speak(t, u, "say", `{"jsonrpc":"2.0","id":$LISTEN,"result":{"resultType":"complete"}}`)
	n.await(t, onTools, onTools, "reopened")
	if got := mustCall(t, u, "cancelled", ""); got != "" {
		t.Errorf("cancelled %s, which was over", got)
	}
}

func TestAChildThatStartsAgainIsHeardAgain(t *testing.T) { // checklist 121
	for modes, ask := range map[string]string{
		"tells":        `listen {"toolsListChanged":true,"resourceSubscriptions":["a://1"]}`,
		"legacy,tells": "subscribe a://1",
	} {
		t.Run(modes, func(t *testing.T) {
			leakless(t)
			u, log := startChild(t, modes)
			w, n := watching(t, u)
			w.Want(mcp.Filter{Tools: true, URIs: []string{"a://1"}})
			const on = `honoured {"toolsListChanged":true,"resourceSubscriptions":["a://1"]}`
			n.await(t, on)
			before := mustCall(t, u, "pid", "")
			if _, err := (toolCall{name: "exit"}).send(t.Context(), u); err == nil {
				t.Fatal("the call of a child that ended was answered")
			}
			n.await(t, on, on, "reopened")
			if mustCall(t, u, "pid", "") == before {
				t.Fatal("it was not started again")
			}
			if d := cmp.Diff(ask, mustCall(t, u, "asked", "")); d != "" {
				t.Error(d)
			}
			note := listenNote(mcp.Tools, "$LISTEN")
			if strings.HasPrefix(modes, "legacy") {
				note = changed(mcp.Tools)
			}
			speak(t, u, "say", note)
			n.await(t, on, on, "reopened", "changed tools")
			if k := strings.Count(log.String(), "not heard"); k > 1 {
				t.Errorf("%d lines in the log", k)
			}
		})
	}
}

func TestALegacyChildIsHeardByEveryWatchOfIt(t *testing.T) { // checklist 6.4
	leakless(t)
	u, _ := startChild(t, "legacy,tells")
	w, n := watching(t, u)
	other, m := watching(t, u)
	w.Want(mcp.Filter{Tools: true, URIs: []string{"a://1", "a://2"}})
	const on = `honoured {"toolsListChanged":true,"resourceSubscriptions":["a://1","a://2"]}`
	n.await(t, on)
	other.Want(mcp.Filter{URIs: []string{"a://2"}})
	const onOther = `honoured {"resourceSubscriptions":["a://2"]}`
	m.await(t, onOther)
	speak(t, u, "say", changed(mcp.Tools))
	speak(t, u, "say", updated("a://2"))
	n.await(t, on, "changed tools", `updated a://2 {"uri":"a://2"}`)
	m.await(t, onOther, `updated a://2 {"uri":"a://2"}`)
	// A log message may belong to a call, if there is one.
	const note = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`
	speak(t, u, "say", note)
	speak(t, u, "say", `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"x","progress":1}}`)
	n.await(t, on, "changed tools", `updated a://2 {"uri":"a://2"}`)
	speak(t, u, "say-later", note)
	n.await(t, on, "changed tools", `updated a://2 {"uri":"a://2"}`, "other notifications/message "+note)
	w.Close()
	if d := cmp.Diff("subscribe a://1\nsubscribe a://2\nunsubscribe a://1", mustCall(t, u, "asked", "")); d != "" {
		t.Error(d)
	}
	other.Want(mcp.Filter{})
	settle(t, "the last unsubscribe", func() bool { return strings.HasSuffix(mustCall(t, u, "asked", ""), "unsubscribe a://2") })
	if p := u.child.current(); p != nil {
		if all, _ := p.listeners(); len(all) != 0 {
			t.Errorf("%d still listen", len(all))
		}
	}
}

func TestAWatchEndsWithItsChild(t *testing.T) {
	leakless(t)
	for _, modes := range []string{"tells", "legacy,tells"} {
		u, _ := startChild(t, modes)
		w, n := watching(t, u)
		w.Want(mcp.Filter{Tools: true})
		n.await(t, onTools)
		u.Close(t.Context())
		n.await(t, onTools)
		w.Close()
	}
}
