package qualify

import (
	"context"
	"encoding/json"
	"path/filepath"
	"time"

	"github.com/penstock-mcp/penstock/internal/durable"
	"github.com/penstock-mcp/penstock/internal/qualify/artifact"
	"github.com/penstock-mcp/penstock/internal/qualify/neutral"
)

// job is one submission as its caller makes and remembers it.
type job struct {
	name     string
	lease    string
	alias    string
	args     json.RawMessage
	document json.RawMessage
	input    durable.Digest // of the canonical form of the input
	deadline time.Time
}

// wish is what differs between jobs.
type wish struct {
	name     string
	input    string
	deadline time.Duration // from now
	delay    time.Duration
	alter    bool
}

// Bounds that every job declares.
const (
	jobRuntime   = 10 * time.Second
	jobRetention = time.Minute
)

// job makes a submission. Its key and identities follow from its name.
func (q *qualification) job(w wish) (*job, error) {
	input, err := durable.Canonical([]byte(w.input))
	if err != nil {
		return nil, err
	}
	args := map[string]any{"input": json.RawMessage(w.input), "outputDirectory": "tasks/" + w.name}
	if w.delay > 0 {
		args["delayMs"] = w.delay.Milliseconds()
	}
	if w.alter {
		args["alterIdentity"] = true
	}
	j := &job{name: w.name, lease: q.lease, alias: q.target.Alias, input: durable.Sum(input), deadline: time.Now().Add(w.deadline)}
	if j.args, err = json.Marshal(args); err != nil {
		return nil, err
	}
	sum, err := durable.SumJSON(j.args)
	if err != nil {
		return nil, err
	}
	j.document, err = json.Marshal(durable.Submission{
		SchemaVersion: durable.Penstock.Schema("task-submission"),
		LogicalTaskID: "logical-" + w.name, AttemptID: "attempt-1", CorrelationID: "correlation-" + w.name, IdempotencyKey: "key-" + w.name,
		ProviderInterfaceVersion: q.target.Capability.Schema.String(), InputSHA256: sum,
		AcceptancePolicySHA256: durable.Sum([]byte("policy")), ArtifactScopeSHA256: durable.Sum([]byte("scope")),
		DeadlineUnixMs: uint64(j.deadline.UnixMilli()), RetentionMs: uint64(jobRetention.Milliseconds()),
		Limits: durable.Limits{
			MaxRuntimeMs: uint64(jobRuntime.Milliseconds()), MaxOutputBytes: 64 << 10, MaxArtifactBytes: neutral.MaxArtifacts, MaxAttempts: 1,
		},
		PermittedEffect: durable.NonIdempotentWrite, CleanupRequired: true,
	})
	return j, err
}

// arguments are those of the submit tool.
func (j *job) arguments() map[string]any {
	return map[string]any{"leaseId": j.lease, "alias": j.alias, "arguments": j.args, "task": j.document}
}

// submit submits a job and returns the handle.
func (c *caller) submit(ctx context.Context, j *job) (*seen, error) {
	s := new(seen)
	err := c.tool(ctx, durable.Penstock.Tool("submit"), j.arguments(), s)
	return s, err
}

// folder is where the worker of a job writes.
func (q *qualification) folder(j *job) string {
	return filepath.Join(q.root, neutral.OutputFolder, "tasks", j.name)
}

// expected is what the caller of a job knows of its artifacts, once it has seen
// the handle.
func (j *job) expected(s *seen) *artifact.Expected {
	return &artifact.Expected{
		PublicTask: s.ID, RequestDigest: s.Meta.Route.RequestSHA256, LogicalTask: "logical-" + j.name, Attempt: "attempt-1",
		Correlation: "correlation-" + j.name, Key: "key-" + j.name, Input: j.input,
	}
}
