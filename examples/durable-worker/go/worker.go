package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// worker does the tasks. Whoever changes a record writes it down first.
type worker struct {
	ledger  string
	journal journal

	mu    sync.Mutex // guards what follows, and the fields of every record
	tasks map[string]*record
	stops map[string]chan struct{} // closed to cancel a task that is thinking
}

// openWorker takes up what an earlier process has left: what was never begun is
// begun now, and what may have happened is said to be unknown.
func openWorker(dir string) (*worker, error) {
	w := &worker{
		ledger: filepath.Join(dir, "ledger.txt"), journal: journal{filepath.Join(dir, "tasks")},
		tasks: map[string]*record{}, stops: map[string]chan struct{}{},
	}
	if err := os.MkdirAll(w.journal.dir, 0o700); err != nil {
		return nil, err
	}
	found, err := w.journal.all()
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range found {
		w.tasks[r.ID] = r
		switch {
		case r.Status != "working":
		case r.Acting:
			if err := w.change(r, "failed", "the worker ended while it wrote: look at the ledger before you submit it again"); err != nil {
				return nil, err
			}
		default:
			w.start(r)
		}
	}
	return w, nil
}

// call makes a task of a call, or finds the one that its envelope names.
func (w *worker) call(q *request) (any, *rpcError) {
	var args struct {
		Text    string  `json:"text"`
		Seconds float64 `json:"seconds"`
	}
	var e struct {
		Public  string `json:"publicTaskId"`
		Request string `json:"requestSha256"`
		Bound   struct {
			Task struct {
				Deadline  int64 `json:"deadlineUnixMs"`
				Retention int64 `json:"retentionMs"`
				Limits    struct {
					Runtime int64 `json:"maxRuntimeMs"`
				} `json:"limits"`
			} `json:"task"`
		} `json:"submission"`
	}
	switch {
	case q.Params.Name != "append_entry":
		return nil, refuse(invalidParams, "unknown tool %q", q.Params.Name)
	case json.Unmarshal(q.Params.Arguments, &args) != nil || args.Text == "" || len(args.Text) > 200 || args.Seconds < 0 || args.Seconds > 30:
		return nil, refuse(invalidParams, "the arguments are text and, if need be, seconds")
	case json.Unmarshal(q.Params.Meta.Envelope, &e) != nil || e.Public == "" || e.Request == "":
		return nil, refuse(invalidParams, "only durable tasks are taken: there is no %s", metaEnvelope)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	id := taskID(e.Public)
	if r := w.tasks[id]; r != nil {
		var before struct {
			Request string `json:"requestSha256"`
		}
		if json.Unmarshal(r.Envelope, &before) != nil || before.Request != e.Request {
			return nil, refuse(invalidParams, "this id is that of another request")
		}
		return w.view(r, "task"), nil // an answer was lost; nothing is done again
	}
	now := time.Now()
	until := now.Add(time.Duration(e.Bound.Task.Limits.Runtime) * time.Millisecond)
	if d := time.UnixMilli(e.Bound.Task.Deadline); d.Before(until) {
		until = d
	}
	r := &record{
		ID: id, Envelope: q.Params.Meta.Envelope, Text: args.Text, Seconds: args.Seconds, Status: "working",
		Created: now, Changed: now, TTL: e.Bound.Task.Retention, Until: until,
	}
	if err := w.journal.write(r); err != nil {
		return nil, refuse(internalError, "the task could not be written down")
	}
	w.tasks[id] = r
	w.start(r)
	return w.view(r, "task"), nil
}

func (w *worker) find(id string) *record {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tasks[id]
}

// cancel ends a task that has not begun its effect. The acknowledgement says
// that it was heard, and no more.
func (w *worker) cancel(r *record) *rpcError {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.Status != "working" || r.Acting {
		return nil
	}
	if err := w.change(r, "cancelled", "cancelled before it began"); err != nil {
		return refuse(internalError, "the cancellation could not be written down")
	}
	close(w.stops[r.ID])
	return nil
}

// start has a task done beside the requests. w.mu is held.
func (w *worker) start(r *record) {
	stop := make(chan struct{})
	w.stops[r.ID] = stop
	go func() {
		think := time.NewTimer(time.Duration(r.Seconds * float64(time.Second)))
		defer think.Stop()
		late := time.NewTimer(time.Until(r.Until))
		defer late.Stop()
		select {
		case <-stop:
			return
		case <-late.C:
			w.end(r, errors.New("its time was over before it began"))
		case <-think.C:
			w.end(r, w.act(r))
		}
	}()
}

// act is the effect. That it begins is written down before it does.
func (w *worker) act(r *record) error {
	w.mu.Lock()
	if r.Status != "working" {
		w.mu.Unlock()
		return nil
	}
	r.Acting = true
	err := w.journal.write(r)
	w.mu.Unlock()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(w.ledger, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%q\n", r.Text)
	return errors.Join(err, f.Sync(), f.Close())
}

func (w *worker) end(r *record, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.Status != "working" {
		return
	}
	if err != nil {
		err = w.change(r, "failed", err.Error())
	} else {
		err = w.change(r, "completed", "appended")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err) // it stays working, and the next process looks at it
	}
}

// change writes another status down, and then has it. w.mu is held.
func (w *worker) change(r *record, status, message string) error {
	next := *r
	next.Status, next.Message, next.Changed = status, message, time.Now()
	if err := w.journal.write(&next); err != nil {
		return err
	}
	*r = next
	return nil
}

// detailed is the answer to tasks/get.
func (w *worker) detailed(r *record) any {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.view(r, "complete")
}

// view is a task as its client sees it, with the envelope as it came. w.mu is
// held.
func (w *worker) view(r *record, resultType string) map[string]any {
	const layout = "2006-01-02T15:04:05.000Z"
	out := map[string]any{
		"resultType": resultType, "taskId": r.ID, "status": r.Status, "createdAt": r.Created.UTC().Format(layout),
		"lastUpdatedAt": r.Changed.UTC().Format(layout), "ttlMs": r.TTL, "pollIntervalMs": 200,
		"_meta": map[string]any{metaEnvelope: r.Envelope},
	}
	if resultType == "task" {
		return out // what came of it is for tasks/get
	}
	switch r.Status {
	case "completed":
		out["result"] = map[string]any{"resultType": "complete", "content": []any{map[string]string{"type": "text", "text": r.Message}}}
	case "failed":
		out["error"] = rpcError{Code: internalError, Message: r.Message}
	}
	return out
}
