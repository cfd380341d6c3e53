package counting

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/penstock-mcp/penstock/internal/durable"
)

// Tool is the one tool of a worker, as it is listed.
const Tool = `{"name":"run","description":"Count.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":false,"idempotentHint":false}}`

const envelopeKey = "penstock/taskExecution"

// task is one task of a worker.
type task struct {
	id       string
	envelope json.RawMessage
	status   string
	updated  time.Time
}

// Worker counts. It is safe for concurrent use. The zero value does not work:
// use New.
type Worker struct {
	mu       sync.Mutex // guards what follows
	fates    map[string][]Fate
	tasks    map[string]*task
	begun    map[string]int             // by logical task
	requests map[string]int             // by method, those that arrived
	answers  map[string]json.RawMessage // the last one by method
	ends     string
}

// New makes a worker whose tasks are completed when they are polled.
func New() *Worker {
	return &Worker{
		fates: map[string][]Fate{}, tasks: map[string]*task{}, begun: map[string]int{}, requests: map[string]int{},
		answers: map[string]json.RawMessage{}, ends: "completed",
	}
}

// Plan says what becomes of the next requests of a method; those behind them are
// honest.
func (w *Worker) Plan(method string, f ...Fate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fates[method] = f
}

// Hold has tasks go on until they are cancelled.
func (w *Worker) Hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ends = ""
}

// Begun is how often a logical task was begun.
func (w *Worker) Begun(logical string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.begun[logical]
}

// Requests is how many requests of a method have arrived.
func (w *Worker) Requests(method string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.requests[method]
}

// next is the fate of a request.
func (w *Worker) next(method string) Fate {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f := w.fates[method]; len(f) > 0 {
		w.fates[method] = f[1:]
		return f[0]
	}
	return Honest
}

// answer is what the worker says: a result or an error.
type answer struct {
	result json.RawMessage
	err    *durable.RemoteError
}

func refusal(code int, message string) answer {
	return answer{err: &durable.RemoteError{Code: code, Message: message}}
}

// serve takes a request that has arrived.
func (w *Worker) serve(method string, params json.RawMessage, f Fate) (a answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests[method]++
	if f == Refused {
		return refusal(-32602, "refused")
	}
	var p struct {
		TaskID string                     `json:"taskId"`
		Meta   map[string]json.RawMessage `json:"_meta"`
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return refusal(-32602, err.Error())
	}
	before := w.answers[method]
	if method == "tasks/get" {
		before = w.answers["tools/call"]
	}
	defer func() {
		switch {
		case f == Failing:
			a = refusal(-32603, "it failed")
		case f == Stale && before != nil:
			a = answer{result: before}
		case a.result != nil:
			w.answers[method] = a.result
		}
	}()
	if method == "tools/call" {
		return w.begin(p.Meta[envelopeKey], f)
	}
	t := w.tasks[p.TaskID]
	switch {
	case t == nil:
		return refusal(-32602, "Task not found")
	case method == "tasks/get":
		if t.status == "working" && w.ends != "" {
			t.status, t.updated = w.ends, time.Now()
		}
		return answer{result: t.detailed(f)}
	case method == "tasks/cancel":
		if t.status == "working" {
			t.status, t.updated = "cancelled", time.Now()
		}
		return answer{result: json.RawMessage(`{"resultType":"complete"}`)}
	}
	return refusal(-32601, "unknown method")
}

// begin makes a task, or does it at once.
func (w *Worker) begin(envelope json.RawMessage, f Fate) answer {
	var e struct {
		Submission struct {
			Task struct {
				Logical string `json:"logicalTaskId"`
			} `json:"task"`
		} `json:"submission"`
	}
	if json.Unmarshal(envelope, &e) != nil || e.Submission.Task.Logical == "" {
		return refusal(-32602, "there is no envelope")
	}
	t := &task{id: fmt.Sprintf("counted-%d", len(w.tasks)), envelope: envelope, status: "working", updated: time.Now()}
	w.tasks[t.id] = t
	w.begun[e.Submission.Task.Logical]++
	switch f {
	case AtOnce, AtOnceBare, TooLarge:
		t.status = "completed"
		out := result(f)
		out["resultType"], out["_meta"] = "complete", t.echo(f)
		return answer{result: encode(out)}
	}
	out := t.view("task", f)
	if f == WrongID {
		out["taskId"] = "counted\n" // of a form that nobody can keep
	}
	return answer{result: encode(out)}
}

func (t *task) detailed(f Fate) json.RawMessage {
	out := t.view("complete", f)
	if t.status == "completed" {
		out["result"] = result(f)
	}
	return encode(out)
}

func (t *task) view(kind string, f Fate) map[string]any {
	at := t.updated.UTC().Format("2006-01-02T15:04:05.000Z")
	out := map[string]any{
		"resultType": kind, "taskId": t.id, "status": t.status, "createdAt": at, "lastUpdatedAt": at, "ttlMs": 60000, "pollIntervalMs": 10,
		"_meta": t.echo(f),
	}
	if f == WrongID {
		out["taskId"] = t.id + "0"
	}
	return out
}

// echo is the _meta of an answer.
func (t *task) echo(f Fate) map[string]json.RawMessage {
	switch f {
	case NoEcho, AtOnceBare:
		return map[string]json.RawMessage{}
	case ForgedEcho:
		return map[string]json.RawMessage{envelopeKey: json.RawMessage(strings.Replace(string(t.envelope), `"requestSha256":"sha256:`, `"requestSha256":"sha256:f`, 1))}
	}
	return map[string]json.RawMessage{envelopeKey: t.envelope}
}

// result is that of a call.
func result(f Fate) map[string]any {
	text := "counted"
	if f == TooLarge {
		text = strings.Repeat("counted ", 10_000)
	}
	return map[string]any{"content": []any{map[string]string{"type": "text", "text": text}}}
}

func encode(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings and maps
	}
	return b
}
