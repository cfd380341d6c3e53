package north

import (
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
)

// usual is the size of a pooled request buffer; larger ones are not kept.
const usual = 8 << 10

var bodies = sync.Pool{New: func() any { b := make([]byte, 0, usual); return &b }}

var closing = []string{"close"}

// refusalGrace is how long a refused request's body may keep its connection.
const refusalGrace = time.Second

func putBody(b *[]byte) {
	if cap(*b) <= 4*usual {
		*b = (*b)[:0]
		bodies.Put(b)
	}
}

// read takes the whole body, bounded in size and time. It is read before the
// upstream is called, so that an upstream that answers early cannot break the
// client's connection.
func (h *Handler) read(a *httpReply, r *http.Request, into *[]byte) (err error) {
	limit := h.o.RequestBytes
	if r.ContentLength > limit {
		return h.tooLarge()
	}
	_ = a.rc.SetReadDeadline(time.Now().Add(h.o.BodyTimeout))
	defer func() {
		if err != nil {
			_ = a.rc.SetReadDeadline(time.Now().Add(refusalGrace))
			return
		}
		_ = a.rc.SetReadDeadline(time.Time{})
		delete(a.w.Header(), "Connection")
	}()
	b := (*into)[:0]
	if n := int(r.ContentLength); n > cap(b) {
		b = make([]byte, 0, n)
	}
	for {
		if len(b) == cap(b) {
			if int64(len(b)) == r.ContentLength {
				// Full; one more read tells the end without growing.
				var one [1]byte
				n, err := r.Body.Read(one[:])
				if n == 0 && errors.Is(err, io.EOF) {
					break
				}
			}
			b = append(b, 0)[:len(b)]
		}
		n, err := r.Body.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if int64(len(b)) > limit {
			*into = b
			return h.tooLarge()
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			*into = b
			var ne net.Error
			if errors.As(err, &ne) && ne.Timeout() {
				return fault.Wrap(err, fault.InvalidRequest, "the request's body did not arrive in time")
			}
			return &gone{err}
		}
	}
	*into = b
	return nil
}

func (h *Handler) tooLarge() error {
	return fault.New(fault.TooLarge, "the request is larger than %d bytes", h.o.RequestBytes).
		WithHint("send less, or raise limits.request_bytes")
}
