package durable

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/penstock-mcp/penstock/internal/store"
)

// Lease issues a lease and returns the structured content for the caller. The
// gateway has looked at the aliases; this looks at the rest, in the contract's
// order (1.2). The error is a *Refusal.
func (c *Coordinator) Lease(ctx context.Context, g *Grant) (json.RawMessage, error) {
	who := &g.Caller
	if r := who.check(g.Spelling); r != nil {
		return nil, r
	}
	effects, ok := parseEffects(g.SideEffects)
	if !ok {
		return nil, refuse(g.Spelling, ToolError, "LEASE_SIDE_EFFECT_INVALID")
	}
	for _, e := range effects {
		if !who.granted(e) {
			return nil, refuse(g.Spelling, ToolError, "LEASE_SIDE_EFFECT_SCOPE_REQUIRED")
		}
	}
	caps := make([]Capability, len(g.Targets))
	for i, t := range g.Targets {
		described := false
		for _, e := range effects {
			described = described || e == t.Effect
		}
		if !described {
			return nil, refuse(g.Spelling, ToolError, "LEASE_SIDE_EFFECT_OUTSIDE_CONE")
		}
		caps[i] = t.Capability
	}
	ttl := int64(defaultLeaseTTL)
	if g.TTL != nil && (string(g.TTL) == "null" || json.Unmarshal(g.TTL, &ttl) != nil) || ttl < 1 || ttl > maxLeaseTTL {
		return nil, refuse(g.Spelling, ToolError, "LEASE_LIMIT_INVALID")
	}
	now, err := c.clock()
	if err != nil {
		return nil, refuse(g.Spelling, Failure, "CLOCK_INVALID")
	}
	l, err := newLease(who, caps, effects, now.Add(time.Duration(ttl)*time.Millisecond))
	if err != nil {
		return nil, because(err, g.Spelling, ToolError, "STORAGE_WRITE")
	}
	record, err := l.record()
	if err == nil {
		_, swept := c.o.Leases.Expire(ctx, now.Add(-keptLease), purgeBatch)
		c.note(swept, "expired leases not removed")
		err = c.o.Leases.Put(ctx, record, now, store.LeaseBounds{Max: maxLeases, MaxPerCaller: maxLeasesPerCaller})
	}
	switch {
	case errors.Is(err, store.ErrFull), errors.Is(err, store.ErrFullFor):
		return nil, because(err, g.Spelling, ToolError, "LEASE_CAPACITY")
	case err != nil:
		return nil, because(err, g.Spelling, ToolError, "STORAGE_WRITE")
	}
	ids := make([]Digest, len(l.Capabilities))
	for i := range l.Capabilities {
		ids[i] = l.Capabilities[i].ID()
	}
	out, err := json.Marshal(map[string]any{
		"leaseId": l.ID, "manifestDigest": l.Manifest, "expiresInMs": ttl, "capabilities": ids,
	})
	if err != nil {
		return nil, because(err, g.Spelling, ToolError, "STORAGE_WRITE")
	}
	return out, nil
}

// Release ends a lease and returns the structured content for the caller. The
// error is a *Refusal.
func (c *Coordinator) Release(ctx context.Context, who Caller, s Spelling, id string) (json.RawMessage, error) {
	record, err := c.o.Leases.Get(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return json.RawMessage(`{"released":false}`), nil
	case err != nil:
		return nil, because(err, s, ToolError, "STORAGE_READ")
	case record.Principal != who.Principal || record.Tenant != who.Tenant:
		return nil, refuse(s, ToolError, "LEASE_PRINCIPAL_MISMATCH")
	}
	switch err := c.o.Leases.Delete(ctx, id); {
	case errors.Is(err, store.ErrNotFound):
		return json.RawMessage(`{"released":false}`), nil
	case err != nil:
		return nil, because(err, s, ToolError, "STORAGE_WRITE")
	}
	return json.RawMessage(`{"released":true}`), nil
}

// Authorize tells whether a lease covers a call of the target with its
// descriptive effect (the invoke tool). The error is a *Refusal.
func (c *Coordinator) Authorize(ctx context.Context, who Caller, s Spelling, id string, t *Target) error {
	if r := c.authorize(ctx, &who, s, id, t, t.Effect); r != nil {
		return r
	}
	return nil
}

func (c *Coordinator) authorize(ctx context.Context, who *Caller, s Spelling, id string, t *Target, e Effect) *Refusal {
	record, err := c.o.Leases.Get(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return refuse(s, ToolError, "LEASE_CAPABILITY_OUTSIDE_CONE")
	case err != nil:
		return because(err, s, ToolError, "STORAGE_READ")
	}
	now, err := c.clock()
	if err != nil {
		return refuse(s, Failure, "CLOCK_INVALID")
	}
	l, intact := readLease(record)
	if code := l.authorize(intact, who, t, e, now); code != "" {
		return refuse(s, ToolError, code)
	}
	return nil
}

// check tells whether the caller can own records.
func (who *Caller) check(s Spelling) *Refusal {
	if !validCallerPart(who.Principal) {
		return refuse(s, InvalidParams, "TASK_ROUTE_INVALID_IDENTIFIER:principal ID")
	}
	if !validCallerPart(who.Tenant) {
		return refuse(s, InvalidParams, "TASK_ROUTE_INVALID_IDENTIFIER:tenant ID")
	}
	return nil
}
