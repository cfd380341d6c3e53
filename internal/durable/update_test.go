package durable

import (
	"context"
	"encoding/json"
	"testing"
)

// TestUpdates: with updates persisted, an answer reaches the upstream once, and
// what nobody knows is asked of the upstream instead of sent again.
func TestUpdates(t *testing.T) {
	both(t, func(t *testing.T, words Spelling) {
		r := newRig(t, words, func(o *Options) { o.PersistUpdates = true })
		answer := json.RawMessage(`{"taskId":"x","inputResponses":{"q":{"action":"accept"}}}`)
		update := func(id string, params json.RawMessage) string {
			_, err := r.c.Update(context.Background(), r.caller, id, params)
			return r.code(err)
		}
		on := func(method string, f fate) {
			r.w.set(func() {
				r.w.next = func(m string) fate {
					if m == method {
						return f
					}
					return answered
				}
			})
		}
		task := func(key string) (string, *work) {
			s := r.submit(key)
			r.w.mu.Lock()
			defer r.w.mu.Unlock()
			w := r.w.last[key]
			w.asks = true
			return s.TaskID, w
		}

		id, w := task("good")
		for range 3 {
			if code := update(id, answer); code != "" {
				t.Errorf("a good update: %s", code)
			}
		}
		if w.updates != 1 {
			t.Errorf("%d updates arrived", w.updates)
		}

		id, w = task("answer-lost")
		on("tasks/update", lostAfter)
		if code := update(id, answer); code != "TASK_UPDATE_OUTCOME_UNKNOWN" {
			t.Errorf("a lost acknowledgement: %s", code)
		}
		on("", answered)
		if code := update(id, answer); code != "" || w.updates != 1 {
			t.Errorf("the question is closed: %s, %d updates", code, w.updates)
		}

		id, w = task("request-lost")
		on("tasks/update", lostBefore)
		if code := update(id, answer); code != "TASK_UPDATE_OUTCOME_UNKNOWN" {
			t.Errorf("a lost request: %s", code)
		}
		on("tasks/get", lostBefore)
		if code := update(id, answer); code != "TASK_UPDATE_OUTCOME_UNKNOWN" && code != "TASK_NOT_UPDATEABLE" {
			t.Errorf("and nobody says: %s", code)
		}
		on("", answered)
		r.get(id)
		if code := update(id, answer); code != "" || w.updates != 1 {
			t.Errorf("the question is open: %s, %d updates", code, w.updates)
		}

		id, w = task("not-sent")
		on("tasks/update", unsent)
		if code := update(id, answer); code != "TASK_UPDATE_NOT_SENT" {
			t.Errorf("not sent: %s", code)
		}
		on("tasks/update", rejected)
		if code := update(id, answer); code != "TASK_UPDATE_REJECTED" {
			t.Errorf("refused: %s", code)
		}
		on("", answered)
		if code := update(id, answer); code != "" || w.updates != 1 {
			t.Errorf("sent after all: %s, %d updates", code, w.updates)
		}

		id, _ = task("bad")
		for _, params := range []string{`{}`, `{"inputResponses":{}}`, `{"inputResponses":[]}`, `[]`, ``} {
			if code := update(id, json.RawMessage(params)); code != "TASK_UPDATE_INVALID" {
				t.Errorf("%q: %s", params, code)
			}
		}
		r.restart()
		if code := update(id, answer); code != "TASK_SOURCE_SNAPSHOT_CHANGED" {
			t.Errorf("over another connection: %s", code)
		}
		if err := r.cancel(id); r.code(err) != "TASK_SOURCE_SNAPSHOT_CHANGED" {
			t.Error(err)
		}
		if code := update(id, answer); code != "TASK_NOT_UPDATEABLE" {
			t.Errorf("while it is cancelled: %s", code)
		}
	})
}
