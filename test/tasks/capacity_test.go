package tasks_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock"
	inner "github.com/penstock-mcp/penstock/internal/gateway"
	"github.com/penstock-mcp/penstock/internal/observe"
	"github.com/penstock-mcp/penstock/internal/store"
	"github.com/penstock-mcp/penstock/internal/store/memory"
)

func TestNobodysTaskMakesRoomForAnothers_20(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, "up")
	d := over(u)
	d.tasks = "probe: off, max: 8, max_per_principal: 5"
	g := serve(t, d)
	ann, bob := g.as("ann"), g.as("bob")
	kept := []string{ann.mint(t, "up__work"), ann.mint(t, "up__work")}
	flood := 0
	for range 40 {
		r := bob.call("up__work")
		if r.Code != 0 {
			t.Errorf("at capacity a call of a tool fails: %v", r)
		}
		if r.id() != "" {
			flood++
			bob.owns(t, r.id())
		}
	}
	if flood != 5 {
		t.Errorf("a caller may have 5 tasks, and got %d", flood)
	}
	for _, id := range kept {
		ann.owns(t, id)
	}
	// The last place is eve's; then there is none for anybody.
	eve := g.as("eve")
	kept = append(kept, ann.mint(t, "up__work"))
	time.Sleep(1100 * time.Millisecond) // counts are good for a second
	for range 5 {
		if r := eve.call("up__work"); r.id() != "" || r.Code != 0 {
			t.Errorf("beyond the bound on all: %v", r)
		}
	}
	for _, id := range kept {
		ann.owns(t, id)
	}
	declared := 0
	for _, c := range u.got("tools/call") {
		if c.Declared {
			declared++
		}
	}
	if declared != 8 {
		t.Errorf("8 tasks fit, and tasks were offered %d times", declared)
	}
}

func TestWithoutRoomAToolThatNeedsATaskSaysSo(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, "up")
	d := over(u)
	d.tasks = "max_per_principal: 1"
	g := serve(t, d)
	ann := g.as("ann")
	ann.mint(t, "up__work")
	u.handle("tools/call", insists)
	if r := ann.call("up__work"); r.Code != missingCapability || r.id() != "" {
		t.Errorf("%v", r)
	}
}

// insists is a tool that runs as a task only.
func insists(x *exchange) {
	if x.Declared {
		x.task()
		return
	}
	x.message(400, `{"jsonrpc":"2.0","id":`+x.ID+`,"error":{"code":-32021,"message":"needs tasks","data":{"requiredCapabilities":{"extensions":{"`+extension+`":{}}}}}}`)
}

// Who has declared tasks is not told to declare them when it is the store that fails.
func TestWhileTheStoreFailsAToolThatNeedsATaskSaysThatItDoes(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, "up")
	u.handle("tools/call", insists)
	w := &weak{Tasks: memory.NewTasks(1000, 1000, time.Now)}
	g := serveOn(t, over(u), w)
	ann := g.as("ann")
	ann.mint(t, "up__work")
	w.down.Store(true)
	time.Sleep(1100 * time.Millisecond) // counts are good for a second
	for range 3 {
		if r := ann.call("up__work"); r.Code != storeUnavailable || r.Status != 503 || !strings.Contains(r.Said, "nothing ran") {
			t.Errorf("%v", r)
		}
		if r := ann.plain().call("up__work"); r.Code != missingCapability {
			t.Errorf("without tasks: %v", r)
		}
	}
	w.down.Store(false)
	eventually(t, "tasks are offered again", 10*time.Second, func() bool { return ann.call("up__work").id() != "" })
}

func TestCallsAtOnceKeepToTheBoundOnTasks_20(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, "up")
	d := over(u)
	d.tasks = "max_per_principal: 10"
	g := serve(t, d)
	ann := g.as("ann")
	ann.plain().call("up__work") // the upstream is known
	var made atomic.Int32
	var all sync.WaitGroup
	for range 60 {
		all.Go(func() {
			r := ann.call("up__work")
			if r.id() != "" {
				made.Add(1)
				ann.owns(t, r.id())
			} else if r.Code != 0 {
				t.Errorf("%v", r)
			}
		})
	}
	all.Wait()
	if n := made.Load(); n > 10 || n == 0 {
		t.Errorf("10 tasks fit, and there are %d", n)
	}
	if n := len(u.got("tasks/cancel")); n != 0 {
		t.Errorf("%d tasks were made for nothing", n)
	}
}

// weak is a store of tasks that can be down, as a database.
type weak struct {
	store.Tasks
	down atomic.Bool
	lost atomic.Bool // writes alone fail
}

func (w *weak) fails(writes bool) bool { return w.down.Load() || writes && w.lost.Load() }

func (w *weak) Get(ctx context.Context, hash, principal [32]byte) (*store.Task, bool, error) {
	if w.fails(false) {
		return nil, false, store.ErrUnavailable
	}
	return w.Tasks.Get(ctx, hash, principal)
}

func (w *weak) Mint(ctx context.Context, t *store.Task) (*store.Task, error) {
	if w.fails(true) {
		return nil, store.ErrUnavailable
	}
	return w.Tasks.Mint(ctx, t)
}

func (w *weak) Locate(ctx context.Context, t *store.Task) (*store.Task, error) {
	if w.fails(true) {
		return nil, store.ErrUnavailable
	}
	return w.Tasks.Locate(ctx, t)
}

func (w *weak) Count(ctx context.Context, principal [32]byte) (own, all int, err error) {
	if w.fails(false) {
		return 0, 0, store.ErrUnavailable
	}
	return w.Tasks.Count(ctx, principal)
}

// serveOn is serve on a store of tasks.
func serveOn(t testing.TB, d doc, tasks store.Tasks) *gateway {
	t.Helper()
	g := &gateway{t: t, log: &logBuffer{}}
	logger := slog.New(slog.NewTextHandler(g.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	metrics := observe.NewMetrics(penstock.Version())
	in, err := inner.New(parsed(t, d), inner.Version{Name: "penstock", Version: "test", Metrics: metrics}, logger, inner.Storage{Tasks: tasks}, nil)
	if err != nil {
		t.Fatal(err)
	}
	in.Start()
	g.listen(in.Handler(), func(ctx context.Context) { _ = in.Close(ctx) })
	return g
}

func TestATaskThatCannotBeRememberedIsNobodys_18(t *testing.T) {
	t.Parallel()
	for _, probe := range []string{"off", "on"} {
		u := newUpstream(t, "up")
		d := over(u)
		d.tasks = "probe: " + probe + ", probe_rate: 1000/s"
		w := &weak{Tasks: memory.NewTasks(1000, 1000, time.Now)}
		g := serveOn(t, d, w)
		ann, bob := g.as("ann"), g.as("bob")
		kept := ann.mint(t, "up__work")

		// The store fails between the offer and the mint.
		w.lost.Store(true)
		r := ann.call("up__work")
		lost := u.latest()
		if r.Code != storeUnavailable || strings.Contains(r.Body, lost) || !strings.Contains(r.Said, "the tool ran") {
			t.Errorf("probe %s: a mint that is not stored: %v", probe, r)
		}
		if n := len(u.got("tasks/cancel", lost)); n != 1 {
			t.Errorf("probe %s: its task was cancelled %d times", probe, n)
		}
		// It is known to fail: no task is offered, and the tool answers at once.
		if r := ann.call("up__work"); r.Code != 0 || r.id() != "" || text(r.Result, "content", 0, "text") != "done at once" {
			t.Errorf("probe %s: while the store fails: %v", probe, r)
		}
		// Down altogether, it is no reason to call a task unknown.
		w.down.Store(true)
		for _, who := range []*client{ann, bob} {
			for _, id := range []string{kept, lost, "never-was"} {
				if r := who.get(id); r.Code != storeUnavailable || r.Status != 503 {
					t.Errorf("probe %s: while the store is down: %v", probe, r)
				}
			}
		}
		w.down.Store(false)
		w.lost.Store(false)
		ann.owns(t, kept)
		bob.lacks(t, kept)
		if probe == "off" {
			ann.lacks(t, lost)
			bob.lacks(t, lost)
		}
		eventually(t, "tasks are offered again", 20*time.Second, func() bool { return ann.call("up__work").id() != "" })
		ann.owns(t, u.latest())
		bob.lacks(t, u.latest())
	}
}
