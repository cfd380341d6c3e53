package tasks_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// upstream is a server of 2026-07-28 that makes a task of every call of a client that can have one. Handlers replace what it
// does, method by method.
type upstream struct {
	t      testing.TB
	name   string
	server *httptest.Server
	closed chan struct{}

	// What follows is set before the first request.
	plain bool // it does not speak tasks
	sse   bool // it answers by event streams
	tools []string

	mu     sync.Mutex    // guards what follows
	waits  time.Duration // before it answers tasks/get
	life   string        // raw ttlMs, and more members of every task
	on     map[string]func(*exchange)
	down   bool
	seen   []arrival
	next   []string // ids of the next tasks
	minted int
	tasks  map[string]string // more raw members of each task
}

// arrival is one request as it came.
type arrival struct {
	Method, Name, Authorization string // Mcp-Name as it was sent
	ID, Params, Task            string // raw, raw, decoded
	Declared                    bool   // its client can have tasks
}

// exchange is one request and the way to answer it.
type exchange struct {
	arrival
	u *upstream
	w http.ResponseWriter
	r *http.Request
}

func newUpstream(t testing.TB, name string) *upstream {
	u := &upstream{
		t: t, name: name, closed: make(chan struct{}), tools: []string{"work"}, life: `"ttlMs":3600000`,
		on: map[string]func(*exchange){}, tasks: map[string]string{},
	}
	u.server = httptest.NewServer(u)
	t.Cleanup(func() {
		close(u.closed)
		u.server.CloseClientConnections()
		u.server.Close()
	})
	return u
}

func (u *upstream) url() string { return u.server.URL + "/mcp" }

// line is the upstream in a document; more are members.
func (u *upstream) line(key, more string) string {
	if more != "" {
		more = ", " + more
	}
	return fmt.Sprintf("  %s: {url: %q, era: modern%s}\n", key, u.url(), more)
}

// ids names the next tasks.
func (u *upstream) ids(ids ...string) *upstream {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.next = append(u.next, ids...)
	return u
}

// set gives a task more members, raw; its status is theirs if they name one.
func (u *upstream) set(id, members string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.tasks[id] = members
}

// forget makes a task one that never was.
func (u *upstream) forget(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.tasks, id)
}

// fails lets every connection be cut, or no more.
func (u *upstream) fails(down bool) {
	u.mu.Lock()
	u.down = down
	u.mu.Unlock()
	if down {
		u.server.CloseClientConnections()
	}
}

// got is what came of a method; of all that concern one task, if it is named.
func (u *upstream) got(method string, id ...string) (out []arrival) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, a := range u.seen {
		if a.Method == method && (len(id) == 0 || a.Task == id[0]) {
			out = append(out, a)
		}
	}
	return out
}

// heard is how many requests about tasks came.
func (u *upstream) heard() (n int) {
	for _, method := range methods {
		n += len(u.got(method))
	}
	return n
}

// ServeHTTP implements http.Handler.
func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return // the gateway hung up
	}
	body := string(raw)
	x := &exchange{u: u, w: w, r: r, arrival: arrival{
		Method: text(body, "method"), Name: r.Header.Get("Mcp-Name"), Authorization: r.Header.Get("Authorization"),
		ID: at(body, "id"), Params: at(body, "params"), Task: text(body, "params", "taskId"),
		Declared: at(body, "params", "_meta", "io.modelcontextprotocol/clientCapabilities", "extensions", extension) != "",
	}}
	u.mu.Lock()
	down := u.down
	if !down {
		u.seen = append(u.seen, x.arrival)
	}
	u.mu.Unlock()
	if down {
		x.cut()
		return
	}
	if f := u.handler(x.Method); f != nil {
		f(x)
		return
	}
	x.honest()
}

func (u *upstream) handler(method string) func(*exchange) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.on[method]
}

// handle answers a method; nil is the honest answer.
func (u *upstream) handle(method string, f func(*exchange)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.on[method] = f
}

// lives is the raw lifetime of every task from now on.
func (u *upstream) lives(life string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.life = life
}

// slows answers tasks/get only after a time.
func (u *upstream) slows(d time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.waits = d
}

// honest is what the upstream does of itself.
func (x *exchange) honest() {
	u := x.u
	switch {
	case x.ID == "":
		x.w.WriteHeader(http.StatusAccepted)
	case x.Method == "server/discover":
		caps := `"tools":{},"extensions":{"` + extension + `":{}}`
		if u.plain {
			caps = `"tools":{}`
		}
		x.result(`{"supportedVersions":["` + modernVersion + `"],"capabilities":{` + caps + `},"serverInfo":{"name":"up","version":"1"},"ttlMs":1000,"cacheScope":"public"}`)
	case x.Method == "tools/list":
		var items []string
		for _, name := range u.tools {
			items = append(items, `{"name":`+quote(name)+`,"inputSchema":{"type":"object"}}`)
		}
		x.result(`{"tools":[` + strings.Join(items, ",") + `],"ttlMs":60000,"cacheScope":"public"}`)
	case x.Method == "tools/call" && x.Declared && !u.plain:
		x.task()
	case x.Method == "tools/call":
		x.result(`{"content":[{"type":"text","text":"done at once"}]}`)
	case x.Method == "tasks/get", x.Method == "tasks/update", x.Method == "tasks/cancel":
		u.mu.Lock()
		waits := u.waits
		u.mu.Unlock()
		if x.Method == "tasks/get" {
			x.pause(waits)
		}
		u.mu.Lock()
		members, known := u.tasks[x.Task]
		life := u.life
		u.mu.Unlock()
		switch {
		case !known:
			x.fail(invalidParams, u.name+" knows no such task")
		case x.Method == "tasks/get":
			x.result(`{"resultType":"complete",` + taskOf(x.Task, life, members) + `}`)
		default:
			x.result(`{}`)
		}
	default:
		x.fail(methodNotFound, "no such method")
	}
}

// task makes a task of a call.
func (x *exchange) task() {
	id, life := x.u.make()
	x.result(`{"resultType":"task",` + taskOf(id, life, "") + `}`)
}

// make makes a task.
func (u *upstream) make() (id, life string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.minted++
	id = fmt.Sprintf("%s-task-%d", u.name, u.minted)
	if len(u.next) > 0 {
		id, u.next = u.next[0], u.next[1:]
	}
	u.tasks[id] = ""
	return id, u.life
}

// latest is the task that it made last.
func (u *upstream) latest() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return fmt.Sprintf("%s-task-%d", u.name, u.minted)
}

// taskOf are the members of a task.
func taskOf(id, life, more string) string {
	out := `"taskId":` + quote(id)
	if !strings.Contains(more, `"status":`) {
		out += `,"status":"working"`
	}
	if !strings.Contains(life+more, `"createdAt":`) {
		out += `,"createdAt":"` + time.Now().UTC().Format("2006-01-02T15:04:05.000Z") + `"`
	}
	out += `,"lastUpdatedAt":"` + time.Now().UTC().Format("2006-01-02T15:04:05.000Z") + `","pollIntervalMs":100`
	if life != "" {
		out += "," + life
	}
	if more != "" {
		out += "," + more
	}
	return out
}

// pause lets time pass, unless the gateway hangs up.
func (x *exchange) pause(d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-x.r.Context().Done():
	case <-x.u.closed:
	}
}

// result answers with a raw object, which is complete unless it says otherwise.
func (x *exchange) result(raw string) {
	if !strings.Contains(raw, `"resultType"`) {
		sep := ","
		if raw == "{}" {
			sep = ""
		}
		raw = `{"resultType":"complete"` + sep + raw[1:]
	}
	x.message(http.StatusOK, `{"jsonrpc":"2.0","id":`+x.ID+`,"result":`+raw+`}`)
}

func (x *exchange) fail(code int, said string) {
	status := http.StatusOK
	if code == methodNotFound {
		status = http.StatusNotFound
	}
	x.message(status, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`, x.ID, code, quote(said)))
}

// message answers with exact bytes.
func (x *exchange) message(status int, raw string) {
	if x.u.sse && status == http.StatusOK && x.Method != "server/discover" {
		x.w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(x.w, "event: message\ndata: "+raw+"\n\n")
		return
	}
	x.w.Header().Set("Content-Type", "application/json")
	x.w.WriteHeader(status)
	_, _ = io.WriteString(x.w, raw)
}

// cut ends the connection without an answer.
func (x *exchange) cut() {
	c, _, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}
