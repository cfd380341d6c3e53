package durable

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Bounds of the contract (2.1) that no configuration raises.
const (
	maxIdentifier = 128
	maxInput      = 64 << 10
	maxOutput     = 64 << 10
	maxArtifacts  = 8 << 20
	maxBinding    = 16 << 10
)

// Submission is what a caller submits, in the words of the contract. Its form
// is checked when it is parsed, and the rest by check.
type Submission struct {
	SchemaVersion            string `json:"schemaVersion"`
	LogicalTaskID            string `json:"logicalTaskId"`
	AttemptID                string `json:"attemptId"`
	CorrelationID            string `json:"correlationId"`
	IdempotencyKey           string `json:"idempotencyKey"`
	ProviderInterfaceVersion string `json:"providerInterfaceVersion"`
	InputSHA256              Digest `json:"inputSha256"`
	AcceptancePolicySHA256   Digest `json:"acceptancePolicySha256"`
	ArtifactScopeSHA256      Digest `json:"artifactScopeSha256"`
	DeadlineUnixMs           uint64 `json:"deadlineUnixMs"`
	RetentionMs              uint64 `json:"retentionMs"`
	Limits                   Limits `json:"limits"`
	PermittedEffect          Effect `json:"permittedEffect"`
	CleanupRequired          bool   `json:"cleanupRequired"`
}

// Limits are what a submission lets its worker use.
type Limits struct {
	MaxRuntimeMs     uint64 `json:"maxRuntimeMs"`
	MaxOutputBytes   uint64 `json:"maxOutputBytes"`
	MaxArtifactBytes uint64 `json:"maxArtifactBytes"`
	MaxAttempts      uint16 `json:"maxAttempts"`
}

// parseSubmission reads the document. Every member has to be there once, of its
// type, and no other.
func parseSubmission(doc []byte) (*Submission, error) {
	s := new(Submission)
	var schema, logical, attempt, correlation, key, provider, input, policy, scope, effect string
	var limits json.RawMessage
	err := members(doc, map[string]any{
		"schemaVersion": &schema, "logicalTaskId": &logical, "attemptId": &attempt, "correlationId": &correlation,
		"idempotencyKey": &key, "providerInterfaceVersion": &provider, "inputSha256": &input, "acceptancePolicySha256": &policy,
		"artifactScopeSha256": &scope, "deadlineUnixMs": &s.DeadlineUnixMs, "retentionMs": &s.RetentionMs, "limits": &limits,
		"permittedEffect": &effect, "cleanupRequired": &s.CleanupRequired,
	})
	if err != nil {
		return nil, err
	}
	l := &s.Limits
	err = members(limits, map[string]any{
		"maxRuntimeMs": &l.MaxRuntimeMs, "maxOutputBytes": &l.MaxOutputBytes, "maxArtifactBytes": &l.MaxArtifactBytes, "maxAttempts": &l.MaxAttempts,
	})
	if err != nil {
		return nil, err
	}
	for _, d := range []struct {
		into *Digest
		text string
	}{{&s.InputSHA256, input}, {&s.AcceptancePolicySHA256, policy}, {&s.ArtifactScopeSHA256, scope}} {
		if *d.into, err = ParseDigest(d.text); err != nil {
			return nil, err
		}
	}
	switch s.PermittedEffect = Effect(effect); s.PermittedEffect {
	case ReadOnly, IdempotentWrite, NonIdempotentWrite:
	default:
		return nil, errMember("permittedEffect")
	}
	s.SchemaVersion, s.LogicalTaskID, s.AttemptID, s.CorrelationID = schema, logical, attempt, correlation
	s.IdempotencyKey, s.ProviderInterfaceVersion = key, provider
	return s, nil
}

type errMember string

func (e errMember) Error() string {
	return "member " + string(e) + " is missing, repeated, unknown or of another type"
}

// members reads an object into the values of the given names, each of which has
// to be there once; null is no value of any type.
func members(doc []byte, into map[string]any) error {
	if !utf8.Valid(doc) {
		return errMember("(not UTF-8)")
	}
	d := json.NewDecoder(bytes.NewReader(doc))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errMember("(the object)")
	}
	seen := make(map[string]bool, len(into))
	for d.More() {
		t, err := d.Token()
		name, _ := t.(string)
		value := into[name]
		if err != nil || value == nil || seen[name] {
			return errMember(name)
		}
		seen[name] = true
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil || bytes.Equal(raw, []byte("null")) {
			return errMember(name)
		}
		if err := json.Unmarshal(raw, value); err != nil {
			return errMember(name)
		}
	}
	if _, err := d.Token(); err != nil {
		return errMember("(the object)")
	}
	for name := range into {
		if !seen[name] {
			return errMember(name)
		}
	}
	return nil
}

// ceilings are what a submission may ask for at most.
type ceilings struct {
	runtime, retention time.Duration
}

// check holds a parsed submission against everything that the contract asks of
// it at a time, in the contract's order (2.2), and returns the code of the first
// refusal.
func (s *Submission) check(sp Spelling, input Digest, provider string, now time.Time, top ceilings) (code string) {
	if s.SchemaVersion != sp.Schema("task-submission") {
		return "TASK_SCHEMA_UNSUPPORTED"
	}
	for _, id := range []string{s.LogicalTaskID, s.AttemptID, s.CorrelationID, s.IdempotencyKey, s.ProviderInterfaceVersion} {
		if !validIdentifier(id) {
			return "TASK_IDENTITY_INVALID"
		}
	}
	if s.InputSHA256 != input {
		return "TASK_INPUT_IDENTITY_MISMATCH"
	}
	if s.ProviderInterfaceVersion != provider {
		return "TASK_PROVIDER_VERSION_UNSUPPORTED"
	}
	if s.AcceptancePolicySHA256.IsZero() || s.ArtifactScopeSHA256.IsZero() {
		return "TASK_POLICY_IDENTITY_INVALID"
	}
	at, most := uint64(now.UnixMilli()), uint64(top.retention.Milliseconds())
	if s.DeadlineUnixMs <= at || s.DeadlineUnixMs-at > most {
		return "TASK_DEADLINE_INVALID"
	}
	l := &s.Limits
	switch {
	case l.MaxRuntimeMs < 1 || l.MaxRuntimeMs > uint64(top.runtime.Milliseconds()),
		l.MaxOutputBytes < 1 || l.MaxOutputBytes > maxOutput,
		l.MaxArtifactBytes < 1 || l.MaxArtifactBytes > maxArtifacts,
		l.MaxAttempts != 1,
		s.RetentionMs < l.MaxRuntimeMs || s.RetentionMs > most,
		s.DeadlineUnixMs-at > s.RetentionMs:
		return "TASK_RESOURCE_LIMIT_INVALID"
	}
	if s.PermittedEffect != NonIdempotentWrite {
		return "TASK_EFFECT_MISMATCH"
	}
	if !s.CleanupRequired {
		return "TASK_CLEANUP_REQUIRED"
	}
	return ""
}

// validIdentifier tells whether s is 1 to 128 bytes without control characters
// and white space.
func validIdentifier(s string) bool {
	return s != "" && len(s) <= maxIdentifier && !strings.ContainsFunc(s, func(r rune) bool {
		return r == utf8.RuneError || unicode.IsControl(r) || unicode.IsSpace(r)
	})
}

// validCallerPart tells whether s can be a caller's principal or tenant.
func validCallerPart(s string) bool {
	return s != "" && len(s) <= maxIdentifier && !strings.ContainsFunc(s, unicode.IsControl)
}
