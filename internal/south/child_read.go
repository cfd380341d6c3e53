package south

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// maxChildBatch bounds the messages in one line of a 2025-03-26 child.
const maxChildBatch = 1000

// read handles the child's lines in the order in which they arrive, until its
// output ends.
func (p *process) read() {
	defer close(p.eof)
	l := newLines(p.stdout, p.u.o.ResponseBytes)
	for {
		line, err := l.next()
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) && !errors.Is(err, os.ErrDeadlineExceeded) {
				p.u.o.Log.Warn("upstream's output not read on", "upstream", p.u.o.Key, "error", err)
			}
			return
		}
		if line.over {
			p.overlong(line)
			continue
		}
		p.take(line)
	}
}

// take looks at one line: a message, a batch of them (checklist 145), or noise.
func (p *process) take(line oneLine) {
	text := bytes.TrimSpace(bytes.TrimPrefix(line.text, byteOrderMark))
	switch {
	case len(text) == 0:
	case text[0] == '{':
		p.message(text, line.owned)
	case text[0] == '[' && p.spoken() != mcp.Modern:
		parts, err := wire.SplitBatch(text, maxChildBatch)
		if err != nil {
			p.noise.log("upstream says on stdout what is no message", text)
			return
		}
		for _, part := range parts {
			p.message(part, false)
		}
	default:
		p.noise.log("upstream says on stdout what is no message", text)
	}
}

// message gives one message to whom it is for.
func (p *process) message(text []byte, owned bool) {
	var s wire.Answer
	if err := wire.Scan(text, &s); err != nil {
		if w := p.mentioned(text[:min(len(text), edge)], text[max(0, len(text)-edge):]); w != nil {
			p.drop(w, p.u.invalid(err, "upstream %q answered with malformed JSON", p.u.o.Key))
			return
		}
		p.noise.log("upstream says on stdout what is no message", text)
		return
	}
	switch s.Kind() {
	case wire.Response:
		p.response(&s, owned)
	case wire.Request:
		p.request(&s)
	case wire.Notification:
		p.notification(&s)
	}
}

// response ends the wait of the request that it answers. A second answer, and
// one to nothing that was asked, is dropped.
func (p *process) response(s *wire.Answer, owned bool) {
	id := s.ID.Of(s.Raw)
	w := p.answered(id)
	if w == nil && s.Error.Ok() && (len(id) == 0 || string(id) == "null") {
		// An error that names no request can only be told apart while there is one.
		if w = p.only(); w != nil {
			p.answered([]byte(w.id))
		}
	}
	if w == nil {
		p.u.late()
		return
	}
	if w.standing != nil {
		w.standing.heard(s)
		return
	}
	a := arrival{scan: *s, answer: true}
	switch {
	case owned:
	case len(s.Raw) <= window:
		a.window = getWindow()
		a.scan.Raw = (*a.window)[:copy(*a.window, s.Raw)]
	default:
		a.scan.Raw = bytes.Clone(s.Raw)
	}
	p.overtake(w)
	p.deliver(w, a)
}

// request answers what a legacy child asks. The shared process was told of no
// capability, so only ping is served; what a private one asks is for the call in
// flight. A modern child must not ask at all (checklist 119, 136).
func (p *process) request(s *wire.Answer) {
	method, err := wire.String(s.Method.Of(s.Raw))
	if err != nil || (p.spoken() == mcp.Modern && method != mcp.Ping) {
		p.u.Dropped("a modern upstream sent a request; it is dropped")
		return
	}
	if p.child.caps != "" && method != mcp.Ping {
		p.asks(s)
		return
	}
	p.answer(requestAnswer(s.ID.Of(s.Raw), method))
}

// answer has one of the child's own requests answered. It never blocks.
func (p *process) answer(body []byte) {
	select {
	case p.replies <- body:
	default:
		p.u.Dropped("an upstream asks more than it reads answers; one is dropped")
	}
}

// notification gives progress to the request of its token, and a log message to
// the one request in flight: with several it belongs to none of them
// (checklist 62, T32). What belongs to no request is for those who listen.
func (p *process) notification(s *wire.Answer) {
	method, err := wire.String(s.Method.Of(s.Raw))
	if err != nil {
		return
	}
	var w *waiting
	switch method {
	case mcp.Progress:
		w = p.waitingFor(s.ProgressToken.Of(s.Raw))
	case mcp.LogMessage:
		if w = p.only(); w != nil && !w.events {
			w = nil
		}
	}
	if w == nil || w.standing != nil {
		if method != mcp.Progress {
			p.overheard(s, method)
		}
		return
	}
	if len(s.Raw) > window {
		p.noise.log("upstream sent a notification that is too large", s.Raw[:edge])
		return
	}
	a := arrival{scan: *s}
	a.scan.Raw = bytes.Clone(s.Raw)
	p.deliver(w, a)
}

// overlong fails the request that a line beyond response_bytes answers, if its
// beginning or end tells which.
func (p *process) overlong(line oneLine) {
	err := p.u.tooLong(errTooLong)
	w := p.mentioned(line.text, line.tail)
	if w == nil && bytes.HasPrefix(bytes.TrimSpace(line.text), []byte{'{'}) {
		w = p.only()
	}
	if w == nil {
		p.u.o.Log.Warn("upstream sent a line that is too long", "upstream", p.u.o.Key, "error", err)
		return
	}
	p.drop(w, err)
}

// mentioned returns the request whose id stands in the pieces as the value of
// an id. Ids carry a random part, so that nothing else looks like one.
func (p *process) mentioned(pieces ...[]byte) *waiting {
	for _, w := range p.all() {
		for _, piece := range pieces {
			for rest := piece; ; {
				i := bytes.Index(rest, []byte(w.id))
				if i < 0 {
					break
				}
				before := bytes.TrimRight(rest[:i], " \t\r")
				before, colon := bytes.CutSuffix(before, []byte{':'})
				if colon && bytes.HasSuffix(bytes.TrimRight(before, " \t\r"), []byte(`"id"`)) {
					return w
				}
				rest = rest[i+len(w.id):]
			}
		}
	}
	return nil
}

// invalid is an answer that breaks the protocol.
func (u *Upstream) invalid(cause error, format string, args ...any) error {
	return u.fail(fault.Wrap(cause, fault.InvalidAnswer, format, args...).
		WithHint("the call may have run; tell the upstream's owner"))
}

// tooLong is an answer beyond limits.response_bytes.
func (u *Upstream) tooLong(cause error) error {
	return fault.Wrap(cause, fault.TooLarge, "the answer of upstream %q is larger than %d bytes", u.o.Key, u.o.ResponseBytes).
		WithHint("ask for less, or raise limits.response_bytes")
}

// requestAnswer is what an upstream gets for a request of its own, as a whole
// message. No client capability was declared to it (checklist 136 to 138).
func requestAnswer(id []byte, method string) []byte {
	body := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	switch method {
	case mcp.Ping:
		return append(body, `,"result":{}}`...)
	case "elicitation/create":
		return append(body, `,"error":{"code":-32602,"message":"elicitation was not declared"}}`...)
	}
	return append(body, `,"error":{"code":-32601,"message":"method not declared by this client"}}`...)
}

// cancellation is the notification that nobody waits for a request any more.
func cancellation(id []byte) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"`+mcp.Cancelled+`","params":{"requestId":%s,"reason":"the gateway stopped waiting"}}`, id)
}
