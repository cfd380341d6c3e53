package main

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func result(t *testing.T) *Result {
	t.Helper()
	r := &Result{Scenarios: map[string][]Check{"good": nil, "bad": nil, "silent": nil}}
	err := r.read(fstest.MapFS{
		"server-good-2026-11-29T22-44-33-584Z/checks.json": {Data: []byte(`[{"id":"a","status":"SUCCESS"},{"id":"b","status":"INFO"}]`)},
		"server-bad-2026-11-29T22-44-33-584Z/checks.json":  {Data: []byte(`[{"id":"a","status":"SUCCESS"},{"id":"c","status":"FAILURE","errorMessage":"no\n c"}]`)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAScenarioWithoutAResultCountsAsFailed(t *testing.T) {
	got := result(t).Line(Run{"2025-11-25", "legacy"})
	if want := "RUN 2025-11-25 legacy scenarios 1/3 checks 2/4"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestJudgeFindsTheUnexpectedTheStaleAndTheUnknown(t *testing.T) {
	run := Run{"2025-11-25", "legacy"}
	for name, c := range map[string]struct {
		runs, entries, want []string
	}{
		"all expected":        {[]string{run.String()}, []string{"bad:c", "silent"}, nil},
		"by scenario":         {[]string{run.String()}, []string{"bad", "silent"}, nil},
		"for another run":     {[]string{"2025-11-25 modern"}, []string{"bad"}, []string{"unexpected failure: bad:c: no c", "unexpected failure: silent: the scenario left no result"}},
		"another check":       {[]string{run.String()}, []string{"bad:a", "silent"}, []string{"unexpected failure: bad:c: no c", "stale: expected to fail, and passes: bad:a"}},
		"a scenario passes":   {[]string{run.String()}, []string{"bad", "silent", "good"}, []string{"stale: expected to fail, and passes: good"}},
		"no such a scenario":  {[]string{run.String()}, []string{"bad", "silent", "gone:x"}, []string{"expected failure of a scenario that is not part of this run: gone:x"}},
		"check of the silent": {[]string{run.String()}, []string{"bad", "silent:x"}, []string{"unexpected failure: silent: the scenario left no result", "stale: expected to fail, and passes: silent:x"}},
	} {
		t.Run(name, func(t *testing.T) {
			e := &Expected{Groups: []Group{{Reason: "r", EmptiedBy: "e", Runs: c.runs, Failures: c.entries}}}
			if diff := cmp.Diff(c.want, e.Judge(run, result(t))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTheCommittedFileIsValid(t *testing.T) {
	if _, err := LoadExpected("expected-failures.yaml"); err != nil {
		t.Error(err)
	}
}

func TestParseListReadsNames(t *testing.T) {
	got := ParseList("Server scenarios (test against a server):\n  - ping [2025-06-18]\n  - sep-2164-resource-not-found [2026-07-28]\n")
	if diff := cmp.Diff([]string{"ping", "sep-2164-resource-not-found"}, got); diff != "" {
		t.Error(diff)
	}
}
