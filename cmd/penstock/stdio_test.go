package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	stdioHello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}` + "\n"
	stdioShout = `{"jsonrpc":"2.0","id":"two","method":"tools/call","params":{"name":"shout","arguments":{"text":"hi"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}` + "\n"
)

// overStdio is a running `penstock stdio` in front of the bundled child process.
type overStdio struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	closer io.Closer
	stderr bytes.Buffer
}

func startStdio(t *testing.T, args ...string) *overStdio {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return startStdioIn(t, shortDir(t), append([]string{"--upstream", "bench='" + exe + "' " + benchName}, args...)...)
}

func startStdioIn(t *testing.T, dir string, args ...string) *overStdio {
	t.Helper()
	s := &overStdio{t: t, cmd: command(t, dir, append([]string{"stdio"}, args...)...)}
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.out, s.closer = bufio.NewReader(out), out
	s.cmd.Stderr = &s.stderr
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	return s
}

// ask sends one line and returns the next one.
func (s *overStdio) ask(line string) string {
	s.t.Helper()
	if _, err := io.WriteString(s.in, line); err != nil {
		s.t.Fatal(err)
	}
	answer, err := s.out.ReadString('\n')
	if err != nil {
		s.t.Fatalf("%v\n%s", err, s.stderr.String())
	}
	return answer
}

// exit waits for the end and returns the exit code and what was still said.
func (s *overStdio) exit() (code int, rest string) {
	s.t.Helper()
	left, _ := io.ReadAll(s.out) // a closed pipe has nothing left
	timer := time.AfterFunc(8*time.Second, func() { _ = s.cmd.Process.Kill() })
	defer timer.Stop()
	var failed *exec.ExitError
	if err := s.cmd.Wait(); err != nil && !errors.As(err, &failed) && !errors.Is(err, os.ErrClosed) {
		s.t.Fatal(err)
	}
	return s.cmd.ProcessState.ExitCode(), string(left)
}

func TestStdioServesBothErasAndEndsWithItsInput(t *testing.T) {
	s := startStdio(t)
	if got := s.ask(stdioHello); !strings.Contains(got, `"protocolVersion":"2025-11-25"`) {
		t.Errorf("initialize: %s", got)
	}
	if got := s.ask(stdioShout); !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":"two","result":`) || !strings.Contains(got, "HI") {
		t.Errorf("a modern call: %s", got)
	}
	sockets, err := filepath.Glob(filepath.Join(s.cmd.Dir, "penstock-*.sock"))
	if err != nil || len(sockets) != 1 {
		t.Errorf("admin sockets: %v, %v", sockets, err)
	}
	if code, out, problems := once(t, s.cmd.Dir, "explain", "shout", "--admin", "unix:"+sockets[0]); code != 0 || !strings.Contains(out, "bench") {
		t.Errorf("explain: exit %d\n%s%s", code, out, problems)
	}
	_ = s.in.Close()
	if code, rest := s.exit(); code != 0 || rest != "" {
		t.Errorf("exit %d, then %q\n%s", code, rest, s.stderr.String())
	}
	if left, err := filepath.Glob(filepath.Join(s.cmd.Dir, "*.sock")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestStdioDrainsOnSigterm(t *testing.T) {
	s := startStdio(t)
	s.ask(stdioHello)
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code, rest := s.exit(); code != 0 || rest != "" {
		t.Errorf("exit %d, then %q\n%s", code, rest, s.stderr.String())
	}
}

func TestStdioEndsCleanlyWhenItsClientReadsNoMore(t *testing.T) {
	s := startStdio(t)
	s.ask(stdioHello)
	if err := s.closer.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(s.in, stdioShout); err != nil {
		t.Fatal(err)
	}
	if code, _ := s.exit(); code != 0 {
		t.Errorf("exit %d\n%s", code, s.stderr.String())
	}
}

func TestStdioServesTheVirtualServerThatIsNamed(t *testing.T) {
	dir := shortDir(t)
	path := document(t, dir, "state: 'memory:'\nservers: {a: {}, b: {}}\n")
	for _, wrong := range [][]string{{"--config", path}, {"--config", path, "--server", "c"}, {"extra"}, {"--log-level", "loud"}} {
		if code, out, problems := once(t, dir, append([]string{"stdio"}, wrong...)...); code != 2 || out != "" || problems == "" {
			t.Errorf("%v: exit %d, %q, %q", wrong, code, out, problems)
		}
	}
	if code, out, problems := once(t, dir, "stdio", "--config", path, "--server", "b"); code != 0 || out != "" {
		t.Errorf("exit %d, %q, %q", code, out, problems)
	}
}

func TestStdioKeepsItsStateByDocumentUnderTheStateFolder(t *testing.T) {
	dir := shortDir(t)
	t.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state"))
	path := document(t, dir, "state: sqlite:served.db\nservers: {default: {}}\n")
	first := startStdioIn(t, dir, "--config", path)
	first.ask(stdioHello)
	second := startStdioIn(t, dir, "--config", path) // of the same document, while the first one runs
	if got := second.ask(stdioHello); !strings.Contains(got, "protocolVersion") {
		t.Errorf("the second client got %s", got)
	}
	for _, s := range []*overStdio{second, first} {
		_ = s.in.Close()
		if code, rest := s.exit(); code != 0 || rest != "" {
			t.Errorf("exit %d, then %q\n%s", code, rest, s.stderr.String())
		}
	}
	if !strings.Contains(second.stderr.String(), "kept in memory") || strings.Contains(first.stderr.String(), "kept in memory") {
		t.Errorf("first:\n%s\nsecond:\n%s", first.stderr.String(), second.stderr.String())
	}
	files, err := filepath.Glob(filepath.Join(dir, "state", "penstock", "stdio-*.db"))
	if err != nil || len(files) != 1 {
		t.Errorf("state files %v, %v", files, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "served.db")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file of serve was opened: %v", err)
	}
}
