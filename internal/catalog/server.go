package catalog

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"sort"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/penstock-mcp/penstock/internal/mcp"
)

// maxReports bounds how many different faults of lists are logged once each.
const maxReports = 10000

// Server is the catalog of one virtual server. Its methods are safe for
// concurrent use. It does nothing before it is asked, and ends what it started
// in Close.
type Server struct {
	o       Options
	fetch   Fetcher
	names   *namer
	aliases []aliasEntry // by name
	macs    sync.Pool    // of hash.Hash, for cursors

	sources  [mcp.NumKinds][]*source     // by member
	private  [mcp.NumKinds]atomic.Int32  // sources whose lists are not known to be public
	changed  [mcp.NumKinds]atomic.Uint64 // counts what makes merged lists out of date before their time
	common   *partition                  // merged lists of public contributions alone
	parts    partitions                  // the others, by scope
	sets     sets
	tables   tables
	rendered rendered
	memory   memory

	ctx  context.Context // of everything that runs behind requests
	stop context.CancelFunc
	life struct {
		sync.Mutex // guards closed, and orders wg.Add before wg.Wait
		closed     bool
		wg         sync.WaitGroup
	}
	once struct {
		sync.Mutex // guards said
		said       map[[sha256.Size]byte]struct{}
	}
}

type aliasEntry struct {
	name string
	origin
}

// New makes the catalog of one virtual server; it starts nothing. The error
// joins every configuration fault found.
func New(o Options, f Fetcher) (*Server, error) {
	o.setDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	if f == nil {
		return nil, errors.New("catalog: a Fetcher is required")
	}
	s := &Server{o: o, fetch: f, names: newNamer(&o)}
	s.common = newPartition(Scope{}, len(o.Members))
	s.once.said = make(map[[sha256.Size]byte]struct{})
	s.ctx, s.stop = context.WithCancel(context.Background())
	for name, a := range o.Aliases {
		s.aliases = append(s.aliases, aliasEntry{name, origin{s.names.index[a.Upstream], a.Tool}})
	}
	sort.Slice(s.aliases, func(i, j int) bool { return s.aliases[i].name < s.aliases[j].name })
	for kind := range mcp.NumKinds {
		s.private[kind].Store(int32(len(o.Members)))
		for i, m := range o.Members {
			src := &source{member: i, upstream: m.Key, kind: kind, personal: m.PerCaller}
			if src.personal {
				src.sharing.Store(sharingPrivate)
			}
			src.common = &feed{src: src}
			s.sources[kind] = append(s.sources[kind], src)
		}
	}
	return s, nil
}

// Close ends background refreshes and waits for them. Lists asked for
// afterwards are answered from what is known.
func (s *Server) Close() {
	s.life.Lock()
	s.life.closed = true
	s.life.Unlock()
	s.stop()
	s.life.wg.Wait()
}

// Bytes is how many bytes of lists are held, rendered views aside.
func (s *Server) Bytes() int64 {
	_, bytes := s.sets.swap(nil, nil)
	return bytes
}

// spawn runs f in a goroutine that Close waits for; false after Close.
func (s *Server) spawn(f func()) bool {
	s.life.Lock()
	defer s.life.Unlock()
	if s.life.closed {
		return false
	}
	s.life.wg.Go(f)
	return true
}

// Invalidate says that an upstream's list of a kind has changed, or, with all,
// every list of it: whoever asks from now on gets it as it is now.
func (s *Server) Invalidate(upstream string, kind mcp.Kind, all bool) {
	member, ok := s.names.index[upstream]
	if !ok {
		return
	}
	for k := range mcp.NumKinds {
		if all || k == kind {
			s.sources[k][member].dirty.Add(1)
			s.changed[k].Add(1)
		}
	}
}

// report logs a fault of somebody's list once, however often it is met.
func (s *Server) report(level slog.Level, msg string, args ...any) {
	key := sha256.Sum256(fmt.Append(nil, msg, args))
	s.once.Lock()
	_, said := s.once.said[key]
	full := len(s.once.said) >= maxReports
	if !said && !full {
		s.once.said[key] = struct{}{}
	}
	s.once.Unlock()
	if !said && !full {
		s.o.Log.Log(s.ctx, level, msg, append([]any{"server", s.o.Name}, args...)...)
	}
}

// tables shares equal tables between scopes, without keeping them alive.
type tables struct {
	mu sync.Mutex // guards all below; also makes one build at a time
	by map[[sha256.Size]byte]weak.Pointer[table]
}

// table returns the table of these lists, built at most once while it is used.
func (s *Server) table(kind mcp.Kind, lists []*itemSet) *table {
	h := sha256.New()
	h.Write([]byte{byte(kind)})
	for _, list := range lists {
		if list == nil {
			list = emptySet
		}
		h.Write(list.digest[:])
	}
	var digest [sha256.Size]byte
	h.Sum(digest[:0])

	t, fresh := s.tables.find(digest, func() *table { return s.build(kind, lists, digest) })
	if !fresh {
		return t
	}
	for _, c := range t.collisions {
		s.report(slog.LevelWarn, "two upstreams offer one identifier", "kind", c.Kind.String(), "name", c.Name,
			"winner", c.Winner.Upstream, "winner_item", c.Winner.ID, "loser", c.Loser.Upstream, "loser_item", c.Loser.ID,
			"loser_exposed", c.Exposed)
	}
	return t
}

// find returns the table with this digest; fresh tells that it was built.
func (ts *tables) find(digest [sha256.Size]byte, build func() *table) (t *table, fresh bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.by[digest].Value(); t != nil {
		return t, false
	}
	t = build()
	if ts.by == nil {
		ts.by = make(map[[sha256.Size]byte]weak.Pointer[table])
	}
	for d, p := range ts.by {
		if p.Value() == nil {
			delete(ts.by, d)
		}
	}
	ts.by[digest] = weak.Make(t)
	return t, true
}
