package durable

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/penstock-mcp/penstock/internal/store"
)

// Submit begins a durable task, or finds the one that the caller's key names,
// and returns the result object for the caller: a CreateTaskResult. The error is
// a *Refusal.
//
// The order of the checks is the contract's (2.2). Nothing has been sent when it
// refuses.
func (c *Coordinator) Submit(ctx context.Context, s *Submit) (json.RawMessage, error) {
	r, err := c.submit(ctx, s)
	if err != nil {
		return nil, err
	}
	return r.handle()
}

func (c *Coordinator) submit(ctx context.Context, s *Submit) (*Route, error) {
	who, words := &s.Caller, s.Spelling
	now, err := c.clock()
	if err != nil {
		return nil, refuse(words, Failure, "CLOCK_INVALID")
	}
	known, err := c.known(ctx, s, now)
	if err != nil {
		return nil, err
	}
	if known == nil {
		if r := c.allowed(ctx, s); r != nil {
			return nil, r
		}
	}
	if r := who.check(words); r != nil {
		return nil, r
	}
	if _, err := c.o.Routes.Expire(ctx, now, purgeBatch); err != nil {
		c.o.Log.Warn("expired durable routes not removed", "error", err)
	}
	if past, err := c.recover(ctx, s, known, now); past != nil || err != nil {
		return past, err
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, s.Arguments); err != nil || compact.Len() == 0 || compact.Bytes()[0] != '{' {
		return nil, refuse(words, ToolError, "TASK_ARGUMENTS_REQUIRED")
	}
	if compact.Len() > maxInput {
		return nil, refuse(words, InvalidParams, "TASK_INPUT_LIMIT_EXCEEDED")
	}
	sub, refused := c.examine(s, s.Target.Capability.Schema, now)
	if refused != nil {
		return nil, refused
	}
	source, ok := c.o.Sources.Source(s.Target.Upstream)
	if !ok {
		return nil, refuse(words, InvalidParams, "TASK_UPSTREAM_UNAVAILABLE")
	}
	conn, err := source.Connect(ctx)
	if err != nil {
		return nil, because(err, words, InvalidParams, "TASK_UPSTREAM_UNAVAILABLE")
	}
	r, refused := c.draft(s, sub, source, conn, now)
	if refused != nil {
		return nil, refused
	}
	stored, created, err := c.begin(ctx, r, now)
	if err != nil {
		return nil, begun(err, words)
	}
	if !created {
		if stored.RequestDigest != r.RequestDigest || stored.Spelling != r.Spelling {
			return nil, refuse(words, InvalidParams, "TASK_IDEMPOTENCY_CONFLICT")
		}
		arguments := s.Arguments
		if !who.granted(NonIdempotentWrite) {
			arguments = nil // what was not sent yet needs the scope of now, with or without a lease
		}
		return c.resume(ctx, stored, arguments)
	}
	if known != nil { // it was swept since it was found, and this is a new one
		if refused := c.allowed(ctx, s); refused != nil {
			if _, err := c.never(ctx, stored, "TASK_NOT_DISPATCHED"); err != nil {
				return nil, storage(err, words, "STORAGE_WRITE")
			}
			return nil, refused
		}
	}
	return c.dispatch(ctx, stored, conn, s.Arguments)
}

// known is the unexpired route that the submission's key names, if its document
// can be read that far.
func (c *Coordinator) known(ctx context.Context, s *Submit, now time.Time) (*Route, error) {
	var peek struct {
		Key string `json:"idempotencyKey"`
	}
	if json.Unmarshal(s.Task, &peek) != nil || !validIdentifier(peek.Key) {
		return nil, nil
	}
	row, err := c.o.Routes.Find(ctx, s.Caller.Principal, s.Caller.Tenant, peek.Key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, storage(err, s.Spelling, "STORAGE_READ")
	}
	r, err := readRoute(row)
	if err != nil {
		return nil, storage(err, s.Spelling, "STORAGE_READ")
	}
	if r.expired(now) {
		return nil, nil
	}
	return r, nil
}

// allowed looks at the lease of a new submission.
func (c *Coordinator) allowed(ctx context.Context, s *Submit) *Refusal {
	if s.LeaseID == "" && c.o.LeaseOptional {
		if !s.Caller.granted(NonIdempotentWrite) {
			return refuse(s.Spelling, ToolError, "LEASE_SIDE_EFFECT_SCOPE_REQUIRED")
		}
		return nil
	}
	return c.authorize(ctx, &s.Caller, s.Spelling, s.LeaseID, &s.Target, NonIdempotentWrite)
}

// recover answers a submission whose deadline has passed: with the route that
// its key names, if it is that one. It never creates nor dispatches.
func (c *Coordinator) recover(ctx context.Context, s *Submit, known *Route, now time.Time) (*Route, error) {
	var peek struct {
		Deadline *uint64 `json:"deadlineUnixMs"`
		Key      *string `json:"idempotencyKey"`
	}
	if json.Unmarshal(s.Task, &peek) != nil || peek.Deadline == nil || *peek.Deadline > uint64(now.UnixMilli()) {
		return nil, nil
	}
	if peek.Key == nil {
		return nil, refuse(s.Spelling, InvalidParams, "TASK_SUBMISSION_INVALID")
	}
	if known == nil {
		return nil, refuse(s.Spelling, InvalidParams, "TASK_DEADLINE_INVALID")
	}
	sub, refused := c.examine(s, known.Capability.Schema, time.UnixMilli(known.Created))
	if refused != nil {
		return nil, refused
	}
	if _, digest, err := bind(s.Spelling, &known.Capability, known.Snapshot, sub); err != nil || digest != known.RequestDigest {
		return nil, refuse(s.Spelling, InvalidParams, "TASK_IDEMPOTENCY_CONFLICT")
	}
	return c.resume(ctx, known, nil)
}

// examine parses the submission and holds it against the contract at a time.
func (c *Coordinator) examine(s *Submit, provider Digest, at time.Time) (*Submission, *Refusal) {
	sub, err := parseSubmission(s.Task)
	if err != nil {
		return nil, because(err, s.Spelling, InvalidParams, "TASK_SUBMISSION_INVALID")
	}
	input, err := SumJSON(s.Arguments)
	if err != nil {
		return nil, because(err, s.Spelling, ToolError, "TASK_ARGUMENTS_REQUIRED")
	}
	top := ceilings{runtime: c.o.MaxRuntime, retention: c.o.MaxRetention}
	if code := sub.check(s.Spelling, input, provider.String(), at, top); code != "" {
		return nil, refuse(s.Spelling, InvalidParams, code)
	}
	return sub, nil
}

// draft makes the route of a submission on a connection.
func (c *Coordinator) draft(s *Submit, sub *Submission, source Source, conn Connection, now time.Time) (*Route, *Refusal) {
	bound, digest, err := bind(s.Spelling, &s.Target.Capability, conn.Snapshot(), sub)
	if err != nil {
		return nil, because(err, s.Spelling, InvalidParams, "TASK_SUBMISSION_INVALID")
	}
	if len(bound) > maxBinding {
		return nil, refuse(s.Spelling, InvalidParams, fmt.Sprintf("TASK_ROUTE_SUBMISSION_BINDING_TOO_LARGE:%d>%d", len(bound), maxBinding))
	}
	at := now.UnixMilli()
	r := &Route{
		Schema: routeSchema, ID: newPublicID(s.Spelling), Spelling: s.Spelling.String(), Principal: s.Caller.Principal, Tenant: s.Caller.Tenant,
		Server: s.Target.Server, Alias: s.Target.Alias, Tool: s.Target.Tool, Effect: s.Target.Effect, Key: sub.IdempotencyKey,
		RequestDigest: digest, Binding: bound, Capability: s.Target.Capability, Snapshot: conn.Snapshot(),
		DispatchSession: conn.Session(), Session: conn.Session(), Endpoint: conn.Endpoint(), EnvelopeWords: source.Settings().Spelling.String(),
		Phase: Prepared, Created: at, Updated: at, TTL: int64(sub.RetentionMs), Expires: at + int64(sub.RetentionMs),
		Cutoff: min(int64(sub.DeadlineUnixMs), at+int64(sub.Limits.MaxRuntimeMs)), Output: int64(sub.Limits.MaxOutputBytes),
	}
	r.Due = c.due(r)
	return r, nil
}

// begin commits the route of a new submission, or finds the one that stands.
func (c *Coordinator) begin(ctx context.Context, r *Route, now time.Time) (stored *Route, created bool, err error) {
	e, err := r.event("", c.o.Instance)
	if err != nil {
		return nil, false, err
	}
	r.Journal = e.Digest
	row, err := r.record()
	if err != nil {
		return nil, false, err
	}
	row, created, err = c.o.Routes.Begin(ctx, row, e, now, store.RouteBounds{Max: c.o.MaxRoutes, MaxPerCaller: c.o.MaxRoutesPerCaller})
	if err != nil {
		return nil, false, err
	}
	if created {
		c.o.On(r, *e)
		return r, true, nil
	}
	stored, err = readRoute(row)
	return stored, false, err
}

// begun is the refusal for a submission that could not be stored.
func begun(err error, s Spelling) error {
	switch {
	case errors.Is(err, store.ErrFull), errors.Is(err, store.ErrFullFor):
		return because(err, s, InvalidParams, "TASK_ROUTE_CAPACITY")
	case errors.Is(err, store.ErrConflict):
		return because(err, s, Failure, "STORAGE_PUBLIC_TASK_ID_COLLISION")
	}
	return storage(err, s, "STORAGE_WRITE")
}

// resume is what a retry of a known submission finds. Nothing is sent again;
// what was never sent is sent now, while there is time and arguments are given.
func (c *Coordinator) resume(ctx context.Context, r *Route, arguments json.RawMessage) (*Route, error) {
	words := r.words()
	now, err := c.clock()
	if err != nil {
		return nil, storage(err, words, "CLOCK_INVALID")
	}
	switch r.Phase {
	case Prepared:
		if r.late(now) {
			r, err = c.never(ctx, r, "TASK_RUNTIME_BOUND_REACHED")
			break
		}
		if arguments == nil {
			break
		}
		conn, err := c.connected(ctx, r)
		if err != nil {
			break // it stays prepared: nothing is known against it
		}
		if conn.Snapshot() != r.Snapshot || conn.Configuration() != r.Capability.Configuration {
			if r, err = c.never(ctx, r, "TASK_SOURCE_SNAPSHOT_CHANGED"); err != nil {
				return nil, storage(err, words, "STORAGE_WRITE")
			}
			return r, nil
		}
		return c.dispatch(ctx, r, conn, arguments)
	case Dispatching:
		r, err = c.judgeDispatch(ctx, r, now)
	case Routed:
		if !c.current(ctx, r) {
			r, err = c.doubt(ctx, r, "TASK_SOURCE_SNAPSHOT_CHANGED")
		}
	}
	if err != nil {
		return nil, storage(err, words, "STORAGE_WRITE")
	}
	return r, nil
}
