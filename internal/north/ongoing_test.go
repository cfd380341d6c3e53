package north

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/penstock-mcp/penstock/internal/fault"
)

// reloaded is a second handler beside f's own, as after a change of document:
// what clients send from now on reaches it.
func (f *front) reloaded() *Handler {
	f.t.Helper()
	o := f.options
	o.Ongoing = f.h.ongoing
	next := New(o, f.rooms, f.h.sessions)
	f.current.Store(next)
	return next
}

func sessionHeaders(session string) map[string]string {
	return map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Session-Id": session}
}

// A question that was asked under one document is answered under the next.
func TestAnAnswerReachesItsQuestionAfterAReload(t *testing.T) {
	f := open(t, asker())
	session := f.initialize("2025-06-18")
	call := f.tap(http.MethodPost, slow, sessionHeaders(session))
	id := questionID(t, call.next().data)
	f.reloaded()
	other := f.initialize("2025-06-18")
	answer := func(what string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"result":{"n":%q}}`, id, what)
	}
	for _, s := range []string{other, session, session} {
		if g := f.legacy(s, answer(map[bool]string{true: "mine", false: "a stranger's"}[s == session])); g.status != http.StatusAccepted {
			t.Errorf("HTTP %d %s", g.status, g.body)
		}
	}
	if got := call.next().data; got != `{"jsonrpc":"2.0","id":1,"result":{"heard":{"jsonrpc":"2.0","id":"theirs","result":{"n":"mine"}}}}` {
		t.Error(got)
	}
}

func TestACancelAndADeleteReachTheirCallsAfterAReload(t *testing.T) {
	began, ended := make(chan struct{}, 2), make(chan string, 2)
	f := open(t, &rooms{serve: func(ctx context.Context, x *Exchange) error {
		began <- struct{}{}
		<-ctx.Done()
		ended <- string(x.ID())
		return ctx.Err()
	}})
	session := f.initialize("2025-06-18")
	answers := make(chan got, 2)
	for _, id := range []string{"1", "2"} {
		go func() {
			answers <- f.legacy(session, `{"jsonrpc":"2.0","id":`+id+`,"method":"tools/call","params":{"name":"x"}}`)
		}()
		<-began
	}
	next := f.reloaded()
	next.Cut() // ends nothing that another serves
	f.legacy(session, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
	if id := <-ended; id != "2" {
		t.Errorf("%s ended", id)
	}
	if g := <-answers; g.status != http.StatusAccepted {
		t.Errorf("the cancelled call: HTTP %d %s", g.status, g.body)
	}
	f.send(http.MethodDelete, "/mcp", "", map[string]string{"Mcp-Session-Id": session})
	if id := <-ended; id != "1" {
		t.Errorf("%s ended", id)
	}
	<-answers
}

// A legacy call that is still running when the gateway stops is told that its outcome
// is not known, whatever it was waiting for, and that is no fault of the gateway's.
func TestACallThatIsCutIsToldThatItsOutcomeIsUnknown(t *testing.T) {
	for what, wait := range map[string]func(ctx context.Context) error{
		"a bare end":             func(ctx context.Context) error { return ctx.Err() },
		"an end with its reason": func(ctx context.Context) error { return fmt.Errorf("call given up: %w", context.Cause(ctx)) },
		"what is known to be so": func(ctx context.Context) error {
			return fault.Wrap(ctx.Err(), fault.UpstreamUnavailable, "not reached")
		},
		"a fault of another kind": func(context.Context) error { return errors.New("broken") },
	} {
		want := map[string]string{"what is known to be so": "-31001", "a fault of another kind": "-32603"}[what]
		for _, method := range []string{"tools/call", "tools/list"} {
			began := make(chan struct{}, 1)
			f := open(t, &rooms{serve: func(ctx context.Context, _ *Exchange) error {
				began <- struct{}{}
				<-ctx.Done()
				return wait(ctx)
			}})
			session := f.initialize("2025-06-18")
			f.recorded()
			answer := make(chan got, 1)
			go func() {
				answer <- f.legacy(session, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{"name":"x"}}`)
			}()
			<-began
			f.h.Cut()
			g := <-answer
			if code := fmt.Sprintf(`"code":%s,`, cmp.Or(want, "-31003")); g.status != http.StatusOK || !strings.Contains(g.body, code) {
				t.Errorf("%s, %s: HTTP %d %s, want %s", method, what, g.status, g.body, code)
			}
			if r := f.recorded(); len(r) != 1 || r[0].Outcome != Failed {
				t.Errorf("%s, %s: recorded %+v", method, what, r)
			}
		}
	}
}
