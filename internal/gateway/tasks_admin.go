package gateway

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/store"
	"github.com/penstock-mcp/penstock/internal/task"
)

// TaskOut is a task as the operator sees it, who sees those of everybody.
type TaskOut struct {
	ID        string     `json:"id,omitempty"` // "" where no sealing key opens it
	Hash      string     `json:"hash"`         // SHA-256 of the id
	Principal string     `json:"principal"`    // the principal key
	Server    string     `json:"server"`
	Upstream  string     `json:"upstream"`
	Tool      string     `json:"tool,omitempty"`
	Exposed   string     `json:"exposed,omitempty"`
	Dialect   string     `json:"dialect"`
	Mark      string     `json:"mark"`
	Located   bool       `json:"located,omitempty"`
	Created   time.Time  `json:"created"`
	Expires   *time.Time `json:"expires,omitempty"` // absent: it has no end
	Used      time.Time  `json:"used"`
}

// TasksOut is one page of tasks, newest first.
type TasksOut struct {
	Tasks []TaskOut `json:"tasks"`
	Next  string    `json:"next,omitempty"`
}

// CancelledOut is what became of an operator's cancel.
type CancelledOut struct {
	Task  TaskOut `json:"task"`
	Error string  `json:"error,omitempty"` // why the upstream was not told
}

const (
	adminPage = 200  // tasks on one page
	adminScan = 5000 // pages that a search for one id looks through
)

// adminTasks adds what `penstock tasks` asks.
func (g *Gateway) adminTasks(mux *http.ServeMux) {
	mux.HandleFunc("GET /tasks", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		after, err := parsePosition(q.Get("after"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		all, err := g.tasks.All(r.Context(), q.Get("upstream"), after, adminPage)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		out := TasksOut{Tasks: []TaskOut{}}
		for _, t := range all {
			out.Tasks = append(out.Tasks, g.taskOut(t))
		}
		if len(all) == adminPage {
			out.Next = formatPosition(all[len(all)-1].Position())
		}
		g.admin(w, out)
	})
	mux.HandleFunc("GET /tasks/show", func(w http.ResponseWriter, r *http.Request) {
		found, err := g.tasksOf(r.Context(), r.URL.Query().Get("id"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		out := TasksOut{Tasks: []TaskOut{}}
		for _, t := range found {
			out.Tasks = append(out.Tasks, g.taskOut(t))
		}
		g.admin(w, out)
	})
	mux.HandleFunc("POST /tasks/cancel", func(w http.ResponseWriter, r *http.Request) {
		id := r.URL.Query().Get("id")
		found, err := g.tasksOf(r.Context(), id)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		out := []CancelledOut{}
		for _, t := range found {
			c := CancelledOut{Task: g.taskOut(t)}
			if err := g.cancelFor(r.Context(), t, id); err != nil {
				c.Error = err.Error()
			} else if err := g.tasks.Mark(r.Context(), t, store.TaskCancelled); err != nil {
				c.Error = "cancelled, and not marked: " + err.Error()
			}
			out = append(out, c)
		}
		g.log.Info("tasks cancelled by the operator", "tasks", len(out))
		g.admin(w, out)
	})
}

func (g *Gateway) admin(w http.ResponseWriter, out any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(out); err != nil {
		g.log.Debug("answer to the operator not written", "error", err)
	}
}

// tasksOf are the records of one id, of all principals.
func (g *Gateway) tasksOf(ctx context.Context, id string) ([]*store.Task, error) {
	hash := task.Hash(id)
	var out []*store.Task
	var after store.TaskPosition
	for range adminScan {
		all, err := g.tasks.All(ctx, "", after, adminPage)
		if err != nil {
			return nil, err
		}
		for _, t := range all {
			if t.Hash == hash {
				out = append(out, t)
			}
		}
		if len(all) < adminPage {
			break
		}
		after = all[len(all)-1].Position()
	}
	return out, nil
}

// errNoOwner is a task whose upstream cannot be told.
var errNoOwner = errors.New("its upstream is not configured any more")

// cancelFor cancels a task in the name of the principal that has it.
func (g *Gateway) cancelFor(ctx context.Context, t *store.Task, id string) error {
	v := g.servers[t.Server]
	if v == nil {
		return errNoOwner
	}
	m, err := g.ownerOf(v, t)
	if err != nil {
		return errNoOwner
	}
	u := m.at(t.Replica)
	if u == nil {
		return errNoOwner
	}
	ctx, cancel := context.WithTimeout(g.within(ctx, g.vault.get(t.Principal)), quietTime)
	defer cancel()
	key := sessionKey(v, t.Principal, "")
	key.Caps = strings.TrimPrefix(t.Session, sessionMark)
	link, err := u.Link(ctx, key)
	if err != nil {
		return err
	}
	a, err := link.Send(ctx, g.ownTaskRequest(link, mcp.TasksCancel, id))
	if err != nil {
		return err
	}
	defer a.Close()
	if a.Scan.Error.Ok() {
		return errors.New("the upstream answered: " + string(a.Scan.ErrorMessage.Of(a.Whole)))
	}
	return nil
}

func (g *Gateway) taskOut(t *store.Task) TaskOut {
	out := TaskOut{
		Hash: hex.EncodeToString(t.Hash[:]), Principal: hex.EncodeToString(t.Principal[:]), Server: t.Server, Upstream: t.Upstream,
		Tool: t.Tool, Exposed: t.Exposed, Dialect: "2026-07-28", Mark: t.Mark.String(), Located: t.Located, Created: t.Created, Used: t.Used,
	}
	if t.Legacy {
		out.Dialect = "2025-11-25"
	}
	if !t.Expires.IsZero() {
		out.Expires = &t.Expires
	}
	if id, err := g.ids.Open(t.Sealed, t.Hash); err == nil {
		out.ID = id
	}
	return out
}

// formatPosition writes a place in the operator's list.
func formatPosition(p store.TaskPosition) string {
	b := binary.BigEndian.AppendUint64(nil, uint64(p.Created.UnixNano()))
	b = append(append(b, p.Hash[:]...), p.Principal[:]...)
	return base64.RawURLEncoding.EncodeToString(b)
}

func parsePosition(s string) (p store.TaskPosition, err error) {
	if s == "" {
		return p, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) != 8+32+32 {
		return p, errors.New("after is no place in the list")
	}
	p.Created = time.Unix(0, int64(binary.BigEndian.Uint64(b)))
	copy(p.Hash[:], b[8:])
	copy(p.Principal[:], b[40:])
	return p, nil
}
