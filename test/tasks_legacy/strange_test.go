package taskslegacy_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// strange is a legacy upstream that makes tasks, as a test has it answer.
type strange struct {
	url string
	// say answers a request: notifications that go before the answer, and the answer's
	// own member, such as `"result":{}`.
	say func(method, params string) (before []string, answer string)
	// late answers, after what goes before it was sent, and may take its time; "": as
	// say did. Nil: nothing is late.
	late func(method, params string) string
	// caps are its capabilities.tasks; "": all of them.
	caps string
	// session names the session that there is now, and what is said in another is 404.
	// Nil: there are none.
	session func() string

	mu    sync.Mutex // guards what follows
	got   map[string]int
	heard []string // responses of its client
}

// responses are what its client answered so far.
func (u *strange) responses() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]string(nil), u.heard...)
}

func odd(t *testing.T, say func(method, params string) (before []string, answer string)) *strange {
	t.Helper()
	u := &strange{say: say, got: map[string]int{}}
	h := httptest.NewServer(u)
	u.url = h.URL
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
	})
	return u
}

func (u *strange) times(method string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.got[method]
}

// ServeHTTP implements http.Handler.
func (u *strange) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		http.Error(w, "no", http.StatusMethodNotAllowed)
		return
	}
	var m struct {
		ID     json.RawMessage
		Method string
		Params json.RawMessage
	}
	body, _ := io.ReadAll(r.Body)
	err := json.Unmarshal(body, &m)
	if u.session != nil && m.Method != "initialize" && r.Header.Get("Mcp-Session-Id") != u.session() {
		http.Error(w, "no such session", http.StatusNotFound)
		return
	}
	if err != nil || m.ID == nil || m.Method == "" {
		if m.ID != nil {
			u.mu.Lock()
			u.heard = append(u.heard, string(body))
			u.mu.Unlock()
		}
		w.WriteHeader(http.StatusAccepted)
		return
	}
	u.mu.Lock()
	u.got[m.Method]++
	u.mu.Unlock()
	var before []string
	answer := `"error":{"code":-32601,"message":"no such method"}`
	switch m.Method {
	case "initialize":
		if u.session != nil {
			w.Header().Set("Mcp-Session-Id", u.session())
		}
		answer = `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":` +
			cmp.Or(u.caps, `{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`) + `},"serverInfo":{"name":"odd","version":"1"}}`
	case "tools/list":
		answer = `"result":{"tools":[{"name":"work","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}]}`
	case "ping":
		answer = `"result":{}`
	default:
		if b, a := u.say(m.Method, string(m.Params)); a != "" {
			before, answer = b, a
		}
	}
	if m.Method != "tools/call" && m.Method != "tasks/result" {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, answer)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, b := range before {
		_, _ = fmt.Fprintf(w, "data: %s\n\n", b)
	}
	if u.late != nil {
		_ = http.NewResponseController(w).Flush()
		answer = cmp.Or(u.late(m.Method, string(m.Params)), answer)
	}
	_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,%s}\n\n", m.ID, answer)
}

func working(id string) string {
	return `{"taskId":"` + id + `","status":"working","createdAt":"2026-11-30T10:00:00Z","lastUpdatedAt":"2026-11-30T10:00:00Z","ttl":null}`
}

const work = `{"name":"odd__work","arguments":{},"task":{}}`

func TestProgressOfATaskKeepsTheTokenOfItsCall(t *testing.T) {
	var mu sync.Mutex
	token := ""
	up := odd(t, func(method, params string) ([]string, string) {
		mu.Lock()
		defer mu.Unlock()
		switch method {
		case "tools/call":
			var p struct {
				Meta struct {
					ProgressToken json.RawMessage `json:"progressToken"`
				} `json:"_meta"`
			}
			_ = json.Unmarshal([]byte(params), &p)
			token = string(p.Meta.ProgressToken)
			return nil, `"result":{"task":` + working("t1") + `}`
		case "tasks/result":
			return []string{
				`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + token + `,"progress":7}}`,
				`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"another","progress":8}}`,
			}, `"result":{"content":[]}`
		}
		return nil, ""
	})
	h := serve(t, map[string]string{"odd": up.url})
	c := h.http(t, legacy, "")
	c.made(t, `{"name":"odd__work","arguments":{},"task":{},"_meta":{"progressToken":"mine"}}`)
	a := c.call(t, "tasks/result", `{"taskId":"t1"}`)
	if !strings.Contains(a.raw, `"io.modelcontextprotocol/related-task":{"taskId":"t1"}`) {
		t.Errorf("tasks/result: %s", a.raw)
	}
	if p := c.heard("notifications/progress"); len(p) != 1 || !strings.Contains(p[0].raw, `"progressToken":"mine","progress":7`) {
		t.Errorf("progress came %d times", len(p))
	}
	other := h.http(t, legacy, "")
	other.call(t, "tasks/result", `{"taskId":"t1"}`)
	if p := other.heard("notifications/progress"); len(p) != 0 {
		t.Errorf("another session was told of it: %s", p[0].raw)
	}
}

func TestWhatAnUpstreamSaysOfTasksReachesTheirOwnerAlone(t *testing.T) {
	status := func(id string) string {
		return `{"jsonrpc":"2.0","method":"notifications/tasks/status","params":` + working(id) + `}`
	}
	up := odd(t, func(method, params string) ([]string, string) {
		switch {
		case method != "tools/call":
			return nil, ""
		case strings.Contains(params, `"task"`):
			return nil, `"result":{"task":` + working("own") + `}`
		}
		return []string{status("own"), status("nobody's"), status("")}, `"result":{"content":[]}`
	})
	h := serve(t, map[string]string{"odd": up.url})
	c := h.http(t, legacy, "")
	c.made(t, work)
	c.call(t, "tools/call", `{"name":"odd__work","arguments":{}}`)
	if s := c.heard("notifications/tasks/status"); len(s) != 1 || !strings.Contains(s[0].raw, `"taskId":"own"`) {
		t.Errorf("the owner was told %d times", len(s))
	}
	for _, revision := range []string{"2025-06-18", modern} {
		old := h.http(t, revision, "")
		old.call(t, "tools/call", `{"name":"odd__work","arguments":{}}`)
		if s := old.heard("notifications/tasks/status"); len(s) != 0 {
			t.Errorf("a client of %s was told", revision)
		}
	}
}

func TestATaskWithinALargeAnswerIsOwnedBeforeAnybodySeesIt(t *testing.T) {
	pad := `"_meta":{"x":"` + strings.Repeat("x", 300<<10) + `"}`
	up := odd(t, func(method, _ string) ([]string, string) {
		switch method {
		case "tools/call":
			return nil, `"result":{` + pad + `,"task":` + working("large") + `}`
		case "tasks/get":
			return nil, `"result":` + working("large")
		}
		return nil, ""
	})
	h := serve(t, map[string]string{"odd": up.url})
	c := h.http(t, legacy, "")
	if id := c.made(t, work); c.status(t, id) != "working" {
		t.Error("the task is not known")
	}
}

func TestAHostileListOrClaimTeachesNothing(t *testing.T) {
	up := odd(t, func(method, params string) ([]string, string) {
		switch method {
		case "tools/call":
			return nil, `"result":{"task":` + working("own") + `}`
		case "tasks/list":
			return nil, `"result":{"tasks":[` + working("stolen") + `]}`
		case "tasks/get":
			return nil, `"result":` + working("stolen")
		}
		return nil, ""
	})
	h := serve(t, map[string]string{"odd": up.url})
	c := h.http(t, legacy, "")
	c.made(t, work)
	a := c.call(t, "tasks/list", "{}")
	if strings.Contains(a.raw, "stolen") || !strings.Contains(a.raw, `"penstock/partial":[{"upstream":"odd"`) || up.times("tasks/list") != 0 {
		t.Errorf("tasks/list: %s", a.raw)
	}
	if a := c.call(t, "tasks/get", `{"taskId":"own"}`); a.code() != -31007 {
		t.Errorf("an answer for another task: %s", a.raw)
	}
}

func TestATaskOfAnIDThatIsTakenIsRefusedAndCancelled(t *testing.T) {
	say := func(method, _ string) ([]string, string) {
		switch method {
		case "tools/call":
			return nil, `"result":{"task":` + working("same") + `}`
		case "tasks/get", "tasks/cancel":
			return nil, `"result":` + working("same")
		}
		return nil, ""
	}
	one, two := odd(t, say), odd(t, say)
	h := serve(t, map[string]string{"odd": one.url, "two": two.url})
	c := h.http(t, legacy, "")
	c.made(t, work)
	a := c.call(t, "tools/call", `{"name":"two__work","arguments":{},"task":{}}`)
	if a.code() != -31006 || two.times("tasks/cancel") != 1 || one.times("tasks/cancel") != 0 {
		t.Errorf("%d and %d tasks/cancel: %s", one.times("tasks/cancel"), two.times("tasks/cancel"), a.raw)
	}
	c.call(t, "tasks/get", `{"taskId":"same"}`)
	if two.times("tasks/get") != 0 {
		t.Error("the task is asked for at the wrong upstream")
	}
}

func TestWithoutRoomForATaskNothingRuns(t *testing.T) {
	up := odd(t, func(method, _ string) ([]string, string) {
		return nil, `"result":{"task":` + working("first") + `}`
	})
	h := serve(t, map[string]string{"odd": up.url}, "tasks: {max_per_principal: 1}")
	c := h.http(t, legacy, "")
	c.made(t, work)
	if a := c.call(t, "tools/call", work); a.code() != -31009 || up.times("tools/call") != 1 {
		t.Errorf("%d calls ran: %s", up.times("tools/call"), a.raw)
	}
}

func TestAnOwnerThatIsDownIsNotATaskThatIsGone(t *testing.T) {
	var down atomic.Bool
	up := odd(t, func(string, string) ([]string, string) {
		if down.Load() {
			panic(http.ErrAbortHandler)
		}
		return nil, `"result":{"task":` + working("t1") + `}`
	})
	h := serve(t, map[string]string{"odd": up.url})
	c := h.http(t, legacy, "")
	c.made(t, work)
	down.Store(true)
	if a := c.call(t, "tasks/get", `{"taskId":"t1"}`); a.code() != -31003 && a.code() != -31001 {
		t.Errorf("tasks/get: %s", a.raw)
	}
}
