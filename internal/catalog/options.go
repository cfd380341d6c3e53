package catalog

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sort"
	"strings"
	"time"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

// Naming is the rule by which a virtual server exposes identifiers (DESIGN section 5).
type Naming uint8

// The naming rules.
const (
	Namespaced  Naming = iota // {namespace}__{name}; URIs unchanged
	Prefixed                  // {key}-{identifier}, while more than one upstream is configured
	Passthrough               // unchanged; exactly one upstream
)

// String is the rule as the configuration spells it.
func (n Naming) String() string {
	switch n {
	case Namespaced:
		return "namespaced"
	case Prefixed:
		return "prefixed"
	case Passthrough:
		return "passthrough"
	}
	return "unknown"
}

// Alias names the tool that a published name stands for.
type Alias struct{ Upstream, Tool string }

// Expose limits what is offered: globs over any name of a target (canonical
// namespace__original, aliases, exposed and original; for resources and
// templates the URI, exposed and original, and the name). An empty Allow
// allows everything; a match in Deny hides, whatever Allow says.
type Expose struct{ Allow, Deny []string }

// Member is an upstream as this server knows it. Namespace defaults to Key.
type Member struct {
	Key, Namespace string
	// PerCaller says that callers have credentials of their own there. What one is
	// answered, a refusal most of all, then says nothing to another, even where
	// the upstream calls its lists public.
	PerCaller bool
}

// Options configure a Server. New copies what it keeps.
type Options struct {
	Name      string   // of the virtual server; bound into cursors
	Members   []Member // in any order
	Naming    Naming
	Separator string           // default "__" for namespaced, "-" for prefixed
	Aliases   map[string]Alias // by published name; tools only
	Expose    [mcp.NumKinds]Expose
	Judged    bool // callers see different things: every name of a target must be known

	PageSize    int           // items on a page of ours; default 200
	MaxItems    int           // per upstream and kind; default 20000
	MaxPages    int           // per walk of one upstream; default 1000
	ListTimeout time.Duration // for one walk of one upstream; default 3 s
	LegacyTTL   time.Duration // how long a legacy list is reused; default 1 s
	CacheBytes  int64         // rendered views and private lists, each; default 64 MiB

	// CursorKey authenticates cursors. Instances that share it continue each
	// other's cursors; empty: a random one, for this process alone.
	CursorKey []byte

	// Project appends one item, shaped for a client's revision, to dst. Nil
	// appends it unchanged. It must be a pure function, safe for concurrent use.
	Project func(kind mcp.Kind, rev mcp.Revision, dst, item []byte) []byte

	// Recovered, when set, is told after an upstream's list came that had failed
	// before, so that merged lists may hold what they lacked. It must not block.
	Recovered func(upstream string)

	Log *slog.Logger     // default: discards
	Now func() time.Time // default: time.Now
}

func (o *Options) setDefaults() {
	if o.Separator == "" {
		o.Separator = "__"
		if o.Naming == Prefixed {
			o.Separator = "-"
		}
	}
	if o.PageSize <= 0 {
		o.PageSize = 200
	}
	if o.MaxItems <= 0 {
		o.MaxItems = 20000
	}
	if o.MaxPages <= 0 {
		o.MaxPages = 1000
	}
	if o.ListTimeout <= 0 {
		o.ListTimeout = 3 * time.Second
	}
	if o.LegacyTTL <= 0 {
		o.LegacyTTL = time.Second
	}
	if o.CacheBytes <= 0 {
		o.CacheBytes = 64 << 20
	}
	if len(o.CursorKey) == 0 {
		o.CursorKey = make([]byte, 32)
		_, _ = rand.Read(o.CursorKey) // crypto/rand.Read never fails
	}
	if o.Project == nil {
		o.Project = func(_ mcp.Kind, _ mcp.Revision, dst, item []byte) []byte { return append(dst, item...) }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

// check sorts and copies the members and reports every fault of the options.
func (o *Options) check() error {
	var faults []error
	addf := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }

	members := make([]Member, len(o.Members))
	copy(members, o.Members)
	sort.Slice(members, func(i, j int) bool { return members[i].Key < members[j].Key })
	o.Members = members
	known := make(map[string]bool, len(members))
	spaces := make(map[string]string, len(members))
	for i := range members {
		m := &members[i]
		if m.Namespace == "" {
			m.Namespace = m.Key
		}
		switch {
		case m.Key == "":
			addf("server %q: an upstream has an empty key", o.Name)
		case known[m.Key]:
			addf("server %q: upstream %q is listed twice", o.Name, m.Key)
		case strings.Contains(m.Key, "/"):
			addf("server %q: upstream key %q must not contain a slash", o.Name, m.Key)
		}
		known[m.Key] = true
		if o.Naming == Namespaced {
			if other, ok := spaces[m.Namespace]; ok {
				addf("server %q: upstreams %q and %q share the namespace %q", o.Name, other, m.Key, m.Namespace)
			}
			spaces[m.Namespace] = m.Key
		}
	}
	if o.Naming == Passthrough && len(members) != 1 {
		addf("server %q: passthrough needs exactly one upstream, it has %d", o.Name, len(members))
	}
	if o.Naming > Passthrough {
		addf("server %q: unknown naming rule %d", o.Name, o.Naming)
	}

	names := make([]string, 0, len(o.Aliases))
	for name := range o.Aliases {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		a := o.Aliases[name]
		switch {
		case name == "" || a.Tool == "":
			addf("server %q: alias %q of tool %q: neither may be empty", o.Name, name, a.Tool)
		case !known[a.Upstream]:
			addf("server %q: alias %q names upstream %q, which this server does not have", o.Name, name, a.Upstream)
		}
	}
	return errors.Join(faults...)
}
