package south

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
)

// Options configure one Upstream. They are not changed after New.
type Options struct {
	Key           string        // configured key, in errors and logs
	URL           *url.URL      // the MCP endpoint; nil with Command
	Command       *Command      // the upstream is a child process; nil: it is at URL
	Header        http.Header   // static headers and credentials, canonical keys
	Authorize     Authorizer    // credentials that change; nil: Header holds all there are
	TLS           *tls.Config   // nil: the system's roots
	Proxy         *url.URL      // nil: none; environment variables are not read
	Era           mcp.Era       // EraUnknown: probe
	Timeout       time.Duration // of one call, without progress
	TimeoutMax    time.Duration // of one call, with progress
	ProbeTimeout  time.Duration // of one probe request
	MaxConcurrent int           // calls at once; 0: no bound
	Failures      uint32        // consecutive transport faults that open the breaker
	OpenFor       time.Duration // how long the breaker stays open at most
	ResponseBytes int64         // one answer
	IdleSession   time.Duration // a legacy session unused for this long is ended
	Keep          Keep          // remembers legacy sessions; nil: they end with the process
	ClientInfo    []byte        // raw JSON Implementation of the gateway
	Log           *slog.Logger
}

// Info is what an upstream said of itself. It is immutable.
type Info struct {
	Era          mcp.Era
	Revision     mcp.Revision
	Capabilities []byte // raw JSON object
	Instructions string
	ServerInfo   []byte // raw JSON object, or nil
}

// Upstream is one MCP server, over streamable HTTP or as a child process over
// stdio. It is safe for concurrent use.
type Upstream struct {
	o        Options
	hop      hop    // nil with child
	child    *child // nil: HTTP
	breaker  *breaker
	slots    chan struct{} // nil: no bound
	endpoint atomic.Pointer[url.URL]
	info     atomic.Pointer[Info]
	lastErr  atomic.Pointer[failure]
	issues   atomic.Bool // see IssuesSessions
	nonce    string
	ids      atomic.Uint64
	modern   *Link
	sessions pool
	kick     chan struct{}               // capacity 1: asks Run for a probe now
	spare    atomic.Pointer[wireSession] // the probe's session, for whoever needs one first

	// probing guards the probe in flight that others may wait for, and that nothing
	// is begun after Close.
	probing struct {
		sync.Mutex
		contact *contact // nil: none in flight
	}
	started  sync.Once
	work     sync.WaitGroup // Run and probes
	errands  errands
	oddities fault.Seldom // what is dropped

	ctx      context.Context // ends with Close
	stop     context.CancelFunc
	onChange atomic.Pointer[func()]
	watchers watchers
}

type failure struct {
	err error
	at  time.Time
}

// New returns an upstream that has not been contacted yet. Run keeps it
// connected; Close ends it.
func New(o Options) *Upstream {
	u := &Upstream{o: o, nonce: rand.Text()[:8], kick: make(chan struct{}, 1)}
	u.ctx, u.stop = context.WithCancel(context.Background())
	if o.Command != nil {
		u.child = newChild(u, *o.Command)
	} else {
		u.hop = newHop(hopOptions{static: staticFields(o.Header), tls: o.TLS, proxy: o.Proxy, scheme: o.URL.Scheme})
		u.endpoint.Store(o.URL)
	}
	u.breaker = newBreaker(o.Key, o.Failures, o.OpenFor)
	if o.MaxConcurrent > 0 {
		u.slots = make(chan struct{}, o.MaxConcurrent)
	}
	u.sessions.byKey = map[SessionKey]*session{}
	u.modern = &Link{Upstream: u, Era: mcp.Modern, Revision: mcp.LatestModern}
	return u
}

// Key is the upstream's configured key.
func (u *Upstream) Key() string { return u.o.Key }

// Info is what is known of the upstream, or nil before the first contact.
func (u *Upstream) Info() *Info { return u.info.Load() }

// OnChange sets a function that is called after what is known of the upstream
// changed, and after it came back: a child started again, a breaker closed by a probe. It must not block, and takes the
// place of the one set before.
func (u *Upstream) OnChange(f func()) { u.onChange.Store(&f) }

func (u *Upstream) changed() {
	if f := u.onChange.Load(); f != nil {
		(*f)()
	}
	u.watchers.news()
}

// State is a snapshot for operators.
type State struct {
	Key, State, Era, Revision, Breaker, LastError string
	LastErrorAt                                   time.Time
	Sessions                                      int
	PID                                           int // of a child that runs
	Starts                                        int // of a child, so far
	InFlight                                      int
	Replicas                                      []State // of an upstream at several addresses
}

// State tells the operator how the upstream stands: "up", "down" or "connecting".
func (u *Upstream) State() State {
	s := State{Key: u.o.Key, State: "connecting", Era: u.o.Era.String(), Breaker: u.breaker.state(), Sessions: u.sessions.len()}
	if u.slots != nil {
		s.InFlight = len(u.slots)
	}
	if i := u.info.Load(); i != nil {
		s.State, s.Era, s.Revision = "up", i.Era.String(), i.Revision.String()
	}
	if u.child != nil {
		u.child.describe(&s)
	}
	if f := u.lastErr.Load(); f != nil {
		s.LastError, s.LastErrorAt = f.err.Error(), f.at
		if !u.known() || u.breaker.state() == "open" {
			s.State = "down"
		}
	}
	return s
}

func (u *Upstream) setInfo(i *Info) {
	old := u.info.Swap(i)
	u.lastErr.Store(nil)
	if old == nil || old.Era != i.Era || string(old.Capabilities) != string(i.Capabilities) {
		u.changed()
	}
}

// fail remembers a transport fault for the operator and returns it.
func (u *Upstream) fail(err error) error {
	u.lastErr.Store(&failure{err: err, at: time.Now()})
	return err
}

// Dropped says, each kind at most once a minute, that something of the upstream's
// was dropped. what is a constant.
func (u *Upstream) Dropped(what string) {
	u.oddities.Say(u.o.Log, slog.LevelWarn, what, "upstream", u.o.Key)
}

// late notes a response that nobody waits for. That is usual after a cancel.
func (u *Upstream) late() {
	u.oddities.Say(u.o.Log, slog.LevelDebug, "response to no request dropped", "upstream", u.o.Key)
}

// nextID mints a JSON-RPC id, raw JSON. It carries a random part of this
// process, so that it never repeats on a session that changes hands.
func (u *Upstream) nextID(dst []byte) []byte {
	dst = append(dst, '"')
	dst = append(dst, u.nonce...)
	dst = append(dst, '-')
	dst = strconv.AppendUint(dst, u.ids.Add(1), 36)
	return append(dst, '"')
}

// acquire takes a slot of the upstream's concurrency, waiting as long as ctx allows.
func (u *Upstream) acquire(ctx context.Context) error {
	if u.slots == nil {
		return nil
	}
	select {
	case u.slots <- struct{}{}:
		return nil
	default:
	}
	select {
	case u.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fault.Wrap(ctx.Err(), fault.AtCapacity, "upstream %q has %d calls in flight, its limit", u.o.Key, cap(u.slots)).
			WithHint("try again later, or raise max_concurrent")
	}
}

func (u *Upstream) release() {
	if u.slots != nil {
		<-u.slots
	}
}

// Abandon ends every session of this process at the upstream, also those that
// are kept: the upstream is not in the configuration any more, or is another one
// under the same key, so that nobody will look for them.
func (u *Upstream) Abandon(ctx context.Context) {
	u.watchers.end() // or they would open their sessions again
	u.errands.settle(ctx, settleTime)
	u.endSessions(ctx, func(SessionKey) bool { return true })
}

// Close ends every watch, session and connection. Calls in flight are not waited
// for; their owner drains them first.
func (u *Upstream) Close(ctx context.Context) {
	u.watchers.end()
	u.errands.settle(ctx, settleTime)
	if u.o.Keep == nil {
		u.endSessions(ctx, func(SessionKey) bool { return true })
	} else if w := u.spare.Swap(nil); w != nil {
		u.delete(ctx, w) // nobody's; the others are to be found again
	}
	u.probing.Lock()
	u.stop()
	u.probing.Unlock()
	u.errands.close()
	if u.child != nil {
		u.child.close(ctx)
		u.work.Wait()
		return
	}
	u.work.Wait()
	u.hop.closeIdle()
}

// Tried reports whether a first contact has succeeded or failed.
func (u *Upstream) Tried() bool { return u.info.Load() != nil || u.lastErr.Load() != nil }

// Wait returns after the first contact succeeded or failed, or when ctx ends.
func (u *Upstream) Wait(ctx context.Context) {
	if !u.Tried() {
		_, _ = u.connect(ctx) // the outcome is read from Info
	}
}
