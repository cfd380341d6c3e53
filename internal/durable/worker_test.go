package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// fate is what a worker does with one request, and what becomes of the answer.
type fate int

const (
	answered   fate = iota
	lostBefore      // the request is lost on its way, and the gateway cannot tell
	lostAfter       // the worker took it, and the answer is lost
	unsent          // provably nothing left
	rejected        // -32602
	failing         // -32603, and the work was begun
	slow            // the worker takes it, and does not answer in time
	noEcho
	forgedEcho
	wrongID // another task's id in tasks/get; none that can be bound in tools/call
	atOnce  // a complete result instead of a task
	atOnceForged
	garbage
)

// work is one task at the worker.
type work struct {
	id, public string
	key        string // of the submission: the logical task
	meta       json.RawMessage
	status     string
	result     string // text of the result
	updated    time.Time
	asks       bool // it is input_required until it was answered
	updates    int
	cancels    int
}

// worker is an upstream that counts. It keeps what it was told over a reconnect,
// as a process of its own would.
type worker struct {
	mu       sync.Mutex // guards all below
	now      func() time.Time
	settings Settings
	stateful bool
	down     bool
	snapshot Digest
	config   Digest
	link     *link
	tasks    map[string]*work
	begun    map[string]int   // operations by key
	last     map[string]*work // by key
	calls    map[string]int   // requests that arrived, by method
	finish   string           // status that tasks go to when polled; "": they stay
	size     int              // bytes of a result
	next     func(method string) fate
	in       func(method string) // called while a request is under way
}

func newWorker(now func() time.Time) *worker {
	return &worker{
		now: now, settings: Settings{Echo: true}, stateful: true, snapshot: Sum([]byte("snapshot")), config: Sum([]byte("config")),
		tasks: map[string]*work{}, last: map[string]*work{}, begun: map[string]int{}, calls: map[string]int{}, size: 10, next: func(string) fate { return answered },
	}
}

// Source implements Sources.
func (w *worker) Source(key string) (Source, bool) { return w, key == "worker" }

// Key implements Source.
func (w *worker) Key() string { return "worker" }

// Settings implements Source.
func (w *worker) Settings() Settings {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.settings
}

// Connect implements Source.
func (w *worker) Connect(context.Context) (Connection, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down {
		return nil, errors.New("the worker is away")
	}
	if w.link == nil {
		w.link = &link{w: w, session: NewSessionID(w.settings.Spelling)}
	}
	return w.link, nil
}

// reconnect ends the connection that there is.
func (w *worker) reconnect() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.link = nil
}

func (w *worker) set(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
}

func (w *worker) called(method string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls[method]
}

// link is one connection with the worker.
type link struct {
	w       *worker
	session string
}

func (l *link) Session() string       { return l.session }
func (l *link) Stateless() bool       { return !l.w.stateful }
func (l *link) Endpoint() Digest      { return Sum([]byte("endpoint")) }
func (l *link) Snapshot() Digest      { l.w.mu.Lock(); defer l.w.mu.Unlock(); return l.w.snapshot }
func (l *link) Configuration() Digest { l.w.mu.Lock(); defer l.w.mu.Unlock(); return l.w.config }

// Tool implements Connection.
func (l *link) Tool(string) (json.RawMessage, bool) { return json.RawMessage(`{"name":"run"}`), true }

// Send implements Connection.
func (l *link) Send(ctx context.Context, method, name string, params json.RawMessage, fence func() error) Reply {
	if fence != nil {
		if err := fence(); err != nil {
			return Reply{Fault: err, Unsent: true}
		}
	}
	l.w.mu.Lock()
	if in := l.w.in; in != nil {
		l.w.mu.Unlock()
		in(method)
		l.w.mu.Lock()
	}
	defer l.w.mu.Unlock()
	if l.w.link != l || l.w.down {
		return Reply{Fault: errors.New("this connection has ended"), Unsent: true}
	}
	f := l.w.next(method)
	switch f {
	case unsent:
		return Reply{Fault: errors.New("not sent"), Unsent: true}
	case lostBefore:
		return Reply{Fault: errors.New("lost")}
	case rejected:
		return Reply{Error: &RemoteError{Code: -32602, Message: "no"}}
	}
	l.w.calls[method]++
	reply := l.w.serve(method, name, params, f)
	switch f {
	case lostAfter:
		return Reply{Fault: errors.New("the answer is lost")}
	case slow:
		l.w.mu.Unlock()
		<-ctx.Done()
		l.w.mu.Lock()
		return Reply{Fault: ctx.Err()}
	case failing:
		return Reply{Error: &RemoteError{Code: -32603, Message: "trouble"}}
	case garbage:
		return Reply{Result: json.RawMessage(`{"resultType":"odd"}`)}
	}
	return reply
}

// serve does what a request asks for. w.mu is held.
func (w *worker) serve(method, name string, params json.RawMessage, f fate) Reply {
	var p struct {
		TaskID string                     `json:"taskId"`
		Meta   map[string]json.RawMessage `json:"_meta"`
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return Reply{Error: &RemoteError{Code: -32700, Message: err.Error()}}
	}
	if method == "tools/call" {
		return w.begin(p.Meta, f)
	}
	t := w.tasks[p.TaskID]
	if t == nil || name != p.TaskID {
		return Reply{Error: &RemoteError{Code: -32602, Message: "Task not found"}}
	}
	switch method {
	case "tasks/cancel":
		if t.cancels++; t.status == "working" {
			t.status, t.updated = "cancelled", w.now()
		}
		return Reply{Result: json.RawMessage(`{"resultType":"complete"}`)}
	case "tasks/update":
		t.updates++
		t.asks = false
		return Reply{Result: json.RawMessage(`{"resultType":"complete"}`)}
	}
	if w.finish != "" && t.status == "working" && !t.asks {
		t.status, t.updated = w.finish, w.now()
	}
	out := map[string]any{
		"taskId": t.id, "status": t.status, "resultType": "complete", "lastUpdatedAt": t.updated.UTC().Format(time.RFC3339Nano),
		"_meta": t.echo(f),
	}
	switch {
	case f == wrongID:
		out["taskId"] = t.id + "x"
	case t.asks && t.status == "working":
		out["status"], out["inputRequests"] = "input_required", map[string]any{"q": map[string]any{}}
	case t.status == "completed":
		out["result"] = w.resultOf(t, nil)
	case t.status == "failed":
		out["error"] = map[string]any{"code": -32000, "message": "it failed"}
	}
	return Reply{Result: mustEncode(out)}
}

func (w *worker) resultOf(t *work, meta any) any {
	t.result = fmt.Sprintf("%s of %s", strings.Repeat("r", w.size), t.id)
	out := map[string]any{"content": []any{map[string]any{"type": "text", "text": t.result}}}
	if meta != nil {
		out["_meta"], out["resultType"] = meta, "complete"
	}
	return out
}

// echo is the _meta of an answer about a task.
func (t *work) echo(f fate) any {
	var meta map[string]json.RawMessage
	_ = json.Unmarshal(t.meta, &meta)
	switch f {
	case noEcho:
		return map[string]any{"other": 1}
	case forgedEcho, atOnceForged:
		for k, v := range meta {
			meta[k] = json.RawMessage(strings.Replace(string(v), t.public, "pst_other", 1))
		}
	}
	return meta
}

func (w *worker) begin(meta map[string]json.RawMessage, f fate) Reply {
	s := w.settings.Spelling
	var env struct {
		Public     string `json:"publicTaskId"`
		Submission struct {
			Task struct {
				Key string `json:"idempotencyKey"`
			} `json:"task"`
		} `json:"submission"`
	}
	raw := meta[s.Meta("taskExecution")]
	if err := json.Unmarshal(raw, &env); err != nil {
		return Reply{Error: &RemoteError{Code: -32602, Message: "no envelope"}}
	}
	t := &work{
		id: fmt.Sprintf("w%d", len(w.tasks)), public: env.Public, key: env.Submission.Task.Key, status: "working", updated: w.now(),
		meta: mustEncode(map[string]json.RawMessage{s.Meta("taskExecution"): raw}),
	}
	w.tasks[t.id] = t
	w.begun[t.key]++
	w.last[t.key] = t
	switch f {
	case atOnce, atOnceForged:
		t.status = "completed"
		return Reply{Result: mustEncode(w.resultOf(t, t.echo(f)))}
	}
	id := t.id
	if f == wrongID {
		id = "bad\nid"
	}
	return Reply{Result: mustEncode(map[string]any{
		"taskId": id, "status": "working", "resultType": "task", "createdAt": "x", "lastUpdatedAt": "x", "ttlMs": nil, "_meta": t.echo(f),
	})}
}

func mustEncode(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
