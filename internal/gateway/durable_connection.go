package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/penstock-mcp/penstock/internal/catalog"
	"github.com/penstock-mcp/penstock/internal/durable"
	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/south"
	"github.com/penstock-mcp/penstock/internal/wire"
)

const (
	// answerBytes bounds one answer to a durable request.
	answerBytes = 1 << 20
	// hungTime is how long a call must have gone unanswered for its connection to be
	// over. Callers choose how long theirs may take, and must not end the tasks of
	// others by choosing little.
	hungTime = 29 * time.Second
)

// errBroken is a connection that is over: what was sent over it is not asked about
// over another.
var errBroken = errors.New("the connection that the task belongs to is over")

// connection is one runtime connection session with an upstream, or with one
// replica of it: from a discovery whose digest is the pin until its transport
// fails, its process ends, or it offers something else.
type connection struct {
	src  *source
	up   *south.Upstream
	link *south.Link
	info *south.Info // as the upstream was known then; another: it was lost meanwhile

	id                           string
	manifest, snapshot, endpoint durable.Digest
	tools                        map[string]json.RawMessage

	broken  atomic.Bool
	doubted atomic.Bool // it may offer something else by now
}

var _ durable.Connection = (*connection)(nil)

// gone is why nothing can be sent any more.
func (c *connection) gone() error {
	if c.broken.Load() || c.link.Over() || !c.link.Child() && c.up.Info() != c.info {
		c.broken.Store(true)
		return errBroken
	}
	return nil
}

// Session implements durable.Connection.
func (c *connection) Session() string { return c.id }

// Stateless implements durable.Connection.
func (c *connection) Stateless() bool { return !c.link.Child() && !c.up.IssuesSessions() }

// Endpoint implements durable.Connection.
func (c *connection) Endpoint() durable.Digest { return c.endpoint }

// Snapshot implements durable.Connection.
func (c *connection) Snapshot() durable.Digest { return c.snapshot }

// Configuration implements durable.Connection.
func (c *connection) Configuration() durable.Digest { return c.src.configuration }

// Tool implements durable.Connection.
func (c *connection) Tool(name string) (json.RawMessage, bool) {
	t, ok := c.tools[name]
	return t, ok
}

// Send implements durable.Connection. A call takes its turn among the upstream's
// calls; what is about a task that runs already does not wait for them.
func (c *connection) Send(ctx context.Context, method, name string, params json.RawMessage, fence func() error) durable.Reply {
	if err := c.gone(); err != nil {
		return durable.Reply{Fault: err, Unsent: true}
	}
	body, err := withDurableMeta(params, c.src.self)
	if err != nil {
		return durable.Reply{Fault: err, Unsent: true}
	}
	id := c.link.NextID(nil)
	msg := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	msg = append(append(append(msg, `,"method":"`...), method...), `","params":`...)
	msg = append(append(msg, body...), '}')
	var left atomic.Bool // what leaves, leaves behind the fence
	call := method == mcp.ToolsCall
	r := south.Request{
		Method: method, Name: mcp.EncodeHeader(name), ID: id, Body: msg, Beside: !call, Aside: !call, Timeout: remaining(ctx),
		Fence: func() error {
			err := c.gone()
			if err == nil && fence != nil {
				err = fence()
			}
			if err == nil {
				left.Store(true)
			}
			return err
		},
	}
	if call && !c.link.Child() {
		if r.Params, err = mirrored(c.tools[name], params); err != nil {
			return durable.Reply{Fault: err, Unsent: true}
		}
	}
	began := time.Now()
	a, err := c.link.Send(ctx, &r)
	c.src.told(method, callOutcome(err), time.Since(began))
	if err != nil {
		c.suffer(ctx, err, call && left.Load() && time.Since(began) >= hungTime)
		return durable.Reply{Fault: err, Unsent: !left.Load()}
	}
	defer a.Close()
	whole, err := holdWithin(a, answerBytes)
	if err != nil {
		c.suffer(ctx, err, call && left.Load() && time.Since(began) >= hungTime)
		return durable.Reply{Fault: err}
	}
	if s := &a.Scan; s.Error.Ok() {
		return durable.Reply{Error: remoteError(s, whole)}
	}
	return durable.Reply{Result: bytes.Clone(a.Scan.Result.Of(whole))}
}

// suffer ends the connection where its transport failed, or a call hung. That a poll
// is slow ends nothing.
func (c *connection) suffer(ctx context.Context, err error, hung bool) {
	var held *south.FencedError
	switch {
	case errors.As(err, &held), south.Answered(err):
		return
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		if !hung {
			return
		}
	case ctx.Err() != nil:
		return
	default:
		switch fault.From(err).Code {
		case fault.ConnectionLost, fault.UpstreamTimeout, fault.UpstreamUnavailable:
		default:
			return
		}
	}
	if !c.broken.Swap(true) {
		c.src.log.Warn("connection for durable tasks is over", "upstream", c.src.key, "session", c.id, "error", err)
		c.src.wake()
	}
}

// remaining is the time that ctx leaves, and a little more: it is ctx that ends the
// request.
func remaining(ctx context.Context) time.Duration {
	until, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	return max(time.Until(until), 0) + time.Second
}

func remoteError(s *wire.Answer, whole []byte) *durable.RemoteError {
	e := &durable.RemoteError{Code: int(s.ErrorCode)}
	if m, err := wire.String(s.ErrorMessage.Of(whole)); err == nil {
		e.Message = m
	}
	if data := at(s.Error.Of(whole), dataPath); len(data) > 0 {
		e.Data = bytes.Clone(data)
	}
	return e
}

var (
	dataPath      = []string{"data"}
	argumentsPath = []string{"arguments"}
)

// mirrored are the Mcp-Param headers of a call (checklist 109).
func mirrored(tool, params json.RawMessage) ([]south.Param, error) {
	if len(tool) == 0 {
		return nil, nil
	}
	annotated, err := catalog.HeaderParams(tool)
	if err != nil || len(annotated) == 0 {
		return nil, err
	}
	args := at(params, argumentsPath)
	var out []south.Param
	for i := range annotated {
		p := &annotated[i]
		value, ok, err := mcp.ParamHeader(at(args, p.Path))
		if err != nil {
			return nil, fmt.Errorf("arguments cannot go into header %s%s: %w", mcp.HeaderParamPrefix, p.Header, err)
		}
		if ok {
			out = append(out, south.Param{Name: mcp.HeaderParamPrefix + p.Header, Value: value})
		}
	}
	return out, nil
}
