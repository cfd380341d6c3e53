package durable_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/durable"
	"github.com/penstock-mcp/penstock/internal/store/engine"
	"github.com/penstock-mcp/penstock/test/durable/counting"
)

// front is a way for a caller to a counting worker.
type front interface {
	// submit submits the logical task, in the same words each time.
	submit(key string, runtime time.Duration) told
	get(id string) told
	cancel(id string)
}

// inProcess is a coordinator in this process.
type inProcess struct {
	t      *testing.T
	c      *durable.Coordinator
	target durable.Target
	sent   map[string]json.RawMessage
}

var someone = durable.Caller{Principal: "p", Tenant: "t", Local: true}

func reachInProcess(t *testing.T, w *counting.Worker) front {
	t.Helper()
	s, err := engine.Open(t.Context(), engine.Options{URL: "sqlite:" + filepath.Join(t.TempDir(), "state.db")})
	if err != nil {
		t.Fatal(err)
	}
	source := w.Source()
	c := durable.New(durable.Options{
		Routes: s.Routes(), Leases: s.Leases(), Sources: source, Instance: durable.NewInstanceID(), LeaseOptional: true,
	})
	ctx, cancel := context.WithCancel(context.Background())
	var life sync.WaitGroup
	life.Go(func() { c.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		life.Wait()
		_ = s.Close()
	})
	return &inProcess{t: t, c: c, target: source.Target(), sent: map[string]json.RawMessage{}}
}

func (p *inProcess) read(raw json.RawMessage, err error) (out told) {
	p.t.Helper()
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

func (p *inProcess) submit(key string, runtime time.Duration) told {
	p.t.Helper()
	if p.sent[key] == nil {
		raw, err := json.Marshal(document(p.t, key, p.target.Capability.Schema.String(), `{}`, runtime))
		if err != nil {
			p.t.Fatal(err)
		}
		p.sent[key] = raw
	}
	return p.read(p.c.Submit(p.t.Context(), &durable.Submit{Caller: someone, Target: p.target, Arguments: json.RawMessage(`{}`), Task: p.sent[key]}))
}

func (p *inProcess) get(id string) told {
	p.t.Helper()
	return p.read(p.c.Get(p.t.Context(), someone, id))
}

func (p *inProcess) cancel(id string) {
	p.t.Helper()
	p.read(p.c.Cancel(p.t.Context(), someone, id))
}

// atGateway is a gateway in front of the worker, which is reached over HTTP.
type atGateway struct {
	*gateway
	sent map[string]map[string]any
}

func reachThroughGateway(t *testing.T, w *counting.Worker) front {
	t.Helper()
	upstream := httptest.NewServer(w)
	t.Cleanup(func() {
		upstream.CloseClientConnections()
		upstream.Close()
	})
	pin, err := (&durable.Offer{
		Revision: "2026-07-28", ServerInfo: json.RawMessage(`{"name":"counting","version":"1"}`),
		Capabilities: json.RawMessage(`{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`),
		Tools:        []json.RawMessage{json.RawMessage(counting.Tool)},
	}).Manifest()
	if err != nil {
		t.Fatal(err)
	}
	yaml := fmt.Sprintf("state: 'sqlite:%s'\nupstreams:\n  counting:\n    url: %s\n    durable: {pin: '%s'}\n", filepath.Join(t.TempDir(), "state.db"), upstream.URL, pin)
	return &atGateway{serve(t, yaml), map[string]map[string]any{}}
}

func (g *atGateway) submit(key string, runtime time.Duration) told {
	g.t.Helper()
	if g.sent[key] == nil {
		g.sent[key] = g.submissionOf("counting__run", key, `{}`, runtime)
	}
	return g.gateway.submit(g.sent[key])
}

func (g *atGateway) cancel(id string) {
	g.t.Helper()
	if r := g.ask("tasks/cancel", id, map[string]any{"taskId": id}, &told{}); r != "" {
		g.t.Fatal(r)
	}
}

var fronts = map[string]func(*testing.T, *counting.Worker) front{"in process": reachInProcess, "through the gateway": reachThroughGateway}

// unknown is a task of which nobody knows what became of it.
const unknown = "working, unknown"

func summary(s told) string {
	if s.Status == "working" && s.Meta.Route.Execution == "unknown" {
		return unknown
	}
	return s.Status
}

// ends polls until a task has ended, or is unknown again and again.
func ends(f front, id string) (s told) {
	for doubts, polls := 0, 0; doubts < 5 && polls < 500; polls++ {
		if s = f.get(id); s.Status != "working" {
			return s
		}
		if summary(s) == unknown {
			doubts++
		}
		time.Sleep(10 * time.Millisecond)
	}
	return s
}

// What becomes of a call decides what becomes of its task, and never that it is
// sent again.
func TestOneCallIsSentWhateverBecomesOfIt(t *testing.T) {
	t.Parallel()
	for fate, want := range map[counting.Fate]struct {
		end   string
		begun int
	}{
		counting.Honest:     {"completed", 1},
		counting.LostBefore: {unknown, 0},
		counting.LostAfter:  {unknown, 1},
		counting.Late:       {unknown, 1},
		counting.Twice:      {"completed", 1},
		counting.Refused:    {"failed", 0},
		counting.Failing:    {unknown, 1},
		counting.WrongID:    {unknown, 1},
		counting.NoEcho:     {"cancelled", 1},
		counting.ForgedEcho: {"cancelled", 1},
		counting.TooLarge:   {"failed", 1},
		counting.AtOnce:     {"completed", 1},
		counting.AtOnceBare: {unknown, 1},
	} {
		for name, reach := range fronts {
			t.Run(string(fate)+" "+name, func(t *testing.T) {
				t.Parallel()
				w := counting.New()
				f := reach(t, w)
				w.Plan("tools/call", fate)
				runtime := 20 * time.Second
				if fate == counting.Late {
					runtime = time.Second
				}
				if fate == counting.NoEcho || fate == counting.ForgedEcho {
					// What it is told of the cancellation in is honest again.
					w.Hold()
				}
				first := f.submit("one", runtime)
				if again := f.submit("one", runtime); again.TaskID != first.TaskID {
					t.Errorf("%+v, then %+v", first, again)
				}
				last := ends(f, first.TaskID)
				if summary(last) != want.end {
					t.Errorf("%s, want %s: %+v", summary(last), want.end, last)
				}
				f.submit("one", runtime)
				if n, calls := w.Begun("one"), w.Requests("tools/call"); n != want.begun || calls > 1 {
					t.Errorf("begun %d times, want %d, with %d calls", n, want.begun, calls)
				}
			})
		}
	}
}

// What becomes of a poll decides what is known, and is mended by the next one
// while the connection is the same.
func TestAPollThatGoesWrongEndsNothing(t *testing.T) {
	t.Parallel()
	for fate, want := range map[counting.Fate][]string{
		counting.LostBefore: {"completed", unknown}, // unknown where the connection was lost with it
		counting.LostAfter:  {"completed", unknown},
		counting.Twice:      {"completed"},
		counting.Stale:      {"completed"},
		counting.Refused:    {"completed"},
		counting.Failing:    {"completed"},
		counting.WrongID:    {"completed"},
		counting.NoEcho:     {"completed"},
		counting.ForgedEcho: {"completed"},
		counting.TooLarge:   {"failed"},
	} {
		for name, reach := range fronts {
			t.Run(string(fate)+" "+name, func(t *testing.T) {
				t.Parallel()
				w := counting.New()
				f := reach(t, w)
				first := f.submit("one", 20*time.Second)
				w.Plan("tasks/get", fate)
				poll := f.get(first.TaskID)
				if fate != counting.Twice && fate != counting.TooLarge && summary(poll) != unknown {
					t.Errorf("the poll told %+v", poll)
				}
				if last := ends(f, first.TaskID); !slices.Contains(want, summary(last)) {
					t.Errorf("%s, want %q: %+v", summary(last), want, last)
				}
				if n := w.Begun("one"); n != 1 {
					t.Errorf("begun %d times", n)
				}
			})
		}
	}
}

func TestATaskIsNotAskedAboutOverAnotherConnection(t *testing.T) {
	t.Parallel()
	w := counting.New()
	w.Hold()
	f := reachInProcess(t, w)
	w.Plan("tasks/get", counting.Reconnect)
	first := f.submit("one", 20*time.Second)
	if s := f.get(first.TaskID); s.Status != "working" || s.Meta.Route.Phase != "routed" {
		t.Errorf("%+v", s)
	}
	polls := w.Requests("tasks/get")
	if s := f.get(first.TaskID); summary(s) != unknown {
		t.Errorf("%+v", s)
	}
	f.submit("one", 20*time.Second)
	if w.Requests("tasks/get") != polls || w.Requests("tasks/cancel") != 0 || w.Begun("one") != 1 {
		t.Errorf("%d polls, %d cancels, begun %d times", w.Requests("tasks/get"), w.Requests("tasks/cancel"), w.Begun("one"))
	}
}

func TestACancelThatIsLostIsSentAgainByTheNextPoll(t *testing.T) {
	t.Parallel()
	w := counting.New()
	w.Hold()
	f := reachInProcess(t, w)
	first := f.submit("one", 20*time.Second)
	w.Plan("tasks/cancel", counting.LostBefore)
	f.cancel(first.TaskID)
	if n := w.Requests("tasks/cancel"); n != 0 {
		t.Errorf("%d cancels have arrived", n)
	}
	if s := ends(f, first.TaskID); s.Status != "cancelled" || w.Requests("tasks/cancel") != 1 {
		t.Errorf("%+v, with %d cancels", s, w.Requests("tasks/cancel"))
	}
}
