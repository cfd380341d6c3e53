package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/penstock-mcp/penstock/internal/store"
)

// Origin is the tool that a task came from, for policy to judge before anything
// is told of the task. The error is ErrNoTask for an id that is not this
// caller's, or a *Refusal.
func (c *Coordinator) Origin(ctx context.Context, who Caller, id string) (Target, error) {
	now, err := c.clock()
	if err != nil {
		return Target{}, storage(err, wordsOf(id), "CLOCK_INVALID")
	}
	r, err := c.load(ctx, &who, id, now)
	if err != nil {
		return Target{}, storage(err, wordsOf(id), "STORAGE_READ")
	}
	return r.Target(), nil
}

// Target is the tool that a route came from.
func (r *Route) Target() Target {
	return Target{Alias: r.Alias, Upstream: r.Capability.Source, Tool: r.Tool, Server: r.Server, Capability: r.Capability, Effect: r.Effect}
}

// List returns at most limit routes of all callers, newest first, for the
// operator. A record that is not usable is left out, and logged.
func (c *Coordinator) List(ctx context.Context, f store.RouteFilter, limit int) ([]*Route, error) {
	rows, err := c.o.Routes.List(ctx, f, limit)
	if err != nil {
		return nil, err
	}
	out := make([]*Route, 0, len(rows))
	for _, row := range rows {
		r, err := readRoute(row)
		if err != nil {
			c.note(err, "a stored route is not usable")
			continue
		}
		out = append(out, r)
	}
	return out, nil
}

// Show returns one route of any caller with its journal, for the operator, and
// store.ErrNotFound when there is none. A journal that does not fit together is
// an error beside both.
func (c *Coordinator) Show(ctx context.Context, id string) (*Route, []store.RouteEvent, error) {
	row, err := c.o.Routes.Get(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	r, err := readRoute(row)
	if err != nil {
		return nil, nil, err
	}
	events, err := c.o.Routes.Journal(ctx, id)
	if err != nil {
		return r, nil, err
	}
	last := ""
	for i := range events {
		e := &events[i]
		d, err := digestOf(e)
		if err != nil || d.String() != e.Digest || e.Previous != last || e.Version != uint64(i) {
			return r, events, fmt.Errorf("the journal of %s does not fit together at its entry %d", id, i)
		}
		last = e.Digest
	}
	if last != r.Journal {
		return r, events, fmt.Errorf("the journal of %s ends elsewhere than its record says", id)
	}
	return r, events, nil
}

// ErrResolved: the route has ended already, or the end is none that an operator
// can give it.
var ErrResolved = errors.New("durable: the route cannot be resolved")

// Resolve ends a route that an operator has looked into: as completed, failed or
// cancelled, or as unknown where nobody will ever know. Nothing is sent. The
// caller is told that an operator said so, and why.
func (c *Coordinator) Resolve(ctx context.Context, id, status, reason, actor string) error {
	row, err := c.o.Routes.Get(ctx, id)
	if err != nil {
		return err
	}
	r, err := readRoute(row)
	if err != nil {
		return err
	}
	cached, err := resolved(r, status, reason, actor)
	if err != nil {
		return err
	}
	ended := false
	_, err = c.change(ctx, r, func(next *Route) bool {
		if next.Phase == Terminal {
			return false
		}
		ended = true
		return end(next, "TASK_RESOLVED_BY_OPERATOR", "operator_resolved", cached)
	})
	if err == nil && !ended {
		return fmt.Errorf("%w: %s has ended", ErrResolved, id)
	}
	return err
}

func resolved(r *Route, status, reason, actor string) (json.RawMessage, error) {
	data := map[string]any{"executionState": "operator_resolved", "reason": reason, "actor": actor, "automaticResubmission": false}
	switch status {
	case "completed":
		text, err := json.Marshal(map[string]any{
			"content": []any{map[string]any{"type": "text", "text": "An operator says that this work was done: " + reason}},
		})
		if err != nil {
			return nil, err
		}
		return ending("completed", "result", text)
	case "cancelled":
		return ending("cancelled", "", nil)
	case "failed", "unknown":
		code := "TASK_RESOLVED_BY_OPERATOR"
		if status == "unknown" {
			code, data["executionState"] = "TASK_OUTCOME_UNKNOWN", "unknown"
		}
		failure, err := json.Marshal(map[string]any{"code": -32001, "message": r.words().Code(code), "data": data})
		if err != nil {
			return nil, err
		}
		return ending("failed", "error", failure)
	}
	return nil, fmt.Errorf("%w: want completed, failed, cancelled or unknown, not %q", ErrResolved, status)
}

// Next is what an operator can do about a route, in a sentence.
func (r *Route) Next() string {
	switch r.Phase {
	case Prepared:
		return "nothing was sent; the caller's retry sends it, or it ends at its cutoff"
	case Dispatching:
		return "wait for the upstream's answer"
	case Routed:
		return "the caller polls"
	case CancelRequested:
		return "poll again, or ask the upstream what became of it and resolve it"
	case Reconciliation:
		if r.UpstreamTask == "" {
			return "ask the upstream whether it ran, by public id or request digest, and resolve it; it is not sent again"
		}
		return "the same connection may still settle it; else ask the upstream and resolve it"
	}
	return "ended; kept until it expires"
}
