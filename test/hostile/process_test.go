package hostile_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
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

// built is the folder of the command, for TestMain to remove; set by build.
var built string

// build makes the command once for all tests of this package.
var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "penstock-hostile-")
	if err != nil {
		return "", err
	}
	built = dir
	out, err := exec.Command("go", "build", "-o", filepath.Join(dir, "penstock"), "../../cmd/penstock").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return filepath.Join(dir, "penstock"), nil
})

// process is `penstock serve`.
type process struct {
	*client
	addr string
	cmd  *exec.Cmd
	done chan error
}

var listening = regexp.MustCompile(`listening on http://(127\.0\.0\.1:\d+)/mcp`)

// run starts the command on a document, and kills it when the test ends.
func run(t *testing.T, doc string) *process {
	t.Helper()
	if testing.Short() {
		t.Skip("builds and runs the command")
	}
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "penstock.yaml")
	if err := os.WriteFile(file, []byte(doc), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(bin, "serve", "--config", file, "--listen", "127.0.0.1:0"), done: make(chan error, 1)}
	p.cmd.Dir = dir
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	addr := make(chan string, 1)
	go func() {
		for s := bufio.NewScanner(stderr); s.Scan(); {
			if m := listening.FindStringSubmatch(s.Text()); m != nil {
				addr <- m[1]
			}
		}
		p.done <- p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
	})
	select {
	case p.addr = <-addr:
	case err := <-p.done:
		t.Fatalf("the command ended: %v", err)
	case <-time.After(20 * time.Second):
		t.Fatal("the command does not listen")
	}
	p.client = newClient(t, "http://"+p.addr+"/mcp")
	return p
}

func TestSIGTERMDrainsTheCallInFlight_badInput(t *testing.T) {
	t.Parallel()
	u := newModern(t).tool("t")
	entered, release := make(chan struct{}), make(chan struct{})
	u.handle("tools/call", func(x *exchange) {
		close(entered)
		<-release
		x.result(`{"content":[{"type":"text","text":"ok"}]}`)
	})
	p := run(t, document(members{"a": u}, nil, quick))
	got := make(chan *reply, 1)
	go func() {
		got <- p.try(modernBody("1", "tools/call", `"name":"a__t"`), modernHeaders("tools/call", "a__t")...)
	}()
	<-entered
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond)
	close(release)
	if r := <-got; r.Err != nil || text(r.message(), "result", "content", 0, "text") != "ok" {
		t.Errorf("the call in flight got %v", r)
	}
	select {
	case err := <-p.done:
		if err != nil {
			t.Errorf("exit: %v", err)
		}
	case <-time.After(12 * time.Second):
		t.Error("it does not end")
	}
}

func TestAHangingCallDelaysTheEndNoLongerThanConfigured_docker483(t *testing.T) {
	t.Parallel()
	u := newLegacy(t).tool("t").handle("tools/call", (*exchange).hang)
	p := run(t, document(members{"a": u}, nil, quick+"\nshutdown: 1s"))
	go func() {
		_ = p.try(modernBody("1", "tools/call", `"name":"a__t"`), modernHeaders("tools/call", "a__t")...)
	}()
	eventually(t, "the call is under way", 10*time.Second, func() bool { return len(u.requests("tools/call")) == 1 })
	start := time.Now()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-p.done:
		if took := time.Since(start); err != nil || took > 4*time.Second {
			t.Errorf("it ended with %v after %s", err, took)
		}
	case <-time.After(12 * time.Second):
		t.Error("it does not end")
	}
}

func TestACallCutByTheEndIsCancelledUpstreamBeforeItsSessionEnds_checklist135(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"memory:", "sqlite:penstock.db"} {
		t.Run(strings.TrimSuffix(state, ":"), func(t *testing.T) {
			t.Parallel()
			u := newLegacy(t).tool("t").prompt("p")
			u.handle("tools/call", (*exchange).hang).handle("prompts/get", (*exchange).hang)
			accepted := map[string]bool{} // guarded by u.mu, as ended
			ended := map[string]bool{}
			u.handle("notifications/cancelled", func(x *exchange) {
				time.Sleep(200 * time.Millisecond) // not at once
				u.mu.Lock()
				defer u.mu.Unlock()
				if ended[x.Session] {
					t.Error("a session ended while a cancellation was on its way")
				}
				accepted[x.Session+at(x.Params, "requestId")] = true
				x.w.WriteHeader(http.StatusAccepted)
			}).handle(http.MethodDelete, func(x *exchange) {
				u.mu.Lock()
				ended[x.Session] = true
				u.mu.Unlock()
				u.honest(x)
			})
			p := run(t, document(members{"a": u}, nil, quick+"\nshutdown: 1s\nstate: '"+state+"'"))
			s := p.legacy("2025-11-25")
			methods := map[string]string{"tools/call": "a__t", "prompts/get": "a__p"}
			var waiting sync.WaitGroup
			defer waiting.Wait()
			for method, name := range methods {
				waiting.Go(func() {
					_ = p.try(modernBody("1", method, `"name":`+quote(name)), modernHeaders(method, name)...)
				})
				waiting.Go(func() {
					_ = s.try(`{"jsonrpc":"2.0","id":`+quote(method)+`,"method":`+quote(method)+`,"params":{"name":`+quote(name)+`}}`, s.headers()...)
				})
			}
			for method := range methods {
				eventually(t, method+" is under way, for both clients", 10*time.Second, func() bool { return len(u.requests(method)) == 2 })
			}
			start := time.Now()
			_ = p.cmd.Process.Signal(syscall.SIGTERM)
			select {
			case err := <-p.done:
				if took := time.Since(start); err != nil || took > 4*time.Second {
					t.Errorf("it ended with %v after %s", err, took)
				}
			case <-time.After(12 * time.Second):
				t.Fatal("it does not end")
			}
			u.mu.Lock()
			defer u.mu.Unlock()
			for _, r := range u.seen {
				if methods[r.Method] != "" && !accepted[r.Session+r.ID] {
					t.Errorf("%s %s was not cancelled", r.Method, r.ID)
				}
			}
		})
	}
}

func TestConnectionsBeyondTheBoundAreRefusedAndOthersServed_badInput(t *testing.T) {
	t.Parallel()
	p := run(t, document(members{"a": newModern(t).tool("t")}, nil, `limits: {connections: 20}`))
	healthy(t, p, "a__t") // its connection stays
	var idle []net.Conn
	for range 60 {
		c, err := net.Dial("tcp", p.addr)
		if err != nil {
			break
		}
		idle = append(idle, c)
	}
	eventually(t, "what is beyond the bound is closed", 5*time.Second, func() bool {
		closed := 0
		for _, c := range idle {
			_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
			if _, err := c.Read(make([]byte, 1)); err == io.EOF || err != nil && strings.Contains(err.Error(), "reset") {
				closed++
			}
		}
		return closed >= 35
	})
	healthy(t, p, "a__t")
	for _, c := range idle {
		_ = c.Close()
	}
	eventually(t, "there is room again", 5*time.Second, func() bool {
		r, err := newClient(t, p.url).do(context.Background(), http.MethodPost, modernBody("1", "server/discover", ""), modernHeaders("server/discover", "")...)
		return err == nil && r.Status == http.StatusOK
	})
}

func TestHeadersThatNeverEndAreCut_badInput(t *testing.T) {
	t.Parallel()
	p := run(t, document(members{"a": newModern(t).tool("t")}, nil, quick))
	var slow []net.Conn
	for range 50 {
		c, err := net.Dial("tcp", p.addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
		slow = append(slow, c)
	}
	start := time.Now()
	healthy(t, p, "a__t")
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("others waited %s", took)
	}
	for _, c := range slow {
		_ = c.SetReadDeadline(start.Add(20 * time.Second))
		raw, err := io.ReadAll(c)
		if err != nil || strings.Contains(string(raw), "200 OK") {
			t.Errorf("a client that never ends its headers got %q %v", raw, err)
		}
		_ = c.Close()
	}
}
