package north

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
	"github.com/penstock-mcp/penstock/internal/mcp"
	"github.com/penstock-mcp/penstock/internal/store"
)

// Gateway is what north needs of the rooms behind it.
type Gateway interface {
	// Identify tells who calls from the headers alone. Its error may be a Challenge.
	Identify(r *http.Request) (*Principal, error)
	// Local is who calls over stdio.
	Local() *Principal
	// Admit says whether a request of x.Principal may be worked on now. It is asked
	// once for each, before anything of it is read but its headers.
	Admit(x *Exchange) error
	// Record is told of each request once it is over, whatever became of it; see
	// Exchange.Trail. It must not keep x.
	Record(x *Exchange)
	// Describe answers initialize and server/discover: a raw result object for
	// a client of that revision.
	Describe(ctx context.Context, server string, p *Principal, rev mcp.Revision) ([]byte, error)
	// Serve answers a request through x, or returns the error to answer with.
	// After a first byte was written an error ends the connection.
	Serve(ctx context.Context, x *Exchange) error
	// Stand serves the standing stream of a legacy session: its GET stream, or the
	// connection of a stdio client. It writes notifications with x.Event until ctx
	// ends, and returns its cause. x.Msg and x.Method are empty.
	Stand(ctx context.Context, x *Exchange) error
	// Ended is told that a legacy session is over, by DELETE or by idleness.
	Ended(s *store.Session)
	// Ready reports why requests cannot be served, or nil.
	Ready() error
}

// Options configure a Handler.
type Options struct {
	Servers        map[string]string // virtual server name to path
	RequestBytes   int64
	InFlight       int // requests of one principal at once
	AllowedHosts   []string
	AllowedOrigins []string
	Idle           time.Duration // of a legacy session
	BodyTimeout    time.Duration // for one request's body to arrive
	InputTimeout   time.Duration // for a question to the user; 0: 30 minutes
	KeepAlive      time.Duration // between comments on a stream that waits; 0: 15 seconds
	Parked         int           // open questions of one principal; 0: no bound
	Streams        int           // open streams of one principal; 0: no bound
	ResumeEvents   int           // events kept for the client of one session; 0: none
	Ongoing        *Ongoing      // what goes on under other handlers, too; nil: one of its own
	WriteTimeout   time.Duration // for one write to a slow client to make way
	Claims         store.Claims  // on GET streams; nil: there is no other instance
	Instance       string        // names this process in claims
	Details        http.Handler  // answers /ready with details, or nil
	Metadata       http.Handler  // answers what lies under MetadataPath, or nil
	Full           func()        // told of each request that InFlight refuses; nil: nobody
	RequestID      func() string // names a request in logs and errors; nil: none is named
	Log            *slog.Logger
}

// Handler serves every virtual server. It is safe for concurrent use.
type Handler struct {
	o        Options
	gw       Gateway
	sessions store.Sessions
	byPath   map[string]string // path, with and without a final slash, to server
	guard    guard
	ongoing  *Ongoing
	serving  atomic.Int64
	lives    [lives]life
}

// New returns a handler. It holds no goroutine; Sweep is called by its owner.
func New(o Options, gw Gateway, sessions store.Sessions) *Handler {
	h := &Handler{o: o, gw: gw, sessions: sessions, byPath: map[string]string{}, guard: newGuard(o.AllowedHosts, o.AllowedOrigins)}
	h.o.InputTimeout = cmp.Or(o.InputTimeout, 30*time.Minute)
	h.o.KeepAlive = cmp.Or(o.KeepAlive, 15*time.Second)
	if h.ongoing = o.Ongoing; h.ongoing == nil {
		h.ongoing = NewOngoing()
	}
	for i := range h.lives {
		h.lives[i].begin()
	}
	for name, path := range o.Servers {
		path = strings.TrimSuffix(path, "/")
		h.byPath[path] = name
		h.byPath[path+"/"] = name
	}
	return h
}

// Sweep ends the sessions that were idle for too long, and throws away what is
// kept of streams that ended some time ago.
func (h *Handler) Sweep(ctx context.Context, now time.Time) error {
	h.ongoing.sweep(now)
	gone, err := h.sessions.Expire(ctx, now.Add(-h.o.Idle))
	for _, s := range gone {
		h.over(s)
	}
	return err
}

// Serving is the number of requests being served, streams aside.
func (h *Handler) Serving() int64 { return h.serving.Load() }

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.serving.Add(1)
	defer h.serving.Add(-1)
	if r.ContentLength != 0 {
		// Until the body is read: net/http would wait for the rest of it, before
		// it sends a refusal or closes the connection.
		w.Header()["Connection"] = closing
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(refusalGrace))
	}
	server, ok := h.byPath[r.URL.Path]
	if !ok {
		h.aside(w, r)
		return
	}
	if err := h.guard.check(r); err != nil {
		h.turnAway(w, r, server, err)
		return
	}
	h.guard.allowOrigin(w, r)
	switch r.Method {
	case http.MethodPost:
		h.post(w, r, server)
	case http.MethodGet:
		if modernGet(r) {
			h.notAllowed(w)
			return
		}
		h.get(w, r, server)
	case http.MethodDelete:
		h.delete(w, r, server)
	case http.MethodOptions:
		w.Header()["Allow"] = allowed
		w.WriteHeader(http.StatusNoContent)
	default:
		h.notAllowed(w)
	}
}

var allowed = []string{"GET, POST, DELETE, OPTIONS"}

// modernGet reports whether a GET names a revision that has no sessions and no
// stream without a request.
func modernGet(r *http.Request) bool {
	v := r.Header[mcp.HeaderProtocolVersion]
	if len(v) != 1 {
		return false
	}
	rev, known := mcp.ParseRevision(v[0])
	return known && rev.Era() == mcp.Modern
}

func (h *Handler) notAllowed(w http.ResponseWriter) {
	w.Header()["Allow"] = allowed
	w.WriteHeader(http.StatusMethodNotAllowed)
}

// aside answers what is not a virtual server's path.
func (h *Handler) aside(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/health":
		plain(w, http.StatusOK, "ok")
	case "/ready":
		switch {
		case h.o.Details != nil && r.URL.Query().Has("details") && h.guard.check(r) == nil:
			h.o.Details.ServeHTTP(w, r)
		case h.gw.Ready() != nil:
			plain(w, http.StatusServiceUnavailable, "not ready\n")
		default:
			plain(w, http.StatusOK, "ok")
		}
	default:
		if err := h.guard.check(r); err != nil {
			h.turnAway(w, r, "", err)
			return
		}
		if h.o.Metadata != nil && (r.URL.Path == MetadataPath || strings.HasPrefix(r.URL.Path, MetadataPath+"/")) {
			h.guard.allowOrigin(w, r)
			h.o.Metadata.ServeHTTP(w, r)
			return
		}
		plain(w, http.StatusNotFound, "no such path; the endpoints are: "+strings.Join(h.paths(), " ")+"\n")
	}
}

func (h *Handler) paths() []string {
	out := make([]string, 0, len(h.o.Servers))
	for _, p := range h.o.Servers {
		out = append(out, p)
	}
	return out
}

func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text))
}

// MetadataPath is where clients look for what protects a resource (RFC 9728
// section 3).
const MetadataPath = "/.well-known/oauth-protected-resource"

// admit counts a request of x.Principal, if it may be worked on now; release
// undoes it.
func (h *Handler) admit(x *Exchange) error {
	if err := h.gw.Admit(x); err != nil {
		return err
	}
	t := x.Principal.tally()
	if n := t.inFlight.Add(1); h.o.InFlight > 0 && n > int64(h.o.InFlight) {
		t.inFlight.Add(-1)
		if h.o.Full != nil {
			h.o.Full()
		}
		return fault.New(fault.AtCapacity, "%d requests of this caller are in flight, the limit", h.o.InFlight).
			WithHint("wait for some to end, or raise limits.in_flight_per_principal")
	}
	return nil
}
