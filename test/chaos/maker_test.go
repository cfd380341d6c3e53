//go:build linux

package chaos_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// maker is an upstream of one era that makes a task of every call that may be
// one, and keeps them all. It lives in this process: nothing here kills it.
type maker struct {
	legacy bool
	server *httptest.Server

	mu       sync.Mutex // guards what follows
	tasks    map[string]string
	sessions map[string]bool
}

func newMaker(t testing.TB, legacy bool) *maker {
	m := &maker{legacy: legacy, tasks: map[string]string{}, sessions: map[string]bool{}}
	m.server = httptest.NewServer(m)
	t.Cleanup(func() {
		m.server.CloseClientConnections()
		m.server.Close()
	})
	return m
}

// line is the upstream in a document.
func (m *maker) line(key string) string {
	era := "modern"
	if m.legacy {
		era = "legacy"
	}
	return fmt.Sprintf("  %s: {url: %q, era: %s}\n", key, m.server.URL+"/mcp", era)
}

// made are the tasks so far, with the status of each.
func (m *maker) made() map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[string]string{}
	for id, status := range m.tasks {
		all[id] = status
	}
	return all
}

// order is a message as a maker reads it.
type order struct {
	ID     json.RawMessage
	Method string
	Params struct {
		Name   string
		TaskID string
		Task   json.RawMessage
		Meta   struct {
			Caps struct {
				Extensions map[string]json.RawMessage
			} `json:"io.modelcontextprotocol/clientCapabilities"`
		} `json:"_meta"`
	}
}

// ServeHTTP implements http.Handler.
func (m *maker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	session := r.Header.Get("Mcp-Session-Id")
	if r.Method == http.MethodDelete {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	raw, err := io.ReadAll(r.Body)
	var o order
	if err != nil || r.Method != http.MethodPost || json.Unmarshal(raw, &o) != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	switch {
	case !m.legacy:
	case o.Method == "initialize":
		id := rand.Text()
		m.mu.Lock()
		m.sessions[id] = true
		m.mu.Unlock()
		w.Header().Set("Mcp-Session-Id", id)
	case session == "":
		w.WriteHeader(http.StatusBadRequest)
		return
	default:
		m.mu.Lock()
		known := m.sessions[session]
		m.mu.Unlock()
		if !known {
			w.WriteHeader(http.StatusNotFound)
			return
		}
	}
	if o.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	status, member := m.answer(&o)
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, o.ID, member)
}

func (m *maker) answer(o *order) (status int, member string) {
	const info = `"serverInfo":{"name":"maker","version":"1"}`
	switch o.Method {
	case "initialize":
		return 200, `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}},` + info + `}`
	case "server/discover":
		return 200, m.result(`"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"extensions":{"` + tasksExtension + `":{}}},` + info + `,"ttlMs":60000,"cacheScope":"public"`)
	case "tools/list":
		tool := func(name, support string) string {
			if m.legacy {
				return `{"name":"` + name + `","inputSchema":{"type":"object"},"execution":{"taskSupport":"` + support + `"}}`
			}
			return `{"name":"` + name + `","inputSchema":{"type":"object"}}`
		}
		list := `"tools":[` + tool("work", "optional") + `,` + tool("toil", "required") + `]`
		if !m.legacy {
			list += `,"ttlMs":60000,"cacheScope":"public"`
		}
		return 200, m.result(list)
	case "tools/call":
		return m.call(o)
	case "tasks/get", "tasks/cancel":
		m.mu.Lock()
		defer m.mu.Unlock()
		is, known := m.tasks[o.Params.TaskID]
		if !known {
			return 200, `"error":{"code":-32602,"message":"no such task"}`
		}
		if o.Method == "tasks/cancel" {
			is = "cancelled"
			m.tasks[o.Params.TaskID] = is
			if !m.legacy {
				return 200, m.result("")
			}
		}
		return 200, m.result(m.task(o.Params.TaskID, is))
	}
	return 404, `"error":{"code":-32601,"message":"no such method"}`
}

// call makes a task where that may be one; of toil nothing else can be made.
func (m *maker) call(o *order) (status int, member string) {
	_, may := o.Params.Meta.Caps.Extensions[tasksExtension]
	if m.legacy {
		may = len(o.Params.Task) > 0
	}
	if !may {
		if o.Params.Name == "toil" {
			if m.legacy {
				return 200, `"error":{"code":-32601,"message":"this takes a task"}`
			}
			return 400, `"error":{"code":-32021,"message":"this takes a task","data":{"requiredCapabilities":{"extensions":{"` + tasksExtension + `":{}}}}}`
		}
		return 200, m.result(`"content":[{"type":"text","text":"done at once"}]`)
	}
	id := "task-" + rand.Text()
	m.mu.Lock()
	m.tasks[id] = "working"
	m.mu.Unlock()
	if m.legacy {
		return 200, `"result":{"task":{` + m.task(id, "working") + `}}`
	}
	return 200, `"result":{"resultType":"task",` + m.task(id, "working") + `}`
}

func (m *maker) task(id, status string) string {
	now := time.Now().UTC().Format("2006-01-02T15:04:05.000Z")
	life := `"ttlMs":3600000,"pollIntervalMs":100`
	if m.legacy {
		life = `"ttl":3600000,"pollInterval":100`
	}
	return `"taskId":"` + id + `","status":"` + status + `","createdAt":"` + now + `","lastUpdatedAt":"` + now + `",` + life
}

func (m *maker) result(members string) string {
	if m.legacy {
		return `"result":{` + members + `}`
	}
	if members != "" {
		members = "," + members
	}
	return `"result":{"resultType":"complete"` + members + `}`
}
