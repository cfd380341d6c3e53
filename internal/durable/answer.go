package durable

import (
	"encoding/json"
	"time"
)

// state is what a caller is told of a task at one moment.
type state struct {
	Status  string
	Message string
	// Body are the members result, error or inputRequests, as far as the status
	// has one.
	Body map[string]json.RawMessage
}

// limitations are what a route does not promise; they go with every answer.
var limitations = []string{
	"effects at the upstream are not exactly-once",
	"the acceptance policy is an identity and was not evaluated",
	"artifacts were not inspected or verified",
	"a cancellation that was acknowledged proves no effect prevented or reversed",
}

// executionState is who knows what of the work.
func (r *Route) executionState() string {
	switch r.Phase {
	case Prepared:
		return "not_dispatched"
	case Dispatching:
		return "acknowledgement_pending"
	case Routed:
		return "upstream_reported"
	case CancelRequested:
		return "cancellation_requested"
	case Terminal:
		return r.Execution
	}
	return "unknown"
}

// answer is the result object of a task: what a CreateTaskResult and a tasks/get
// have in common.
func (r *Route) answer(kind string, st state) (json.RawMessage, error) {
	words := r.words()
	meta := map[string]any{
		"schemaVersion": words.Schema("task-route"), "publicTaskId": r.ID, "requestSha256": r.RequestDigest, "capabilityId": r.Capability.ID(),
		"source": r.Capability.Source, "routePhase": r.Phase, "transitionVersion": r.Version, "submission": r.Binding,
		"executionState":         r.executionState(),
		"reconciliationRequired": r.Phase == Reconciliation || r.Phase == CancelRequested,
		"verificationStatus":     "not_performed", "policyAcceptance": words.Evaluated(),
		"transactionOutcome": "not_applicable_to_task_routing", "limitations": limitations,
	}
	out := map[string]any{
		"taskId": r.ID, "status": st.Status, "createdAt": stamp(r.Created), "lastUpdatedAt": stamp(r.Updated), "ttlMs": r.TTL,
		"pollIntervalMs": pollIntervalMs, "resultType": kind, "_meta": map[string]any{words.Meta("taskRoute"): meta},
	}
	if st.Message != "" {
		out["statusMessage"] = st.Message
	}
	for name, value := range st.Body {
		out[name] = value
	}
	return json.Marshal(out)
}

func stamp(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

// handle is the answer to a submission. Of an end it tells the status only: what
// came of it is for tasks/get.
func (r *Route) handle() (json.RawMessage, error) {
	st := state{Status: "working"}
	switch r.Phase {
	case Prepared:
		st.Message = "The submission is durable; its upstream has not been contacted."
	case Dispatching:
		st.Message = "The intent to dispatch is durable; the upstream's acknowledgement is pending."
	case Routed:
		st.Message = "The task is routed to the capability that it is bound to."
	case CancelRequested:
		st.Message = "Cancellation was requested; poll for what came of it."
	case Reconciliation:
		st.Message = r.words().Code("TASK_RECONCILIATION_REQUIRED")
	case Terminal:
		ended, err := r.ended()
		if err != nil {
			return nil, err
		}
		st.Status, st.Message = ended.Status, "The task has ended; its end is kept."
	}
	return r.answer("task", st)
}

// ended is the end of a terminal route as its caller is told.
func (r *Route) ended() (state, error) {
	var members map[string]json.RawMessage
	st := state{Message: "The upstream reported this end."}
	if err := json.Unmarshal(r.Cached, &members); err != nil {
		return st, err
	}
	if err := json.Unmarshal(members["status"], &st.Status); err != nil {
		return st, err
	}
	delete(members, "status")
	if r.Reason != "" {
		st.Message = r.words().Code(r.Reason)
	}
	st.Body = members
	return st, nil
}

// ending is an end in its canonical form.
func ending(status, member string, body json.RawMessage) (json.RawMessage, error) {
	end := map[string]json.RawMessage{"status": json.RawMessage(`"` + status + `"`)}
	if member != "" {
		end[member] = body
	}
	b, err := json.Marshal(end)
	if err != nil {
		return nil, err
	}
	return Canonical(b)
}

// conclude ends a route with what its upstream reported, unless that is larger
// than what was agreed.
func conclude(next *Route, status, member string, body json.RawMessage) bool {
	cached, err := ending(status, member, body)
	if err != nil || int64(len(cached)) > min(next.Output, maxCached) {
		return end(next, "TASK_OUTPUT_LIMIT_EXCEEDED", "completed", broken(next, "TASK_OUTPUT_LIMIT_EXCEEDED", "completed"))
	}
	return end(next, "", "upstream_reported", cached)
}

// broken is the end of a task that the gateway, and not the upstream, calls
// failed.
func broken(r *Route, code, execution string) json.RawMessage {
	failure, err := json.Marshal(map[string]any{
		"code": -32001, "message": r.words().Code(code),
		"data": map[string]any{
			"executionState": execution, "brokerAcceptance": "rejected", "reconciliationRequired": false, "automaticResubmission": false,
		},
	})
	if err != nil {
		panic("durable: strings and booleans are no JSON: " + err.Error())
	}
	cached, err := ending("failed", "error", failure)
	if err != nil {
		panic("durable: an end is no JSON: " + err.Error())
	}
	return cached
}
