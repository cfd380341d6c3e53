package durable

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/penstock-mcp/penstock/internal/store"
)

// Bounds of a lease (contract 1.2).
const (
	maxLeaseTTL     = 600_000
	defaultLeaseTTL = 60_000
)

// lease is what a caller may submit or invoke for a time. The names of its
// members are those that were stored ever since; the expiry is an absolute time
// in Unix milliseconds, whatever its name says.
type lease struct {
	ID              string       `json:"id"`
	Principal       string       `json:"principal"`
	Tenant          string       `json:"tenant"`
	RequestIdentity string       `json:"request_identity"`
	Capabilities    []Capability `json:"capabilities"`
	Scope           []string     `json:"scope"`
	Expires         int64        `json:"expires_at_monotonic_ms"`
	MonetaryBudget  int64        `json:"monetary_budget"`
	TokenBudget     int64        `json:"token_budget"`
	RetryBudget     int64        `json:"retry_budget"`
	SideEffects     []Effect     `json:"side_effects"`
	Manifest        Digest       `json:"manifest_digest"`
}

// manifest is the digest of everything that a lease grants, and to whom.
func (l *lease) manifest() (Digest, error) {
	_, d, err := canonically(map[string]any{
		"principal": l.Principal, "tenant": l.Tenant, "requestIdentity": l.RequestIdentity, "capabilities": l.Capabilities,
		"scope": l.Scope, "expiresAtUnixMs": l.Expires, "monetaryBudget": l.MonetaryBudget, "tokenBudget": l.TokenBudget,
		"retryBudget": l.RetryBudget, "sideEffects": l.SideEffects,
	})
	return d, err
}

// newLease makes a lease that is not stored yet.
func newLease(who *Caller, caps []Capability, effects []Effect, expires time.Time) (*lease, error) {
	l := &lease{
		ID: newUUID(), Principal: who.Principal, Tenant: who.Tenant, RequestIdentity: "mcp-request", Scope: []string{},
		Expires: expires.UnixMilli(), TokenBudget: 4096, RetryBudget: 1, SideEffects: effects,
	}
	l.Capabilities = slices.Clone(caps)
	slices.SortFunc(l.Capabilities, func(a, b Capability) int {
		x, y := a.ID(), b.ID()
		if c := strings.Compare(a.Source, b.Source); c != 0 {
			return c
		}
		return bytes.Compare(x[:], y[:])
	})
	l.Capabilities = slices.Compact(l.Capabilities)
	var err error
	l.Manifest, err = l.manifest()
	return l, err
}

func (l *lease) record() (*store.Lease, error) {
	doc, err := json.Marshal(l)
	return &store.Lease{
		ID: l.ID, Principal: l.Principal, Tenant: l.Tenant, Expires: time.UnixMilli(l.Expires), Digest: l.Manifest.String(), Document: doc,
	}, err
}

// readLease takes a lease from its record; ok is false for one that is not what
// was stored, which authorises nothing.
func readLease(r *store.Lease) (l *lease, ok bool) {
	l = new(lease)
	d := json.NewDecoder(bytes.NewReader(r.Document))
	d.DisallowUnknownFields()
	if d.Decode(l) != nil {
		return l, false
	}
	m, err := l.manifest()
	return l, err == nil && m == l.Manifest && l.Manifest.String() == r.Digest && l.ID == r.ID
}

// authorize says whether a lease covers one effect of one target for a caller,
// in the order of the contract (2.3). intact is what readLease found.
func (l *lease) authorize(intact bool, who *Caller, t *Target, e Effect, now time.Time) (code string) {
	switch {
	case now.UnixMilli() >= l.Expires:
		return "LEASE_EXPIRED"
	case l.Principal != who.Principal:
		return "LEASE_PRINCIPAL_MISMATCH"
	case l.Tenant != who.Tenant:
		return "LEASE_TENANT_MISMATCH"
	case !intact:
		return "LEASE_MANIFEST_TAMPERED"
	}
	c := &t.Capability
	i := slices.IndexFunc(l.Capabilities, func(h Capability) bool {
		return h.Source == c.Source && h.Kind == c.Kind && h.NativeIdentity == c.NativeIdentity
	})
	switch {
	case i < 0:
		return "LEASE_CAPABILITY_OUTSIDE_CONE"
	case l.Capabilities[i].Schema != c.Schema:
		return "LEASE_STALE_SCHEMA"
	case l.Capabilities[i] != *c, !slices.Contains(l.SideEffects, e):
		return "LEASE_CAPABILITY_OUTSIDE_CONE"
	case !who.granted(e):
		return "LEASE_SIDE_EFFECT_SCOPE_REQUIRED"
	}
	return ""
}
