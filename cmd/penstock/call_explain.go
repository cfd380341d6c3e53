package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

// What is said when an answer does not come to its end.
const (
	brokeOff   = "the connection ended before the answer"
	mayHaveRun = "the call may have run; check before you send it again"
)

// tryLegacy and tryModern are the ways out when the eras do not fit.
const (
	tryLegacy = "if the server speaks 2025-11-25 or an older revision, try --legacy"
	tryModern = "the server may speak 2026-07-28 only; try without --legacy"
)

// explain turns a failure into one sentence: what happened, where, what to do.
// The data of a JSON-RPC error follows on lines of its own.
func (c *caller) explain(ctx context.Context, err error) error {
	var usage *usageError
	var rpc *rpcError
	var status *httpError
	var odd *oddAnswer
	var broken *brokenOff
	switch {
	case errors.As(err, &usage):
		return err
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return c.sentence(err, fmt.Sprintf("no answer within %s", c.timeout), "raise --timeout, or see what the server is busy with; the call may have run")
	case errors.Is(ctx.Err(), context.Canceled):
		return c.sentence(err, "interrupted", "the call may have run")
	case errors.As(err, &rpc):
		return c.explainRPC(rpc)
	case errors.As(err, &status):
		return c.explainHTTP(status)
	case errors.As(err, &odd):
		return c.sentence(err, odd.what, "this is a fault of the server, or the URL is not that of an MCP server")
	case errors.As(err, &broken):
		return c.sentence(err, brokeOff, mayHaveRun)
	}
	return c.explainTransport(err)
}

// sentence is the one form of every failure.
func (c *caller) sentence(cause error, what, advice string) error {
	text := fmt.Sprintf("%s at %s: %s", printable(c.method), c.url.Redacted(), what)
	if advice != "" {
		text += "; " + advice
	}
	return &callError{text: text, cause: cause}
}

// callError is a failed call as the user reads it.
type callError struct {
	text  string
	cause error
}

func (e *callError) Error() string { return e.text }
func (e *callError) Unwrap() error { return e.cause }

func (c *caller) explainRPC(e *rpcError) error {
	what := printable(e.Message)
	if what == "" {
		what = "an error without a message"
	}
	what += fmt.Sprintf(" (error %d", e.Code)
	if name := fault.Code(e.Code).Name(); name != "unknown" {
		what += " " + name
	}
	if e.status != http.StatusOK {
		what += fmt.Sprintf(", HTTP %d", e.status)
	}
	what += ")"
	advice := ""
	switch {
	case e.status == http.StatusUnauthorized || e.status == http.StatusForbidden:
		advice = authorize
	case c.legacy && fault.Code(e.Code) == fault.UnsupportedVersion:
		advice = tryModern
	case c.legacy:
	case fault.Code(e.Code) == fault.UnsupportedVersion:
		if legacyOnly(e.Data) {
			advice = "the server speaks older revisions only; try --legacy"
		}
	case fault.Code(e.Code) == fault.HeaderMismatch && strings.Contains(strings.ToLower(e.Message), "mcp-param"):
		advice = "send the header with --header 'Mcp-Param-NAME=VALUE'"
	case fault.Code(e.Code) == fault.HeaderMismatch, fault.Code(e.Code) == fault.MissingCapability:
		// Only a modern server says so.
	case e.status == http.StatusBadRequest,
		fault.Code(e.Code) == fault.MethodNotFound && e.status == http.StatusOK,
		fault.Code(e.Code) == fault.MethodNotFound && legacyMethod(c.method):
		advice = tryLegacy
	}
	err := c.sentence(e, what, advice)
	if e.Data != nil {
		err = &callError{text: fmt.Sprintf("%s\n%s", err, pretty(e.Data)), cause: e}
	}
	return err
}

const authorize = "the server asks for authorization: pass --header 'Authorization=Bearer TOKEN'"

// legacyMethod reports whether only sessions know the method.
func legacyMethod(method string) bool {
	m := mcp.LookupMethod([]byte(method))
	return m != nil && m.Legacy && !m.Modern
}

// legacyOnly reports whether the data of a -32022 lists revisions with sessions
// and no other that is known here.
func legacyOnly(data jsontext.Value) bool {
	var d struct {
		Supported []string `json:"supported"`
	}
	if err := json.Unmarshal(data, &d); err != nil {
		return false
	}
	return len(d.Supported) > 0 && !slices.ContainsFunc(d.Supported, func(s string) bool {
		rev, ok := mcp.ParseRevision(s)
		return ok && rev.Era() == mcp.Modern
	})
}

func (c *caller) explainHTTP(e *httpError) error {
	what := fmt.Sprintf("the server answered HTTP %d %s", e.status, http.StatusText(e.status))
	if text := pageText(e.kind, e.page); text != "" {
		what += fmt.Sprintf(" with %s %q", article(e.kind), text)
	} else if e.status < 300 {
		what += " without an answer"
	}
	advice := "check the path of the URL"
	switch {
	case e.status == http.StatusUnauthorized || e.status == http.StatusForbidden:
		advice = authorize
	case e.status >= 300 && e.status < 400 && e.location != "":
		advice = "redirects are not followed; the server points to " + printable(e.location)
	case e.status == http.StatusTooManyRequests || e.status >= 500:
		advice = "try again later, or see the server's log"
	case e.status == http.StatusRequestEntityTooLarge:
		advice = "send less"
	case c.legacy:
		if e.status == http.StatusBadRequest {
			advice = tryModern
		}
	case e.status >= 400 && !isHTML(e.kind, e.page):
		advice += "; " + tryLegacy
	}
	return c.sentence(e, what, advice)
}

func article(kind string) string {
	switch kind {
	case "text/html":
		return "an HTML page"
	case "text/plain":
		return "the text"
	}
	return "a body that is no MCP message"
}

func isHTML(kind string, page []byte) bool {
	return kind == "text/html" || bytes.HasPrefix(bytes.ToLower(bytes.TrimSpace(page)), []byte("<!doctype html"))
}

var title = regexp.MustCompile(`(?is)<title[^>]*>(.*?)</title>`)

// pageText is the title of a page, or the beginning of a text, on one line.
func pageText(kind string, page []byte) string {
	s := string(page)
	if isHTML(kind, page) {
		if m := title.FindStringSubmatch(s); m != nil {
			s = m[1]
		}
	}
	s = strings.Join(strings.Fields(printable(s)), " ")
	const most = 120
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "..."
	}
	return s
}

func (c *caller) explainTransport(err error) error {
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err // the rest repeats the URL
	}
	var dns *net.DNSError
	var netErr net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return c.sentence(err, "connection refused", "is the server running, and are host and port right?")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return c.sentence(err, brokeOff, mayHaveRun)
	case errors.As(err, &dns):
		return c.sentence(err, fmt.Sprintf("the host %s was not found", printable(dns.Name)), "check the URL")
	case errors.As(err, &netErr) && netErr.Timeout():
		return c.sentence(err, "the server did not answer in time", "raise --timeout")
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return c.sentence(err, "the server speaks plain HTTP", "write http:// instead of https://")
	case strings.Contains(err.Error(), "malformed HTTP response"):
		return c.sentence(err, "the server does not answer in HTTP", "check scheme and port")
	}
	return c.sentence(err, printable(err.Error()), "")
}

// printable is text from elsewhere without what could move a terminal's cursor.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}
