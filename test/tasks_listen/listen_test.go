package tasks_listen_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-mcp/penstock/internal/demo"
)

const cake = `{"flavor":"lemon"}`

// both runs a test with an upstream that tells of tasks, and with one that does not.
func both(t *testing.T, f func(t *testing.T, notify bool)) {
	t.Parallel()
	for _, notify := range []bool{true, false} {
		t.Run(fmt.Sprintf("notify=%v", notify), func(t *testing.T) {
			t.Parallel()
			f(t, notify)
		})
	}
}

func TestCompletionIsToldOnceAndInOrder_6(t *testing.T) {
	both(t, func(t *testing.T, notify bool) {
		up := newShop(t, demo.JobOptions{Notify: notify, Pace: 700 * time.Millisecond})
		g := serve(t, document(map[string]string{"jobs": up.url()}, ""))
		c := g.as("")
		id := c.task("jobs__bake_cake", cake)
		s := c.listen("12", id)
		if d := cmp.Diff([]string{id}, s.acked); d != "" {
			t.Fatal(d)
		}
		d, seen := s.until(id, "completed")
		if !strings.Contains(string(d.Result), "lemon cake") || d.PollMillis != 1000 {
			t.Errorf("%s", d.Result)
		}
		if slices.Contains(seen[:len(seen)-1], "completed") {
			t.Error(seen)
		}
		if got := c.get(id); string(got.Result) != string(d.Result) {
			t.Errorf("tasks/get has %s, the notification %s", got.Result, d.Result)
		}
		s.silent(1500 * time.Millisecond)
		if notify {
			if len(seen) != 4 { // mixing, baking, icing, done
				t.Errorf("told %v", seen)
			}
			if n := up.count("tasks/get"); n > 6 {
				t.Errorf("%d polls of an upstream that tells", n)
			}
		}
		if n := up.count("subscriptions/listen"); n > 2 {
			t.Errorf("%d listens", n)
		}
	})
}

func TestATaskThatHasEndedIsToldOnce(t *testing.T) {
	both(t, func(t *testing.T, notify bool) {
		up := newShop(t, demo.JobOptions{Notify: notify, Pace: time.Millisecond})
		g := serve(t, document(map[string]string{"jobs": up.url()}, ""))
		c := g.as("")
		good, bad := c.task("jobs__bake_cake", cake), c.task("jobs__flaky_job", `{}`)
		wait(t, "the end", func() bool { return c.get(good).Status == "completed" && c.get(bad).Status == "failed" })
		s := c.listen(`"a"`, good, bad)
		got := map[string]detail{}
		for range 2 {
			d := s.told()
			got[d.TaskID] = d
		}
		if got[good].Status != "completed" || got[bad].Status != "failed" || len(got[bad].Error) == 0 {
			t.Errorf("%+v", got)
		}
		s.silent(1500 * time.Millisecond)
		again := c.listen("2", good)
		if d := again.told(); d.Status != "completed" {
			t.Errorf("%+v", d)
		}
	})
}

func TestAQuestionIsShownAndItsAnswerFollowed(t *testing.T) {
	both(t, func(t *testing.T, notify bool) {
		up := newShop(t, demo.JobOptions{Notify: notify, Pace: 300 * time.Millisecond})
		g := serve(t, document(map[string]string{"jobs": up.url()}, ""))
		c := g.as("")
		id := c.task("jobs__ship_order", `{"item":"teapot"}`)
		s := c.listen("1", id)
		d, _ := s.until(id, "input_required")
		if len(d.Requests) != 1 {
			t.Fatalf("%+v", d)
		}
		for key := range d.Requests {
			if m := c.send("tasks/update", id, fmt.Sprintf(`"taskId":%q,"inputResponses":{%q:{"action":"accept","content":{"street":"1 Main St","city":"Springfield"}}}`, id, key)); m.Error != nil {
				t.Fatalf("%+v", m.Error)
			}
		}
		if d, _ = s.until(id, "completed"); !strings.Contains(string(d.Result), "Springfield") {
			t.Errorf("%s", d.Result)
		}
	})
}

func TestOnlyOnesOwnTasksAreAcknowledged(t *testing.T) {
	t.Parallel()
	tells := newShop(t, demo.JobOptions{Notify: true, Pace: 700 * time.Millisecond})
	mute := newShop(t, demo.JobOptions{Pace: 700 * time.Millisecond})
	g := serve(t, document(map[string]string{"tells": tells.url(), "mute": mute.url()}, "", "alice", "bob"))
	alice, bob := g.as("alice"), g.as("bob")
	own := map[*client][]string{}
	for _, c := range []*client{alice, bob} {
		own[c] = []string{c.task("tells__bake_cake", cake), c.task("mute__bake_cake", cake)}
	}
	before := tells.count("tasks/get") + mute.count("tasks/get")
	all := append(slices.Concat(own[alice], own[bob]), "unknown", "", strings.Repeat("x", 2048))
	streams := map[*client]*stream{alice: alice.listen("1", all...), bob: bob.listen("2", all...)}
	for c, s := range streams {
		want := slices.Sorted(slices.Values(own[c]))
		if d := cmp.Diff(want, s.acked); d != "" {
			t.Errorf("%s: %s", c.subject, d)
		}
	}
	for c, s := range streams {
		ended := map[string]int{}
		for len(ended) < 2 {
			d := s.told()
			if !slices.Contains(own[c], d.TaskID) || ended[d.TaskID] > 0 {
				t.Fatalf("%s is told of %+v", c.subject, d)
			}
			if d.Status == "completed" {
				ended[d.TaskID]++
			}
		}
		s.silent(time.Second)
	}
	if n := tells.count("tasks/get") + mute.count("tasks/get") - before; n > 40 {
		t.Errorf("%d polls", n)
	}
	// Nobody else is asked for what is not known.
	only := g.as("alice").listen("3", own[bob][0], "unknown")
	if only.acked != nil {
		t.Errorf("acknowledged %q", only.acked)
	}
	only.silent(200 * time.Millisecond)
}

func TestWhatIsNotDeclaredOrMalformedIsRefused(t *testing.T) {
	t.Parallel()
	up := newShop(t, demo.JobOptions{})
	g := serve(t, document(map[string]string{"jobs": up.url()}, ""))
	c := g.as("")
	for _, row := range []struct {
		ids, caps    string
		status, code int
	}{
		{`["bogus"]`, `{}`, 400, -32021},
		{`[1]`, declares, 200, -32602},
		{`"t"`, declares, 200, -32602},
		{`["` + strings.Repeat("x", 2049) + `"]`, declares, 200, -32602},
		{`[` + strings.Repeat(`"t",`, 1024) + `"t"]`, declares, 200, -32602},
	} {
		resp, err := c.post(t.Context(), "subscriptions/listen", "", request("1", "subscriptions/listen", `"notifications":{"taskIds":`+row.ids+`}`, row.caps))
		if err != nil {
			t.Fatal(err)
		}
		m := read[message](t, all(t, resp))
		if m.Error == nil || m.Error.Code != row.code || resp.StatusCode != row.status {
			t.Errorf("%.40s: HTTP %d, %+v", row.ids, resp.StatusCode, m.Error)
		}
	}
	for _, filter := range []string{`"taskIds":[]`, `"taskIds":null`, ``} {
		s := c.listenFor("5", filter)
		if s.acked != nil {
			t.Errorf("%q", s.acked)
		}
		s.end()
	}
}

func all(t *testing.T, resp *http.Response) []byte {
	t.Helper()
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestAStreamThatBreaksIsNoticedNowhere(t *testing.T) {
	t.Parallel()
	for name, deaf := range map[string]bool{"it comes back": false, "it stays away": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := newShop(t, demo.JobOptions{Notify: true, Pace: 1200 * time.Millisecond})
			g := serve(t, document(map[string]string{"jobs": up.url()}, ""))
			c := g.as("")
			id := c.task("jobs__bake_cake", cake)
			s := c.listen("1", id)
			if d := s.told(); d.Status != "working" {
				t.Fatalf("%+v", d)
			}
			up.cut(deaf)
			s.until(id, "completed")
			s.silent(time.Second)
		})
	}
}

func TestAnUpstreamThatIsAwayIsWaitedFor(t *testing.T) {
	both(t, func(t *testing.T, notify bool) {
		up := newShop(t, demo.JobOptions{Notify: notify, Pace: 300 * time.Millisecond})
		g := serve(t, document(map[string]string{"jobs": up.url()}, ""))
		c := g.as("")
		id := c.task("jobs__bake_cake", cake)
		s := c.listen("1", id)
		up.stop()
		later := c.listen("2", id) // who comes now is told, too
		time.Sleep(1500 * time.Millisecond)
		up.start(up.addr)
		s.until(id, "completed")
		later.until(id, "completed")
		if later.acked == nil {
			t.Error("not acknowledged")
		}
	})
}

func TestManyListenersAreFewRequests(t *testing.T) {
	both(t, func(t *testing.T, notify bool) {
		up := newShop(t, demo.JobOptions{Notify: notify, Pace: 2500 * time.Millisecond})
		g := serve(t, document(map[string]string{"jobs": up.url()}, "", "alice"))
		c := g.as("alice")
		id := c.task("jobs__bake_cake", cake)
		const many = 200
		streams := make([]*stream, many)
		for i := range streams {
			streams[i] = c.listen(fmt.Sprint(i), id)
		}
		for _, s := range streams {
			s.until(id, "completed")
		}
		if n, m := up.count("tasks/get"), up.count("subscriptions/listen"); n > 25 || m > 3 {
			t.Errorf("%d polls and %d listens", n, m)
		} else {
			t.Logf("%d listeners: %d polls and %d listens", many, n, m)
		}
		for _, s := range streams {
			s.end()
		}
	})
}
