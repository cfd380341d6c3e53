package observe

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// callKey is what a call to an upstream is measured by, beside the upstream.
type callKey struct{ method, outcome string }

func (k callKey) canon() callKey { return callKey{methodLabel(k.method), word(k.outcome)} }

func (k callKey) values(key string) []string { return []string{key, k.method, k.outcome} }

// hookKey is what a run of a hook is measured by, beside the hook.
type hookKey struct{ event, outcome string }

func (k hookKey) canon() hookKey { return hookKey{word(k.event), word(k.outcome)} }

func (k hookKey) values(key string) []string { return []string{key, k.event, k.outcome} }

// grantKey is what a request for a credential is measured by, beside the upstream.
type grantKey struct{ kind, outcome string }

func (k grantKey) canon() grantKey { return grantKey{word(k.kind), word(k.outcome)} }

func (k grantKey) values(key string) []string { return []string{key, k.kind, k.outcome} }

// listKey is what a list is counted by.
type listKey struct{ server, kind, outcome string }

func (k listKey) canon() listKey { return listKey{id(k.server), word(k.kind), word(k.outcome)} }

func (m *Metrics) newLists(over *prometheus.CounterVec) *handles[listKey, prometheus.Counter] {
	vec := lists.counters()
	m.registry.MustRegister(vec)
	return newHandles(maxIDs, listKey{other, other, other}, over.WithLabelValues(lists.name), listKey.canon,
		func(k listKey) prometheus.Counter { return vec.WithLabelValues(k.server, k.kind, k.outcome) })
}

// UpstreamCall measures one request to an upstream, lists too.
// outcome is a word of the program: ok, error (the upstream's own), timeout,
// lost, unavailable, invalid, cancelled.
func (m *Metrics) UpstreamCall(upstream, method, outcome string, d time.Duration) {
	if m == nil {
		return
	}
	m.upstreams.get(upstream).get(callKey{method, outcome}).Observe(max(d, 0).Seconds())
}

// Hook measures one run of a hook. event is that of the document, such as
// tool.before; outcome is a word of the program: allow, rewrite, deny, and where
// on_error decided error_allowed, error_denied, too_large_allowed, too_large_denied.
func (m *Metrics) Hook(hook, event, outcome string, d time.Duration) {
	if m == nil {
		return
	}
	m.hooks.get(hook).get(hookKey{event, outcome}).Observe(max(d, 0).Seconds())
}

// Grant measures one request to a token server. kind is that of the upstream's
// credentials in the document; outcome is a word of the program: ok, cached, refused,
// failed, unavailable.
func (m *Metrics) Grant(upstream, kind, outcome string, d time.Duration) {
	if m == nil {
		return
	}
	m.grants.get(upstream).get(grantKey{kind, outcome}).Observe(max(d, 0).Seconds())
}

// List counts one merged list served. kind is mcp.Kind's; outcome is complete,
// stale (all there, some of it in an older state), partial or failed.
func (m *Metrics) List(server, kind, outcome string) {
	if m == nil {
		return
	}
	m.lists.get(listKey{server, kind, outcome}).Inc()
}

// Identity counts one verification of who calls. outcome is a word of the
// program, such as ok, cached, missing, expired, invalid; never anything of the token.
func (m *Metrics) Identity(outcome string) {
	if m == nil {
		return
	}
	m.identities.get(outcome).Inc()
}

// Decision counts one decision of the policy: allow, deny or hidden.
func (m *Metrics) Decision(effect string) {
	if m == nil {
		return
	}
	m.decisions.get(effect).Inc()
}

// Limited counts one request that a limit refused: global, principal, upstream,
// in_flight or source.
func (m *Metrics) Limited(scope string) {
	if m == nil {
		return
	}
	m.limited.get(scope).Inc()
}

// Task counts what became of a task or of an id that was asked for: minted,
// refused, invalid, withheld, collision, not_offered, unknown, foreign, denied,
// located, ambiguous, driven, or notified: a listener was told of it.
func (m *Metrics) Task(event string) {
	if m == nil {
		return
	}
	m.tasks.get(event).Inc()
}

// DurableTransition counts one transition of a durable task into a phase.
func (m *Metrics) DurableTransition(phase string) {
	if m == nil {
		return
	}
	m.durables.get(phase).Inc()
}

// Reload counts one attempt to take over another document.
func (m *Metrics) Reload(ok bool) {
	if m == nil {
		return
	}
	outcome := OK
	if !ok {
		outcome = Failed
	}
	m.reloads.get(outcome).Inc()
}
