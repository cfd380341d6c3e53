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

// Client is a program that connects to an endpoint, lists everything with paging, asks what a script says, and reports.
type Client struct {
	Name     string
	Language Language
	// Modern says that it prefers the modern era where the endpoint offers it.
	Modern  bool
	program []string // from the root of the repository; the URL comes next, then mode
	mode    string
}

// Clients returns every client: the SDKs of Go, TypeScript (both majors) and Python, in each era that they speak.
func Clients() []Client {
	golang := []string{"build/peers/go-client"}
	v1 := []string{nodePath, "build/js/client-v1.mjs"}
	v2 := []string{nodePath, "build/js/client-v2.mjs"}
	python := []string{pythonPath, "test/peers/python/client.py"}
	return []Client{
		{Name: "go-modern", Language: Go, Modern: true, program: golang, mode: "auto"},
		{Name: "go-legacy", Language: Go, program: golang, mode: "legacy"},
		{Name: "ts-v1", Language: JavaScript, program: v1},
		{Name: "ts-v2-modern", Language: JavaScript, Modern: true, program: v2, mode: "auto"},
		{Name: "ts-v2-legacy", Language: JavaScript, program: v2, mode: "legacy"},
		{Name: "python-modern", Language: Python, Modern: true, program: python, mode: "auto"},
		{Name: "python-legacy", Language: Python, program: python, mode: "legacy"},
	}
}

// Step is one request of a script: tools/call, prompts/get, resources/read or completion/complete.
type Step struct {
	Method string         `json:"method"`
	Params map[string]any `json:"params"`
}

// Item is a tool, prompt, resource or template as a client saw it.
type Item = map[string]any

// Answer is what a client got for one step; exactly one of its members is set.
type Answer struct {
	Result map[string]any `json:"result,omitempty"`
	Error  *Failure       `json:"error,omitempty"`
}

// Failure is a JSON-RPC error as a client saw it. SDKs word the message in their own way.
type Failure struct {
	Code    int64  `json:"code"`
	Message string `json:"message"`
}

// Report is what a client saw. Values went through the client's own SDK, so two reports compare only when the same client
// made them.
type Report struct {
	ProtocolVersion   string         `json:"protocolVersion"`
	ServerInfo        map[string]any `json:"serverInfo"`
	Tools             []Item         `json:"tools"`
	Prompts           []Item         `json:"prompts"`
	Resources         []Item         `json:"resources"`
	ResourceTemplates []Item         `json:"resourceTemplates"`
	Answers           []Answer       `json:"answers"`
}

// Run drives the endpoint at url through steps. It is done within two minutes, and earlier when ctx is. The report has
// one answer per step.
func (c Client) Run(ctx context.Context, url string, steps []Step) (*Report, error) {
	if err := Setup(); err != nil {
		return nil, err
	}
	root, err := Root()
	if err != nil {
		return nil, err
	}
	if steps == nil {
		steps = []Step{}
	}
	script, err := json.Marshal(map[string]any{"steps": steps})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	argv := append(append([]string{}, c.program...), url)
	if c.mode != "" {
		argv = append(argv, c.mode)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = root, bytes.NewReader(script), &stdout, &stderr
	cmd.SysProcAttr = ownGroup()
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s against %s: %w\n%s", c.Name, url, errors.Join(err, ctx.Err()), stderr.String())
	}
	report := &Report{}
	if err := json.Unmarshal(stdout.Bytes(), report); err != nil {
		return nil, fmt.Errorf("%s against %s: report: %w\n%s", c.Name, url, err, stdout.String())
	}
	if len(report.Answers) != len(steps) {
		return nil, fmt.Errorf("%s against %s: %d answers to %d steps", c.Name, url, len(report.Answers), len(steps))
	}
	return report, nil
}
