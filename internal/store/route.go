package store

import (
	"context"
	"time"
)

// Route is the record of one durable submission, from before its upstream is
// contacted until its retention ends (DESIGN section 10). What it means is the
// durable room's; the columns are those that the store compares, counts and
// orders by, and Document is everything, as the durable room wrote it. A record
// handed out is immutable.
type Route struct {
	ID        string // public task id
	Principal string
	Tenant    string
	// Key is the caller's idempotency key: of one principal and tenant it names
	// one route at a time.
	Key           string
	RequestDigest string
	Server        string // virtual server it was submitted on
	Upstream      string // key of the upstream
	UpstreamTask  string // "" until it is known; it is never another afterwards
	Phase         string
	Created       time.Time // of millisecond precision, as all times here
	Updated       time.Time
	Expires       time.Time
	// Due is when somebody should look at it without being asked; zero: never.
	Due       time.Time
	Version   uint64 // transitions; 0 in a new record
	Integrity string // digest of the document, as the durable room made it
	Document  []byte
}

// RouteEvent is one transition in the journal of a route. It is written in the
// transaction that makes it, so that the journal tells no other story.
type RouteEvent struct {
	Route    string
	Version  uint64 // of the route behind the transition
	From     string // phase; "" at the beginning
	To       string
	Reason   string // a code, or what happened in a word
	Actor    string // instance, or the operator
	At       time.Time
	Previous string // digest of the event before; "" at the beginning
	Digest   string // of this event with Previous, as the durable room made it
}

// RouteBounds are how many routes there may be.
type RouteBounds struct {
	Max          int // all rows, also expired ones that were not removed yet
	MaxPerCaller int // unexpired ones of one principal and tenant
}

// RouteFilter says which routes an operator lists; what is "" matches all.
type RouteFilter struct {
	Principal, Tenant, Upstream, Phase string
	Before                             time.Time // created earlier; zero: whenever
	BeforeID                           string    // among those created at Before: with a lower id
}

// Update states of an update intent.
const (
	UpdatePrepared = "prepared"
	UpdateSent     = "sent"
	UpdateAcked    = "acked"
	UpdateUnknown  = "unknown"
)

// RouteUpdate is the intent to answer a question of a durable task. The answer
// itself is not kept.
type RouteUpdate struct {
	Route  string
	Digest string // of the answer
	Seq    uint64 // in the order of the route's intents, from 1
	State  string
	At     time.Time
}

// Routes is the repository of durable submissions. It is safe for concurrent
// use, also by several instances on one database. Nothing here is cached: what
// is read is what is committed.
type Routes interface {
	// Begin stores a new route together with its first event, or finds the one
	// that its caller's key names already.
	//
	// An unexpired route of the same principal, tenant and key is returned with
	// created false, before any bound is looked at and without a commit. An expired
	// one is replaced in the same transaction, its journal and updates with it. A
	// bound that is reached is ErrFull or ErrFullFor, and both hold exactly also
	// between those who begin at once; an id that stands already is ErrConflict.
	// The record is durable when Begin returns, at the cost of one commit that it
	// may share with others.
	//
	// The event has to be that of the record: its id, its version 0, its phase, and
	// no phase before it. What comes back has its times in milliseconds.
	Begin(ctx context.Context, r *Route, e *RouteEvent, now time.Time, b RouteBounds) (stored *Route, created bool, err error)
	// Get returns the route of a public id, expired or not, or ErrNotFound.
	Get(ctx context.Context, id string) (*Route, error)
	// Find returns the route that a caller's key names, expired or not, or
	// ErrNotFound.
	Find(ctx context.Context, principal, tenant, key string) (*Route, error)
	// Update puts r in the place of the record that is at version r.Version-1 and
	// in phase e.From, and appends the event, in one transaction and durably;
	// ErrConflict when the record is at another version, ErrNotFound when there is
	// none. An upstream task that was set stays as it was: another one, or none, is
	// ErrConflict. Caller, key, request digest, Created and Expires stay as Begin
	// stored them, whatever r says. Again the event has to be that of the record.
	Update(ctx context.Context, r *Route, e *RouteEvent) error
	// Journal returns the events of a route in their order, or ErrNotFound.
	Journal(ctx context.Context, id string) ([]RouteEvent, error)
	// Due returns at most limit unexpired routes whose Due has come, the oldest
	// first.
	Due(ctx context.Context, now time.Time, limit int) ([]*Route, error)
	// List returns at most limit routes, newest first, expired or not.
	List(ctx context.Context, f RouteFilter, limit int) ([]*Route, error)
	// Expire removes at most limit routes that expired at or before now, the
	// earliest first and then by id, with their journals and updates, and returns
	// how many.
	Expire(ctx context.Context, now time.Time, limit int) (int, error)
	// Count is the number of rows by phase.
	Count(ctx context.Context) (map[string]int, error)

	// Intend stores the intent of an update before it is sent, as UpdatePrepared,
	// or returns the one of the same digest that stands, with created false. The
	// store numbers them: Seq and State of u are not looked at. At most limit
	// intents belong to a route: ErrFull. ErrNotFound: there is no such route.
	Intend(ctx context.Context, u *RouteUpdate, limit int) (stored RouteUpdate, created bool, err error)
	// Resolve moves an intent from one state to another; ErrConflict when it is in
	// another state, ErrNotFound when there is none.
	Resolve(ctx context.Context, route, digest, from, to string, at time.Time) error

	// Beat says that an instance lives, for as long as given from now by the
	// database's clock.
	Beat(ctx context.Context, instance string, validity time.Duration) error
	// Alive tells whether an instance has said so and that time has not passed.
	// Where the database belongs to one process, nobody else does.
	Alive(ctx context.Context, instance string) (bool, error)
}
