package main

import (
	"encoding/json"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/demo"
	"github.com/penstock-mcp/penstock/internal/gateway"
)

// Tasks outlive the process that minted them, and the operator sees everybody's.
func TestTheOperatorSeesAndCancelsTasks(t *testing.T) {
	jobs := demo.Jobs(demo.JobOptions{Pace: time.Minute, Grace: time.Millisecond})
	srv := httptest.NewServer(jobs)
	t.Cleanup(func() { jobs.Close(); srv.Close() })
	dir := shortDir(t)
	sock := filepath.Join(dir, "a.sock")
	document(t, dir, "listen: 127.0.0.1:0\nadmin: unix:"+sock+"\nstate: sqlite:"+filepath.Join(dir, "s.db")+"\n"+yamlUpstreams("jobs", srv.URL, "library", library(t)))
	at := []string{"--admin", "unix:" + sock}
	ids := map[string]bool{}
	p := run(t, dir, "serve")
	for range 3 {
		_, out, problems := once(t, dir, "call", "--tasks", p.endpoint(), "tools/call", `{"name":"jobs__bake_cake","arguments":{"flavor":"lemon"}}`)
		id := regexp.MustCompile(`"taskId": "([^"]+)"`).FindStringSubmatch(out)
		if id == nil {
			t.Fatalf("no task: %s%s", out, problems)
		}
		ids[id[1]] = true
	}
	p.signal(syscall.SIGTERM)
	p = run(t, dir, "serve")
	url := p.endpoint()
	code, out, problems := once(t, dir, append([]string{"tasks", "list", "--json"}, at...)...)
	if code != 0 {
		t.Fatal(problems)
	}
	var some string
	for line := range strings.Lines(out) {
		var one gateway.TaskOut
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatal(err)
		}
		if !ids[one.ID] || one.Upstream != "jobs" || one.Tool != "bake_cake" || one.Exposed != "jobs__bake_cake" || one.Mark != "live" || one.Expires == nil {
			t.Errorf("listed %+v", one)
		}
		delete(ids, one.ID)
		some = one.ID
	}
	if len(ids) > 0 {
		t.Errorf("not listed after a restart: %v", ids)
	}
	if _, out, _ := once(t, dir, append([]string{"tasks", "list", "--upstream", "library"}, at...)...); strings.Count(out, "\n") != 1 {
		t.Errorf("of another upstream: %s", out)
	}
	if code, out, problems := once(t, dir, append([]string{"tasks", "show", some}, at...)...); code != 0 || !strings.Contains(out, "called as jobs__bake_cake on server default") {
		t.Errorf("%d %s%s", code, out, problems)
	}
	if code, out, problems := once(t, dir, append([]string{"tasks", "cancel", some}, at...)...); code != 0 || !strings.Contains(out, "cancelled at upstream jobs") {
		t.Errorf("%d %s%s", code, out, problems)
	}
	if _, out, _ := once(t, dir, append([]string{"tasks", "show", some}, at...)...); !strings.Contains(out, "state:    cancelled") {
		t.Errorf("not marked: %s", out)
	}
	end := time.Now().Add(10 * time.Second)
	for {
		_, out, problems := once(t, dir, "call", "--tasks", url, "tasks/get", `{"taskId":"`+some+`"}`)
		if strings.Contains(out, `"status": "cancelled"`) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("not cancelled: %s%s", out, problems)
		}
		time.Sleep(50 * time.Millisecond)
	}
	for _, verb := range []string{"show", "cancel"} {
		if code, _, problems := once(t, dir, append([]string{"tasks", verb, "nobody's"}, at...)...); code != 1 || !strings.Contains(problems, `nobody has a task "nobody's" here`) {
			t.Errorf("%s: %d %s", verb, code, problems)
		}
	}
}
