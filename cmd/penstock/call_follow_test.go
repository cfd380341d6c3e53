package main

import (
	"bytes"
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/demo"
)

// followed runs penstock call --follow against a job server of its own.
func followed(t *testing.T, o demo.JobOptions, args ...string) (out, notes string, err error) {
	t.Helper()
	jobs := demo.Jobs(o)
	srv := httptest.NewServer(jobs)
	t.Cleanup(func() { jobs.Close(); srv.Close() })
	var stdout, stderr bytes.Buffer
	root := newRootCommand()
	root.SetArgs(append([]string{"call", "--follow", srv.URL}, args...))
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err = root.ExecuteContext(ctx)
	return stdout.String(), stderr.String(), err
}

func TestATaskIsFollowedToItsResult(t *testing.T) {
	quick := demo.JobOptions{Poll: 200 * time.Millisecond, Pace: 250 * time.Millisecond, Conformance: true}
	out, notes, err := followed(t, quick, "tools/call", `{"name":"bake_cake","arguments":{"flavor":"lemon"}}`)
	if err != nil || !strings.Contains(out, "lemon") || strings.Contains(out, "taskId") {
		t.Errorf("%v\n%s%s", err, out, notes)
	}
	if !strings.HasPrefix(notes, "task ") || !strings.Contains(notes, " working") || !strings.Contains(notes, " completed") {
		t.Errorf("notes %q", notes)
	}
	if out, _, err = followed(t, quick, "tools/call", `{"name":"list_jobs","arguments":{}}`); err != nil || out == "" {
		t.Errorf("an answer at once: %v %q", err, out)
	}
	if _, _, err = followed(t, quick, "tools/call", `{"name":"protocol_error_job","arguments":{}}`); err == nil || !strings.Contains(err.Error(), "failed: ") {
		t.Errorf("a task that fails: %v", err)
	}
}

func TestWhoeverStopsFollowingIsToldHowToGoOn(t *testing.T) {
	jobs := demo.Jobs(demo.JobOptions{Poll: 200 * time.Millisecond})
	srv := httptest.NewServer(jobs)
	defer srv.Close()
	defer jobs.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var stderr bytes.Buffer
	root := newRootCommand()
	root.SetArgs([]string{"call", "--follow", srv.URL, "tools/call", `{"name":"bake_cake","arguments":{"flavor":"lemon"}}`})
	root.SetOut(&stderr)
	root.SetErr(&stderr)
	if err := root.ExecuteContext(ctx); err == nil || !strings.Contains(stderr.String(), "goes on; follow it again with: penstock call --follow "+srv.URL+" tasks/get") {
		t.Errorf("%v\n%s", err, stderr.String())
	}
}
