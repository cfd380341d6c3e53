package durable

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/store"
)

// TestLeaseRequests holds what may be asked of a lease to the contract (1.2).
func TestLeaseRequests(t *testing.T) {
	both(t, func(t *testing.T, words Spelling) {
		r := newRig(t, words, nil)
		raw := func(s string) json.RawMessage {
			if s == "" {
				return nil
			}
			return json.RawMessage(s)
		}
		all := []string{words.Scope(NonIdempotentWrite), words.Scope(IdempotentWrite)}
		for _, c := range []struct {
			name, effects, ttl string
			scopes             []string
			effect             Effect // of the capability
			code               string
		}{
			{"defaults", "", "", nil, ReadOnly, ""},
			{"all effects", `["non_idempotent_write","read_only","idempotent_write"]`, "600000", all, IdempotentWrite, ""},
			{"the least life", "", "1", nil, ReadOnly, ""},
			{"no list", `"read_only"`, "", nil, ReadOnly, "LEASE_SIDE_EFFECT_INVALID"},
			{"null", `null`, "", nil, ReadOnly, "LEASE_SIDE_EFFECT_INVALID"},
			{"none", `[]`, "", nil, ReadOnly, "LEASE_SIDE_EFFECT_INVALID"},
			{"twice", `["read_only","read_only"]`, "", nil, ReadOnly, "LEASE_SIDE_EFFECT_INVALID"},
			{"four", `["read_only","idempotent_write","non_idempotent_write","read_only"]`, "", all, ReadOnly, "LEASE_SIDE_EFFECT_INVALID"},
			{"unknown", `["write"]`, "", nil, ReadOnly, "LEASE_SIDE_EFFECT_INVALID"},
			{"no string", `[1]`, "", nil, ReadOnly, "LEASE_SIDE_EFFECT_INVALID"},
			{"no scope", `["read_only","idempotent_write"]`, "", []string{words.Scope(NonIdempotentWrite)}, ReadOnly, "LEASE_SIDE_EFFECT_SCOPE_REQUIRED"},
			{"no scope at all", `["non_idempotent_write"]`, "", nil, ReadOnly, "LEASE_SIDE_EFFECT_SCOPE_REQUIRED"},
			{"the capability does more", `["read_only"]`, "", nil, IdempotentWrite, "LEASE_SIDE_EFFECT_OUTSIDE_CONE"},
			{"the capability does less", `["non_idempotent_write"]`, "", all, ReadOnly, "LEASE_SIDE_EFFECT_OUTSIDE_CONE"},
			{"zero", "", "0", nil, ReadOnly, "LEASE_LIMIT_INVALID"},
			{"negative", "", "-1", nil, ReadOnly, "LEASE_LIMIT_INVALID"},
			{"a fraction", "", "1.5", nil, ReadOnly, "LEASE_LIMIT_INVALID"},
			{"too long", "", "600001", nil, ReadOnly, "LEASE_LIMIT_INVALID"},
			{"huge", "", "1e30", nil, ReadOnly, "LEASE_LIMIT_INVALID"},
			{"text", "", `"60000"`, nil, ReadOnly, "LEASE_LIMIT_INVALID"},
			{"null life", "", "null", nil, ReadOnly, "LEASE_LIMIT_INVALID"},
			{"effects before scopes", `["write"]`, "0", nil, IdempotentWrite, "LEASE_SIDE_EFFECT_INVALID"},
			{"scopes before the cone", `["idempotent_write"]`, "0", nil, ReadOnly, "LEASE_SIDE_EFFECT_SCOPE_REQUIRED"},
			{"the cone before the life", `["read_only"]`, "0", nil, IdempotentWrite, "LEASE_SIDE_EFFECT_OUTSIDE_CONE"},
		} {
			who, target := r.caller, r.target
			who.Scopes, target.Effect = c.scopes, c.effect
			out, err := r.c.Lease(context.Background(), &Grant{
				Caller: who, Spelling: words, Targets: []Target{target}, SideEffects: raw(c.effects), TTL: raw(c.ttl),
			})
			if got := r.code(err); got != c.code {
				t.Errorf("%s: %q, want %q", c.name, got, c.code)
			}
			var l struct {
				ID           string   `json:"leaseId"`
				Manifest     string   `json:"manifestDigest"`
				Expires      int64    `json:"expiresInMs"`
				Capabilities []string `json:"capabilities"`
			}
			if err == nil && (json.Unmarshal(out, &l) != nil || len(l.ID) != 36 || l.Expires == 0 || len(l.Capabilities) != 1 || l.Capabilities[0] != target.Capability.ID().String()) {
				t.Errorf("%s: %s", c.name, out)
			}
		}
		for _, who := range []Caller{{Tenant: "t"}, {Principal: "p"}, {Principal: "p\n", Tenant: "t"}} {
			if _, err := r.c.Lease(context.Background(), &Grant{Caller: who, Spelling: words, Targets: []Target{r.target}}); err == nil {
				t.Errorf("a lease for %+v", who)
			}
		}
	})
}

// TestLeaseAuthority holds what a lease covers to the order of the contract
// (2.3), for a submission and for a call.
func TestLeaseAuthority(t *testing.T) {
	both(t, func(t *testing.T, words Spelling) {
		r := newRig(t, words, nil)
		r.w.finish = "completed"
		write := func(r *rig, change func(*lease)) string {
			id := r.lease()
			record, err := r.c.o.Leases.Get(context.Background(), id)
			if err != nil {
				t.Fatal(err)
			}
			l, ok := readLease(record)
			if !ok {
				t.Fatal("a fresh lease does not read")
			}
			l.ID = newUUID()
			change(l)
			if record, err = l.record(); err != nil {
				t.Fatal(err)
			}
			if err := r.c.o.Leases.Put(context.Background(), record, r.clock.now(), store.LeaseBounds{Max: 1000, MaxPerCaller: 1000}); err != nil {
				t.Fatal(err)
			}
			return l.ID
		}
		for _, c := range []struct {
			name   string
			id     func() string
			before func(s *Submit)
			code   string
		}{
			{"unknown", func() string { return newUUID() }, nil, "LEASE_CAPABILITY_OUTSIDE_CONE"},
			{"none", func() string { return "" }, nil, "LEASE_CAPABILITY_OUTSIDE_CONE"},
			{"another principal's", func() string { return r.lease(func(g *Grant) { g.Caller.Principal = "bob" }) }, nil, "LEASE_PRINCIPAL_MISMATCH"},
			{"another tenant's", func() string { return r.lease(func(g *Grant) { g.Caller.Tenant = "other" }) }, nil, "LEASE_TENANT_MISMATCH"},
			{"given a longer life", func() string { return write(r, func(l *lease) { l.Expires += 1000 }) }, nil, "LEASE_MANIFEST_TAMPERED"},
			{"given another effect", func() string { return write(r, func(l *lease) { l.SideEffects = effects }) }, nil, "LEASE_MANIFEST_TAMPERED"},
			{"of before", func() string {
				return write(r, func(l *lease) {
					_, l.Manifest, _ = canonically(map[string]any{
						"principal": l.Principal, "tenant": l.Tenant, "requestIdentity": l.RequestIdentity, "capabilities": l.Capabilities,
						"scope": l.Scope, "expiresAtMonotonicMs": l.Expires, "monetaryBudget": l.MonetaryBudget, "tokenBudget": l.TokenBudget,
						"retryBudget": l.RetryBudget, "sideEffects": l.SideEffects,
					})
				})
			}, nil, "LEASE_MANIFEST_TAMPERED"},
			{"another tool's", func() string {
				return r.lease(func(g *Grant) { g.Targets[0].Capability.NativeIdentity = Sum([]byte("other")) })
			}, nil, "LEASE_CAPABILITY_OUTSIDE_CONE"},
			{"another source's", func() string {
				return r.lease(func(g *Grant) { g.Targets[0].Capability.Source = "other" })
			}, nil, "LEASE_CAPABILITY_OUTSIDE_CONE"},
			{"of an older schema", func() string {
				return r.lease(func(g *Grant) { g.Targets[0].Capability.Schema = Sum([]byte("old")) })
			}, nil, "LEASE_STALE_SCHEMA"},
			{"of another configuration", func() string {
				return r.lease(func(g *Grant) { g.Targets[0].Capability.Configuration = Sum([]byte("old")) })
			}, nil, "LEASE_CAPABILITY_OUTSIDE_CONE"},
			{"for reading", func() string {
				return r.lease(func(g *Grant) { g.SideEffects = nil; g.Targets[0].Effect = ReadOnly })
			}, nil, "LEASE_CAPABILITY_OUTSIDE_CONE"},
			{"whose scope is gone", func() string { return r.lease() }, func(s *Submit) { s.Caller.Scopes = nil }, "LEASE_SIDE_EFFECT_SCOPE_REQUIRED"},
			{"good", func() string { return r.lease() }, nil, ""},
			{"good, with the other spelling's scope", func() string { return r.lease() }, func(s *Submit) { s.Caller.Scopes = []string{(1 - words).Scope(NonIdempotentWrite)} }, ""},
			{"the local caller's", func() string { return r.lease() }, func(s *Submit) { s.Caller.Scopes, s.Caller.Local = nil, true }, ""},
		} {
			s := &Submit{Caller: r.caller, Spelling: words, Target: r.target, LeaseID: c.id(), Arguments: json.RawMessage(`{}`), Task: encode(t, r.task("key of "+c.name))}
			s.Task = encode(t, r.task(newUUID()))
			if c.before != nil {
				c.before(s)
			}
			_, err := r.c.Submit(context.Background(), s)
			if got := r.code(err); got != c.code {
				t.Errorf("submit under a lease that is %s: %q, want %q", c.name, got, c.code)
			}
			if err := r.c.Authorize(context.Background(), s.Caller, words, s.LeaseID, &s.Target); r.code(err) != c.code {
				t.Errorf("invoke under a lease that is %s: %v, want %q", c.name, err, c.code)
			}
		}

		id := r.lease()
		r.clock.move(59_999 * time.Millisecond)
		if err := r.c.Authorize(context.Background(), r.caller, words, id, &r.target); err != nil {
			t.Error(err)
		}
		r.restart() // a lease does not gain life by it
		r.clock.move(time.Millisecond)
		if err := r.c.Authorize(context.Background(), r.caller, words, id, &r.target); r.code(err) != "LEASE_EXPIRED" {
			t.Error(err)
		}
	})
}

// TestRelease ends a lease, of its caller only.
func TestRelease(t *testing.T) {
	both(t, func(t *testing.T, words Spelling) {
		r := newRig(t, words, nil)
		id, ctx := r.lease(), context.Background()
		other := r.caller
		other.Tenant = "other"
		if _, err := r.c.Release(ctx, other, words, id); r.code(err) != "LEASE_PRINCIPAL_MISMATCH" {
			t.Error(err)
		}
		for _, want := range []string{`{"released":true}`, `{"released":false}`} {
			if out, err := r.c.Release(ctx, r.caller, words, id); err != nil || string(out) != want {
				t.Errorf("%s %v, want %s", out, err, want)
			}
		}
		if _, err := r.send(id, r.task("k")); r.code(err) != "LEASE_CAPABILITY_OUTSIDE_CONE" {
			t.Error(err)
		}
	})
}

// TestLeaseCap: one caller's leases are bounded, and sweeping makes room.
func TestLeaseCap(t *testing.T) {
	r := newRig(t, Penstock, nil)
	for range maxLeasesPerCaller {
		r.lease()
	}
	g := &Grant{Caller: r.caller, Spelling: Penstock, Targets: []Target{r.target}, SideEffects: json.RawMessage(`["non_idempotent_write"]`)}
	if _, err := r.c.Lease(context.Background(), g); r.code(err) != "LEASE_CAPACITY" {
		t.Error(err)
	}
	other := *g
	other.Caller.Principal = "bob"
	if _, err := r.c.Lease(context.Background(), &other); err != nil {
		t.Errorf("another caller's: %v", err)
	}
	r.clock.move(61 * time.Second)
	r.lease()
	r.clock.move(2 * time.Minute)
	r.c.sweep(context.Background())
	if n, err := r.c.o.Leases.Expire(context.Background(), r.clock.now(), 10); n != 0 || err != nil {
		t.Errorf("%d left, %v", n, err)
	}
}
