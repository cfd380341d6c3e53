package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-mcp/penstock/internal/demo"
)

// tasksRun is the pass of the scenarios of the tasks extension, which no revision selects. Its upstream is the demo's job
// server, with the library and the workshop federated beside it.
var tasksRun = Run{"tasks", "federated"}

// tasksTools are the tools that the scenarios call by their bare names, which aliases give them behind Penstock.
var tasksTools = []string{"greet", "slow_compute", "failing_job", "protocol_error_job", "confirm_delete", "multi_input", "test_tool_with_task"}

// neighbours are tools of the upstreams beside, whatever Penstock calls them.
var neighbours = []string{"search_books", "roll_dice"}

// scenariosAtOnce bounds the scenarios that run at the same time. Each is a process that mostly waits.
const scenariosAtOnce = 3

// tasksUpstreams are the upstreams of tasksRun, served by this process.
type tasksUpstreams struct {
	urls map[string]string // by key
	end  []func() error
}

// startTasks serves the upstreams on loopback until close is called.
func startTasks() (*tasksUpstreams, error) {
	jobs := demo.Jobs(demo.JobOptions{Conformance: true, Notify: true})
	u := &tasksUpstreams{urls: map[string]string{}}
	for key, handler := range map[string]http.Handler{"jobs": jobs, "library": demo.Library(), "workshop": demo.Workshop()} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, errors.Join(err, u.close())
		}
		server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
		var group sync.WaitGroup
		group.Go(func() { _ = server.Serve(l) }) // ends with Close
		u.urls[key] = "http://" + l.Addr().String() + "/mcp"
		u.end = append(u.end, func() error {
			jobs.Close()
			err := server.Close()
			group.Wait()
			return err
		})
	}
	return u, nil
}

func (u *tasksUpstreams) close() error {
	var errs []error
	for _, end := range u.end {
		errs = append(errs, end())
	}
	return errors.Join(errs...)
}

// document writes the configuration that federates the upstreams and gives the tools of the scenarios their bare names, and
// returns its path.
func (u *tasksUpstreams) document(dir string) (string, error) {
	upstreams, aliases := map[string]any{}, map[string]any{}
	for key, url := range u.urls {
		upstreams[key] = map[string]any{"url": url}
	}
	for _, tool := range tasksTools {
		aliases[tool] = map[string]any{"upstream": "jobs", "tool": tool}
	}
	raw, err := json.Marshal(map[string]any{
		"state": "memory:", "admin": "off", "upstreams": upstreams,
		"servers": map[string]any{"default": map[string]any{"upstreams": slices.Sorted(maps.Keys(u.urls)), "aliases": aliases}},
	}, json.Deterministic(true))
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "penstock.json") // JSON is YAML
	return path, os.WriteFile(path, raw, 0o600)
}

// RunTasks runs every scenario of the tasks extension against url, with the suite's files under dir.
func RunTasks(ctx context.Context, url, dir string) (*Result, error) {
	ctx, cancel := context.WithTimeout(ctx, suiteWithin)
	defer cancel()
	names, err := scenarios(ctx)
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, "tasks-") })
	if len(names) == 0 {
		return nil, errors.New("the suite lists no scenario of the tasks extension")
	}
	result := &Result{Scenarios: map[string][]Check{}}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(scenariosAtOnce)
	files := filepath.Join(dir, "out")
	for _, name := range names {
		result.Scenarios[name] = nil
		group.Go(func() error {
			return record(ctx, filepath.Join(dir, name+".log"), "--url", url, "--scenario", name, "--timeout", scenarioWithin, "-o", files)
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return result, result.read(os.DirFS(files))
}

// checkTools reports which tools url does not list: a name of want, or one that ends in a name of alike.
func checkTools(ctx context.Context, url string, want, alike []string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	const body = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json", "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list",
	} {
		r.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		return err
	}
	var got struct {
		Result struct {
			Tools []struct {
				Name string `json:"name"`
			} `json:"tools"`
		} `json:"result"`
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		return fmt.Errorf("tools/list: %w: %s", err, bytes.TrimSpace(raw))
	}
	var missing []string
	find := func(name string, matches func(listed, name string) bool) {
		for _, tool := range got.Result.Tools {
			if matches(tool.Name, name) {
				return
			}
		}
		missing = append(missing, name)
	}
	for _, name := range want {
		find(name, func(listed, name string) bool { return listed == name })
	}
	for _, name := range alike {
		find(name, strings.HasSuffix)
	}
	if len(missing) > 0 {
		return fmt.Errorf("tools/list lacks %s", strings.Join(missing, ", "))
	}
	return nil
}
