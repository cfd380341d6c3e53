//go:build linux

package chaos_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// gateway is `penstock serve` at one address for good, started and killed.
type gateway struct {
	t       testing.TB
	dir     string
	file    string // its document
	address string
	observe string
	bin     string

	cmd  *exec.Cmd
	done chan struct{} // closed when cmd was reaped
	log  *journal
}

// newGateway writes a document and leaves the gateway stopped. It is killed when
// the test ends.
func newGateway(t testing.TB, document string) *gateway {
	t.Helper()
	dir := t.TempDir()
	bin := ownCommand(t, dir)
	g := &gateway{t: t, dir: dir, file: filepath.Join(dir, "penstock.yaml"), address: freeAddress(t), observe: freeAddress(t), bin: bin, log: &journal{}}
	g.write(document)
	t.Cleanup(func() {
		g.kill()
		g.check()
		if t.Failed() {
			t.Logf("the log of %s:\n%s", g.address, g.log.tail(60))
		}
	})
	return g
}

// ownCommand is the command under a name in a folder, so that its processes can be
// told from those of other tests.
func ownCommand(t testing.TB, dir string) string {
	t.Helper()
	shared, err := command()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "penstock")
	if err := os.Link(shared, bin); err != nil {
		t.Fatal(err)
	}
	return bin
}

// write replaces the document in one step.
func (g *gateway) write(document string) {
	g.t.Helper()
	document = "observe: {listen: " + g.observe + "}\n" + document
	if err := os.WriteFile(g.file+".new", []byte(document), 0o600); err != nil {
		g.t.Fatal(err)
	}
	if err := os.Rename(g.file+".new", g.file); err != nil {
		g.t.Fatal(err)
	}
}

// start starts the process; ready waits until it accepts connections.
func (g *gateway) start() {
	g.t.Helper()
	g.cmd = exec.Command(g.bin, "serve", "--config", g.file, "--listen", g.address)
	g.cmd.Dir = g.dir
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	done := make(chan struct{})
	r, w, err := os.Pipe()
	if err != nil {
		g.t.Fatal(err)
	}
	g.cmd.Stderr = w
	err = g.cmd.Start()
	_ = w.Close()
	if err != nil {
		g.t.Fatal(err)
	}
	cmd := g.cmd
	g.done = done
	go func() {
		defer close(done)
		for s := bufio.NewScanner(r); s.Scan(); {
			g.log.add(s.Text())
		}
		_ = cmd.Wait() // how it ended is told by the log
		_ = r.Close()
	}()
}

// listens waits until the process accepts connections, and is false when it ended.
func (g *gateway) listens() bool {
	g.t.Helper()
	from := g.log.len()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if g.answers() {
			return true
		}
		select {
		case <-g.done:
			g.t.Errorf("the gateway ended:\n%s", strings.Join(g.log.since(from), "\n"))
			return false
		default:
		}
	}
	g.t.Error("the gateway does not listen")
	return false
}

var probe = http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

func (g *gateway) answers() bool {
	resp, err := probe.Get("http://" + g.address + "/health")
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// run starts the process and waits for it.
func (g *gateway) run() *gateway {
	g.t.Helper()
	g.start()
	if !g.listens() {
		g.t.FailNow()
	}
	return g
}

// runs reports whether the process was started and has not ended.
func (g *gateway) runs() bool {
	select {
	case <-g.done:
		return false
	default:
		return true
	}
}

// kill ends the process at once and waits for its end. Twice is once.
func (g *gateway) kill() {
	if g.cmd == nil {
		return
	}
	_ = g.cmd.Process.Kill()
	<-g.done
}

// status is how the upstreams stand, by key.
func (g *gateway) status() map[string]upstreamStatus {
	resp, err := probe.Get("http://" + g.observe + "/ready")
	if err != nil {
		return nil
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	var s struct{ Upstreams []upstreamStatus }
	if json.NewDecoder(resp.Body).Decode(&s) != nil {
		return nil
	}
	all := map[string]upstreamStatus{}
	for _, u := range s.Upstreams {
		all[u.Key] = u
	}
	return all
}

type upstreamStatus struct {
	Key, State, Breaker string
	Replicas            []struct{ State, Breaker string }
}

var fatal = regexp.MustCompile(`DATA RACE|^panic:|^fatal error:|goroutine \d+ \[`)

// check holds that no run panicked or raced.
func (g *gateway) check() {
	for _, line := range g.log.since(0) {
		if fatal.MatchString(line) {
			g.t.Errorf("the gateway's log says: %s\n%s", line, g.log.tail(100))
			return
		}
	}
}

// journal keeps the lines that a gateway logs.
type journal struct {
	mu    sync.Mutex // guards lines
	lines []string
}

func (j *journal) add(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

func (j *journal) len() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.lines)
}

func (j *journal) since(n int) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]string(nil), j.lines[n:]...)
}

// count is how many lines since line n hold text.
func (j *journal) count(n int, text string) (found int) {
	for _, line := range j.since(n) {
		if strings.Contains(line, text) {
			found++
		}
	}
	return found
}

func (j *journal) tail(n int) string {
	lines := j.since(0)
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// member is one upstream of a document.
func member(key string, u *upstream) string {
	return "  " + key + ": {url: \"" + u.url() + "\"}\n"
}

// childMember is a child of a document: this binary in its role.
func childMember(t testing.TB, key, token string, stubborn bool) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	b.WriteString("  " + key + ": {command: [\"" + self + "\"], restart: {backoff: 10ms, max: 50ms}, env: {GORACE: " + hasty + ", " + roleEnv + ": child, " + markEnv + ": \"" + token + "\"")
	if stubborn {
		b.WriteString(", PENSTOCK_CHAOS_STUBBORN: \"yes\"")
	}
	b.WriteString("}}\n")
	return b.String()
}
