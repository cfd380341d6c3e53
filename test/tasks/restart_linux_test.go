package tasks_test

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/demo"
)

// command builds the gateway once. folder is removed at the end.
var command = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "penstock-tasks-")
	if err != nil {
		return "", err
	}
	folder = dir
	bin := filepath.Join(dir, "penstock")
	if out, err := exec.Command("go", "build", "-o", bin, "../../cmd/penstock").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return bin, nil
})

// process is a gateway that can be killed.
type process struct {
	cmd     *exec.Cmd
	done    chan struct{}
	address string
}

// start runs a document until it is killed, and waits until it listens.
func start(t testing.TB, bin, file string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(bin, "serve", "--config", file, "--listen", "127.0.0.1:0"), done: make(chan struct{})}
	p.cmd.Dir = filepath.Dir(file)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	out, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := make(chan string, 1)
	var log bytes.Buffer
	go func() {
		defer close(p.done)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			line := lines.Text()
			fmt.Fprintln(&log, line)
			if _, at, is := strings.Cut(line, "listening on http://"); is {
				said <- strings.TrimSuffix(at, "/mcp")
			}
		}
		_ = p.cmd.Wait()
	}()
	select {
	case p.address = <-said:
	case <-p.done:
		t.Fatalf("the gateway ended:\n%s", log.String())
	case <-time.After(60 * time.Second):
		p.kill()
		t.Fatalf("the gateway does not listen:\n%s", log.String())
	}
	return p
}

// kill ends the process at once, and waits for its end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Whatever id a client has seen leads to its task after any crash.
func TestEveryIdThatAClientSawOutlivesAKill(t *testing.T) {
	t.Parallel()
	bin, err := command()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	d := doc{tasks: "probe: off", more: `state: "sqlite:` + filepath.Join(dir, "penstock.db") + `"` + "\nadmin: off"}
	for _, key := range []string{"a", "b"} {
		jobs := demo.Jobs(demo.JobOptions{MaxTasks: 1_000_000, Conformance: true})
		s := httptest.NewServer(jobs)
		t.Cleanup(func() {
			jobs.Close()
			s.CloseClientConnections()
			s.Close()
		})
		d.ups = append(d.ups, fmt.Sprintf("  %s: {url: %q, era: modern}\n", key, s.URL+"/mcp"))
	}
	file := filepath.Join(dir, "penstock.yaml")
	if err := os.WriteFile(file, []byte(d.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	g := &gateway{t: t, http: &http.Client{Transport: transport, Timeout: 30 * time.Second}, front: &httptest.Server{}}
	saw := map[string][]string{} // by who
	total := 0
	p := start(t, bin, file)
	defer func() { p.kill() }()
	g.front.URL = "http://" + p.address
	for round := range times(20, 300) {
		var mu sync.Mutex
		fresh := map[string][]string{}
		var all sync.WaitGroup
		for worker := range 6 {
			who := []string{"ann", "bob", "ann/other"}[worker%3]
			all.Go(func() {
				c := g.as(who)
				for n := 0; ; n++ {
					r := c.call([]string{"a", "b"}[n%2]+"__slow_compute", `"arguments":{"seconds":3600}`)
					switch {
					case r.Err != nil:
						return // it was killed
					case r.id() == "":
						t.Errorf("round %d: %v", round, r)
						return
					}
					mu.Lock()
					fresh[who] = append(fresh[who], r.id())
					mu.Unlock()
				}
			})
		}
		eventually(t, "a task is made", 30*time.Second, func() bool { mu.Lock(); defer mu.Unlock(); return len(fresh) > 0 })
		time.Sleep(rand.N(100 * time.Millisecond))
		p.kill()
		all.Wait()
		p = start(t, bin, file)
		g.front.URL = "http://" + p.address
		for who, ids := range fresh {
			for _, id := range ids {
				g.as(who).owns(t, id)
			}
			unknown(t, g.as("eve").get(ids[rand.N(len(ids))]))
			saw[who] = append(saw[who], ids...)
			total += len(ids)
			// And some of those from before.
			for range 5 {
				g.as(who).owns(t, saw[who][rand.N(len(saw[who]))])
			}
		}
		if t.Failed() {
			return
		}
	}
	for who, ids := range saw {
		for _, i := range rand.Perm(len(ids))[:min(len(ids), 300)] {
			g.as(who).owns(t, ids[i])
		}
	}
	t.Logf("%d tasks, and every id that was seen leads to its own", total)
}
