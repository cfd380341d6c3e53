package south

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

// taskNotes hears of tasks, too.
type taskNotes struct{ notes }

func (n *taskNotes) Task(id string, params []byte) { n.add("task " + id + " " + string(params)) }

const tellsTasks = `{"tools":{"listChanged":true},"extensions":{"io.modelcontextprotocol/tasks":{}}}`

func ofTask(id string) string {
	return `{"jsonrpc":"2.0","method":"notifications/tasks","params":{"taskId":"` + id + `","status":"working"}}`
}

func TestTasksAreHeardOfWhereTheyAreAskedFor(t *testing.T) { // checklist 8.3
	leakless(t)
	log := &bytes.Buffer{}
	s, h := listener(t, tellsTasks, func(arrived) string { return ackOf + `{"taskIds":["b","a","x"],"toolsListChanged":true}}}` })
	n := &taskNotes{}
	w := reach(t, s.url, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(log, nil)) }).Watch(key("n"), n)
	w.Want(mcp.Filter{TaskIDs: []string{"a", "b", "c"}})
	up := h.stream(t, 1)
	const on = `honoured {"taskIds":["a","b"]}`
	n.await(t, on)
	up.event(ofTask("a"))
	up.event(ofTask("x")) // not asked for
	up.event(ofTask("y"))
	up.event(`{"jsonrpc":"2.0","method":"notifications/tasks","params":{"status":"working"}}`)
	up.event(ofTask("c")) // not confirmed, and told of all the same
	n.await(t, on, `task a {"taskId":"a","status":"working"}`, `task c {"taskId":"c","status":"working"}`)
	for _, part := range []string{`"notifications":{"taskIds":["a","b","c"]}`, `clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`} {
		if !strings.Contains(up.body, part) {
			t.Errorf("%s is not in %s", part, up.body)
		}
	}
	w.Close()
	if k := strings.Count(log.String(), "tells of a task"); k != 1 {
		t.Errorf("%d lines in the log:\n%s", k, log)
	}
}

func TestTasksAreNotAskedForWhereThereAreNone(t *testing.T) {
	leakless(t)
	s, _ := listener(t, tells, agreeing)
	n := &taskNotes{}
	w := reach(t, s.url).Watch(key("n"), n)
	defer w.Close()
	w.Want(mcp.Filter{TaskIDs: []string{"a"}})
	n.await(t, "honoured {}")
	if got := s.got("subscriptions/listen"); len(got) != 0 {
		t.Errorf("asked %d times", len(got))
	}
}

type whoKey struct{}

// byContext is the credential of who a context is for.
type byContext struct{}

func (byContext) Authorize(ctx context.Context) (string, error) {
	who, _ := ctx.Value(whoKey{}).(string)
	return who, nil
}
func (byContext) Refused(context.Context, string) {}
func (byContext) PerCaller() bool                 { return true }

func TestAWatchHasTheCredentialOfWhomItIsFor(t *testing.T) {
	leakless(t)
	s, h := listener(t, tellsTasks, agreeing)
	u := reach(t, s.url, func(o *Options) { o.Authorize = byContext{} })
	n := &taskNotes{}
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), whoKey{}, "Bearer alice"))
	w := u.WatchFor(ctx, key("n"), n)
	defer w.Close()
	cancel() // it does not end with that
	w.Want(mcp.Filter{TaskIDs: []string{"a"}})
	if got := h.stream(t, 1).header.Get("Authorization"); got != "Bearer alice" {
		t.Errorf("listened with %q", got)
	}
	n.await(t, `honoured {"taskIds":["a"]}`)
}
