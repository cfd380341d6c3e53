package gateway

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/penstock-mcp/penstock/internal/catalog"
	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/north"
	"github.com/penstock-mcp/penstock/internal/south"
	"github.com/penstock-mcp/penstock/internal/store"
	"github.com/penstock-mcp/penstock/internal/wire"
)

var (
	legacyTasksPath = []string{"tasks"}
	taskCallsPath   = []string{"tasks", "requests", "tools", "call"}
)

// speaksLegacyTasks reports whether what a legacy upstream declared has it make
// tasks of calls.
func speaksLegacyTasks(caps []byte) bool {
	v := at(caps, taskCallsPath)
	return len(v) > 0 && v[0] == '{'
}

// makesTasks reports whether an upstream makes tasks in the dialect of its era.
func makesTasks(i *south.Info) bool {
	if i.Era == mcp.Modern {
		return speaksTasks(i.Capabilities)
	}
	return i.Revision == mcp.V20251125 && speaksLegacyTasks(i.Capabilities)
}

// servesTasks refuses requests about tasks of legacy clients where there can be no
// task of their dialect: its one revision is 2025-11-25, and some upstream that the
// caller may reach has to make tasks. One that was never heard of may.
func (g *Gateway) servesTasks(x *north.Exchange, v *server) error {
	if x.Era != mcp.Legacy {
		return nil
	}
	if x.Revision == mcp.V20251125 && (x.Method.Name != mcp.TasksList || x.Principal.Key != anonymous) {
		who := g.sees(x, v)
		for _, m := range v.members {
			i := m.south.Info()
			if i != nil && (i.Era != mcp.Legacy || !makesTasks(i)) {
				continue
			}
			if who == nil || who.Reaches(m.key, mcp.Tools) {
				return nil
			}
		}
	}
	return fault.New(fault.MethodNotFound, "method %q is not served", x.Msg.Method)
}

// asksForTask reports whether a legacy client wants a task made of its call that the
// upstream can make. Where a tool is known to forbid it nothing runs (checklist 102).
func (o *outbound) asksForTask(m *member) (bool, error) {
	raw := o.x.Msg.Task.Of(o.x.Msg.Raw)
	if o.x.Revision != mcp.V20251125 || len(raw) == 0 || string(raw) == "null" || !m.minting(o.link) {
		return false, nil
	}
	if o.t.Known && o.t.Tasks == "" {
		return false, fault.New(fault.MethodNotFound, "tool %q cannot be called as a task", o.exposedInMessage()).
			WithHint("call it without params.task")
	}
	return true, nil
}

// hearsTasks reports whether the stream of this call may bring what is said of the
// client's tasks.
func (o *outbound) hearsTasks(m *member) bool {
	return o.x.Era == mcp.Legacy && o.link.Era == mcp.Legacy && o.x.Revision == mcp.V20251125 && m.minting(o.link)
}

// awaitOwner serves tasks/result: like a call, which may take long, whose client may
// be asked meanwhile, and whose answer is that of the tool.
func (g *Gateway) awaitOwner(ctx context.Context, x *north.Exchange, v *server, m *member, rec *store.Task, t *catalog.Target, id string) error {
	link, err := g.reach(ctx, x, v, m, rec)
	if err != nil {
		return err
	}
	aimed := *t
	aimed.ID, aimed.Exposed, aimed.Params = id, id, nil
	buf := getBuffer()
	defer putBuffer(buf)
	o := outbounds.Get().(*outbound)
	defer o.free()
	o.g, o.x, o.v, o.t, o.origin, o.link, o.name = g, x, v, &aimed, t, link, x.Msg.TaskID
	o.longest = time.Duration(g.doc.Limits.CallTimeoutMax)
	_, err = o.send(ctx, m, g.southKey(v, x), buf)
	return misaddressed(m, err)
}

// judgedAgain refuses what a task brings after a wait, if its caller may not see the
// tool any more under the document that holds now (DESIGN section 9).
func (g *Gateway) judgedAgain(x *north.Exchange, t *catalog.Target) error {
	now := g.follows.now.Load()
	if now == nil {
		now = g
	}
	if now.policy == nil {
		return nil
	}
	v := now.servers[x.Server]
	if v != nil && now.shows(v, now.scope(x), now.sees(x, v), t) {
		return nil
	}
	x.Trail.Decision, x.Trail.Detail = "hidden", "the tool that the task came from is not allowed any more"
	g.metrics.Task("denied")
	return fault.New(fault.PolicyDenied, "the tool that the task came from is not allowed any more").WithHint("its result is withheld")
}

// misaddressed is an owner's refusal of the gateway's own headers, which for a task
// there is no other way around.
func misaddressed(m *member, err error) error {
	var stale *staleError
	if errors.As(err, &stale) {
		return fault.Wrap(err, fault.InvalidAnswer, "upstream %q refuses the gateway's own headers with code %d", m.key, int(stale.code)).
			WithHint("tell the upstream's owner")
	}
	return err
}

// relatedTask is the value of _meta that ties a message to a task; id is raw.
func relatedTask(id []byte) []byte {
	b := append(make([]byte, 0, len(id)+12), `{"taskId":`...)
	return append(append(b, id...), '}')
}

// statusTime bounds the look for who owns a task whose upstream tells of it.
const statusTime = 2 * time.Second

// isOwn reports whether what an upstream says of a task on this call's stream is for
// this client: the task is its principal's, at this upstream, of a tool that it may
// see still.
func (o *outbound) isOwn(s *wire.Answer) bool {
	if o.x.Era != mcp.Legacy || o.x.Revision != mcp.V20251125 {
		return false
	}
	id, err := wire.String(at(s.Params.Of(s.Raw), taskIDPath))
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), statusTime)
	defer cancel()
	rec, _, err := o.g.tasks.Find(ctx, id, o.x.Principal.Key)
	if err != nil || !rec.Legacy {
		return false
	}
	m, err := o.g.ownerOf(o.v, rec)
	if err != nil || m.key != o.t.Upstream {
		return false
	}
	t := o.v.origin(rec, m)
	return o.g.shows(o.v, o.g.scope(o.x), o.g.sees(o.x, o.v), &t)
}

// maxTokens bounds the progress tokens that are remembered beyond their calls.
const maxTokens = 4096

// tokens are the progress tokens of legacy calls that became tasks: they stay good
// for as long as the task runs. They are of this process alone; the oldest makes
// room. It is safe for concurrent use; the zero value is empty.
type tokens struct {
	mu    sync.Mutex // guards what follows
	by    map[tokenKey][]byte
	order []tokenKey // oldest first
}

// tokenKey is a progress token as an upstream knows it, and the session it is for.
type tokenKey struct{ upstream, session, token string }

// keep remembers what a client calls a token.
func (t *tokens) keep(k tokenKey, northern []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.by == nil {
		t.by = map[tokenKey][]byte{}
	}
	if t.by[k] == nil {
		if len(t.order) >= maxTokens {
			delete(t.by, t.order[0])
			t.order = append(t.order[:0:0], t.order[1:]...)
		}
		t.order = append(t.order, k)
	}
	t.by[k] = bytes.Clone(northern)
}

// of returns what a client calls a token, or nil.
func (t *tokens) of(k tokenKey) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.by[k]
}

// northern is the client's own name of a progress token that an upstream uses: this
// call's, or that of a call of the session which became a task; nil: there is none.
func (o *outbound) northern(s *wire.Answer) []byte {
	token := s.ProgressToken.Of(s.Raw)
	if o.token && bytes.Equal(token, o.id) {
		return o.x.Msg.ProgressToken.Of(o.x.Msg.Raw)
	}
	if o.x.Session == nil || o.link.Era != mcp.Legacy {
		return nil
	}
	return o.g.tokens.of(tokenKey{o.t.Upstream, o.x.Session.ID, string(token)})
}
