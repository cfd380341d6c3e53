package qualify

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"sync"

	"github.com/penstock-mcp/penstock/internal/durable"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/store"
	"github.com/penstock-mcp/penstock/internal/store/engine"
)

// coordinator is what a router asks: a *durable.Coordinator.
type coordinator interface {
	Run(ctx context.Context)
	Lease(ctx context.Context, g *durable.Grant) (json.RawMessage, error)
	Submit(ctx context.Context, s *durable.Submit) (json.RawMessage, error)
	Get(ctx context.Context, who durable.Caller, id string) (json.RawMessage, error)
	Cancel(ctx context.Context, who durable.Caller, id string) (json.RawMessage, error)
	Update(ctx context.Context, who durable.Caller, id string, params json.RawMessage) (json.RawMessage, error)
}

// router is one life of the router over the file: a store, a coordinator and a
// caller's connection. close ends all of it.
type router struct {
	routes store.Routes // to see what is persisted
	inner  coordinator
	who    durable.Caller
	target durable.Target
	conn   net.Conn // the router's end
	stop   context.CancelFunc
	life   sync.WaitGroup // of what runs until stop and the end of conn
	store  *engine.Store
}

// openRouter opens the file and returns a router with the caller that is
// connected to it.
func (q *qualification) openRouter(ctx context.Context) (*router, *caller, error) {
	s, err := engine.Open(ctx, engine.Options{URL: "sqlite:" + q.file})
	if err != nil {
		return nil, nil, err
	}
	near, far := net.Pipe()
	running, stop := context.WithCancel(ctx)
	r := &router{
		routes: s.Routes(), who: q.who, target: q.target, conn: far, stop: stop, store: s,
		inner: q.seams.router(durable.New(durable.Options{
			Routes: s.Routes(), Leases: s.Leases(), Sources: q.seams.sources(q.source), Instance: durable.NewInstanceID(),
		})),
	}
	r.life.Go(func() { r.inner.Run(running) })
	r.life.Go(func() { r.serve(running) })
	return r, newCaller(near), nil
}

// close ends the router behind the request that it is at, and the store behind
// that.
func (r *router) close() error {
	_ = r.conn.Close() // a pipe
	r.stop()
	r.life.Wait()
	return r.store.Close()
}

// request is what a caller sends.
type request struct {
	Version string          `json:"jsonrpc"`
	ID      int             `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
}

// response is what it gets.
type response struct {
	Version string          `json:"jsonrpc"`
	ID      int             `json:"id"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *rpcError) Error() string { return e.Message }

// serve answers one request after the other until its caller goes. A request
// that was begun is finished, whether its caller waits or not.
func (r *router) serve(ctx context.Context) {
	lines := bufio.NewScanner(r.conn)
	for lines.Scan() {
		var q request
		if json.Unmarshal(lines.Bytes(), &q) != nil {
			return
		}
		out := response{Version: "2.0", ID: q.ID}
		result, err := r.answer(context.WithoutCancel(ctx), &q)
		if err == nil {
			out.Result = result
		} else if out.Result, out.Error = refused(err); out.Error == nil && out.Result == nil {
			return
		}
		line, err := json.Marshal(out)
		if err != nil {
			return
		}
		if _, err := r.conn.Write(append(line, '\n')); err != nil {
			return
		}
	}
}

// refused is the form that a refusal has for a caller (contract 1.2).
func refused(err error) (json.RawMessage, *rpcError) {
	var f *durable.Refusal
	if errors.Is(err, durable.ErrNoTask) {
		return nil, &rpcError{-32602, "Task not found"}
	}
	if !errors.As(err, &f) {
		return nil, &rpcError{-32603, err.Error()}
	}
	switch f.Channel {
	case durable.InvalidParams:
		return nil, &rpcError{-32602, f.Code}
	case durable.Failure:
		return nil, &rpcError{-32603, f.Code}
	}
	out, err := json.Marshal(map[string]any{"isError": true, "content": []any{}, "structuredContent": map[string]string{"code": f.Code}})
	if err != nil {
		return nil, &rpcError{-32603, err.Error()}
	}
	return out, nil
}

func (r *router) answer(ctx context.Context, q *request) (json.RawMessage, error) {
	if q.Method == mcp.ToolsCall {
		return r.tool(ctx, q.Params)
	}
	var p struct {
		ID string `json:"taskId"`
	}
	if err := json.Unmarshal(q.Params, &p); err != nil {
		return nil, &rpcError{-32602, "taskId is a string"}
	}
	switch q.Method {
	case mcp.TasksGet:
		return r.inner.Get(ctx, r.who, p.ID)
	case mcp.TasksCancel:
		return r.inner.Cancel(ctx, r.who, p.ID)
	case mcp.TasksUpdate:
		return r.inner.Update(ctx, r.who, p.ID, q.Params)
	}
	return nil, &rpcError{-32601, "unknown method " + q.Method}
}

// tool answers the two meta-tools that a durable caller needs.
func (r *router) tool(ctx context.Context, params json.RawMessage) (json.RawMessage, error) {
	var p struct {
		Name      string `json:"name"`
		Arguments struct {
			// of a lease
			Aliases     []string        `json:"aliases"`
			TTL         json.RawMessage `json:"ttlMs"`
			SideEffects json.RawMessage `json:"sideEffects"`
			// of a submission
			LeaseID   string          `json:"leaseId"`
			Alias     string          `json:"alias"`
			Arguments json.RawMessage `json:"arguments"`
			Task      json.RawMessage `json:"task"`
		} `json:"arguments"`
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, &rpcError{-32602, "params: " + err.Error()}
	}
	const words = durable.Penstock
	a := &p.Arguments
	switch p.Name {
	case words.Tool("lease"):
		if len(a.Aliases) != 1 || a.Aliases[0] != r.target.Alias {
			return nil, &durable.Refusal{Code: words.Code("LEASE_CAPABILITY_OUTSIDE_CONE")}
		}
		granted, err := r.inner.Lease(ctx, &durable.Grant{
			Caller: r.who, Spelling: words, Targets: []durable.Target{r.target}, TTL: a.TTL, SideEffects: a.SideEffects,
		})
		if err != nil {
			return nil, err
		}
		return json.Marshal(map[string]any{"content": []any{}, "structuredContent": granted})
	case words.Tool("submit"):
		if a.Alias != r.target.Alias {
			return nil, &durable.Refusal{Code: words.Code("CAPABILITY_NOT_FOUND")}
		}
		return r.inner.Submit(ctx, &durable.Submit{
			Caller: r.who, Spelling: words, Target: r.target, LeaseID: a.LeaseID, Arguments: a.Arguments, Task: a.Task,
		})
	}
	return nil, &rpcError{-32602, "unknown tool " + p.Name}
}
