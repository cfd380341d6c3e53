package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/durable"
	"github.com/penstock-mcp/penstock/internal/qualify/neutral"
)

func TestTheQualificationOfDurableTasksPasses(t *testing.T) {
	t.Parallel()
	dir, temporary := shortDir(t), shortDir(t)
	cmd := command(t, dir, "verify", "--durable-tasks")
	cmd.Env = append(cmd.Env, "TMPDIR="+temporary)
	var out, problems strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &problems
	began := time.Now()
	if err := cmd.Run(); err != nil || problems.Len() != 0 {
		t.Fatalf("%v\n%s%s", err, out.String(), problems.String())
	}
	t.Logf("it took %s", time.Since(began).Round(10*time.Millisecond))
	var r struct {
		Schema, Status string
		SHA256         string          `json:"evidenceSha256"`
		Evidence       json.RawMessage `json:"evidence"`
	}
	if err := json.Unmarshal([]byte(out.String()), &r); err != nil {
		t.Fatalf("%s: %v", out.String(), err)
	}
	if sum, err := durable.SumJSON(r.Evidence); err != nil || sum.String() != r.SHA256 || r.Status != "PASS" {
		t.Errorf("the digest of the evidence is %s: %v\n%s", sum, err, out.String())
	}
	for _, folder := range []string{dir, temporary} {
		if left, err := os.ReadDir(folder); err != nil || len(left) != 0 {
			t.Errorf("it left %v in %s (%v)", left, folder, err)
		}
	}
}

func TestAQualificationThatIsInterruptedLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	dir, temporary := shortDir(t), shortDir(t)
	cmd := command(t, dir, "verify", "--durable-tasks")
	cmd.Env = append(cmd.Env, "TMPDIR="+temporary)
	var out, problems strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if events, _ := filepath.Glob(filepath.Join(temporary, "*", "provider", "events", string(neutral.WorkerStart), "*")); len(events) > 0 {
			break
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || out.Len() != 0 || !strings.Contains(problems.String(), "NEUTRAL_QUALIFICATION_") {
		t.Errorf("%v, %s%s", err, out.String(), problems.String())
	}
	for _, folder := range []string{dir, temporary} {
		if left, err := os.ReadDir(folder); err != nil || len(left) != 0 {
			t.Errorf("it left %v in %s (%v)", left, folder, err)
		}
	}
}

func TestVerifyWantsToBeToldWhat(t *testing.T) {
	t.Parallel()
	if code, out, problems := once(t, shortDir(t), "verify"); code != 2 || out != "" || !strings.Contains(problems, "--durable-tasks") {
		t.Errorf("exit %d, %s%s", code, out, problems)
	}
}

func TestTheWorkerOfTheQualificationIsNotForPeople(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	if code, out, problems := once(t, dir, neutral.WorkerCommand); code != 1 || out != "" || !strings.Contains(problems, "started by the qualification") {
		t.Errorf("exit %d, %s%s", code, out, problems)
	}
	if _, out, _ := once(t, dir, "--help"); strings.Contains(out, "neutral") || !strings.Contains(out, "verify") {
		t.Errorf("the help shows\n%s", out)
	}
}

func TestAQualificationThatFailsExitsWithOneAndSaysWhy(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	cmd := command(t, dir, "verify", "--durable-tasks")
	cmd.Env = append(cmd.Env, "TMPDIR="+filepath.Join(dir, "missing"))
	var out, problems strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &problems
	_ = cmd.Run() // how it ended is in its state
	if code := cmd.ProcessState.ExitCode(); code != 1 || out.Len() != 0 || !strings.Contains(problems.String(), "NEUTRAL_QUALIFICATION_WORKSPACE") {
		t.Errorf("exit %d\n%s%s", code, out.String(), problems.String())
	}
}
