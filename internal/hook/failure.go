package hook

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/penstock-mcp/penstock/internal/fault"
)

// kind is a kind of failure: what the log says, once a minute for each. They are
// constants, so a hook fills no log and no memory.
type kind string

const (
	unreachable kind = "hook was not reached, or cut the connection"
	late        kind = "hook did not answer in time"
	badStatus   kind = "hook answered with another status than 200"
	badMedia    kind = "hook answered with another media type than application/json"
	tooLong     kind = "hook answered more than max_bytes and 64 KiB"
	badAnswer   kind = "hook answered what is no decision"
	funcError   kind = "hook returned an error"
	panicked    kind = "hook panicked"
	stragglers  kind = "hook has too many runs that ignore their deadline"
	leftAlone   kind = "hook is left alone after failures in a row"
	tooLarge    kind = "hook was not shown what is larger than max_bytes"
	unsound     kind = "hook was not shown a result that is no strict JSON object"
)

// errGone says that the caller went away while a hook was asked.
var errGone = errors.New("the caller went away")

// failure is why a hook gave no decision. It is for the log; err may be nil.
type failure struct {
	kind kind
	err  error
}

// mostDetail is how much of what peers and functions say goes into the log.
const mostDetail = 300

// Error tells the kind and the detail, bounded.
func (f *failure) Error() string {
	if f.err == nil {
		return string(f.kind)
	}
	return string(f.kind) + ": " + clean(f.err.Error(), mostDetail)
}

// Unwrap returns the detail.
func (f *failure) Unwrap() error { return f.err }

// asFailure is the failure within err.
func asFailure(err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	return &failure{kind: unreachable, err: err}
}

// mostMessage is how long a hook's message may be, in bytes.
const mostMessage = 500

// refused is what the caller is told when a hook denied.
func refused(id string, e Event, message string) error {
	if message = clean(message, mostMessage); message == "" {
		message = "the operator's hook does not allow this"
	}
	f := fault.New(fault.HookRefused, "%s", message)
	if e.after() {
		return f.WithHint("hook %q withholds the result; the call itself ran", id)
	}
	return f.WithHint("hook %q refused the call, and nothing ran", id)
}

// failed is what the caller is told when a hook gave no decision and has to.
func failed(id string, e Event, f *failure) error {
	ran := "nothing ran"
	if e.after() {
		ran = "the call itself ran"
	}
	switch f.kind {
	case tooLarge:
		return fault.Wrap(f, fault.HookFailed, "hook %q has to agree and is not shown anything this large; %s", id, ran).
			WithHint("send or ask for less")
	case unsound:
		return fault.Wrap(f, fault.HookFailed, "hook %q has to agree and the upstream's result is not strict JSON; %s", id, ran).
			WithHint("tell the upstream's owner")
	default:
		return fault.Wrap(f, fault.HookFailed, "hook %q has to agree and gave no decision; %s", id, ran).
			WithHint("try again later, or ask the operator")
	}
}

// clean makes one line of a text, of at most n bytes and valid UTF-8. Control
// characters, line separators and what turns the direction of writing become
// spaces.
func clean(s string, n int) string {
	if len(s) > 4*n {
		s = s[:4*n] // what is cut off below does not need to be looked at
	}
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r) {
			return ' '
		}
		return r // invalid bytes come as U+FFFD
	}, s)
	s = strings.TrimSpace(s)
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.TrimSpace(s[:n])
}
