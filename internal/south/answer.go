package south

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// Answer is the one response to a request. It is used by one goroutine.
type Answer struct {
	// Whole is the message when it was held whole; Scan tells its members.
	Whole []byte
	Scan  wire.Answer
	// Otherwise Head is its beginning and Rest reads the remainder.
	Head []byte
	Rest io.Reader

	u       *Upstream
	id      []byte      // of the request, raw
	verdict func(error) // of the breaker, while it is owed one
	ctx     *callContext
	clock   clock
	slot    bool
	body    io.ReadCloser
	bufs    [2]*[]byte
	closed  bool
	ids     map[string]struct{} // of the upstream's requests so far
	session head                // of the session that the call runs in
}

// newAnswer starts the call's clock.
func newAnswer(ctx context.Context, u *Upstream, timeout time.Duration) *Answer {
	if timeout <= 0 {
		timeout = u.o.Timeout
	}
	both := new(struct {
		answer Answer
		ctx    callContext
	})
	a := &both.answer
	a.u, a.ctx = u, &both.ctx
	a.ctx.begin(ctx)
	a.clock.start(timeout, max(u.o.TimeoutMax, timeout), a.ctx.late)
	return a
}

// ID is the raw id of the request that is answered.
func (a *Answer) ID() []byte { return a.id }

// Answers reports whether a raw id is that of the request.
func (a *Answer) Answers(id []byte) bool {
	if bytes.Equal(id, a.id) {
		return true
	}
	have, err := wire.String(id)
	want, err2 := wire.String(a.id)
	return err == nil && err2 == nil && have == want
}

// Fault turns an error met while reading Rest into one for the client.
func (a *Answer) Fault(err error) error {
	if errors.Is(err, errTooLong) {
		return a.tooLong(err)
	}
	f := a.u.transportFault(a.ctx, err, true)
	a.settle(f)
	return f
}

// settle gives the breaker its verdict on this call, once: a fault of the
// transport, or nil for everything else, such as a caller who left.
func (a *Answer) settle(err error) {
	v := a.verdict
	if v == nil {
		return
	}
	a.verdict = nil
	if err != nil && a.ctx.Err() != nil && !errors.Is(context.Cause(a.ctx), errDeadline) {
		err = nil
	}
	if err != nil {
		err = transportOnly(err)
	}
	v(err)
	if err != nil && a.u.breaker.open() {
		a.u.wake()
	}
}

// More reads on, so that Head grows by at most n bytes. When the message ends
// within them it is Whole, and scanned, and ended is true.
func (a *Answer) More(n int64) (ended bool, err error) {
	if a.Rest == nil {
		return true, nil
	}
	b := bytes.NewBuffer(append(make([]byte, 0, len(a.Head)+bytes.MinRead+int(min(n, growth))), a.Head...))
	got, err := io.CopyN(b, a.Rest, n)
	a.Head = b.Bytes()
	if err == nil && got == n {
		return false, nil
	}
	if !errors.Is(err, io.EOF) {
		return false, a.Fault(err)
	}
	a.Whole, a.Head, a.Rest = a.Head, nil, nil
	if err := wire.Scan(a.Whole, &a.Scan); err != nil {
		return false, a.invalid(err, "upstream %q answered with malformed JSON", a.u.o.Key)
	}
	if !a.Scan.Result.Ok() && !a.Scan.Error.Ok() {
		return false, a.invalid(nil, "upstream %q answered with something that is no response", a.u.o.Key)
	}
	if !a.mine() {
		return false, a.invalid(nil, "upstream %q answered another request than was asked", a.u.o.Key)
	}
	return true, nil
}

// growth is how much room is made ahead of reading on.
const growth = 256 << 10

// Close ends the call: a stream that is still open is closed, which tells a
// modern upstream to stop (checklist 120). It may be called more than once.
func (a *Answer) Close() {
	if a.closed {
		return
	}
	a.closed = true
	a.settle(nil)
	a.shut()
	if a.slot {
		a.u.release()
	}
	a.end()
	a.Whole, a.Head, a.Rest, a.Scan = nil, nil, nil, wire.Answer{}
}

func (a *Answer) end() {
	a.clock.end()
	a.ctx.end(nil)
}

// shut closes the current body and gives its buffers back.
func (a *Answer) shut() {
	if a.body != nil {
		_ = a.body.Close()
		a.body = nil
	}
	for i, b := range a.bufs {
		putWindow(b)
		a.bufs[i] = nil
	}
}

// errAnswered marks a refusal that the upstream gave by itself: it is alive.
var errAnswered = errors.New("the upstream answered")

var errBadGateway = errors.New("the upstream's own gateway failed")

// errTooLong ends an answer beyond limits.response_bytes.
var errTooLong = errors.New("answer exceeds response_bytes")

func (a *Answer) tooLong(err error) error {
	return a.u.tooLong(err)
}

func (a *Answer) invalid(cause error, format string, args ...any) error {
	return a.u.invalid(cause, format, args...)
}

// read takes the answer out of an HTTP response. The head is needed to resume
// a legacy stream.
func (a *Answer) read(l *Link, r *Request, resp *hopResponse, h *head) error {
	a.shut()
	a.id, a.body = r.ID, resp.body
	a.session = head{session: h.session, version: h.version}
	if err := a.acceptable(resp); err != nil {
		return err
	}
	media := resp.contentType
	if media != "application/json" {
		media, _, _ = mime.ParseMediaType(media)
	}
	switch {
	case media == "text/event-stream" && resp.status/100 == 2:
		return a.readEvents(l, r, resp, h)
	case media == "application/json" || strings.HasSuffix(media, "+json"):
		return a.readJSON(l, r, resp)
	}
	return a.refused(resp, media)
}

func (a *Answer) acceptable(resp *hopResponse) error {
	if ce := resp.contentEncoding; ce != "" && !strings.EqualFold(ce, "identity") {
		return a.invalid(nil, "upstream %q answered with Content-Encoding %q, which was not offered", a.u.o.Key, ce)
	}
	if resp.length > a.u.o.ResponseBytes {
		return a.tooLong(errTooLong)
	}
	return nil
}

// refused tells an HTTP answer that is no MCP message.
func (a *Answer) refused(resp *hopResponse, media string) error {
	key := a.u.o.Key
	switch s := resp.status; {
	case (s == http.StatusUnauthorized || s == http.StatusForbidden) && a.u.perCaller():
		// It says nothing of the upstream, nor of any other caller.
		return a.u.fail(fault.Wrap(errAnswered, fault.CredentialFailed, "upstream %q refused the credential of this caller (HTTP %d)", key, s).
			WithHint("nothing ran; sign in again, or ask the operator for access"))
	case s == http.StatusUnauthorized, s == http.StatusForbidden:
		return a.u.fail(fault.Wrap(errAnswered, fault.UpstreamUnavailable, "upstream %q refused the gateway (HTTP %d)", key, s).
			WithHint("the operator must check its credentials"))
	case s == http.StatusTooManyRequests:
		return a.u.fail(fault.Wrap(errAnswered, fault.UpstreamUnavailable, "upstream %q limits the rate of calls (HTTP 429)", key).WithHint("try again later"))
	case s == http.StatusBadGateway, s == http.StatusServiceUnavailable, s == http.StatusGatewayTimeout:
		return a.u.fail(fault.New(fault.UpstreamUnavailable, "upstream %q is not available (HTTP %d)", key, s).WithHint("try again later"))
	case s/100 == 2 && media == "":
		return a.invalid(nil, "upstream %q answered HTTP %d without a message", key, s)
	case s/100 == 2:
		return a.invalid(nil, "upstream %q answered with %s instead of a message", key, media)
	default:
		return a.invalid(nil, "upstream %q answered HTTP %d", key, s)
	}
}

func (a *Answer) readJSON(l *Link, r *Request, resp *hopResponse) error {
	a.bufs[0] = getRoom(resp.length)
	buf := *a.bufs[0]
	n, err := readFull(resp.body, buf, resp.length)
	if err == nil {
		// More than a window: it streams through.
		lead := bytes.TrimLeft(buf[:n], " \t\r\n")
		if len(lead) == 0 || lead[0] != '{' {
			return a.invalid(nil, "upstream %q answered with a large body that is not one message", a.u.o.Key)
		}
		a.Head, a.Rest = buf[:n], &bounded{r: resp.body, left: a.u.o.ResponseBytes - int64(n)}
		return nil
	}
	if !errors.Is(err, io.EOF) {
		return a.u.transportFault(a.ctx, err, true)
	}
	_ = a.body.Close()
	a.body = nil
	if int64(n) > a.u.o.ResponseBytes {
		return a.tooLong(errTooLong)
	}
	done, err := a.take(l, r, buf[:n])
	if err != nil {
		if resp.status/100 != 2 && fault.From(err).Code == fault.InvalidAnswer {
			return a.refused(resp, "application/json")
		}
		return err
	}
	if !done {
		return a.invalid(nil, "upstream %q answered with something else than the response", a.u.o.Key)
	}
	if resp.status/100 != 2 && !a.Scan.Error.Ok() {
		return a.refused(resp, "application/json")
	}
	return nil
}

// readFull reads until b is full (nil) or the body ends (io.EOF). A body that
// ends before its declared length is io.ErrUnexpectedEOF.
func readFull(r io.Reader, b []byte, length int64) (n int, err error) {
	for n < len(b) {
		m, err := r.Read(b[n:])
		n += m
		if err != nil {
			return n, err
		}
		if int64(n) == length {
			return n, io.EOF
		}
	}
	return n, nil
}

// bounded ends with errTooLong instead of reading on for ever.
type bounded struct {
	r    io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		// At the bound a body may only end.
		var one [1]byte
		n, err := b.r.Read(one[:])
		if n == 0 {
			return 0, err
		}
		return 0, errTooLong
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.r.Read(p)
	b.left -= int64(n)
	return n, err
}

// take looks at one whole message, or at a batch of them from a 2025-03-26
// upstream, and reports whether the response was among them.
func (a *Answer) take(l *Link, r *Request, msg []byte) (done bool, err error) {
	if wire.IsBatch(msg) {
		parts, err := wire.SplitBatch(msg, 1000)
		if err != nil {
			return false, a.invalid(err, "upstream %q answered with a malformed batch", a.u.o.Key)
		}
		for _, p := range parts {
			d, err := a.takeOne(l, r, p)
			if err != nil {
				return false, err
			}
			if d {
				return true, nil
			}
		}
		return false, nil
	}
	return a.takeOne(l, r, msg)
}

func (a *Answer) takeOne(l *Link, r *Request, msg []byte) (done bool, err error) {
	s := &a.Scan
	if err := wire.Scan(msg, s); err != nil {
		return false, a.invalid(err, "upstream %q answered with malformed JSON", a.u.o.Key)
	}
	if s.Method.Ok() {
		return false, a.event(l, r, s)
	}
	if !a.mine() {
		if s.Result.Ok() || s.Error.Ok() {
			a.u.Dropped("an upstream answered what this call did not ask; it is dropped")
			return false, nil
		}
		return false, a.invalid(nil, "upstream %q answered with something that is no message", a.u.o.Key)
	}
	if s.Result.Ok() == s.Error.Ok() {
		return false, a.invalid(nil, "upstream %q answered with a response that has not exactly one of result and error", a.u.o.Key)
	}
	a.Whole = msg
	return true, nil
}

// mine reports whether what was scanned answers the request. An error may lack
// the id: the upstream could not read it.
func (a *Answer) mine() bool {
	id := a.Scan.ID.Of(a.Scan.Raw)
	return a.Answers(id) || (a.Scan.Error.Ok() && (len(id) == 0 || string(id) == "null"))
}

// event deals with a notification or a request that arrives before the answer.
func (a *Answer) event(l *Link, r *Request, s *wire.Answer) error {
	if s.ID.Ok() {
		if l.Era == mcp.Legacy {
			return a.asked(a.ctx, l, r, s)
		}
		a.u.Dropped("a modern upstream sent a request; it is dropped")
		return nil
	}
	if string(s.Method.Of(s.Raw)) == progressMethod {
		a.clock.alive() // the upstream is at work
	}
	if r.OnEvent == nil {
		return nil
	}
	return r.OnEvent(s)
}

// asked deals with a request of a legacy upstream while its call runs. The client
// is waited for as long as ctx, which is the call's or ends before it.
func (a *Answer) asked(ctx context.Context, l *Link, r *Request, s *wire.Answer) error {
	if r.OnRequest == nil || string(s.Method.Of(s.Raw)) == `"`+mcp.Ping+`"` {
		return l.answerRequest(a.ctx, s)
	}
	switch a.seen(s.ID.Of(s.Raw)) {
	case repeated:
		return nil // it has its answer, or will have it
	case flooded:
		return l.answerRequest(a.ctx, s)
	}
	a.clock.ask()
	if r.asker == nil {
		r.asker, r.via = a, l
	}
	response, err := r.OnRequest(ctx, s)
	if errors.Is(err, ErrDeferred) {
		return nil
	}
	a.clock.answered()
	if err != nil {
		return err
	}
	if response == nil {
		return l.answerRequest(a.ctx, s)
	}
	if err := l.Notify(a.ctx, response); err != nil {
		a.u.o.Log.Warn("the client's answer was not delivered", "upstream", a.u.o.Key, "error", err)
	}
	return nil
}

const progressMethod = `"` + mcp.Progress + `"`
