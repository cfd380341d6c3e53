package south

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"
)

// hop sends one HTTP request and returns the response with its body unread.
// It follows no redirect and repeats nothing that may have run. It is safe for
// concurrent use.
//
// When ctx ends, do returns promptly and the connection is closed, at whatever
// stage it is; so is a response body that is still being read.
type hop interface {
	do(ctx context.Context, r *hopRequest) (*hopResponse, error)
	// closeIdle closes the connections that wait for use. One that is in use is
	// closed when its response ends, unless a request came meanwhile.
	closeIdle()
}

// field is one header line.
type field struct{ name, value string }

// hopRequest is one HTTP request. Framing and Host are written by the hop and
// must not be among its fields.
type hopRequest struct {
	verb   string
	url    *url.URL
	fields []field // of this request, canonical names
	body   []byte  // must not change until the response body is closed or do failed
	// sent is set as soon as the upstream may have enough of the request to act
	// on it: while it is false, nothing can have run.
	sent bool
	// fence is asked before the first byte is written; its error ends the request.
	// Nil: there is none.
	fence func() error
}

// hopResponse is what the gateway reads of a response's head. Of a field that
// occurs several times the first value counts.
type hopResponse struct {
	status          int
	contentType     string
	contentEncoding string
	session         string // Mcp-Session-Id
	location        string
	retryAfter      string
	length          int64 // of the body; -1: unknown
	// body must be closed, also after an error or io.EOF; closing twice is
	// harmless. Closing it before its end closes the connection, unless the rest
	// is small and already here. It must not be used by two goroutines at once;
	// the request's context is what ends it from another one.
	body io.ReadCloser
}

// hopOptions configure a hop. They are not changed after it was made.
type hopOptions struct {
	static []field     // of every request
	tls    *tls.Config // nil: the system's roots
	proxy  *url.URL    // nil: none
	scheme string      // of the upstream's URL
	// dial must return when its context ends. Nil: plain dialling with a timeout.
	dial           func(ctx context.Context, network, addr string) (net.Conn, error)
	maxIdle        int           // idle connections kept; 0: 512
	idleTimeout    time.Duration // how long one is kept; 0: 90 s
	maxHeaderBytes int           // of a response; 0: 64 KiB
}

func (o hopOptions) withDefaults() hopOptions {
	if o.dial == nil {
		o.dial = (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	if o.maxIdle == 0 {
		o.maxIdle = 512
	}
	if o.idleTimeout == 0 {
		o.idleTimeout = 90 * time.Second
	}
	if o.maxHeaderBytes == 0 {
		o.maxHeaderBytes = 64 << 10
	}
	return o
}

// newHop returns the cheapest hop that can reach the upstream: our own for
// cleartext without a proxy, net/http's for everything else.
func newHop(o hopOptions) hop {
	if o.scheme == "http" && o.proxy == nil {
		return newPlainHop(o)
	}
	return newStdHop(o)
}

var (
	errHeaderValue    = errors.New("a header value holds a control character")
	errBodyClosed     = errors.New("response body read after it was closed")
	errSwitch         = errors.New("the upstream switched protocols")
	errHeaderTooLarge = errors.New("the response's header is larger than allowed")
)

// checkField refuses what would break out of a header line, and the fields
// that decide about framing, which are the hop's alone.
func checkField(f field) error {
	if f.name == "" {
		return errors.New("a header has no name")
	}
	for i := 0; i < len(f.name); i++ {
		if !isToken[f.name[i]] {
			return fmt.Errorf("header name %q is not a token", f.name)
		}
	}
	for i := 0; i < len(f.value); i++ {
		if isControl(f.value[i]) {
			return fmt.Errorf("header %s: %w", f.name, errHeaderValue)
		}
	}
	switch len(f.name) {
	case 4, 6, 7, 10, 14, 17:
		for _, own := range [...]string{"Host", "Expect", "Upgrade", "Trailer", "Connection", "Content-Length", "Transfer-Encoding"} {
			if strings.EqualFold(f.name, own) {
				return fmt.Errorf("header %s is not the caller's to set", own)
			}
		}
	}
	return nil
}

func checkFields(fs []field) error {
	for _, f := range fs {
		if err := checkField(f); err != nil {
			return err
		}
	}
	return nil
}

// isControl tells whether c cannot be in a header value (RFC 9110 section 5.5).
func isControl(c byte) bool { return c < ' ' && c != '\t' || c == 0x7f }

// isToken holds the characters of a header name (RFC 9110 section 5.6.2).
var isToken = func() (t [256]bool) {
	for _, c := range []byte("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		t[c] = true
	}
	return t
}()

// gaveUp is the error of an exchange that ended at stage: with the reason why
// the caller's context ended, when it has.
func gaveUp(ctx context.Context, stage string, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return fmt.Errorf("%s: %w", stage, err)
}
