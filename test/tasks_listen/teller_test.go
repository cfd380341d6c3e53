package tasks_listen_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// teller is an upstream that says what the test has it say: every call makes the
// task of the next id, and every listen is acknowledged all it asks for.
type teller struct {
	t   *testing.T
	url string

	mu      sync.Mutex // guards what follows
	ids     []string
	states  map[string]string // by id: members of its task
	listens []*telling
	asked   []string // bodies of subscriptions/listen
	gets    int
	bearers map[string]bool // Authorization headers of listens and polls
}

// telling is one open listen.
type telling struct {
	id   string
	out  chan string
	gone chan struct{}
}

func newTeller(t *testing.T, ids ...string) *teller {
	u := &teller{t: t, ids: ids, states: map[string]string{}, bearers: map[string]bool{}}
	srv := httptest.NewServer(u)
	u.url = srv.URL + "/mcp"
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	return u
}

// members of a task.
func stands(id, status, more string) string {
	return fmt.Sprintf(`"taskId":%q,"status":%q,"createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttlMs":null,"pollIntervalMs":60000%s`, id, status, more)
}

func (u *teller) set(id, members string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.states[id] = members
}

// tell sends params on every open listen, with its tag.
func (u *teller) tell(params string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, l := range u.listens {
		msg := fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/tasks","params":{%s,"_meta":{%q:%s,"vendor":1}}}`, params, subID, l.id)
		select {
		case l.out <- msg:
		case <-l.gone:
		}
	}
}

// heard waits until a listen for that id is open.
func (u *teller) heard(id string) {
	u.t.Helper()
	wait(u.t, "a listen for "+id, func() bool {
		u.mu.Lock()
		defer u.mu.Unlock()
		return len(u.listens) > 0 && strings.Contains(u.asked[len(u.asked)-1], `"`+id+`"`)
	})
}

func (u *teller) open() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.listens)
}

func (u *teller) polls() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.gets
}

func (u *teller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	m := read[struct {
		ID     jsontext.Value `json:"id"`
		Method string         `json:"method"`
		Params struct {
			TaskID string         `json:"taskId"`
			Notes  jsontext.Value `json:"notifications"`
		} `json:"params"`
	}](u.t, raw)
	w.Header().Set("Content-Type", "application/json")
	answer := func(result string) {
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{%s}}`, m.ID, result)
	}
	u.mu.Lock()
	if m.Method == "subscriptions/listen" || m.Method == "tasks/get" {
		u.bearers[r.Header.Get("Authorization")] = true
	}
	u.mu.Unlock()
	switch m.Method {
	case "server/discover":
		answer(`"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}},"ttlMs":60000,"cacheScope":"public"`)
	case "tools/list":
		answer(`"resultType":"complete","tools":[{"name":"work","inputSchema":{"type":"object"}}],"ttlMs":60000,"cacheScope":"public"`)
	case "tools/call":
		u.mu.Lock()
		id := u.ids[0]
		u.ids = u.ids[1:]
		if u.states[id] == "" {
			u.states[id] = stands(id, "working", "")
		}
		state := u.states[id]
		u.mu.Unlock()
		answer(`"resultType":"task",` + state)
	case "tasks/get":
		u.mu.Lock()
		u.gets++
		state := u.states[m.Params.TaskID]
		u.mu.Unlock()
		if state == "" {
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"task not found"}}`, m.ID)
			return
		}
		answer(`"resultType":"complete",` + state)
	case "subscriptions/listen":
		u.listen(w, r, string(m.ID), string(m.Params.Notes), string(raw))
	default:
		answer(`"resultType":"complete"`)
	}
}

func (u *teller) listen(w http.ResponseWriter, r *http.Request, id, notes, body string) {
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\",\"params\":{\"_meta\":{%q:%s},\"notifications\":%s}}\n\n", subID, id, notes)
	_ = control.Flush()
	l := &telling{id: id, out: make(chan string), gone: make(chan struct{})}
	u.mu.Lock()
	u.listens = append(u.listens, l)
	u.asked = append(u.asked, body)
	u.mu.Unlock()
	defer func() {
		close(l.gone)
		u.mu.Lock()
		defer u.mu.Unlock()
		for i, other := range u.listens {
			if other == l {
				u.listens = append(u.listens[:i:i], u.listens[i+1:]...)
			}
		}
	}()
	for {
		select {
		case msg := <-l.out:
			_, _ = fmt.Fprintf(w, "data: %s\n\n", msg)
			_ = control.Flush()
		case <-r.Context().Done():
			return
		}
	}
}
