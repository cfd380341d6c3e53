// Package durable is the second promise: a submission that survives a lost
// answer and a restart, and is not issued a second time (DESIGN section 10,
// seed 003). It knows leases, submissions, phases, reconciliation, cancellation
// and the watchdog, and neither HTTP nor JSON-RPC framing: the gateway hands it
// what a caller asked for, and gives it the upstreams as Sources.
//
// A route's way: prepared (committed, nothing sent) → dispatching (committed,
// the call may have left) → routed (the upstream's task id is bound, once) →
// terminal. What cannot be known is reconciliation_required, and is never sent
// again; an intent to cancel is cancel_requested, from before it is sent until
// the end is known.
package durable
