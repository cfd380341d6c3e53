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

// TaskClient is a program that drives tasks as a user of its package would, does what steps say and reports (js/tasks.mjs).
type TaskClient struct {
	Name     string
	Language Language
	// Modern says that it speaks the modern dialect of tasks, where the endpoint does; the others are legacy clients.
	Modern  bool
	program []string // from the root of the repository; the endpoint comes next, then mode
	mode    string
}

// ExtTasks is the npm package ext-tasks over the second TypeScript SDK, in either dialect.
func ExtTasks(modern bool) TaskClient {
	c := TaskClient{Name: "ext-tasks", Language: JavaScript, Modern: modern, program: []string{nodePath, "build/js/tasks-ext.mjs"}, mode: "auto"}
	if !modern {
		c.Name, c.mode = "ext-tasks-legacy", "legacy"
	}
	return c
}

// SDKTasks is the first TypeScript SDK with its experimental tasks, in the legacy dialect.
func SDKTasks() TaskClient {
	return TaskClient{Name: "ts-v1", Language: JavaScript, program: []string{nodePath, "build/js/tasks-v1.mjs"}, mode: "legacy"}
}

// FastMCPTasksClient is the client of FastMCP: modern, it drives every task within its call; legacy, it has none.
func FastMCPTasksClient(modern bool) TaskClient {
	c := TaskClient{Name: "fastmcp", Language: Python, Modern: modern, program: []string{pythonPath, "test/peers/python/tasks_client.py"}, mode: "auto"}
	if !modern {
		c.Name, c.mode = "fastmcp-legacy", "legacy"
	}
	return c
}

// TaskStep is one thing that a client of tasks does; js/tasks.mjs says what there is. A step about a task names it by
// TaskID, or by From, the number of an earlier step.
type TaskStep struct {
	Do        string         `json:"do"`
	Name      string         `json:"name,omitempty"`
	Arguments map[string]any `json:"arguments,omitempty"` // none: {}
	TaskID    string         `json:"taskId,omitempty"`
	From      *int           `json:"from,omitempty"`
	// Answer is what a form is filled with; without it a question is declined.
	Answer map[string]any `json:"answer,omitempty"`
	// CancelAt cancels the task when it is seen to have that status.
	CancelAt string `json:"cancelAt,omitempty"`
}

// TaskAnswer is what a step told.
type TaskAnswer struct {
	Task      string   `json:"task"`
	Immediate bool     `json:"immediate"` // the call was answered with its result
	Statuses  []string `json:"statuses"`
	Asked     []string `json:"asked"`
	Status    string   `json:"status"`
	Tasks     []string `json:"tasks"`
	Result    *struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
		IsError bool `json:"isError"`
	} `json:"result"`
	Error *struct {
		Code    *int64 `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// TaskReport is what a client of tasks tells.
type TaskReport struct {
	ProtocolVersion string       `json:"protocolVersion"`
	Tools           []Item       `json:"tools"`
	Answers         []TaskAnswer `json:"answers"`
	// Raw is the report as it came, for a failure's message.
	Raw string `json:"-"`
}

// Run has a process of its own do steps at an endpoint, a URL or, of a JavaScript client, an argv as a JSON array. It is
// done within a minute and a half, and earlier when ctx is. The report has one answer per step.
func (c TaskClient) Run(ctx context.Context, endpoint string, steps ...TaskStep) (*TaskReport, error) {
	if err := Setup(); err != nil {
		return nil, err
	}
	root, err := Root()
	if err != nil {
		return nil, err
	}
	script, err := json.Marshal(map[string]any{"steps": steps})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	argv := append(append([]string{}, c.program...), endpoint, c.mode)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = root, bytes.NewReader(script), &stdout, &stderr
	cmd.SysProcAttr = ownGroup()
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s against %s: %w\n%s", c.Name, endpoint, errors.Join(err, ctx.Err()), stderr.String())
	}
	report := &TaskReport{Raw: stdout.String()}
	if err := json.Unmarshal(stdout.Bytes(), report); err != nil {
		return nil, fmt.Errorf("%s against %s: report: %w\n%s", c.Name, endpoint, err, report.Raw)
	}
	if len(report.Answers) != len(steps) {
		return nil, fmt.Errorf("%s against %s: %d answers to %d steps", c.Name, endpoint, len(report.Answers), len(steps))
	}
	return report, nil
}
