package tasks_listen_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock"
	"github.com/penstock-mcp/penstock/internal/demo"
)

func TestAnotherUpstreamSaysNothingOfATask(t *testing.T) {
	t.Parallel()
	owner, other := newTeller(t, "theirs"), newTeller(t, "own")
	g := serve(t, document(map[string]string{"owner": owner.url, "other": other.url}, ""))
	c := g.as("")
	id, own := c.task("owner__work", `{}`), c.task("other__work", `{}`)
	s := c.listen("1", id, own)
	owner.heard(id)
	other.heard(own)
	settled(t, owner, other)
	for range 3 {
		other.tell(stands(id, "completed", `,"result":{"content":[]}`))
	}
	s.silent(300 * time.Millisecond)
	if n := strings.Count(g.log.String(), "tells of a task that it was not asked about"); n != 1 {
		t.Errorf("%d lines in the log", n)
	}
	other.tell(stands(own, "input_required", ``))
	if d := s.told(); d.TaskID != own || d.Status != "input_required" || string(d.Meta["vendor"]) != "1" {
		t.Errorf("%+v", d)
	}
	owner.tell(stands(id, "completed", `,"result":{"content":[]}`))
	if d := s.told(); d.TaskID != id || d.Status != "completed" {
		t.Errorf("%+v", d)
	}
	// What has ended stays so.
	owner.tell(stands(id, "working", ``))
	other.tell(stands(own, "input_required", ``)) // the same again
	s.silent(300 * time.Millisecond)
	s.end()
	wait(t, "the end of the listens", func() bool { return owner.open()+other.open() == 0 })
}

// settled waits until the upstreams have been asked after their acknowledgement:
// from then on only what they tell is told.
func settled(t *testing.T, ups ...*teller) {
	t.Helper()
	for _, u := range ups {
		wait(t, "two polls", func() bool { return u.polls() >= 2 })
	}
	time.Sleep(50 * time.Millisecond)
}

func TestAHookSeesWhatIsTold(t *testing.T) {
	both(t, func(t *testing.T, notify bool) {
		up := newShop(t, demo.JobOptions{Notify: notify, Pace: 300 * time.Millisecond})
		var asked atomic.Int32
		g := serve(t, document(map[string]string{"jobs": up.url()}, ""), penstock.WithHook(penstock.Hook{
			ID: "own", Events: []penstock.HookEvent{penstock.ToolAfter}, Timeout: 20 * time.Second,
			Func: func(_ context.Context, c *penstock.HookCall) (v penstock.HookVerdict, err error) {
				asked.Add(1)
				switch {
				case strings.Contains(string(c.Result), "lemon cake"):
					v.Result = []byte(strings.ReplaceAll(string(c.Result), "lemon cake", "a secret"))
				case strings.Contains(string(c.Result), "poison cake"):
					v.Deny, v.Message = true, "not this one"
				}
				return v, nil
			},
		}))
		c := g.as("")
		id, bad := c.task("jobs__bake_cake", cake), c.task("jobs__bake_cake", `{"flavor":"poison"}`)
		s := c.listen("1", id)
		no := c.listen("2", bad)
		d, _ := s.until(id, "completed")
		if got := c.get(id); string(got.Result) != string(d.Result) {
			t.Errorf("tasks/get has %s, the notification %s", got.Result, d.Result)
		}
		if text := string(d.Result); !strings.Contains(text, "a secret") || strings.Contains(text, "lemon") {
			t.Errorf("%s", text)
		}
		wait(t, "the end of the other", func() bool { return strings.Contains(g.log.String(), "a task is not told of any more") })
		for {
			select {
			case m := <-no.in:
				if strings.Contains(string(m.Params), "completed") {
					t.Errorf("what a hook withholds is told: %s", m.Params)
				}
				continue
			case <-time.After(300 * time.Millisecond):
			}
			break
		}
	})
}

const (
	allowed = "policy: [{id: a, allow: {tools: [\"*\"]}}]"
	denied  = "policy: [{id: a, who: {subject: [alice]}, deny: {tools: [\"*bake*\"]}}, {id: b, allow: {tools: [\"*\"]}}]"
)

func TestAReloadThatHidesTheToolEndsWhatIsToldOfItsTasks(t *testing.T) {
	both(t, func(t *testing.T, notify bool) {
		up := newShop(t, demo.JobOptions{Notify: notify, Pace: 2 * time.Second})
		ups := map[string]string{"jobs": up.url()}
		g := serve(t, document(ups, allowed, "alice", "bob"))
		alice, bob := g.as("alice"), g.as("bob")
		hers, his, order := alice.task("jobs__bake_cake", cake), bob.task("jobs__bake_cake", cake), alice.task("jobs__ship_order", `{"item":"teapot"}`)
		s, other := alice.listen("1", hers, order), bob.listen("2", his)
		g.reload(document(ups, denied, "alice", "bob"))
		after := time.Now()
		// The stream goes on, and so does what is still allowed.
		for {
			d := s.told()
			if d.TaskID == hers && time.Since(after) > 100*time.Millisecond {
				t.Fatalf("told of a task of a hidden tool: %+v", d)
			}
			if d.TaskID == order && d.Status == "input_required" {
				break
			}
		}
		other.until(his, "completed")
		s.silent(500 * time.Millisecond)
		if again := alice.listen("3", hers, order); len(again.acked) != 1 || again.acked[0] != order {
			t.Errorf("acknowledged %q", again.acked)
		}
	})
}

func TestTheUpstreamIsLeftAloneWhenTheToolIsHidden(t *testing.T) {
	t.Parallel()
	up := newTeller(t, "one")
	ups := map[string]string{"up": up.url}
	g := serve(t, document(ups, allowed, "alice"))
	c := g.as("alice")
	id := c.task("up__work", `{}`)
	s := c.listen("1", id)
	up.heard(id)
	g.reload(document(ups, "policy: [{id: a, allow: {prompts: [\"*\"]}}]", "alice"))
	wait(t, "the end of the listen", func() bool { return up.open() == 0 })
	s.silent(100 * time.Millisecond)
}

func TestListenersStayOverAReload(t *testing.T) {
	both(t, func(t *testing.T, notify bool) {
		up := newShop(t, demo.JobOptions{Notify: notify, Pace: 1500 * time.Millisecond})
		g := serve(t, document(map[string]string{"jobs": up.url()}, ""))
		c := g.as("")
		id := c.task("jobs__bake_cake", cake)
		s := c.listen("1", id)
		// Another upstream comes, and this one is another for the gateway.
		more := newShop(t, demo.JobOptions{})
		doc := strings.Replace(document(map[string]string{"jobs": up.url(), "more": more.url()}, ""), "call_timeout: 10s", "call_timeout: 9s", 1)
		g.reload(doc)
		s.until(id, "completed")
		s.silent(300 * time.Millisecond)
	})
}

func TestARevokedCredentialEndsTheStream(t *testing.T) {
	t.Parallel()
	up := newTeller(t, "one", "two")
	ups := map[string]string{"up": up.url}
	g := serve(t, document(ups, "", "alice", "bob"))
	alice, bob := g.as("alice"), g.as("bob")
	hers, his := alice.task("up__work", `{}`), bob.task("up__work", `{}`)
	s, other := alice.listen("1", hers), bob.listen("2", his)
	wait(t, "two listens", func() bool { return up.open() == 2 })
	settled(t, up)
	g.reload(document(ups, "", "bob"))
	wait(t, "the end of hers", func() bool { return up.open() == 1 })
	up.tell(stands(hers, "completed", ""))
	if m, open := <-s.in; open && m.Method != "" {
		t.Errorf("%+v", m)
	}
	up.tell(stands(his, "cancelled", ""))
	if d := other.told(); d.TaskID != his || d.Status != "cancelled" {
		t.Errorf("%+v", d)
	}
}

func TestATaskThatIsGoneIsNotToldOf(t *testing.T) {
	t.Parallel()
	up := newTeller(t, "one", "two")
	g := serve(t, document(map[string]string{"up": up.url}, ""))
	c := g.as("")
	one, two := c.task("up__work", `{}`), c.task("up__work", `{}`)
	up.set(one, "")
	s := c.listen("1", one, two)
	up.heard(two)
	settled(t, up)
	up.tell(stands(one, "completed", ""))
	up.tell(stands(two, "completed", ""))
	if d := s.told(); d.TaskID != two {
		t.Errorf("%+v", d)
	}
	s.silent(200 * time.Millisecond)
}

func TestEveryCallerIsHeardOnTheirOwn(t *testing.T) {
	t.Parallel()
	up := newTeller(t, "one", "two")
	g := serve(t, document(map[string]string{"up": up.url}, "", "alice", "bob"))
	alice, bob := g.as("alice"), g.as("bob")
	hers, his := alice.task("up__work", `{}`), bob.task("up__work", `{}`)
	s, other := alice.listen("1", hers), bob.listen("1", his)
	wait(t, "two listens", func() bool { return up.open() == 2 })
	settled(t, up)
	up.mu.Lock()
	for _, body := range up.asked {
		if strings.Contains(body, hers) && strings.Contains(body, his) || !strings.Contains(body, `"extensions":{"io.modelcontextprotocol/tasks":{}}`) {
			t.Errorf("asked with %s", body)
		}
	}
	up.mu.Unlock()
	up.tell(stands(hers, "failed", `,"error":{"code":-32603,"message":"no"}`))
	up.tell(stands(his, "completed", ``))
	if d := s.told(); d.TaskID != hers || !strings.Contains(string(d.Error), "no") {
		t.Errorf("%+v", d)
	}
	if d := other.told(); d.TaskID != his {
		t.Errorf("%+v", d)
	}
}

func TestALargeNotificationIsAskedForInstead(t *testing.T) {
	t.Parallel()
	up := newTeller(t, "one")
	g := serve(t, document(map[string]string{"up": up.url}, ""))
	c := g.as("")
	id := c.task("up__work", `{}`)
	s := c.listen("1", id)
	up.heard(id)
	settled(t, up)
	large := stands(id, "completed", `,"result":{"content":[{"type":"text","text":"`+strings.Repeat("x", 200_000)+`"}]}`)
	up.set(id, large)
	up.tell(large)
	if d := s.told(); d.Status != "completed" || len(d.Result) < 200_000 {
		t.Errorf("%s, %d bytes", d.Status, len(d.Result))
	}
}

func TestWhatIsToldIsRecorded(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	up := newTeller(t, "one")
	g := serve(t, document(map[string]string{"up": up.url}, "audit: {file: '"+file+"', flush: 10ms}\n"+allowed, "alice"))
	c := g.as("alice")
	id := c.task("up__work", `{}`)
	s := c.listen("1", id)
	up.heard(id)
	up.tell(stands(id, "completed", ""))
	if d := s.told(); d.Status != "completed" {
		t.Fatalf("%+v", d)
	}
	wait(t, "the record", func() bool {
		raw, err := os.ReadFile(file)
		if err != nil {
			return false
		}
		for line := range strings.Lines(string(raw)) {
			if strings.Contains(line, `"method":"notifications/tasks"`) {
				return strings.Contains(line, `"name":"one","original":"work","upstream":"up"`) && strings.Contains(line, `"subject":"alice"`) && strings.Contains(line, `"decision":"allow"`)
			}
		}
		return false
	})
}

func TestAShutdownSaysGoodbye(t *testing.T) {
	t.Parallel()
	up := newTeller(t, "one")
	g := serve(t, document(map[string]string{"up": up.url}, ""))
	c := g.as("")
	id := c.task("up__work", `{}`)
	s := c.listen("7", id)
	end, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	if err := g.gw.Close(end); err != nil {
		t.Fatal(err)
	}
	if m := s.next(); string(m.ID) != "7" || !strings.Contains(string(m.Result), `"complete"`) {
		t.Errorf("%+v", m)
	}
	wait(t, "the end of the listen", func() bool { return up.open() == 0 })
}
