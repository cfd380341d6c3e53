package main

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/demo"
	"github.com/penstock-mcp/penstock/internal/durable"
)

// An operator reviews what an upstream offers and pins it, and then sees a durable task, exports and ends it.
func TestTheOperatorPinsAnUpstreamAndResolvesADurableTask(t *testing.T) {
	jobs := demo.Jobs(demo.JobOptions{Pace: time.Minute, Grace: time.Millisecond})
	srv := httptest.NewServer(jobs)
	t.Cleanup(func() { jobs.Close(); srv.Close() })
	dir := shortDir(t)
	sock := filepath.Join(dir, "a.sock")
	head := "listen: 127.0.0.1:0\nadmin: unix:" + sock + "\nstate: sqlite:" + filepath.Join(dir, "s.db") + "\naudit: {file: audit.jsonl, flush: 1ms}\n"
	path := document(t, dir, head+yamlUpstreams("jobs", srv.URL))
	at := func(args ...string) []string { return append(args, "--admin", "unix:"+sock) }
	p := run(t, dir, "serve")
	p.endpoint()
	code, out, problems := once(t, dir, at("explain", "--pin", "jobs")...)
	pin := strings.TrimSpace(out)
	if _, err := durable.ParseDigest(pin); code != 0 || err != nil || problems != "" {
		t.Fatalf("explain --pin: %d %q %s", code, out, problems)
	}
	if code, _, problems := once(t, dir, at("explain", "--pin", "nothing")...); code != 1 || !strings.Contains(problems, "no upstream is named nothing") {
		t.Errorf("explain --pin of nothing: %d %s", code, problems)
	}
	if code, _, problems := once(t, dir, "explain", "--pin", "jobs", "name"); code != 2 || !strings.Contains(problems, "--pin takes the place of NAME") {
		t.Errorf("explain --pin with a name: %d %s", code, problems)
	}
	p.signal(syscall.SIGTERM)

	document(t, dir, head+fmt.Sprintf("upstreams: {jobs: {url: %q, durable: {pin: %q, echo: none}}}\n", srv.URL, pin))
	if code, out, problems := once(t, dir, "validate", "--config", path); code != 0 {
		t.Fatalf("validate: %s%s", out, problems)
	}
	p = run(t, dir, "serve")
	url := p.endpoint()
	call := func(tool, arguments string) string {
		_, out, problems := once(t, dir, "call", "--tasks", url, "tools/call", `{"name":"penstock_`+tool+`","arguments":`+arguments+`}`)
		return out + problems
	}
	found := func(out, member string) string {
		m := regexp.MustCompile(`"` + member + `": "([^"]+)"`).FindStringSubmatch(out)
		if m == nil {
			t.Fatalf("no %s: %s", member, out)
		}
		return m[1]
	}
	described := call("describe", `{"alias":"jobs__bake_cake"}`)
	lease := found(call("lease", `{"aliases":["jobs__bake_cake"],"sideEffects":["read_only","idempotent_write","non_idempotent_write"]}`), "leaseId")
	input, err := durable.SumJSON([]byte(`{"flavor":"lemon"}`))
	if err != nil {
		t.Fatal(err)
	}
	task := fmt.Sprintf(`{"schemaVersion":"penstock.task-submission/1","logicalTaskId":"l","attemptId":"a","correlationId":"c","idempotencyKey":"k","providerInterfaceVersion":%q,`+
		`"inputSha256":%q,"acceptancePolicySha256":%q,"artifactScopeSha256":%q,"deadlineUnixMs":%d,"retentionMs":600000,`+
		`"limits":{"maxRuntimeMs":30000,"maxOutputBytes":65536,"maxArtifactBytes":1,"maxAttempts":1},"permittedEffect":"non_idempotent_write","cleanupRequired":true}`,
		found(described, "schemaDigest"), input, input, input, time.Now().Add(time.Minute).UnixMilli())
	id := found(call("submit", fmt.Sprintf(`{"leaseId":%q,"alias":"jobs__bake_cake","arguments":{"flavor":"lemon"},"task":%s}`, lease, task)), "taskId")

	if code, out, problems := once(t, dir, at("tasks", "list")...); code != 0 || !strings.Contains(out, "DURABLE ID") || !strings.Contains(out, id) || !strings.Contains(out, "routed") {
		t.Errorf("list: %d %s%s", code, out, problems)
	}
	if _, out, _ := once(t, dir, at("tasks", "list", "--phase", "terminal")...); strings.Contains(out, id) {
		t.Errorf("listed in another phase: %s", out)
	}
	if code, out, problems := once(t, dir, at("tasks", "show", id)...); code != 0 || !strings.Contains(out, "next:     the caller polls") || !strings.Contains(out, "dispatching -> routed") {
		t.Errorf("show: %d %s%s", code, out, problems)
	}
	code, out, problems = once(t, dir, at("tasks", "export", id)...)
	var export struct {
		Record struct {
			ID string `json:"public_task_id"`
		} `json:"record"`
		Journal []json.RawMessage `json:"journal"`
	}
	if err := json.Unmarshal([]byte(out), &export); err != nil || code != 0 || export.Record.ID != id || len(export.Journal) != 3 {
		t.Errorf("export: %v %d %s%s", err, code, out, problems)
	}
	if code, _, problems := once(t, dir, at("tasks", "resolve", id, "--status", "completed")...); code != 2 || !strings.Contains(problems, "--reason") {
		t.Errorf("resolve without a reason: %d %s", code, problems)
	}
	if code, out, problems := once(t, dir, at("tasks", "resolve", id, "--status", "failed", "--reason", "the oven broke")...); code != 0 || !strings.Contains(out, "phase:    terminal") {
		t.Errorf("resolve: %d %s%s", code, out, problems)
	}
	if _, out, _ := once(t, dir, "call", "--tasks", url, "tasks/get", `{"taskId":"`+id+`"}`); !strings.Contains(out, "the oven broke") {
		t.Errorf("get: %s", out)
	}
}
