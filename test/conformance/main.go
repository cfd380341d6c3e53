// The program conformance runs the official MCP conformance suite against Penstock in front of the Go SDK's
// everything-server and prints, on stdout, one line per run:
//
//	RUN <client revision> <upstream era> scenarios P/N checks P/N
//
// The run `tasks federated` is of the scenarios of the tasks extension instead, which call the demo's job server, with two
// more upstreams beside it.
//
// What is known to fail stands in expected-failures.yaml, each with its reason. The program fails when something fails
// that does not stand there, and when something that stands there passes; it says which on stderr. See
// docs/development.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/penstock-mcp/penstock/test/peers"
)

// Run is one pass of the suite: the revision it speaks, and the era that the upstream behind Penstock speaks.
type Run struct {
	Revision string
	Era      string // legacy (with sessions, refuses modern) or modern (without sessions)
}

// String is the run's name in output and in expected-failures.yaml.
func (r Run) String() string { return r.Revision + " " + r.Era }

// runs are the same-era ones, the two crosswise, and that of the tasks extension.
var runs = []Run{
	{"2025-03-26", "legacy"},
	{"2025-06-18", "legacy"},
	{"2025-11-25", "legacy"},
	{"2026-07-28", "modern"},
	{"2025-11-25", "modern"},
	{"2026-07-28", "legacy"},
	tasksRun,
}

// selected are the runs whose name contains a text.
func selected(only string) []Run {
	return slices.DeleteFunc(slices.Clone(runs), func(r Run) bool { return !strings.Contains(r.String(), only) })
}

func main() {
	only := flag.String("run", "", "only the runs whose name contains this text, such as \"2025-11-25 modern\"")
	direct := flag.Bool("direct", false, "without Penstock, against the upstream itself: what the best gateway could reach; nothing is judged")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
	defer cancel()
	if err := conform(ctx, *only, *direct); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

func conform(ctx context.Context, only string, direct bool) error {
	root, err := peers.Root()
	if err != nil {
		return err
	}
	if why := peers.JavaScript.Missing(); why != "" {
		return fmt.Errorf("the conformance suite is %s", why)
	}
	expected, err := LoadExpected(filepath.Join(root, "test", "conformance", "expected-failures.yaml"))
	if err != nil {
		return err
	}
	out := filepath.Join(root, "build", "conformance")
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	problems := 0
	for _, run := range selected(only) {
		result, err := pass(ctx, run, direct, out)
		if err != nil {
			return fmt.Errorf("%s: %w", run, err)
		}
		fmt.Println(result.Line(run))
		if direct {
			for _, failure := range result.Failures() {
				fmt.Fprintf(os.Stderr, "%s: fails: %s\n", run, failure)
			}
			continue
		}
		for _, problem := range expected.Judge(run, result) {
			fmt.Fprintf(os.Stderr, "%s: %s\n", run, problem)
			problems++
		}
	}
	if problems > 0 {
		return fmt.Errorf("%d problems; the suite's own output is under build/conformance", problems)
	}
	return nil
}

// pass starts fresh servers for one run, for the suite changes what the upstream lists, and ends them after it.
func pass(ctx context.Context, run Run, direct bool, out string) (result *Result, err error) {
	dir := filepath.Join(out, strings.ReplaceAll(run.String(), " ", "-"))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if run == tasksRun {
		return passTasks(ctx, direct, dir)
	}
	upstream, err := peers.GoEverything(run.Era == "modern").Start(ctx)
	if err != nil {
		return nil, err
	}
	defer upstream.Kill()
	if direct {
		return RunSuite(ctx, upstream.URL, run.Revision, dir)
	}
	err = behind(ctx, dir, func(url string) error {
		result, err = RunSuite(ctx, url, run.Revision, dir)
		return err
	}, "--upstream", "fix="+upstream.URL)
	return result, err
}

// passTasks is pass for the scenarios of the tasks extension.
func passTasks(ctx context.Context, direct bool, dir string) (result *Result, err error) {
	upstreams, err := startTasks()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, upstreams.close()) }()
	if direct {
		if err := checkTools(ctx, upstreams.urls["jobs"], tasksTools, nil); err != nil {
			return nil, err
		}
		return RunTasks(ctx, upstreams.urls["jobs"], dir)
	}
	document, err := upstreams.document(dir)
	if err != nil {
		return nil, err
	}
	err = behind(ctx, dir, func(url string) error {
		if err := checkTools(ctx, url, tasksTools, neighbours); err != nil {
			return err
		}
		result, err = RunTasks(ctx, url, dir)
		return err
	}, "--config", document)
	return result, err
}

// behind runs test against a Penstock of its own, which is started with args, and keeps its log.
func behind(ctx context.Context, dir string, test func(url string) error, args ...string) (err error) {
	binary, err := peers.Build(false)
	if err != nil {
		return err
	}
	gateway, err := peers.Serve(ctx, binary, dir, args...)
	if err != nil {
		return err
	}
	defer func() {
		if stopped := gateway.Stop(); stopped != nil && err == nil {
			err = fmt.Errorf("penstock did not end cleanly: %w\n%s", stopped, gateway.Output())
		}
		if write := os.WriteFile(filepath.Join(dir, "penstock.log"), []byte(gateway.Output()), 0o644); write != nil && err == nil {
			err = write
		}
	}()
	return test(gateway.URL())
}
