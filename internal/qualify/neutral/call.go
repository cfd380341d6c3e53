package neutral

import (
	"crypto/rand"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-mcp/penstock/internal/durable"
	"github.com/penstock-mcp/penstock/internal/fault"
)

// execution is what the provider reads of the envelope. It is echoed as it came,
// never from here.
type execution struct {
	Schema        string `json:"schemaVersion"`
	PublicTask    string `json:"publicTaskId"`
	RequestSHA256 string `json:"requestSha256"`
	Submission    struct {
		Task struct {
			LogicalTask string `json:"logicalTaskId"`
			Attempt     string `json:"attemptId"`
			Correlation string `json:"correlationId"`
			Key         string `json:"idempotencyKey"`
			Limits      struct {
				Runtime int64 `json:"maxRuntimeMs"`
			} `json:"limits"`
			Retention int64 `json:"retentionMs"`
		} `json:"task"`
	} `json:"submission"`
}

// maxTasks is how many tasks one run of a provider takes.
const maxTasks = 64

// call makes a task of a call, and starts its worker.
func (p *provider) call(msg *message, about *meta) (any, *fault.Error) {
	var in struct {
		Name      string         `json:"name"`
		Arguments jsontext.Value `json:"arguments"`
	}
	if failure := decode(msg.Params, &in); failure != nil {
		return nil, failure
	}
	if in.Name != Tool {
		return nil, fault.New(fault.InvalidParams, "unknown tool %q", in.Name)
	}
	var args struct {
		Input     jsontext.Value `json:"input"`
		Directory string         `json:"outputDirectory"`
		Delay     int64          `json:"delayMs"`
		Alter     bool           `json:"alterIdentity"`
	}
	if err := json.Unmarshal(in.Arguments, &args, json.RejectUnknownMembers(true)); err != nil {
		return nil, fault.Wrap(err, fault.InvalidParams, "the arguments are not what the tool wants")
	}
	if err := checkInput(args.Input); err != nil {
		return nil, fault.New(fault.InvalidParams, "%s", err)
	}
	if _, err := components(args.Directory); err != nil {
		return nil, fault.New(fault.InvalidParams, "%s", err)
	}
	if args.Delay < 0 || args.Delay > MaxDelay.Milliseconds() {
		return nil, fault.New(fault.InvalidParams, "delayMs is 0 to %d", MaxDelay.Milliseconds())
	}
	var e execution
	if err := json.Unmarshal(about.Execution, &e); err != nil {
		return nil, fault.Wrap(err, fault.InvalidParams, "the execution envelope is missing or malformed")
	}
	ours := durable.Penstock.Schema("task-execution")
	if e.Schema != ours || e.PublicTask == "" || e.Submission.Task.Limits.Runtime <= 0 {
		return nil, fault.New(fault.InvalidParams, "the execution envelope is not %s", ours)
	}
	now := time.Now()
	t := &task{
		id: "neutral-" + rand.Text(), root: p.o.Root, envelope: about.Execution.Clone(), ttl: e.Submission.Task.Retention,
		status: working, created: now, changed: now, ended: make(chan struct{}),
		assigned: Assignment{
			Root: p.o.Root, Input: args.Input, Directory: args.Directory, Alter: args.Alter,
			Delay: time.Duration(args.Delay) * time.Millisecond,
			Identities: Identities{
				PublicTask: e.PublicTask, RequestSHA256: e.RequestSHA256, LogicalTask: e.Submission.Task.LogicalTask,
				Attempt: e.Submission.Task.Attempt, Correlation: e.Submission.Task.Correlation, Key: e.Submission.Task.Key,
			},
		},
	}
	t.assigned.Task = t.id
	return p.begin(t, time.Duration(e.Submission.Task.Limits.Runtime)*time.Millisecond)
}

// begin records the submission and starts the worker of a task.
func (p *provider) begin(t *task, runtime time.Duration) (any, *fault.Error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.tasks) == maxTasks {
		return nil, fault.New(fault.AtCapacity, "this provider has had its %d tasks", maxTasks)
	}
	if err := Record(p.o.Root, Submission, t.id); err != nil {
		return nil, fault.Wrap(err, fault.Internal, "the event could not be recorded")
	}
	if err := t.start(p.ctx, p.o.Worker, runtime); err != nil {
		return nil, fault.Wrap(err, fault.Internal, "the worker could not be started")
	}
	p.tasks[t.id] = t
	p.alive.Go(t.watch)
	return t.made(), nil
}
