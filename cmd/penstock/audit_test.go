package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-mcp/penstock/internal/audit"
)

// record writes an audit file with one run of a few events.
func record(t *testing.T, file, key string, maxSize int64) {
	t.Helper()
	l := audit.New(audit.Options{File: file, Key: []byte(key), MaxSize: maxSize})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	for range 10 {
		l.Record(&audit.Event{Method: "tools/call", Outcome: "ok"})
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestAuditVerifyPrintsTheLastHashThatItExpectsNextTime(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	record(t, file, "secret", 0)
	t.Setenv("PENSTOCK_TEST_KEY", "secret")
	stdout, _, err := runCommand(t, newAuditCommand(), "verify", file, "--key-env", "PENSTOCK_TEST_KEY")
	if err != nil || !strings.Contains(stdout, "1 file, 1 run, 10 events\n") {
		t.Fatalf("%s%v", stdout, err)
	}
	_, last, ok := strings.Cut(strings.TrimSpace(stdout), "ok, last hash ")
	if !ok {
		t.Fatalf("no last hash: %s", stdout)
	}
	if stdout, _, err = runCommand(t, newAuditCommand(), "verify", file, "--key", "secret", "--expect", last); err != nil {
		t.Fatalf("%s%v", stdout, err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	if err := os.WriteFile(file, []byte(strings.Join(lines[:6], "")), 0o600); err != nil {
		t.Fatal(err)
	}
	stdout, _, err = runCommand(t, newAuditCommand(), "verify", file, "--key", "secret", "--expect", last)
	if err == nil || !strings.Contains(stdout, file+":6: the expected hash is that of no line") {
		t.Errorf("cut at the end: %s%v", stdout, err)
	}
}

func TestAuditVerifyNamesFileLineAndWhatIsWrong(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	record(t, file, "", 0)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), `"outcome":"ok"`, `"outcome":"no"`, 1)
	if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	stdout, _, err := runCommand(t, newAuditCommand(), "verify", file)
	if !strings.HasPrefix(stdout, file+":2: changed") || err == nil || !strings.Contains(err.Error(), "1 problem") {
		t.Errorf("%s%v", stdout, err)
	}
	if strings.Contains(stdout, "ok, last hash") {
		t.Errorf("a changed file is called ok: %s", stdout)
	}
}

func TestAuditVerifyTakesRotatedFilesInTheOrderOfTheShell(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	record(t, file, "", 700)
	files, err := filepath.Glob(file + ".*")
	if err != nil || len(files) < 2 {
		t.Fatalf("rotated: %v %v", files, err)
	}
	if stdout, _, err := runCommand(t, newAuditCommand(), append([]string{"verify"}, append(files, file)...)...); err != nil {
		t.Errorf("%s%v", stdout, err)
	}
	if stdout, _, err := runCommand(t, newAuditCommand(), "verify", files[0], file); err == nil {
		t.Errorf("a missing file between two is not found: %s", stdout)
	}
}

func TestWrongUsageOfAuditIsToldAsSuch(t *testing.T) {
	for _, args := range [][]string{
		{"verify"},
		{"nothing"},
		{"verify", "f", "--key", "a", "--key-env", "B"},
		{"verify", "f", "--key-env", "PENSTOCK_TEST_NOT_SET"},
	} {
		_, _, err := runCommand(t, newAuditCommand(), args...)
		var usage *usageError
		if !errors.As(err, &usage) {
			t.Errorf("%v: %v", args, err)
		}
	}
	_, _, err := runCommand(t, newAuditCommand(), "verify", filepath.Join(t.TempDir(), "none"))
	var usage *usageError
	if !errors.Is(err, os.ErrNotExist) || errors.As(err, &usage) {
		t.Errorf("a missing file: %v", err)
	}
}
