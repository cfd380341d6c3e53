package north

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/store"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// legacyConn is the session of a legacy stdio client: the connection is the
// session, and one handshake opens it.
type legacyConn struct {
	mu sync.Mutex // guards s
	s  *store.Session
}

func (l *legacyConn) get() *store.Session {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.s
}

func (l *legacyConn) set(s *store.Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.s = s
}

func (l *legacyConn) open() bool { return l.get() != nil }

// end returns the session for the last time.
func (l *legacyConn) end() *store.Session {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.s
	l.s = nil
	return s
}

// legacy serves one request of a client with a handshake.
func (c *stdioConn) legacy(ctx context.Context, x *Exchange) error {
	method := x.Msg.Method
	if !c.session.open() {
		switch method {
		case mcp.Initialize:
			err := c.h.initialize(ctx, x)
			c.session.set(x.Session)
			return err
		case mcp.Ping:
			x.Revision = mcp.LatestLegacy
			return x.Result([]byte(`{}`))
		}
		return fault.New(fault.InvalidRequest, "this connection is not initialized").
			WithHint("send initialize first, or the metadata of %s with each request", mcp.LatestModern)
	}
	if method == mcp.Initialize {
		return fault.New(fault.InvalidRequest, "this connection is initialized")
	}
	if err := c.resume(ctx, x); err != nil {
		return err
	}
	if x.Method = mcp.LookupMethod([]byte(method)); x.Method == nil || !x.Method.Legacy {
		return fault.New(fault.MethodNotFound, "method %q is not served", method)
	}
	err := c.h.gw.Serve(ctx, x)
	if method == mcp.SetLevel {
		c.session.set(x.Session)
	}
	return err
}

// resume reads the connection's session, and stores it again when it was idle
// for so long that it expired: the client cannot know, and is still there.
func (c *stdioConn) resume(ctx context.Context, x *Exchange) error {
	known := c.session.get()
	s, err := c.h.sessions.Get(ctx, known.ID)
	if errors.Is(err, store.ErrNotFound) {
		again := *known
		var evicted *store.Session
		if evicted, err = c.h.sessions.Create(ctx, &again); evicted != nil {
			c.h.over(evicted)
		}
		s = &again
	}
	if err != nil {
		return fault.Wrap(err, fault.Internal, "the session cannot be read")
	}
	c.session.set(s)
	x.Session, x.Revision = s, s.Revision
	return nil
}

// batch serves an array of messages within a session of 2025-03-26 (checklist 90).
func (c *stdioConn) batch(ctx context.Context, x *Exchange, raw []byte) error {
	if s := c.session.get(); s == nil || s.Revision != mcp.V20250326 {
		return fault.New(fault.InvalidRequest, "a batch is only taken within a session of %s", mcp.V20250326).WithHint("send one message a line")
	}
	if err := c.resume(ctx, x); err != nil {
		return err
	}
	parts, err := wire.SplitBatch(raw, maxBatch)
	if err != nil {
		return err
	}
	answers := c.h.batchAnswers(ctx, x, parts)
	if len(answers) == 0 {
		return nil
	}
	return x.Reply(http.StatusOK, []byte{'['}, bytes.Join(answers, []byte{','}), []byte{']'})
}
