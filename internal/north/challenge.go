package north

import (
	"errors"
	"math"
	"net/http"
	"strconv"

	"github.com/penstock-mcp/penstock/internal/fault"
)

// Challenge is an error that tells a client over HTTP how to identify itself
// (checklist 78).
type Challenge struct {
	Err    error
	Header string // value of WWW-Authenticate
}

// Error implements error.
func (c *Challenge) Error() string { return c.Err.Error() }

// Unwrap returns the error that the client is answered with.
func (c *Challenge) Unwrap() error { return c.Err }

// advise puts into the headers what an error tells a client besides its text.
func (h *Handler) advise(hd http.Header, x *Exchange, err error, f *fault.Error) {
	var c *Challenge
	if errors.As(err, &c) && c.Header != "" {
		hd["Www-Authenticate"] = []string{c.Header}
	}
	if f.RetryAfter > 0 {
		hd["Retry-After"] = []string{strconv.Itoa(int(math.Ceil(f.RetryAfter.Seconds())))}
	}
	if id := h.requestID(x); id != "" {
		hd["X-Request-Id"] = []string{id}
	}
}
