package catalog

import (
	"context"
	"errors"
	"time"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

// ErrAbsent is what a Fetcher returns when the upstream does not offer a kind
// (no such capability, or -32601): its list is empty, and that is no failure.
var ErrAbsent = errors.New("catalog: the upstream does not offer this kind")

// Scope is the partition of private lists: what an upstream listed for one
// Scope is never served to another, unless it said "public" (DESIGN section 6).
type Scope struct {
	Principal [32]byte // the principal key (DESIGN section 7)
	Caps      string   // what the client declared, where an upstream's list may depend on it
}

// Fetcher is how the catalog reaches upstreams.
type Fetcher interface {
	// Page asks one upstream for one page of a kind. cursor is the raw JSON
	// string of the upstream's nextCursor (`""` is a cursor too), nil for the
	// first page. It must return soon after ctx ends. The result belongs to the
	// caller. ErrAbsent (possibly wrapped): the kind is not offered.
	// Page is called from several goroutines at once.
	Page(ctx context.Context, upstream string, scope Scope, kind mcp.Kind, cursor []byte) (Page, error)
}

// Page is one page of an upstream's list.
type Page struct {
	Result []byte  // the raw result object; not changed after it was returned
	Era    mcp.Era // of the upstream: a legacy list has no ttlMs of its own
	HTTP   bool    // the rules of x-mcp-header apply (checklist 109)
	Tasks  bool    // the upstream makes tasks of calls, as 2025-11-25 has them; without it no tool shows its execution
	// Private says that it was got with a credential of the caller's own: whatever
	// it says of itself, it is for nobody else.
	Private bool
}

// Missing tells what a list lacks, or holds only in an older state.
type Missing struct {
	Upstream string
	Reason   string // public: no address, no other principal's data
	Stale    bool   // its last good list was served instead
}

// List is one page of a merged list. Items and Missing are shared and read-only.
type List struct {
	Items   []byte        // the items joined by commas, without brackets
	Count   int           // of items on this page
	Next    string        // our cursor; "" on the last page
	TTL     time.Duration // what ttlMs may promise; never negative
	Public  bool          // every contribution was public (checklist 154)
	Missing []Missing     // by upstream; what the whole list lacks, on every page
}

// Target is what a request is about (DESIGN, words). Params, Names and Notes are
// shared and read-only.
type Target struct {
	Upstream string
	Kind     mcp.Kind
	ID       string        // the original name, URI or uriTemplate
	Exposed  string        // the name under which it is listed
	Params   []HeaderParam // x-mcp-header annotations of the tool's schema
	Known    bool          // found in a list, not by the form of the name
	Names    []string      // every name it is judged under (DESIGN section 11)
	Notes    []byte        // a tool's annotations, a raw object as its list gave it; nil: none
	Tasks    string        // whether a call of the tool may be a task of 2025-11-25: TaskOptional, TaskRequired; "": it may not
	Rule     string        // how it was found: "catalog", "alias", "split", "short form", "template", "remembered", "passthrough", "ui"
}

// What a tool's execution.taskSupport may say; "forbidden" is as good as none.
const (
	TaskOptional = "optional"
	TaskRequired = "required"
)

// HeaderParam is one x-mcp-header annotation of a tool's inputSchema (checklist 23, 109).
type HeaderParam struct {
	Header string   // the part after Mcp-Param-, as annotated
	Path   []string // property names from the arguments object down
	Type   string   // "string", "integer" or "boolean"
}
