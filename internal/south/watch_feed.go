package south

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/wire"
)

var (
	errNoStream   = errors.New("the answer is no event stream")
	errEventLarge = fmt.Errorf("an event is larger than %d bytes", window)
)

// knock sends the request that opens a stream. Faults count like those of calls;
// that the upstream keeps silent, or that nobody waits for it any more, does not,
// and neither does anything that becomes of the stream (go-sdk#633). While calls
// are held back it knocks at nothing; when one may try again, it may be that one,
// for there may be no calls.
func (u *Upstream) knock(ctx context.Context, verb string, body []byte, h *head) (*hopResponse, error) {
	var verdict func(error) // owed to the breaker in any case
	if state := u.breaker.state(); state != "closed" {
		var err error
		if verdict, err = u.breaker.allow(); err != nil {
			u.wake()
			return nil, u.refusing(err)
		}
	}
	resp, err := u.message(ctx, verb, body, h)
	failed := transportOnly(err)
	switch {
	case err != nil && ctx.Err() != nil && verdict == nil:
		failed = nil
	case err == nil && unavailable(resp.status):
		failed = errBadGateway
	}
	if failed != nil && verdict == nil {
		verdict, _ = u.breaker.allow() // nil: it is open already
	}
	if verdict != nil {
		verdict(failed)
	}
	if failed != nil && u.breaker.open() {
		u.wake()
	}
	return resp, err
}

func unavailable(status int) bool {
	return status == http.StatusBadGateway || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout
}

// isStream reports whether a response is an event stream that can be read.
func isStream(resp *hopResponse) bool {
	media, _, _ := mime.ParseMediaType(resp.contentType)
	return resp.status == http.StatusOK && media == "text/event-stream" &&
		(resp.contentEncoding == "" || strings.EqualFold(resp.contentEncoding, "identity"))
}

// noStream is what follows from a response that is no event stream.
func noStream(status int) outcome {
	out := outcome{how: wayDeaf, err: fmt.Errorf("HTTP %d: %w", status, errNoStream)}
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusTooManyRequests:
		out.how = wayQuiet
	case status == http.StatusConflict, status == http.StatusRequestTimeout:
		out.how = wayLost // the stream before it may not be gone yet
	case status >= 500 && status != http.StatusNotImplemented:
		out.how = wayLost
	}
	return out
}

// feed is an open event stream. It waits in little memory; it is read and closed
// by one goroutine.
type feed struct {
	body   io.ReadCloser
	events events
	room   *[]byte // pooled
	data   []byte
}

func newFeed(body io.ReadCloser) *feed {
	f := &feed{body: body, room: littles.Get().(*[]byte)}
	f.events = events{r: body, buf: *f.room}
	return f
}

// next returns the data of the next event, valid until the one after it.
func (f *feed) next() ([]byte, error) {
	if cap(f.data) > little {
		f.data = nil
	}
	data, rest, err := f.events.next(f.data[:0], window)
	if err != nil {
		return nil, unexpected(err)
	}
	for rest != nil {
		if len(data) > window {
			return nil, errEventLarge
		}
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
		n, err := rest.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, unexpected(err)
		}
	}
	if len(data) > window {
		return nil, errEventLarge
	}
	f.data = data
	return data, nil
}

func (f *feed) close() {
	_ = f.body.Close()
	putWindow(f.room)
	f.room, f.events.buf, f.data = nil, nil, nil
}

// messages calls take with each message of an event, also of a batch; what is no
// message is passed over.
func (w *Watch) messages(data []byte, take func(*wire.Answer)) {
	parts := [][]byte{data}
	if wire.IsBatch(data) {
		var err error
		if parts, err = wire.SplitBatch(data, maxChildBatch); err != nil {
			w.complain("upstream sent a malformed batch", err)
			return
		}
	}
	for _, part := range parts {
		var s wire.Answer
		if err := wire.Scan(part, &s); err != nil {
			w.complain("upstream sent malformed JSON on its stream", err)
			continue
		}
		take(&s)
	}
}

// strayAnswer is what a legacy upstream gets for a request that belongs to no
// call (checklist 136, 137).
func strayAnswer(id []byte, method string) []byte {
	switch method {
	case "sampling/createMessage", "elicitation/create", "roots/list":
		body := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
		return append(body, fmt.Sprintf(`,"error":{"code":%d,"message":"the request belongs to no call of this client"}}`, fault.InvalidParams)...)
	}
	return requestAnswer(id, method)
}
