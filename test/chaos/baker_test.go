//go:build linux

package chaos_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// baker is an upstream for durable tasks that keeps no state by connection: it
// gives the envelope back, counts the effects of each logical task, and finishes
// a task when it is told to. It lives in this process: nothing here kills it.
type baker struct {
	server *httptest.Server

	mu       sync.Mutex // guards what follows
	tasks    []*cake
	effects  map[string]int // by idempotency key
	finished bool
}

type cake struct {
	key      string
	envelope json.RawMessage
	ended    time.Time
}

func newBaker(t testing.TB) *baker {
	b := &baker{effects: map[string]int{}}
	b.server = httptest.NewServer(b)
	t.Cleanup(func() {
		b.server.CloseClientConnections()
		b.server.Close()
	})
	return b
}

// document is a gateway in front of the baker, pinned to what it offers.
func (b *baker) document(t testing.TB, state, session string) string {
	t.Helper()
	line := func(durable string) string {
		return fmt.Sprintf("state: %q\n%s\nupstreams:\n  bakery: {url: %q, era: modern%s}\n", state, roomy, b.server.URL+"/mcp", durable)
	}
	g := newGateway(t, line("")).run()
	defer g.kill()
	pin, err := exec.Command(g.bin, "explain", "--pin", "bakery", "--config", g.file).Output()
	if err != nil {
		var e *exec.ExitError
		_ = errors.As(err, &e)
		t.Fatalf("the pin: %v: %s", err, e.Stderr)
	}
	return line(fmt.Sprintf(", durable: {pin: %q, session: %s}", strings.TrimSpace(string(pin)), session))
}

// ServeHTTP implements http.Handler.
func (b *baker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	var o struct {
		ID     json.RawMessage
		Method string
		Params struct {
			TaskID string
			Meta   struct {
				Envelope json.RawMessage `json:"penstock/taskExecution"`
			} `json:"_meta"`
		}
	}
	if err != nil || r.Method != http.MethodPost || json.Unmarshal(raw, &o) != nil || o.ID == nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	member := `"error":{"code":-32601,"message":"no such method"}`
	switch o.Method {
	case "server/discover":
		member = `"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"extensions":{"` + tasksExtension +
			`":{}}},"serverInfo":{"name":"bakery","version":"1"},"ttlMs":60000,"cacheScope":"public"}`
	case "tools/list":
		member = `"result":{"resultType":"complete","ttlMs":60000,"cacheScope":"public","tools":[{"name":"bake","inputSchema":{"type":"object"}}]}`
	case "tools/call":
		var e struct {
			Submission struct {
				Task struct{ IdempotencyKey string }
			}
		}
		if err := json.Unmarshal(o.Params.Meta.Envelope, &e); err != nil {
			member = `"error":{"code":-32602,"message":"no envelope"}`
			break
		}
		c := &cake{key: e.Submission.Task.IdempotencyKey, envelope: o.Params.Meta.Envelope}
		b.effects[c.key]++
		b.tasks = append(b.tasks, c)
		member = b.state(len(b.tasks)-1, "task")
	case "tasks/get":
		var i int
		if _, err := fmt.Sscanf(o.Params.TaskID, "cake-%d", &i); err != nil || i < 0 || i >= len(b.tasks) {
			member = `"error":{"code":-32602,"message":"no such task"}`
			break
		}
		member = b.state(i, "complete")
	case "tasks/cancel":
		member = `"result":{"resultType":"complete"}`
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, o.ID, member)
}

// state is a task as it stands. b.mu is held.
func (b *baker) state(i int, kind string) string {
	c, status, end := b.tasks[i], "working", ""
	if b.finished && kind == "complete" {
		if c.ended.IsZero() {
			c.ended = time.Now()
		}
		status, end = "completed", fmt.Sprintf(`"result":{"content":[{"type":"text","text":"a cake for %s"}]},`, c.key)
	}
	at := time.Now()
	if !c.ended.IsZero() {
		at = c.ended
	}
	stamp := at.UTC().Format(time.RFC3339Nano)
	return fmt.Sprintf(`"result":{"taskId":"cake-%d","status":%q,"createdAt":%q,"lastUpdatedAt":%q,"ttlMs":60000,"pollIntervalMs":50,%s"resultType":%q,"_meta":{"penstock/taskExecution":%s}}`,
		i, status, stamp, stamp, end, kind, c.envelope)
}

// finish lets every task end.
func (b *baker) finish() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.finished = true
}

// counted are the effects so far, by key.
func (b *baker) counted() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := map[string]int{}
	for key, n := range b.effects {
		all[key] = n
	}
	return all
}
