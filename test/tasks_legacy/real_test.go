package taskslegacy_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const everything = "../../build/js/node_modules/@modelcontextprotocol/server-everything/dist/index.js"

// researcher is the address or the command of a real server that makes tasks of
// 2025-11-25, as an upstream of a document.
func researcher(t *testing.T, child bool) string {
	t.Helper()
	if testing.Short() {
		t.Skip("starts real peers: not with -short")
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("there is no node")
	}
	program, err := filepath.Abs(everything)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		t.Skip("the peers in JavaScript are not installed: go test ./test/peers")
	}
	if child {
		return fmt.Sprintf(`{command: [%q, %q, stdio]}`, node, program)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	_ = ln.Close()
	cmd := exec.Command(node, program, "streamableHttp")
	cmd.Env = append(os.Environ(), "PORT="+port)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	// Asked by HTTP: a bare connection to a port of this range may be one to itself.
	until(t, "the peer listens", func() bool {
		r, err := http.Get("http://127.0.0.1:" + port + "/mcp")
		if err == nil {
			_ = r.Body.Close()
		}
		return err == nil
	})
	return fmt.Sprintf(`{url: 'http://127.0.0.1:%s/mcp'}`, port)
}

func TestTheTasksOfARealServerWork(t *testing.T) {
	for name, child := range map[string]bool{"http": false, "child": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := serve(t, map[string]string{"real": researcher(t, child)})
			for _, caps := range []string{formCaps, "{}"} {
				c := h.http(t, legacy, caps)
				c.answer = func(string, json.RawMessage) string {
					return `{"action":"accept","content":{"interpretation":"snake"}}`
				}
				id := c.made(t, `{"name":"real__simulate-research-query","arguments":{"topic":"python","ambiguous":true},"task":{"ttl":60000}}`)
				if s := c.status(t, id); s != "working" {
					t.Errorf("the task is %s", s)
				}
				result := c.begun(t, "tasks/result", fmt.Sprintf(`{"taskId":%q}`, id))
				if a := c.call(t, "tasks/list", "{}"); !strings.Contains(a.raw, id) {
					t.Errorf("tasks/list: %s", a.raw)
				}
				a := c.await(t, result)
				if !strings.Contains(a.raw, "Research Report: python") || strings.Contains(a.raw, "(snake)") != (caps == formCaps) {
					t.Errorf("tasks/result: %s", a.raw)
				}
				if s := c.status(t, id); s != "completed" {
					t.Errorf("the task is %s", s)
				}
			}
		})
	}
}
