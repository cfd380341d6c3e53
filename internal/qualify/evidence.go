package qualify

import (
	"encoding/json"
	"io"

	"github.com/penstock-mcp/penstock/internal/durable"
	"github.com/penstock-mcp/penstock/internal/qualify/artifact"
)

// Result is what a qualification prints. There is one only when every check held.
type Result struct {
	Schema   string         `json:"schemaVersion"`
	Status   string         `json:"status"`
	SHA256   durable.Digest `json:"evidenceSha256"` // of the canonical form of the evidence
	Evidence *Evidence      `json:"evidence"`
}

// Evidence is what was seen.
type Evidence struct {
	Schema       string            `json:"schemaVersion"`
	Status       string            `json:"status"`
	Execution    Execution         `json:"execution"`
	Artifacts    ArtifactEvidence  `json:"artifactVerification"`
	Cancellation DeadlineEvidence  `json:"cancellation"`
	Boundary     GuaranteeBoundary `json:"guaranteeBoundary"`
}

// Execution is the evidence of the one task that was recovered.
type Execution struct {
	UpstreamTransport     string        `json:"upstreamMcpTransport"`
	CallerTransport       string        `json:"callerRouterHarnessTransport"`
	SelfSpawnedUpstream   bool          `json:"selfSpawnedUpstreamBinary"`
	SelfSpawnedWorker     bool          `json:"selfSpawnedWorkerBinary"`
	RouterReopened        bool          `json:"sqliteRouterReopened"`
	AcknowledgementLost   bool          `json:"callerDiscardedAcknowledgement"`
	WorkspaceRemoved      bool          `json:"ownedTemporaryWorkspaceRemoved"`
	IdentityPreserved     bool          `json:"publicTaskIdentityPreserved"`
	UpstreamSubmissions   int           `json:"upstreamSubmissions"`
	WorkerStarts          int           `json:"workerProcessStarts"`
	WorkerEffects         int           `json:"workerEffects"`
	DuplicateEffects      int           `json:"duplicateEffects"`
	PrimaryTerminalStatus string        `json:"primaryTerminalStatus"`
	PrimaryOutcome        BrokerOutcome `json:"primaryBrokerOutcome"`
	ChangedInput          RefusedInput  `json:"changedInput"`
	Update                RefusedUpdate `json:"tasksUpdate"`
}

// BrokerOutcome is what the router says, and what it leaves to others.
type BrokerOutcome struct {
	ExecutionState     string `json:"executionState"`
	PolicyAcceptance   string `json:"policyAcceptance"`
	VerificationStatus string `json:"verificationStatus"`
}

// RefusedInput is how a key with another input was answered.
type RefusedInput struct {
	Accepted bool   `json:"accepted"`
	Code     string `json:"code"`
}

// RefusedUpdate is how an update was answered.
type RefusedUpdate struct {
	Forwarded bool   `json:"forwarded"`
	Code      string `json:"code"`
}

// ArtifactEvidence is how artifacts were judged.
type ArtifactEvidence struct {
	Valid     string            `json:"validArtifacts"`
	ExitZero  RefusedExit       `json:"exitZeroInvalid"`
	Missing   RefusedAlteration `json:"missing"`
	Truncated RefusedAlteration `json:"truncated"`
	Swapped   RefusedAlteration `json:"swapped"`
}

// RefusedExit is a worker that ended well and wrote what is not true.
type RefusedExit struct {
	ExitSuccess bool          `json:"processExitSuccess"`
	Accepted    bool          `json:"accepted"`
	Code        artifact.Code `json:"code"`
}

// RefusedAlteration are good artifacts that were altered behind the worker.
type RefusedAlteration struct {
	ExitSuccess bool          `json:"fixtureProcessExitSuccess"`
	Mutation    string        `json:"postExecutionMutation"`
	Accepted    bool          `json:"accepted"`
	Code        artifact.Code `json:"code"`
}

// DeadlineEvidence is what a deadline led to, and when.
type DeadlineEvidence struct {
	Enforcement             string `json:"deadlineEnforcement"`
	Scheduler               bool   `json:"backgroundScheduler"`
	PollsBefore             int    `json:"pollsBetweenSubmissionAndDeadline"`
	AcknowledgementsBefore  int    `json:"acknowledgementsBeforePoll"`
	TerminationsBefore      int    `json:"terminationsBeforePoll"`
	EffectsBefore           int    `json:"effectsBeforePoll"`
	TriggerStatus           string `json:"triggerPollStatus"`
	TriggerMessage          string `json:"triggerPollStatusMessage"`
	PersistedIntent         string `json:"persistedIntentAfterTriggerPoll"`
	AcknowledgementsAfter   int    `json:"acknowledgementsAfterPoll"`
	TerminationsAfter       int    `json:"workerTerminationsAfterPoll"`
	TerminalStatus          string `json:"terminalStatus"`
	EffectsAfterTermination int    `json:"effectsAfterTermination"`
}

// GuaranteeBoundary is what is not claimed.
type GuaranteeBoundary struct {
	ExactlyOnce    bool `json:"exactlyOnceClaimed"`
	DurableUpdates bool `json:"durableTaskUpdateSupported"`
}

const pass = "PASS"

// seal makes the result of a qualification in which everything held.
func seal(e *Evidence) (*Result, error) {
	e.Schema, e.Status = durable.Penstock.Schema("durable-tasks-qualification"), pass
	raw, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	sum, err := durable.SumJSON(raw)
	if err != nil {
		return nil, err
	}
	return &Result{Schema: durable.Penstock.Schema("durable-tasks-qualification-result"), Status: pass, SHA256: sum, Evidence: e}, nil
}

// Write prints the result.
func (r *Result) Write(w io.Writer) error {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(raw, '\n'))
	return err
}
