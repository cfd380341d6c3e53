package peers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"time"
)

// AskedClient is a program that connects to an endpoint as a client that servers may ask: it declares what a script
// says, answers with its own name, cancels and listens, and reports (js/asked.mjs).
type AskedClient struct {
	Name     string
	Language Language
	// Modern says that it insists on the modern era; the others are legacy clients.
	Modern  bool
	program []string // from the root of the repository; the endpoint comes next, then mode
	mode    []string
}

// AskedClients returns every client that can be asked, in each era that its SDK speaks.
func AskedClients() []AskedClient {
	golang := []string{"build/peers/go-client"}
	v2 := []string{nodePath, "build/js/asked-v2.mjs"}
	return []AskedClient{
		{Name: "ts-v1", Language: JavaScript, program: []string{nodePath, "build/js/asked-v1.mjs"}},
		{Name: "ts-v2-legacy", Language: JavaScript, program: v2, mode: []string{"legacy"}},
		{Name: "ts-v2-modern", Language: JavaScript, Modern: true, program: v2, mode: []string{"2026-07-28"}},
		{Name: "go-legacy", Language: Go, program: golang, mode: []string{"legacy", "asked"}},
		{Name: "go-modern", Language: Go, Modern: true, program: golang, mode: []string{"auto", "asked"}},
	}
}

// AskedScript is what a client that can be asked is told to do. Without InOrder its steps are called at once.
type AskedScript struct {
	// Name is in everything that the client answers, and must be in every question but the Known ones.
	Name         string         `json:"name"`
	Capabilities map[string]any `json:"capabilities"`
	Known        []string       `json:"known,omitempty"`
	Steps        []AskedStep    `json:"steps"`
	InOrder      bool           `json:"inOrder,omitempty"`
	Watch        *Watch         `json:"watch,omitempty"`
}

// AskedStep is a call of a tool, or of a prompt. With CancelAfter the client cancels it when it has got so many events of
// progress.
type AskedStep struct {
	Name        string         `json:"name"`
	Prompt      bool           `json:"prompt,omitempty"`
	Arguments   map[string]any `json:"arguments"`
	CancelAfter int            `json:"cancelAfter,omitempty"`
}

// Watch makes a client listen for changes of the tools and of resources. It calls Trigger until it has heard all of Want
// ("tools", or a URI), each as often as it is there, for twenty seconds at most.
type Watch struct {
	URIs    []string  `json:"uris"`
	Trigger AskedStep `json:"trigger"`
	Want    []string  `json:"want"`
}

// AskedReport is what a client that can be asked tells. An answer is the text of a result, an object with error, or one
// with cancelled, the number of events that had come.
type AskedReport struct {
	ProtocolVersion string   `json:"protocolVersion"`
	Tools           []string `json:"tools"`
	Answers         []any    `json:"answers"`
	// Strange are the questions that were somebody else's.
	Strange []string `json:"strange"`
	// Heard are the changes that the client was told of, and Triggers how often it caused them.
	Heard    []string `json:"heard"`
	Triggers int      `json:"triggers"`
}

// Run drives the endpoint, a URL or an argv as a JSON array, through a script. It is done within a minute and a half, and
// earlier when ctx is. The report has one answer per step.
func (c AskedClient) Run(ctx context.Context, endpoint string, script AskedScript) (*AskedReport, error) {
	if err := Setup(); err != nil {
		return nil, err
	}
	root, err := Root()
	if err != nil {
		return nil, err
	}
	if script.Steps == nil {
		script.Steps = []AskedStep{}
	}
	raw, err := json.Marshal(script)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	argv := append(append(append([]string{}, c.program...), endpoint), c.mode...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = root, bytes.NewReader(raw), &stdout, &stderr
	cmd.SysProcAttr = ownGroup()
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s as %s against %s: %w\n%s", c.Name, script.Name, endpoint, errors.Join(err, ctx.Err()), stderr.String())
	}
	report := &AskedReport{}
	if err := json.Unmarshal(stdout.Bytes(), report); err != nil {
		return nil, fmt.Errorf("%s as %s against %s: report: %w\n%s%s", c.Name, script.Name, endpoint, err, stdout.String(), stderr.String())
	}
	if len(report.Answers) != len(script.Steps) {
		return nil, fmt.Errorf("%s as %s against %s: %d answers to %d steps", c.Name, script.Name, endpoint, len(report.Answers), len(script.Steps))
	}
	return report, nil
}
