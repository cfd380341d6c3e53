package observe

import "github.com/prometheus/client_golang/prometheus"

// definition is one metric as the page docs/metrics.md has it. The help says
// what the metric is and, after a semicolon, what to do when it moves.
type definition struct {
	name   string
	kind   string // counter, gauge or histogram
	labels []string
	help   string
	desc   *prometheus.Desc
}

// buckets are those of every duration: from a call that touches nothing to the
// longest that call_timeout_max usually allows.
var buckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}

// all are the definitions in the order of the page.
var all []*definition

func define(kind, name, help string, labels ...string) *definition {
	d := &definition{name: "penstock_" + name, kind: kind, labels: labels, help: help}
	d.desc = prometheus.NewDesc(d.name, d.help, d.labels, nil)
	all = append(all, d)
	return d
}

// What clients see.
var (
	requests = define("counter", "requests_total",
		"Finished requests, by the name of their error's code; outcome failed or panic is the gateway's or an upstream's fault, refused and error are mostly the caller's: see errors.md for the code",
		"server", "method", "era", "outcome", "code")
	requestSeconds = define("histogram", "request_duration_seconds",
		"Time from a request's arrival to its last byte; compare with penstock_upstream_call_duration_seconds: what is not spent there is spent in hooks, credentials or the gateway. subscriptions/listen lasts as long as the client likes",
		"server", "method", "outcome")
	panics = define("counter", "panics_total",
		"Requests that ended in a fault of the program, and in nothing else; the log has the stack under the request's id: report it")
	received = define("counter", "request_received_bytes_total",
		"Bytes of request bodies; a jump means that a client sends more, or larger, requests", "server")
	sent = define("counter", "request_sent_bytes_total",
		"Bytes of answers; a jump means larger results: limits.response_bytes bounds one", "server")
	inFlight = define("gauge", "requests_in_flight",
		"Requests being served, streams aside; when it grows while penstock_requests_total does not, an upstream or a hook is slow")
	northSessions = define("gauge", "sessions",
		"Sessions of legacy clients that this instance knows; at limits.sessions new clients are refused: raise it, or lower limits.idle_session")
	streams = define("gauge", "streams",
		"Open streams to clients; a sudden fall means that a proxy in front cuts them")
	listeners = define("gauge", "listeners",
		"Clients that wait for change notifications; follows the number of clients")
	parked = define("gauge", "parked_calls",
		"Calls that wait for a client's answer to a question; a steady rise means clients that ask and go away")
	lists = define("counter", "lists_total",
		"Merged lists served; partial or stale means that an upstream did not answer in time: see penstock_upstream_state", "server", "kind", "outcome")
	cacheBytes = define("gauge", "cache_bytes",
		"Memory of cached lists; at limits.cache_bytes lists are merged anew more often")
)

// What upstreams do.
var (
	upstreamSeconds = define("histogram", "upstream_call_duration_seconds",
		"Time of each request to an upstream; its _count is the number of calls. A rise is the upstream's; outcome timeout, lost or unavailable: look at the upstream's own log",
		"upstream", "method", "outcome")
	upstreamState = define("gauge", "upstream_state",
		"1 for the state the upstream is in: up, down or connecting; down: /ready?details has its last error", "upstream", "state")
	upstreamBreaker = define("gauge", "upstream_breaker_state",
		"1 for the state of the upstream's breaker: closed, half-open or open; open: calls are refused without being sent until the upstream answers again", "upstream", "state")
	upstreamSessions = define("gauge", "upstream_sessions",
		"Sessions that this instance holds at the upstream, or private processes of a child; a rise without more clients means that the upstream forgets its sessions", "upstream")
	upstreamInFlight = define("gauge", "upstream_calls_in_flight",
		"Calls that the upstream has not answered yet; at its max_concurrent further calls wait", "upstream")
	upstreamRunning = define("gauge", "upstream_child_running",
		"1 while the upstream's child process runs; only of upstreams with a command. 0 for long: its stderr is in the log", "upstream")
	upstreamStarts = define("counter", "upstream_child_starts_total",
		"Starts of the upstream's child process; more than one per reload means that it ends by itself: its stderr is in the log", "upstream")
	upstreamReplicas = define("gauge", "upstream_replicas",
		"Addresses of the upstream by state; fewer up than configured: /ready?details names the one that fails", "upstream", "state")
)

// What governs.
var (
	identities = define("counter", "identities_total",
		"Verified credentials of callers, by outcome; a rise of refusals is a client with an expired or wrong token, or somebody who guesses", "outcome")
	decisions = define("counter", "decisions_total",
		"Decisions of the policy; deny and hidden after a change of the rules: penstock explain NAME --as SUBJECT says which rule decides", "effect")
	limited = define("counter", "limited_total",
		"Requests refused by a limit, by its scope; principal and in_flight are one caller, global is all together: raise the limit or find the caller in the audit", "scope")
	tasks = define("counter", "tasks_total",
		"What became of tasks and of ids that were asked for; refused, withheld and collision: a tool ran whose task nobody can follow; foreign: somebody asks for the tasks of others; notified: a listener was told of one", "event")
	durableMoves = define("counter", "durable_transitions_total",
		"Transitions of durable tasks, by the phase that they led to; reconciliation_required: the outcome of a submission is unknown, and penstock tasks list --durable names it", "phase")
	durableRoutes = define("gauge", "durable_routes",
		"Durable tasks that are stored, by phase, expired ones that were not swept yet among them; at durable.max_routes together no more are taken", "phase")
	hookSeconds = define("histogram", "hook_duration_seconds",
		"Time of each hook; its _count is the number of runs. Every call waits for it; outcome error_* or too_large_*: on_error decided in the hook's place", "hook", "event", "outcome")
	grantSeconds = define("histogram", "grant_duration_seconds",
		"Time to get a credential for an upstream from its token server; its _count is the number of requests there, but for outcome cached, which needed none. Failures make calls fail with credential_failed", "upstream", "kind", "outcome")
	auditWritten = define("counter", "audit_records_written_total",
		"Audit records on the disk; it follows penstock_requests_total")
	auditLost = define("counter", "audit_records_lost_total",
		"Audit records that were not written; any is a gap that penstock audit verify shows: see penstock_audit_failing")
	auditFailures = define("counter", "audit_write_failures_total",
		"Failed writes of the audit file; check the disk and the rights of the folder")
	auditRotations = define("counter", "audit_rotations_total",
		"Audit files closed and followed by a new one; more often than expected: more requests, or a small limit")
	auditFailing = define("gauge", "audit_failing",
		"1 while audit records cannot be written; requests are refused or go unrecorded, as audit.on_failure says: free the disk")
	auditQueued = define("gauge", "audit_queued_bytes",
		"Memory of the audit records that are not yet on the disk; when it stays high, the disk is too slow: at 8 MiB records are lost, or requests refused")
)

// What the process is about.
var (
	storeUp = define("gauge", "store_up",
		"1 while the store answers; 0: legacy clients get store_unavailable, see operations.md")
	draining = define("gauge", "draining",
		"1 while the gateway is stopping and takes no new work")
	reloads = define("counter", "config_reloads_total",
		"Reloads of the document; outcome failed: the old one is still served, the log names the problem with its line", "outcome")
	spans = define("counter", "trace_spans_total",
		"Finished spans; dropped: the queue was full or the gateway ended, failed: the collector did not take them. Requests are not affected: see the log, or lower observe.sample", "outcome")
	spansQueued = define("gauge", "trace_spans_queued",
		"Spans not yet sent to the collector; when it stays high, the collector is slow")
	folded = define("counter", "metrics_folded_total",
		"Times that a label value was one too many and was counted as other; a restart forgets the names that are gone from the document", "metric")
	buildInfo = define("gauge", "build_info",
		"Always 1; tells which version runs", "version", "goversion")
)

func (d *definition) counters() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.name, Help: d.help}, d.labels)
}

func (d *definition) histograms() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: d.name, Help: d.help, Buckets: buckets}, d.labels)
}
