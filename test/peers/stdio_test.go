package peers

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const npmServers = "build/js/node_modules/@modelcontextprotocol/"

// child is a server that speaks stdio, and a script whose answers are the same each time.
type child struct {
	name     string
	language Language
	argv     []string
	env      map[string]string
	script   []Step
}

// children returns the servers over stdio, with paths that hold everywhere.
func children(t *testing.T) []child {
	t.Helper()
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	note := filepath.Join(files, "note.txt")
	node := filepath.Join(root, nodePath)
	entity := map[string]any{"name": "Ada", "entityType": "person", "observations": []string{"wrote \"notes\" <b>"}}
	all := []child{
		{name: "gostdio", language: Go, argv: []string{filepath.Join(root, "build/peers/go-everything")}, script: goSteps},
		{name: "everything", language: JavaScript, argv: []string{node, filepath.Join(root, npmServers+"server-everything/dist/index.js"), "stdio"}, script: scripts["everything"]},
		{
			name: "files", language: JavaScript, argv: []string{node, filepath.Join(root, npmServers+"server-filesystem/dist/index.js"), files},
			script: []Step{
				call("write_file", map[string]any{"path": note, "content": "one\r\ntwo ünï\u2028\n"}),
				call("read_text_file", map[string]any{"path": note}),
				call("list_directory", map[string]any{"path": files}),
				call("read_text_file", map[string]any{"path": "/etc/passwd"}),
				call("read_text_file", map[string]any{}),
			},
		},
		{
			name: "memory", language: JavaScript, argv: []string{node, filepath.Join(root, npmServers+"server-memory/dist/index.js")},
			env: map[string]string{"MEMORY_FILE_PATH": filepath.Join(files, "memory.jsonl")},
			script: []Step{
				call("create_entities", map[string]any{"entities": []any{entity}}),
				call("search_nodes", map[string]any{"query": "notes"}),
				call("delete_entities", map[string]any{"entityNames": []string{"Ada"}}),
				call("read_graph", map[string]any{}),
			},
		},
	}
	var here []child
	for _, c := range all {
		if why := c.language.Missing(); why != "" && !InCI() {
			t.Logf("without %s: %s", c.name, why)
			continue
		}
		here = append(here, c)
	}
	return here
}

// direct is the child as a client starts it itself.
func (c child) direct(t *testing.T) string {
	argv := []string{"/usr/bin/env"}
	for name, value := range c.env {
		argv = append(argv, name+"="+value)
	}
	return endpoint(t, append(argv, c.argv...))
}

// endpoint is an argv as the Go client takes it in place of a URL.
func endpoint(t *testing.T, argv []string) string {
	t.Helper()
	raw, err := json.Marshal(argv)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// childDocument configures each child behind an endpoint that changes nothing.
func childDocument(t *testing.T, dir string, all []child) string {
	t.Helper()
	upstreams, virtual := map[string]any{}, map[string]any{}
	for _, c := range all {
		upstream := map[string]any{"command": c.argv}
		if c.env != nil {
			upstream["env"] = c.env
		}
		upstreams[c.name] = upstream
		virtual[c.name] = map[string]any{"upstreams": []string{c.name}, "naming": "passthrough"}
	}
	virtual["default"] = map[string]any{}
	raw, err := json.Marshal(map[string]any{
		"state": "memory:", "admin": "off", "limits": map[string]any{"list_timeout": "20s"}, "upstreams": upstreams, "servers": virtual,
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "penstock.json")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The servers are driven by the SDK's client, directly, through `serve` over HTTP, and through `penstock stdio`.
func TestServersOverStdioAreSeenThroughTheGatewayAsTheyAre(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many real peers: not with -short")
	}
	if err := Setup(); err != nil {
		t.Fatal(err)
	}
	binary, err := Build(true)
	if err != nil {
		t.Fatal(err)
	}
	all := children(t)
	dir := t.TempDir()
	document := childDocument(t, dir, all)
	gateway, err := Serve(t.Context(), binary, dir, "--config", document)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := gateway.Stop(); err != nil {
			t.Errorf("penstock did not end cleanly: %v", err)
		}
		if t.Failed() || strings.Contains(gateway.Output(), "DATA RACE") {
			t.Errorf("penstock wrote:\n%s", gateway.Output())
		}
	})
	for _, client := range Clients()[:2] { // the Go clients, of either era
		for _, c := range all {
			t.Run(client.Name+"/"+c.name, func(t *testing.T) {
				direct, err := client.Run(t.Context(), c.direct(t), c.script)
				if err != nil {
					t.Fatal(err)
				}
				for way, at := range map[string]string{
					"serve": gateway.ServerURL(c.name),
					"stdio": endpoint(t, []string{binary, "stdio", "--config", document, "--server", c.name}),
				} {
					got, err := client.Run(t.Context(), at, c.script)
					if err != nil {
						t.Errorf("%s: %v", way, err)
						continue
					}
					if modern(got) != client.Modern {
						t.Errorf("%s: the client speaks %s", way, got.ProtocolVersion)
					}
					sameItems(t, way+" tools", "name", shownTasks(c.name, got, sharedTools(direct.Tools)), sharedTools(got.Tools))
					sameItems(t, way+" prompts", "name", direct.Prompts, got.Prompts)
					sameItems(t, way+" resources", "uri", direct.Resources, got.Resources)
					sameItems(t, way+" templates", "uriTemplate", direct.ResourceTemplates, got.ResourceTemplates)
					for i, step := range c.script {
						sameAnswer(t, step, direct.Answers[i], got.Answers[i], modern(direct) && modern(got))
					}
				}
			})
		}
	}
}

// Real children are killed while the gateway serves, and then the gateway itself.
func TestARealChildIsStartedAgainAndNoneOutlivesTheGateway(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real peers: not with -short")
	}
	if err := Setup(); err != nil {
		t.Fatal(err)
	}
	binary, err := Build(false)
	if err != nil {
		t.Fatal(err)
	}
	all := children(t)
	dir := t.TempDir()
	gateway, err := Serve(t.Context(), binary, dir, "--config", childDocument(t, dir, all))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(gateway.Kill)
	client := Clients()[0]
	for _, c := range all {
		if _, err := client.Run(t.Context(), gateway.ServerURL(c.name), c.script[:1]); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
	}
	pids := descendants(t, gateway.cmd.Process.Pid)
	if len(pids) < 2*len(all) {
		t.Fatalf("%d processes for %d children and their guards", len(pids), len(all))
	}
	var group sync.WaitGroup
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL) // children and guards alike
	}
	for _, c := range all {
		group.Go(func() {
			end := time.Now().Add(30 * time.Second)
			for {
				report, err := client.Run(t.Context(), gateway.ServerURL(c.name), c.script[:1])
				if err == nil && len(report.Answers) == 1 && report.Answers[0].Error == nil {
					return // a call that met the pause before a new start has another answer
				}
				if time.Now().After(end) {
					t.Errorf("%s did not come back: %v", c.name, err)
					return
				}
			}
		})
	}
	group.Wait()
	// The client can list its roots, so a legacy child that may ask for them has a process for it alone beside the shared.
	legacy := 0
	for _, c := range all {
		if c.language == JavaScript {
			legacy++
		}
	}
	if n := privateProcesses(t, gateway); n != legacy {
		t.Errorf("%d processes of the client alone, at %d legacy children", n, legacy)
	}
	pids = descendants(t, gateway.cmd.Process.Pid)
	if len(pids) != 2*(len(all)+legacy) {
		t.Errorf("%d processes for %d children, %d of them twice, and their guards", len(pids), len(all), legacy)
	}
	if err := gateway.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(2 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		left := 0
		for _, pid := range pids {
			if running(pid) {
				left++
			}
		}
		if left == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d processes outlive the gateway by 2 s", left)
		}
	}
}

// descendants are the processes below one, as pids.
func descendants(t *testing.T, parent int) []int {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ps", "-eo", "pid=,ppid=,stat=").Output()
	if err != nil {
		t.Skip("no ps here")
	}
	below := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) == 3 && !strings.HasPrefix(f[2], "Z") {
			below[f[1]] = append(below[f[1]], f[0])
		}
	}
	var pids []int
	for next := []string{strconv.Itoa(parent)}; len(next) > 0; next = next[1:] {
		for _, pid := range below[next[0]] {
			n, err := strconv.Atoi(pid)
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, n)
			next = append(next, pid)
		}
	}
	return pids
}

func running(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}
