package north

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// lastWords is how long calls that were cut at the end have to say so.
const lastWords = time.Second

// ServeStdio serves one client that speaks stdio, of either era, on one virtual
// server: lines of in are its messages, and nothing but messages goes to out,
// a line each (checklist 125). Requests are served concurrently.
//
// It returns when in ends or ctx does, after the requests in flight ended or
// drain has passed; nil then. It returns an error when a stream fails. A read of
// in that is under way goes on until its owner closes in.
func (h *Handler) ServeStdio(ctx context.Context, server string, in io.Reader, out io.Writer, drain time.Duration) error {
	c := &stdioConn{h: h, server: server, principal: h.gw.Local(), calls: map[string]*stdioCall{}}
	// The end of ctx is the beginning of the drain, and not the end of the calls.
	c.ctx, c.cut = context.WithCancelCause(context.WithoutCancel(ctx))
	defer c.cut(nil)
	c.streams, c.endStreams = context.WithCancelCause(c.ctx)
	defer c.endStreams(nil)
	c.out = &lineWriter{w: out, broken: c.cut}
	err := c.receive(ctx, in)
	c.drain(drain)
	c.hangUp()
	return err
}

// stdioConn is one client. Its messages are taken by one goroutine; each request
// is served by another.
type stdioConn struct {
	h         *Handler
	server    string
	principal *Principal
	out       *lineWriter
	ctx       context.Context // ends when calls in flight must
	cut       context.CancelCauseFunc
	work      sync.WaitGroup
	session   legacyConn
	standing  bool // the client's standing stream was begun; of the goroutine that takes

	streams    context.Context // of c.ctx; ends when the client wants nothing more
	endStreams context.CancelCauseFunc

	mu    sync.Mutex // guards calls
	calls map[string]*stdioCall
}

// stdioCall is one request in flight.
type stdioCall struct {
	cancel    context.CancelFunc
	cancelled atomic.Bool // by the client: it gets no answer
}

// receive takes messages until the stream, the client or ctx ends.
func (c *stdioConn) receive(ctx context.Context, in io.Reader) error {
	lines := make(chan stdioLine)
	stop := make(chan struct{})
	defer close(stop)
	go readLines(in, c.h.o.RequestBytes, lines, stop)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.ctx.Done():
			return context.Cause(c.ctx)
		case l := <-lines:
			switch {
			case errors.Is(l.err, io.EOF):
				return nil
			case l.err != nil:
				return fmt.Errorf("read from the client: %w", l.err)
			}
			c.take(l)
		}
	}
}

// drain ends the streams, waits for the calls in flight, and ends those that take
// too long.
func (c *stdioConn) drain(within time.Duration) {
	c.endStreams(ErrStreamsEnd)
	done := make(chan struct{})
	go func() {
		c.work.Wait()
		close(done)
	}()
	t := time.NewTimer(within)
	defer t.Stop()
	select {
	case <-done:
		return
	case <-t.C:
	case <-c.ctx.Done():
	}
	c.cut(errStdioEnd)
	last := time.NewTimer(lastWords)
	defer last.Stop()
	select {
	case <-done:
	case <-last.C:
	}
}

// errStdioEnd is why calls end that the drain did not wait for.
var errStdioEnd = errors.New("the gateway is stopping")

// hangUp ends the session of a legacy client.
func (c *stdioConn) hangUp() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	s := c.session.end()
	if s == nil {
		return
	}
	if err := c.h.sessions.Delete(ctx, s.ID); err != nil {
		c.h.o.Log.Debug("session of the stdio client not deleted", "error", err)
	}
	c.h.over(s)
}

// take deals with one line. What changes the connection is done here, in order;
// other requests are only started.
func (c *stdioConn) take(l stdioLine) {
	x := c.exchange()
	if l.over {
		c.refuse(x, c.h.tooLarge())
		return
	}
	raw := bytes.TrimSpace(bytes.TrimPrefix(l.text, []byte("\xef\xbb\xbf")))
	if len(raw) == 0 {
		return
	}
	if wire.IsBatch(raw) {
		c.start(x, nil, func(ctx context.Context) error { return c.batch(ctx, x, raw) })
		return
	}
	x.Trail.In = int64(len(raw))
	if err := wire.Parse(raw, &x.Msg); err != nil {
		c.refuse(x, err)
		return
	}
	m := &x.Msg
	switch {
	case m.Kind == wire.Notification:
		switch m.Method {
		case mcp.Cancelled:
			c.cancel(m.RequestID.Of(m.Raw))
		case mcp.Initialized:
			c.stand()
		}
	case m.Kind == wire.Response:
		if x.Session = c.session.get(); x.Session != nil {
			c.h.responded(x)
		}
	case c.modern(m):
		x.Era, x.Revision = mcp.Modern, mcp.LatestModern
		c.modernRequest(x)
	case m.Method == mcp.Initialize, m.Method == mcp.SetLevel:
		// What comes behind them depends on them.
		c.serve(x, x.ID(), func(ctx context.Context) error { return c.legacy(ctx, x) })
	default:
		c.start(x, x.ID(), func(ctx context.Context) error { return c.legacy(ctx, x) })
	}
}

// refuse answers a message that is not served.
func (c *stdioConn) refuse(x *Exchange, err error) {
	c.h.fail(x, err)
	c.h.record(x)
}

// modernRequest starts a request of a stateless client. A stream takes no place
// among the requests in flight.
func (c *stdioConn) modernRequest(x *Exchange) {
	if known := mcp.LookupMethod([]byte(x.Msg.Method)); known == nil || !known.Stream {
		c.start(x, x.ID(), func(ctx context.Context) error {
			if err := x.validate(); err != nil {
				return err
			}
			return c.h.gw.Serve(ctx, x)
		})
		return
	}
	if err := c.h.gw.Admit(x); err != nil {
		c.refuse(x, err)
		return
	}
	ctx, call := c.register(c.streams, x.ID())
	c.work.Go(func() {
		c.run(ctx, call, x, x.ID(), func(ctx context.Context) error {
			if err := x.validate(); err != nil {
				return err
			}
			return c.h.stream(ctx, x, c.h.gw.Serve)
		})
	})
}

func (c *stdioConn) exchange() *Exchange {
	x := &Exchange{
		Server: c.server, Principal: c.principal, Era: mcp.Legacy, Header: http.Header{}, Headerless: true,
		sessions: c.h.sessions, handler: c.h, out: &lineReply{w: c.out},
	}
	x.Trail.Began = time.Now()
	return x
}

// modern decides by the metadata first and the method second (checklist 5).
func (c *stdioConn) modern(m *wire.Message) bool {
	if m.MetaVersion.Ok() {
		return true
	}
	known := mcp.LookupMethod([]byte(m.Method))
	return known != nil && known.Modern && !known.Legacy && !c.session.open()
}

// start serves a request on a goroutine of its own.
func (c *stdioConn) start(x *Exchange, id []byte, f func(context.Context) error) {
	if err := c.h.admit(x); err != nil {
		c.refuse(x, err)
		return
	}
	ctx, call := c.register(c.ctx, id)
	c.work.Go(func() {
		defer c.principal.release()
		c.run(ctx, call, x, id, f)
	})
}

// serve serves a request before the next line is looked at. Only one is served so at a
// time: it takes no place among the requests in flight.
func (c *stdioConn) serve(x *Exchange, id []byte, f func(context.Context) error) {
	if err := c.h.gw.Admit(x); err != nil {
		c.refuse(x, err)
		return
	}
	ctx, call := c.register(c.ctx, id)
	c.run(ctx, call, x, id, f)
}

func (c *stdioConn) run(ctx context.Context, call *stdioCall, x *Exchange, id []byte, f func(context.Context) error) {
	defer c.forget(id, call)
	defer c.h.record(x)
	defer c.h.survive(x)
	x.out.(*lineReply).muted = &call.cancelled
	err := f(ctx)
	switch {
	case call.cancelled.Load(): // nothing is said of it any more (checklist 35)
		x.Trail.lost(nil)
	case err != nil && ctx.Err() != nil:
		c.h.fail(x, stopped(err))
	default:
		c.h.done(x, err)
	}
}

// register makes a request one that can be cancelled.
func (c *stdioConn) register(within context.Context, id []byte) (context.Context, *stdioCall) {
	ctx, cancel := context.WithCancel(within)
	call := &stdioCall{cancel: cancel}
	if id != nil {
		c.mu.Lock()
		c.calls[idKey(id)] = call
		c.mu.Unlock()
	}
	return ctx, call
}

func (c *stdioConn) forget(id []byte, call *stdioCall) {
	call.cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	if key := idKey(id); c.calls[key] == call {
		delete(c.calls, key)
	}
}

// cancel ends a request in flight. One that is not there any more, or never
// was, is none of our business.
func (c *stdioConn) cancel(id []byte) {
	c.mu.Lock()
	call := c.calls[idKey(id)]
	c.mu.Unlock()
	if call != nil {
		call.cancelled.Store(true)
		call.cancel()
	}
}

// idKey keeps ids of different types apart, and takes one that is written in
// two ways for the same.
func idKey(id []byte) string {
	if len(id) > 0 && id[0] == '"' && bytes.IndexByte(id, '\\') >= 0 {
		if s, err := wire.String(id); err == nil {
			return `"` + s + `"`
		}
	}
	return string(id)
}

// stdioLine is one line of the client, in memory of its own.
type stdioLine struct {
	text []byte
	over bool // it was longer than a request may be, and is gone
	err  error
}

// readLines hands out lines until the stream ends or nobody takes them.
func readLines(in io.Reader, limit int64, lines chan<- stdioLine, stop <-chan struct{}) {
	r := bufio.NewReaderSize(in, usual)
	for {
		l := readLine(r, limit)
		select {
		case lines <- l:
		case <-stop:
			return
		}
		if l.err != nil {
			return
		}
	}
}

// readLine reads one line in bounded memory. A last line without its end counts.
func readLine(r *bufio.Reader, limit int64) stdioLine {
	var l stdioLine
	for {
		part, err := r.ReadSlice('\n')
		if !l.over {
			l.text = append(l.text, part...)
			if int64(len(l.text)) > limit+1 {
				l.over, l.text = true, nil
			}
		}
		switch {
		case err == nil:
			return l
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && (len(l.text) > 0 || l.over):
			return l
		default:
			l.err = err
			return l
		}
	}
}
