// The program conformance runs the official MCP conformance suite against Penstock in front of the Go SDK's
// everything-server and prints, on stdout, one line per run:
//
//	RUN <client revision> <upstream era> scenarios P/N checks P/N
//
// What is known to fail stands in expected-failures.yaml, each with its reason. The program fails when something fails
// that does not stand there, and when something that stands there passes; it says which on stderr. See
// docs/development.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
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

// runs are the same-era ones, then the two crosswise.
var runs = []Run{
	{"2025-03-26", "legacy"},
	{"2025-06-18", "legacy"},
	{"2025-11-25", "legacy"},
	{"2026-07-28", "modern"},
	{"2025-11-25", "modern"},
	{"2026-07-28", "legacy"},
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
	for _, run := range runs {
		if !strings.Contains(run.String(), only) {
			continue
		}
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
	upstream, err := peers.GoEverything(run.Era == "modern").Start(ctx)
	if err != nil {
		return nil, err
	}
	defer upstream.Kill()
	dir := filepath.Join(out, strings.ReplaceAll(run.String(), " ", "-"))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	url := upstream.URL
	if !direct {
		binary, err := peers.Build(false)
		if err != nil {
			return nil, err
		}
		gateway, err := peers.Serve(ctx, binary, dir, "--upstream", "fix="+upstream.URL)
		if err != nil {
			return nil, err
		}
		defer func() {
			if stopped := gateway.Stop(); stopped != nil && err == nil {
				err = fmt.Errorf("penstock did not end cleanly: %w\n%s", stopped, gateway.Output())
			}
			if write := os.WriteFile(filepath.Join(dir, "penstock.log"), []byte(gateway.Output()), 0o644); write != nil && err == nil {
				err = write
			}
		}()
		url = gateway.URL()
	}
	return RunSuite(ctx, url, run.Revision, dir)
}
