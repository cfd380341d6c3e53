package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/demo"
	"github.com/penstock-mcp/penstock/internal/qualify/neutral"
)

// asCommand makes the test binary be the command, so that processes can be
// tested without building it once more.
const asCommand = "PENSTOCK_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	// What the command starts of itself sees nothing of this environment.
	child := len(os.Args) > 1 && slices.Contains([]string{guardName, benchName, neutral.UpstreamCommand, neutral.WorkerCommand}, os.Args[1])
	if os.Getenv(asCommand) != "" || child {
		main()
		return
	}
	// The race detector lets a process sleep for a second before it exits.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE")); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// process is a running penstock.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	done chan struct{} // closed when it has exited
	dir  string

	mu       sync.Mutex // guards what follows
	out, err bytes.Buffer
}

// command is penstock as a child of the test, in a folder of its own.
func command(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), asCommand+"=1", "XDG_RUNTIME_DIR="+dir)
	return cmd
}

// shortDir is a folder whose path is short enough for sockets.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ps")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// run starts penstock; it is killed when the test ends.
func run(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: command(t, dir, args...), done: make(chan struct{}), dir: dir}
	outPipe, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	errPipe, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var reading sync.WaitGroup
	for from, to := range map[io.Reader]*bytes.Buffer{outPipe: &p.out, errPipe: &p.err} {
		reading.Go(func() {
			for s := bufio.NewScanner(from); s.Scan(); {
				p.mu.Lock()
				to.WriteString(s.Text() + "\n")
				p.mu.Unlock()
			}
		})
	}
	go func() {
		reading.Wait()
		_ = p.cmd.Wait() // the state is read by exit
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
	})
	return p
}

func (p *process) stdout() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

func (p *process) stderr() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err.String()
}

// find waits until a line of stderr matches, and returns its first group.
func (p *process) find(pattern string) string {
	p.t.Helper()
	re := regexp.MustCompile("(?m)" + pattern)
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if m := re.FindStringSubmatch(p.stderr()); m != nil {
			return m[len(m)-1]
		}
		select {
		case <-p.done:
			p.t.Fatalf("exited with %d before %s:\n%s", p.cmd.ProcessState.ExitCode(), pattern, p.stderr())
		default:
		}
		if time.Now().After(end) {
			p.t.Fatalf("no line %s in:\n%s", pattern, p.stderr())
		}
	}
}

// endpoint waits until connections are accepted.
func (p *process) endpoint() string {
	p.t.Helper()
	return p.find(`^penstock: listening on (https?://\S+)$`)
}

// signal sends s and returns the exit code and how long it took to exit.
func (p *process) signal(s os.Signal) (code int, took time.Duration) {
	p.t.Helper()
	began := time.Now()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
	return p.exit(), time.Since(began)
}

func (p *process) exit() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(15 * time.Second):
		p.t.Fatalf("still running:\n%s", p.stderr())
	}
	return p.cmd.ProcessState.ExitCode()
}

// once runs penstock to its end.
func once(t *testing.T, dir string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := command(t, dir, args...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), problems.String()
}

// library and workshop are the bundled upstreams, on ports of the test.
func library(t *testing.T) string  { t.Helper(); return upstreamURL(t, demo.Library()) }
func workshop(t *testing.T) string { t.Helper(); return upstreamURL(t, demo.Workshop()) }

func upstreamURL(t *testing.T, h http.Handler) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	return srv.URL + "/mcp"
}

func document(t *testing.T, dir, text string) string {
	t.Helper()
	path := filepath.Join(dir, "penstock.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// ask calls a method through a running gateway, by the command.
func ask(t *testing.T, url, method string, params ...string) called {
	t.Helper()
	return runCall(t, "", append([]string{url, method}, params...)...)
}

func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func yamlUpstreams(urls ...string) string {
	var b strings.Builder
	b.WriteString("upstreams:\n")
	for i := 0; i+1 < len(urls); i += 2 {
		fmt.Fprintf(&b, "  %s: {url: '%s'}\n", urls[i], urls[i+1])
	}
	return b.String()
}
