package south

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/wire"
)

// maxResumes bounds how often one answer is fetched again by Last-Event-ID.
const maxResumes = 32

// readEvents reads messages from an event stream, in order, until the response.
func (a *Answer) readEvents(l *Link, r *Request, resp *hopResponse, h *head) error {
	a.bufs[0], a.bufs[1] = getWindow(), getWindow()
	v := &events{r: &bounded{r: resp.body, left: a.u.o.ResponseBytes}, buf: *a.bufs[0]}
	for resumes := 0; ; {
		data, rest, err := v.next((*a.bufs[1])[:0], window/2)
		switch {
		case err == nil && rest != nil:
			if wire.Peek(data).Kind != wire.Response {
				return a.invalid(nil, "upstream %q sent a notification larger than %d bytes", a.u.o.Key, window)
			}
			a.Head, a.Rest = data, rest
			return nil
		case err == nil:
			done, err := a.take(l, r, data)
			if err != nil || done {
				return err
			}
		case errors.Is(err, errTooLong):
			return a.tooLong(err)
		case errors.Is(err, errEventTooLong):
			return a.invalid(err, "upstream %q sent a malformed event stream", a.u.o.Key)
		case errors.Is(err, io.EOF) && !v.sawEvent && v.lastID == "":
			return a.invalid(err, "upstream %q announced an event stream and sent no event", a.u.o.Key)
		default:
			// A legacy stream may be taken up again (checklist 134); a modern one is lost.
			if l.Era != mcp.Legacy || v.lastID == "" || resumes == maxResumes || a.ctx.Err() != nil {
				return a.u.transportFault(a.ctx, unexpected(err), true)
			}
			resumes++
			body, rerr := a.resume(r, h, v)
			if rerr != nil {
				return rerr
			}
			_ = a.body.Close()
			a.body = body
			v.r, v.s, v.e, v.err, v.skipLF = &bounded{r: body, left: a.u.o.ResponseBytes}, 0, 0, nil, false
			v.begun = false
		}
	}
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// resume waits as long as the upstream asked and opens the stream again after
// the last event.
func (a *Answer) resume(r *Request, h *head, v *events) (io.ReadCloser, error) {
	wait := v.retry
	if wait <= 0 {
		wait = time.Second
	}
	if r.OnBreak != nil {
		r.OnBreak(wait)
	}
	select {
	case <-time.After(wait):
	case <-a.ctx.Done():
		return nil, a.u.transportFault(a.ctx, a.ctx.Err(), true)
	}
	again := *h
	again.params, again.lastEventID = nil, v.lastID
	resp, err := a.u.message(a.ctx, http.MethodGet, nil, &again)
	if err != nil {
		var f *fault.Error
		if errors.As(err, &f) && f.Code == fault.UpstreamUnavailable {
			// The call itself was sent before.
			return nil, a.u.transportFault(a.ctx, err, true)
		}
		return nil, err
	}
	if media, _, _ := mime.ParseMediaType(resp.contentType); resp.status != http.StatusOK || media != "text/event-stream" {
		drain(resp.body)
		return nil, a.u.transportFault(a.ctx, io.ErrUnexpectedEOF, true)
	}
	return resp.body, nil
}

// answerRequest answers a request that a legacy upstream sends while a call
// runs. The session declared no client capability, so only ping is served
// (checklist 136 to 138).
func (l *Link) answerRequest(ctx context.Context, s *wire.Answer) error {
	method, _ := wire.String(s.Method.Of(s.Raw))
	if err := l.Notify(ctx, requestAnswer(s.ID.Of(s.Raw), method)); err != nil {
		l.Upstream.o.Log.Debug("answer to an upstream's request not delivered", "upstream", l.Upstream.o.Key, "method", method, "error", err)
	}
	return nil
}
