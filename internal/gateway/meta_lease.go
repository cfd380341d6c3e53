package gateway

import (
	"context"
	"encoding/json"

	"github.com/penstock-mcp/penstock/internal/durable"
)

// maxAliases is how many tools one lease can cover.
const maxAliases = 32

// lease issues a lease for tools that the caller sees (contract 1.2).
func (c *metaCall) lease(ctx context.Context) error {
	var aliases []json.RawMessage
	if raw := c.args["aliases"]; len(raw) == 0 || raw[0] != '[' || json.Unmarshal(raw, &aliases) != nil {
		return c.fail("LEASE_CAPABILITY_OUTSIDE_CONE")
	}
	if len(aliases) == 0 || len(aliases) > maxAliases {
		return c.fail("LEASE_LIMIT_INVALID")
	}
	grant := &durable.Grant{Caller: c.who, Spelling: c.words, TTL: c.args["ttlMs"], SideEffects: c.args["sideEffects"]}
	for _, raw := range aliases {
		var alias string
		if raw[0] != '"' || json.Unmarshal(raw, &alias) != nil {
			return c.fail("LEASE_CAPABILITY_OUTSIDE_CONE")
		}
		_, d, found, err := c.target(ctx, alias)
		if err != nil {
			return err
		}
		if !found {
			return c.fail("LEASE_CAPABILITY_OUTSIDE_CONE")
		}
		grant.Targets = append(grant.Targets, d)
	}
	out, err := c.g.durable.Lease(ctx, grant)
	if err != nil {
		return c.refused(err)
	}
	return c.answer(out)
}

// release ends a lease before its time.
func (c *metaCall) release(ctx context.Context) error {
	id, ok := c.text("leaseId")
	if !ok {
		return c.fail("LEASE_CAPABILITY_OUTSIDE_CONE")
	}
	out, err := c.g.durable.Release(ctx, c.who, c.words, id)
	if err != nil {
		return c.refused(err)
	}
	return c.answer(out)
}

// invoke is an ordinary call of a tool that a lease covers: from the lease on it
// goes the way of one, and its result passes as that of one.
func (c *metaCall) invoke(ctx context.Context) error {
	alias, ok := c.text("alias")
	if !ok {
		return c.fail("CAPABILITY_NOT_FOUND")
	}
	lease, _ := c.text("leaseId")
	arguments := c.args["arguments"]
	if len(arguments) == 0 {
		arguments = json.RawMessage(`{}`)
	}
	t, d, found, err := c.target(ctx, alias)
	if err != nil {
		return err
	}
	if !found {
		return c.fail("CAPABILITY_NOT_FOUND")
	}
	c.aimed(&t)
	if err := c.g.durable.Authorize(ctx, c.who, c.words, lease, &d); err != nil {
		return c.refused(err)
	}
	if err := c.x.Retarget(alias, arguments); err != nil {
		return err
	}
	return c.g.callNamed(ctx, c.x, c.v, alias, true)
}
