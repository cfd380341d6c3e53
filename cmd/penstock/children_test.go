package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// withChildren serves two bundled children, "one" and "two".
func withChildren(t *testing.T) (p *process, url string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := shortDir(t)
	path := document(t, dir, fmt.Sprintf(`
listen: 127.0.0.1:0
state: 'memory:'
admin: off
limits: {list_timeout: 1s, call_timeout: 1s}
upstreams:
  one: {command: [%q, %s], restart: {backoff: 50ms}}
  two: {command: [%q, %s], breaker: {failures: 2}}
`, exe, benchName, exe, benchName))
	p = run(t, dir, "serve", "--config", path)
	return p, p.endpoint()
}

// pid is the process of a child, or 0 while it has none.
func (p *process) pid(url, key string) (pid, starts int) {
	p.t.Helper()
	var status struct {
		Upstreams []struct {
			Key    string `json:"key"`
			PID    int    `json:"pid"`
			Starts int    `json:"starts"`
		} `json:"upstreams"`
	}
	_, body := get(p.t, strings.TrimSuffix(url, "/mcp")+"/ready?details")
	if err := json.Unmarshal([]byte(body), &status); err != nil {
		p.t.Fatalf("%s: %v", body, err)
	}
	for _, u := range status.Upstreams {
		if u.Key == key {
			return u.PID, u.Starts
		}
	}
	p.t.Fatalf("no upstream %s in %s", key, body)
	return 0, 0
}

func shout(t *testing.T, url, key string) called {
	t.Helper()
	return ask(t, url, "tools/call", fmt.Sprintf(`{"name":"%s__shout","arguments":{"text":"hi"}}`, key))
}

func TestAKilledChildIsStartedAgainAndTheOtherSeesNothingOfIt(t *testing.T) {
	p, url := withChildren(t)
	if c := ask(t, url, "tools/list"); !strings.Contains(c.out, "one__shout") || !strings.Contains(c.out, "two__shout") {
		t.Fatalf("%+v", c)
	}
	stop := make(chan struct{})
	var others sync.WaitGroup
	others.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if c := shout(t, url, "two"); c.err != nil || !strings.Contains(c.out, "HI") {
				t.Errorf("the other one: %+v", c)
			}
		}
	})
	before, _ := p.pid(url, "one")
	for range 5 {
		pid, starts := p.pid(url, "one")
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			if _, now := p.pid(url, "one"); now > starts {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("not started again:\n%s", p.stderr())
			}
		}
		if c := shout(t, url, "one"); c.err != nil || !strings.Contains(c.out, "HI") {
			t.Errorf("after it came back: %+v", c)
		}
	}
	close(stop)
	others.Wait()
	after, _ := p.pid(url, "one")
	if code, _ := p.signal(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d", code)
	}
	for _, pid := range []int{before, after} {
		if err := syscall.Kill(pid, 0); err == nil {
			t.Errorf("process %d is still there", pid)
		}
	}
}

func TestAFrozenChildCostsTheOthersOneListTimeoutAndIsReplaced(t *testing.T) {
	p, url := withChildren(t)
	if c := shout(t, url, "two"); c.err != nil {
		t.Fatalf("%+v", c)
	}
	frozen, starts := p.pid(url, "two")
	if err := syscall.Kill(frozen, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(frozen, syscall.SIGKILL) })
	begun := time.Now()
	if c := ask(t, url, "prompts/list"); c.err != nil || !strings.Contains(c.out, "one__proofread") || !strings.Contains(c.out, "penstock/partial") {
		t.Errorf("the first list: %+v", c)
	}
	if took := time.Since(begun); took > 1900*time.Millisecond {
		t.Errorf("the first list took %v", took)
	}
	begun = time.Now()
	if c := shout(t, url, "one"); c.err != nil {
		t.Errorf("the other one: %+v", c)
	}
	if took := time.Since(begun); took > 500*time.Millisecond {
		t.Errorf("a call to the other one took %v", took)
	}
	// Calls to the frozen one end in time; then it is found dead and replaced.
	for range 3 {
		begun = time.Now()
		if c := shout(t, url, "two"); c.err == nil && strings.Contains(c.out, "HI") {
			break // it came back meanwhile
		}
		if took := time.Since(begun); took > 2500*time.Millisecond {
			t.Errorf("a call to the frozen one took %v", took)
		}
	}
	for end := time.Now().Add(15 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if c := shout(t, url, "two"); c.err == nil && strings.Contains(c.out, "HI") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("not replaced:\n%s", p.stderr())
		}
	}
	if pid, now := p.pid(url, "two"); pid == frozen || now != starts+1 {
		t.Errorf("process %d after %d, %d starts", pid, frozen, now)
	}
}
