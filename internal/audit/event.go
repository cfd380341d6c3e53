package audit

import (
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-mcp/penstock/internal/wire"
)

const (
	maxText      = 512      // bytes of one string of an event
	maxArguments = 64 << 10 // larger ones are recorded as their size
)

// Event is one request, as it is recorded (DESIGN section 2, step 12).
//
// What is empty or zero is left out of the line. Strings of over 512 bytes are
// cut and end with an ellipsis then; invalid UTF-8 becomes U+FFFD. The members of the
// line are, in this order: time, duration_us, server, method, kind, name,
// original, upstream, via, issuer, tenant, subject, credential, source, decision,
// rule, outcome, code, bytes_in, bytes_out, request, trace, session, detail and
// one of arguments, arguments_text and arguments_bytes.
type Event struct {
	Time     time.Time // when the request came; zero: now
	Duration time.Duration

	Issuer, Tenant, Subject, Credential string // who; empty where nobody was identified
	Source                              string // the client's address

	Server, Method, Kind, Name, Original, Upstream string
	Via                                            string // the gateway's own tool by which that was called

	Decision, Rule string // "allow", "deny", "hidden", "" (nothing decided); the rule's id

	Outcome string // "ok", "error" (the upstream's own error or isError), "refused", "failed", "cancelled", "panic"
	Code    int    // JSON-RPC code of the answer; 0: none

	BytesIn, BytesOut int64

	RequestID, TraceID, Session string // Session: a hash or short form, never what opens the session

	// Arguments is raw JSON; nil: not recorded. What is not valid JSON is
	// recorded as a string under arguments_text, what is over 64 KiB as its size
	// under arguments_bytes.
	Arguments []byte

	Detail string // short text, such as the hook that refused
}

// appendEvent appends the members of e as they follow the number in its line,
// without braces.
func appendEvent(dst []byte, e *Event, now func() time.Time) []byte {
	at := e.Time
	if at.IsZero() {
		at = now()
	}
	dst = appendTime(dst, `"time":"`, at)
	dst = append(dst, `,"duration_us":`...)
	dst = strconv.AppendInt(dst, e.Duration.Microseconds(), 10)
	dst = appendText(dst, `,"server":`, e.Server)
	dst = appendText(dst, `,"method":`, e.Method)
	dst = appendText(dst, `,"kind":`, e.Kind)
	dst = appendText(dst, `,"name":`, e.Name)
	dst = appendText(dst, `,"original":`, e.Original)
	dst = appendText(dst, `,"upstream":`, e.Upstream)
	dst = appendText(dst, `,"via":`, e.Via)
	dst = appendText(dst, `,"issuer":`, e.Issuer)
	dst = appendText(dst, `,"tenant":`, e.Tenant)
	dst = appendText(dst, `,"subject":`, e.Subject)
	dst = appendText(dst, `,"credential":`, e.Credential)
	dst = appendText(dst, `,"source":`, e.Source)
	dst = appendText(dst, `,"decision":`, e.Decision)
	dst = appendText(dst, `,"rule":`, e.Rule)
	dst = appendText(dst, `,"outcome":`, e.Outcome)
	dst = appendNumber(dst, `,"code":`, int64(e.Code))
	dst = appendNumber(dst, `,"bytes_in":`, e.BytesIn)
	dst = appendNumber(dst, `,"bytes_out":`, e.BytesOut)
	dst = appendText(dst, `,"request":`, e.RequestID)
	dst = appendText(dst, `,"trace":`, e.TraceID)
	dst = appendText(dst, `,"session":`, e.Session)
	dst = appendText(dst, `,"detail":`, e.Detail)
	return appendArguments(dst, e.Arguments)
}

// appendText appends a member, unless its value is empty.
func appendText(dst []byte, member, s string) []byte {
	if s == "" {
		return dst
	}
	dst = append(dst, member...)
	if len(s) <= maxText {
		return wire.AppendString(dst, s)
	}
	const ellipsis = "…"
	end := maxText - len(ellipsis)
	for end > maxText-len(ellipsis)-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	dst = wire.AppendString(dst, s[:end])
	return append(dst[:len(dst)-1], ellipsis+`"`...)
}

// appendNumber appends a member, unless its value is 0.
func appendNumber(dst []byte, member string, n int64) []byte {
	if n == 0 {
		return dst
	}
	return strconv.AppendInt(append(dst, member...), n, 10)
}

func appendArguments(dst, raw []byte) []byte {
	switch {
	case raw == nil:
		return dst
	case len(raw) > maxArguments:
		return appendNumber(dst, `,"arguments_bytes":`, int64(len(raw)))
	case !jsontext.Value(raw).IsValid():
		return wire.AppendString(append(dst, `,"arguments_text":`...), string(raw))
	}
	dst = append(dst, `,"arguments":`...)
	start := len(dst)
	dst = append(dst, raw...)
	for i, c := range dst[start:] { // in valid JSON, line ends are between tokens
		if c == '\n' || c == '\r' {
			dst[start+i] = ' '
		}
	}
	return dst
}
