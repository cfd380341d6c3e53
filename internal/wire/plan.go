package wire

import (
	"fmt"
	"io"

	"github.com/penstock-mcp/penstock/internal/fault"
)

// Plan is everything the gateway changes in one message on its way north
// (DESIGN section 3). The zero Plan changes nothing. Every byte that no rule of
// the plan touches comes out as it went in, white space included.
//
// Names are not quoted and compared with the decoded names of the message;
// values are raw JSON, never nil, and go in as they are. For one member Set comes before
// Drop, and that before Default: what was dropped is absent. When Set or Drop
// name _meta, the old one is not looked into. Set, Default and SetMeta hold at
// most 64 members each. A Plan is not changed by use and may be shared, if MapURI may.
type Plan struct {
	ID     []byte // replaces the id, which must be there
	WantID []byte // the id that must be there, a raw string; nil: any

	Set           []Member // members of result: replaced in place if there, else appended
	Default       []Member // members of result: appended if absent
	Drop          []string // members of result removed, with their comma
	DropNonObject []string // members of result removed when they are not objects
	Forbid        []string // members of result that must not be there
	Require       []Member // members of result that, where they are there, must be these very strings

	SetMeta  []Member // as Set within result._meta, which is created, or replaced when it is no object
	DropMeta []string // as Drop within result._meta

	// MapURI is called with every decoded URI at result.contents[].uri,
	// result.content[] and result.messages[].content (an object or an array):
	// .uri and .resource.uri, at result._meta: .ui.resourceUri and
	// ["ui/resourceUri"], and at error.data.uri. It appends the URI to put to
	// dst, not quoted; with false the original stays, byte for byte. nil: URIs stay.
	MapURI func(dst []byte, uri string) ([]byte, bool)

	// LineSafe makes the output fit for framing by lines: CR and LF between
	// tokens become spaces, and within a string they are an error.
	LineSafe bool
}

// ReadError is a failure of the source of Rewrite.
type ReadError struct{ Err error }

// Error tells the cause.
func (e *ReadError) Error() string { return fmt.Sprintf("reading the message: %v", e.Err) }

// Unwrap returns what the source returned.
func (e *ReadError) Unwrap() error { return e.Err }

// WriteError is a failure of the destination of Rewrite.
type WriteError struct{ Err error }

// Error tells the cause.
func (e *WriteError) Error() string { return fmt.Sprintf("writing the message: %v", e.Err) }

// Unwrap returns what the destination returned.
func (e *WriteError) Unwrap() error { return e.Err }

// Rewrite streams one message from head and then src to dst, with the changes
// of the plan, in bounded memory (a window of 64 KiB, pooled) and large writes.
// head is what was read already; src may be nil when that is all. The output is
// the same however the message is cut into pieces. n is what dst took.
//
// Levels and rules are those of Scan, but that params and error.code are not looked at. The
// error is a *ReadError, a *WriteError, or about the message itself a
// *fault.Error of fault.InvalidAnswer: it is not valid at these levels, cut
// short, has something but white space behind it, or a name or URI of over
// 64 KiB (white space around a name counts where the plan drops members).
// What was written before an error is part of a message; the caller must not let it end cleanly.
func (p *Plan) Rewrite(dst io.Writer, head []byte, src io.Reader) (n int64, err error) {
	r := rewriters.Get().(*rewriter)
	r.plan, r.dst, r.src = p, dst, src
	r.out = r.own[1][:0]
	r.begin(head)
	err = r.message()
	if err == nil {
		err = r.flush()
	}
	n = r.written
	if cap(r.out) <= 4*window {
		r.own[1] = r.out[:0]
	}
	r.release()
	return n, err
}

// Apply is Rewrite on a message held whole: it appends the result to dst, which
// must not alias raw. On an error dst is returned as it was.
func (p *Plan) Apply(dst, raw []byte) ([]byte, error) {
	r := rewriters.Get().(*rewriter)
	r.plan, r.out = p, dst
	r.begin(raw)
	err := r.message()
	out := r.out
	r.release()
	if err != nil {
		return dst, err
	}
	return out, nil
}

func (p *Plan) check() error {
	if len(p.Set) > 64 || len(p.Default) > 64 || len(p.SetMeta) > 64 {
		return fault.New(fault.Internal, "a plan of the gateway is too large")
	}
	return nil
}

func contains(names []string, name []byte) bool {
	for _, n := range names {
		if n == string(name) {
			return true
		}
	}
	return false
}

func indexMember(members []Member, name []byte) int {
	for i := range members {
		if members[i].Name == string(name) {
			return i
		}
	}
	return -1
}

// spaces appends b to dst with CR and LF as spaces.
func spaces(dst, b []byte) []byte {
	n := len(dst)
	dst = append(dst, b...)
	for i := n; i < len(dst); i++ {
		if dst[i] == '\n' || dst[i] == '\r' {
			dst[i] = ' '
		}
	}
	return dst
}
