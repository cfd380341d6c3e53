package main

import (
	"slices"
	"testing"
	"testing/fstest"

	"github.com/penstock-mcp/penstock/test/peers"
)

func TestTheJobServerPassesEveryTasksScenario(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the official suite: not with -short")
	}
	if why := peers.JavaScript.Missing(); why != "" && !peers.InCI() {
		t.Skip(why)
	}
	upstreams, err := startTasks()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := upstreams.close(); err != nil {
			t.Error(err)
		}
	}()
	if err := checkTools(t.Context(), upstreams.urls["jobs"], tasksTools, nil); err != nil {
		t.Error(err)
	}
	result, err := RunTasks(t.Context(), upstreams.urls["jobs"], t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := result.Line(tasksRun), "RUN tasks federated scenarios 10/10 checks 44/44"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, failure := range result.Failures() {
		t.Error(failure)
	}
}

func TestToolsThatAreNotListedAreMissed(t *testing.T) {
	upstreams, err := startTasks()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := upstreams.close(); err != nil {
			t.Error(err)
		}
	}()
	if err := checkTools(t.Context(), upstreams.urls["library"], []string{"get_book", "greet"}, []string{"_books", "roll_dice"}); err == nil || err.Error() != "tools/list lacks greet, roll_dice" {
		t.Error(err)
	}
}

func TestATextSelectsTheRunsWhoseNameHoldsIt(t *testing.T) {
	for only, want := range map[string]bool{"": true, "tasks": true, "modern": false, "2026-07-28": false} {
		if got := slices.Contains(selected(only), tasksRun); got != want {
			t.Errorf("%q: %v", only, got)
		}
	}
	if got := len(selected("")); got != len(runs) {
		t.Errorf("%d of %d runs by default", got, len(runs))
	}
}

func TestOnlyAStubPassesBySkipping(t *testing.T) {
	r := &Result{Scenarios: map[string][]Check{"tasks-status-notifications": nil, "another": nil}}
	skipped := []byte(`[{"id":"a","status":"SKIPPED"}]`)
	if err := r.read(fstest.MapFS{
		"server-tasks-status-notifications-2026-11-29T22-44-33-584Z/checks.json": {Data: skipped},
		"server-another-2026-11-29T22-44-33-584Z/checks.json":                    {Data: skipped},
	}); err != nil {
		t.Fatal(err)
	}
	if got, want := r.Line(tasksRun), "RUN tasks federated scenarios 1/2 checks 0/1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
