package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestDemoPrintsThreeCallsThatWork(t *testing.T) {
	dir := shortDir(t)
	t.Setenv("TMPDIR", dir)
	p := run(t, dir, "demo", "--listen", "127.0.0.1:0")
	url := p.endpoint()
	var lines []string
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		lines = nil
		for line := range strings.Lines(p.stdout()) {
			if strings.Contains(line, " call ") {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
		if len(lines) == 3 || time.Now().After(end) {
			break
		}
	}
	if len(lines) != 3 {
		t.Fatalf("%d calls in:\n%s", len(lines), p.stdout())
	}
	for i, want := range []string{"library__search_books", "Frankenstein", "lemon cake"} {
		if !strings.Contains(lines[i], url) {
			t.Errorf("%s does not name the endpoint %s", lines[i], url)
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-c", lines[i])
		cmd.Env = append(os.Environ(), asCommand+"=1")
		var problems bytes.Buffer
		cmd.Stderr = &problems
		out, err := cmd.Output()
		if err != nil || !strings.Contains(string(out), want) || !strings.HasPrefix(string(out), "{") {
			t.Errorf("%s: %v\n%s%s", lines[i], err, out, problems.String())
		}
	}
	if code, took := p.signal(syscall.SIGTERM); code != 0 || took > 5*time.Second {
		t.Errorf("exit %d after %v\n%s", code, took, p.stderr())
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
