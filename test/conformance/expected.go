package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// Expected says what is known to fail, why, and what will mend it.
type Expected struct {
	Groups []Group `yaml:"expected"`
}

// Group is a set of failures with one reason: each of Failures is expected in each of Runs. A failure is `scenario`, when
// any check of it may fail, or `scenario:check`.
type Group struct {
	Reason    string   `yaml:"reason"`
	EmptiedBy string   `yaml:"emptied_by"`
	Runs      []string `yaml:"runs"`
	Failures  []string `yaml:"failures"`
}

// LoadExpected reads and checks the file.
func LoadExpected(path string) (*Expected, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	expected := &Expected{}
	if err := yaml.UnmarshalWithOptions(raw, expected, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for i, g := range expected.Groups {
		if g.Reason == "" || g.EmptiedBy == "" || len(g.Runs) == 0 || len(g.Failures) == 0 {
			return nil, fmt.Errorf("%s: group %d lacks a reason, emptied_by, runs or failures", path, i+1)
		}
		for _, name := range g.Runs {
			if !slices.ContainsFunc(runs, func(r Run) bool { return r.String() == name }) {
				return nil, fmt.Errorf("%s: group %d names no run: %q", path, i+1, name)
			}
		}
	}
	return expected, nil
}

// Judge returns what is wrong with a run: failures that nobody expects, entries that are stale because what they name
// passes, and entries that name nothing.
func (e *Expected) Judge(run Run, result *Result) []string {
	var entries []string
	for _, g := range e.Groups {
		if slices.Contains(g.Runs, run.String()) {
			entries = append(entries, g.Failures...)
		}
	}
	matched := map[string]bool{}
	var problems []string
	for _, f := range result.Failures() {
		known := false
		for _, entry := range entries {
			if entry == f.Scenario || (f.Check != "" && entry == f.Scenario+":"+f.Check) {
				matched[entry], known = true, true
			}
		}
		if !known {
			problems = append(problems, "unexpected failure: "+f.String())
		}
	}
	for _, entry := range entries {
		if matched[entry] {
			continue
		}
		scenario, _, _ := strings.Cut(entry, ":")
		if _, known := result.Scenarios[scenario]; !known {
			problems = append(problems, "expected failure of a scenario that is not part of this run: "+entry)
			continue
		}
		problems = append(problems, "stale: expected to fail, and passes: "+entry)
	}
	return problems
}
