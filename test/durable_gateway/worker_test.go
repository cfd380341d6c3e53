package durablegateway_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	modernVersion = "2026-07-28"
	extension     = "io.modelcontextprotocol/tasks"
)

// worker is an upstream that makes durable tasks of calls of its tool bake, and gives the envelope back with every answer.
type worker struct {
	name string
	srv  *httptest.Server

	mu      sync.Mutex // guards what follows
	tools   string     // raw list; replaced to change what is offered
	noTasks bool
	hold    chan struct{} // until it is closed calls are not answered; nil: they are
	drop    bool          // connections of tools/call, after the work has begun
	tells   bool          // in the stream of a call, that its tools have changed
	seen    []string
	headers map[string]http.Header // last of a method
	bodies  map[string]string      // likewise
	made    map[string]*job
}

// job is a task of the worker's.
type job struct {
	status, envelope string
	updated          time.Time
}

const bakeTool = `{"name":"bake","description":"Bakes a cake, slowly.","inputSchema":{"type":"object","properties":{"flavor":{"type":"string","x-mcp-header":"Flavor"}}},"annotations":{"idempotentHint":true}}`

const readTool = `{"name":"read","description":"Reads the recipe.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`

func newWorker(name string) *worker {
	return &worker{
		name: name, tools: "[" + bakeTool + "," + readTool + "]", made: map[string]*job{},
		headers: map[string]http.Header{}, bodies: map[string]string{},
	}
}

func startWorker(t testing.TB, name string) *worker {
	w := newWorker(name)
	w.srv = httptest.NewServer(w)
	t.Cleanup(func() {
		w.srv.CloseClientConnections()
		w.srv.Close()
	})
	return w
}

func (w *worker) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// end ends every job in a status.
func (w *worker) end(status string) {
	w.change(func() {
		for _, j := range w.made {
			j.status, j.updated = status, time.Now()
		}
	})
}

func (w *worker) count(method string) (n int) {
	w.change(func() {
		for _, m := range w.seen {
			if m == method {
				n++
			}
		}
	})
	return n
}

func (w *worker) last(method string) (header http.Header, body string) {
	w.change(func() { header, body = w.headers[method], w.bodies[method] })
	return header, body
}

// ServeHTTP implements http.Handler.
func (w *worker) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil || r.Method != http.MethodPost {
		rw.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body := string(raw)
	method, id := text(body, "method"), at(body, "id")
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, method)
	w.headers[method], w.bodies[method] = r.Header.Clone(), body
	say := func(result string) {
		rw.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(rw, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
	}
	fail := func(code int, message string) {
		rw.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(rw, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, id, code, message)
	}
	switch method {
	case "server/discover":
		caps := `{"tools":{"listChanged":true},"extensions":{"` + extension + `":{}}}`
		if w.noTasks {
			caps = `{"tools":{}}`
		}
		say(`{"resultType":"complete","supportedVersions":["` + modernVersion + `"],"capabilities":` + caps +
			`,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"` + w.name + `","version":"1"}}}`)
	case "tools/list":
		say(`{"resultType":"complete","ttlMs":0,"cacheScope":"public","tools":` + w.tools + `}`)
	case "tools/call":
		w.call(rw, body, say)
	case "tasks/get":
		task := text(body, "params", "taskId")
		j := w.made[task]
		if j == nil {
			fail(-32602, "Task not found")
			return
		}
		say(w.state(task, j, "complete"))
	case "tasks/cancel":
		if j := w.made[text(body, "params", "taskId")]; j != nil && j.status == "working" {
			j.status, j.updated = "cancelled", time.Now()
		}
		say(`{"resultType":"complete"}`)
	default:
		fail(-32601, "method not found")
	}
}

func (w *worker) call(rw http.ResponseWriter, body string, say func(string)) {
	envelope := at(body, "params", "_meta", "penstock/taskExecution")
	name := text(body, "params", "name")
	if envelope == "" && w.tells {
		rw.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(rw, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"resultType\":\"complete\",\"content\":[]}}\n\n", at(body, "id"))
		return
	}
	if envelope == "" {
		say(`{"resultType":"complete","content":[{"type":"text","text":"` + name + ` for ` + strings.ReplaceAll(text(body, "params", "arguments", "flavor"), `"`, "") + `"}]}`)
		return
	}
	task := fmt.Sprintf("%s-%d", w.name, len(w.made)+1)
	j := &job{status: "working", envelope: envelope, updated: time.Now()}
	w.made[task] = j
	if hold := w.hold; hold != nil {
		w.mu.Unlock()
		<-hold
		w.mu.Lock()
	}
	if w.drop {
		if hj, ok := rw.(http.Hijacker); ok {
			if c, _, err := hj.Hijack(); err == nil {
				_ = c.Close()
			}
		}
		return
	}
	say(w.state(task, j, "task"))
}

func (w *worker) state(task string, j *job, kind string) string {
	end := ""
	switch j.status {
	case "completed":
		end = `,"result":{"content":[{"type":"text","text":"a cake"}]}`
	case "failed":
		end = `,"error":{"code":-32000,"message":"burnt"}`
	}
	if kind == "task" {
		end = ""
	}
	at, _ := json.Marshal(j.updated.UTC().Format(time.RFC3339Nano))
	return fmt.Sprintf(`{"taskId":%q,"status":%q,"createdAt":%s,"lastUpdatedAt":%s,"ttlMs":60000,"pollIntervalMs":50,"resultType":%q%s,"_meta":{"penstock/taskExecution":%s}}`,
		task, j.status, at, at, kind, end, j.envelope)
}
