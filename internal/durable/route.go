package durable

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/penstock-mcp/penstock/internal/store"
)

// Route is the durable record of one submission. Times are Unix milliseconds. A
// Route handed out is immutable.
type Route struct {
	Schema        int             `json:"schema_version"`
	ID            string          `json:"public_task_id"`
	Spelling      string          `json:"spelling"` // of the submission, and of all that its caller sees
	Principal     string          `json:"principal"`
	Tenant        string          `json:"tenant"`
	Server        string          `json:"server"` // virtual server it was submitted on
	Alias         string          `json:"alias"`
	Tool          string          `json:"tool"`
	Effect        Effect          `json:"effect"`
	Key           string          `json:"idempotency_key"`
	RequestDigest Digest          `json:"request_digest"`
	Binding       json.RawMessage `json:"submission_binding"` // canonical; RequestDigest is of these bytes
	Capability    Capability      `json:"capability"`
	Snapshot      Digest          `json:"source_snapshot_digest"`

	// DispatchSession is the connection that the call was, or was to be, sent on:
	// the one in the envelope. Session is the one that the route is bound to now;
	// they differ only behind a re-binding.
	DispatchSession string `json:"dispatch_session_id"`
	Session         string `json:"upstream_session_id"`
	Endpoint        Digest `json:"upstream_endpoint"`
	EnvelopeWords   string `json:"envelope_spelling"`
	UpstreamTask    string `json:"upstream_task_id"`
	Owner           string `json:"dispatch_owner_id"`

	Phase   Phase  `json:"phase"`
	Reason  string `json:"reason"` // why it is there: a code without its prefix, or ""
	Created int64  `json:"created_at_unix_ms"`
	Updated int64  `json:"updated_at_unix_ms"`
	TTL     int64  `json:"ttl_ms"`
	Expires int64  `json:"expires_at_unix_ms"`
	Cutoff  int64  `json:"cutoff_unix_ms"` // the deadline, or the end of the runtime
	Due     int64  `json:"due_unix_ms"`    // when the watchdog looks; 0: never
	Output  int64  `json:"max_output_bytes"`
	Cancels int    `json:"cancel_attempts"`
	Version uint64 `json:"transition_version"`

	// Cached is the end as the caller is told: an object of status and its result
	// or error. Execution says who knows of it.
	Cached    json.RawMessage `json:"cached_terminal_state"`
	Execution string          `json:"execution_state"`
	Journal   string          `json:"journal_digest"` // of the last event
}

const routeSchema = 1

func (r *Route) words() Spelling {
	s, _ := ParseSpelling(r.Spelling)
	return s
}

func (r *Route) expired(now time.Time) bool { return now.UnixMilli() >= r.Expires }
func (r *Route) late(now time.Time) bool    { return now.UnixMilli() >= r.Cutoff }

// record is the row of a route.
func (r *Route) record() (*store.Route, error) {
	if err := r.valid(); err != nil {
		return nil, err
	}
	doc, digest, err := canonically(r)
	if err != nil {
		return nil, err
	}
	row := r.row()
	row.Integrity, row.Document = digest.String(), doc
	return row, nil
}

// row is what the columns of a route's record say.
func (r *Route) row() *store.Route {
	row := &store.Route{
		ID: r.ID, Principal: r.Principal, Tenant: r.Tenant, Key: r.Key, RequestDigest: r.RequestDigest.String(), Server: r.Server,
		Upstream: r.Capability.Source, UpstreamTask: r.UpstreamTask, Phase: string(r.Phase), Created: time.UnixMilli(r.Created),
		Updated: time.UnixMilli(r.Updated), Expires: time.UnixMilli(r.Expires), Version: r.Version,
	}
	if r.Due != 0 {
		row.Due = time.UnixMilli(r.Due)
	}
	return row
}

// Why a stored record is refused. Nothing is told, sent or changed on its word.
var (
	errIntegrity = errors.New("the record's document is not the one that was written")
	errColumns   = errors.New("the record's columns and its document disagree")
	errInvariant = errors.New("the record breaks an invariant")
)

// readRoute takes a route from its row, and looks at everything again: the
// digest, the agreement of columns and document, the shape.
func readRoute(row *store.Route) (*Route, error) {
	if Sum(row.Document).String() != row.Integrity {
		return nil, fmt.Errorf("route %s: %w", row.ID, errIntegrity)
	}
	r := new(Route)
	d := json.NewDecoder(bytes.NewReader(row.Document))
	d.DisallowUnknownFields()
	if err := d.Decode(r); err != nil {
		return nil, fmt.Errorf("route %s: %w: %w", row.ID, errIntegrity, err)
	}
	if string(r.Cached) == "null" {
		r.Cached = nil
	}
	said, is := *row, r.row()
	if said.ID != is.ID || said.Principal != is.Principal || said.Tenant != is.Tenant || said.Key != is.Key ||
		said.RequestDigest != is.RequestDigest || said.Server != is.Server || said.Upstream != is.Upstream ||
		said.UpstreamTask != is.UpstreamTask || said.Phase != is.Phase || !said.Created.Equal(is.Created) ||
		!said.Updated.Equal(is.Updated) || !said.Expires.Equal(is.Expires) || !said.Due.Equal(is.Due) || said.Version != is.Version {
		return nil, fmt.Errorf("route %s: %w", row.ID, errColumns)
	}
	if err := r.valid(); err != nil {
		return nil, fmt.Errorf("route %s: %w", row.ID, err)
	}
	return r, nil
}

// valid holds a route against the invariants of the contract (3.2).
func (r *Route) valid() error {
	fault := ""
	_, spelled := ParseSpelling(r.Spelling)
	_, enveloped := ParseSpelling(r.EnvelopeWords)
	switch {
	case r.Schema != routeSchema:
		fault = "schema version"
	case !IsPublicID(r.ID) || !spelled || !enveloped:
		fault = "identity"
	case !validCallerPart(r.Principal) || !validCallerPart(r.Tenant) || !validIdentifier(r.Key):
		fault = "caller or key"
	case Sum(r.Binding) != r.RequestDigest:
		fault = "request digest"
	case r.Created < 0 || r.Updated < r.Created || r.TTL <= 0 || r.Expires != r.Created+r.TTL:
		fault = "times"
	case r.DispatchSession == "" || r.Session == "":
		fault = "session"
	case (r.Phase == Dispatching) != (r.Owner != ""):
		fault = "dispatch owner"
	case r.UpstreamTask != "" && (r.Phase == Prepared || r.Phase == Dispatching || !validUpstreamTask(r.UpstreamTask, maxUpstreamTask)),
		r.UpstreamTask == "" && r.Phase == Routed:
		fault = "upstream task id"
	case (r.Phase == Terminal) != (len(r.Cached) > 0) || (r.Phase == Terminal) != (r.Execution != "") || len(r.Cached) > maxCached:
		fault = "terminal state"
	case legal[r.Phase] == nil && r.Phase != Terminal:
		fault = "phase"
	}
	if fault != "" {
		return fmt.Errorf("%w of its %s", errInvariant, fault)
	}
	return nil
}

// maxCached bounds a cached end, in its canonical form.
const maxCached = 64 << 10

// event is the journal's entry of a transition that made r.
func (r *Route) event(from Phase, actor string) (*store.RouteEvent, error) {
	e := &store.RouteEvent{
		Route: r.ID, Version: r.Version, From: string(from), To: string(r.Phase), Reason: r.Reason, Actor: actor,
		At: time.UnixMilli(r.Updated), Previous: r.Journal,
	}
	d, err := digestOf(e)
	e.Digest = d.String()
	return e, err
}

// digestOf is the digest that an event of the journal should have.
func digestOf(e *store.RouteEvent) (Digest, error) {
	_, d, err := canonically(map[string]any{
		"route": e.Route, "version": e.Version, "from": e.From, "to": e.To, "reason": e.Reason, "actor": e.Actor,
		"atUnixMs": e.At.UnixMilli(), "previous": e.Previous,
	})
	return d, err
}
