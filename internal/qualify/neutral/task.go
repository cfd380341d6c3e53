package neutral

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-mcp/penstock/internal/fault"
)

// The statuses of a task.
const (
	working   = "working"
	completed = "completed"
	failed    = "failed"
	cancelled = "cancelled"
)

// task is one task and its worker.
type task struct {
	id       string
	root     string
	envelope jsontext.Value // as it came
	assigned Assignment
	ttl      int64
	created  time.Time

	worker *exec.Cmd
	input  io.Closer // the worker gives up when it is closed
	errors bytes.Buffer
	over   context.Context // ends when the worker has to
	kill   context.CancelFunc
	ended  chan struct{} // closed behind the end of the worker

	mu      sync.Mutex // guards what follows
	status  string
	changed time.Time
	asked   bool // to cancel
	failure string
}

// start starts the worker. It is killed when ctx ends and when the declared
// runtime is over.
func (t *task) start(ctx context.Context, command []string, runtime time.Duration) error {
	env, err := t.assigned.environment()
	if err != nil {
		return err
	}
	t.over, t.kill = context.WithTimeout(ctx, runtime)
	t.worker = exec.CommandContext(t.over, command[0], command[1:]...)
	t.worker.Env, t.worker.WaitDelay = env, time.Second
	t.worker.Stderr = &t.errors
	if t.input, err = t.worker.StdinPipe(); err == nil {
		err = t.worker.Start()
	}
	if err != nil {
		t.kill()
	}
	return err
}

// watch waits for the end of the worker, and says what became of the task.
func (t *task) watch() {
	defer close(t.ended)
	err := t.worker.Wait()
	_ = t.input.Close()
	well := t.worker.ProcessState != nil && t.worker.ProcessState.Success()
	killed := !well && t.over.Err() != nil
	if killed {
		err = errors.Join(err, Record(t.root, Termination, t.id))
	}
	t.kill()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changed = time.Now()
	switch {
	case well:
		t.status = completed
	case killed && t.asked:
		t.status = cancelled
	default:
		t.status = failed
		t.failure = fmt.Sprintf("the worker: %v: %s", err, firstLine(t.errors.String()))
	}
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// cancel kills the worker and waits until it has ended. A task that has ended
// stays as it is.
func (t *task) cancel() {
	t.mu.Lock()
	t.asked = true
	t.mu.Unlock()
	t.kill()
	<-t.ended
}

// view is a task as its client sees it.
type view struct {
	ResultType string         `json:"resultType"`
	ID         string         `json:"taskId"`
	Status     string         `json:"status"`
	Created    string         `json:"createdAt"`
	Changed    string         `json:"lastUpdatedAt"`
	TTL        int64          `json:"ttlMs"`
	Interval   int            `json:"pollIntervalMs"`
	Result     *toolResult    `json:"result,omitzero"`
	Error      *taskError     `json:"error,omitzero"`
	Meta       map[string]any `json:"_meta"`
}

type toolResult struct {
	ResultType string     `json:"resultType"`
	Content    []content  `json:"content"`
	Structured structured `json:"structuredContent"`
}

type content struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type structured struct {
	Directory string   `json:"outputDirectory"`
	Artifacts []string `json:"artifacts"`
}

type taskError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// made is the CreateTaskResult, and echoes the envelope.
func (t *task) made() *view {
	v := t.look()
	v.ResultType, v.Status, v.Result, v.Error = "task", working, nil, nil
	return v
}

// detailed is the answer to tasks/get, and echoes the envelope.
func (t *task) detailed() *view { return t.look() }

// pollInterval is how soon a client may ask again.
const pollInterval = 50

func (t *task) look() *view {
	const layout = "2006-01-02T15:04:05.000Z"
	t.mu.Lock()
	defer t.mu.Unlock()
	v := &view{
		ResultType: "complete", ID: t.id, Status: t.status, TTL: t.ttl, Interval: pollInterval,
		Created: t.created.UTC().Format(layout), Changed: t.changed.UTC().Format(layout),
		Meta: map[string]any{executionKey: t.envelope},
	}
	switch t.status {
	case completed:
		v.Result = &toolResult{
			ResultType: "complete",
			Content:    []content{{"text", "written to " + t.assigned.Directory}},
			Structured: structured{t.assigned.Directory, []string{ResultFile, ManifestFile}},
		}
	case failed:
		v.Error = &taskError{int(fault.Internal), t.failure}
	}
	return v
}
