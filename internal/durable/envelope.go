package durable

import (
	"bytes"
	"encoding/json"
)

// envelope is what an upstream is told of a durable call, beside the call, and
// has to give back (contract 4).
type envelope struct {
	SchemaVersion     string          `json:"schemaVersion"`
	PublicTaskID      string          `json:"publicTaskId"`
	RequestSHA256     Digest          `json:"requestSha256"`
	Submission        json.RawMessage `json:"submission"`
	UpstreamSessionID string          `json:"upstreamSessionId"`
}

// envelope makes the canonical envelope of a route, and its key in _meta.
func (r *Route) envelope() (key string, canonical []byte, err error) {
	s, _ := ParseSpelling(r.EnvelopeWords)
	canonical, _, err = canonically(&envelope{
		SchemaVersion: s.Schema("task-execution"), PublicTaskID: r.ID, RequestSHA256: r.RequestDigest,
		Submission: r.Binding, UpstreamSessionID: r.DispatchSession,
	})
	return s.Meta("taskExecution"), canonical, err
}

// echoes tells whether a result gives the envelope of a route back: the same
// JSON value under the same key.
func (r *Route) echoes(result json.RawMessage) bool {
	key, want, err := r.envelope()
	if err != nil {
		return false
	}
	var is struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	if json.Unmarshal(result, &is) != nil {
		return false
	}
	got, err := Canonical(is.Meta[key])
	return err == nil && bytes.Equal(got, want)
}

// without is a tool's result without the envelope, which is between the gateway
// and the upstream.
func (r *Route) without(result json.RawMessage) (json.RawMessage, error) {
	key, _, err := r.envelope()
	if err != nil {
		return nil, err
	}
	var members, meta map[string]json.RawMessage
	if err := json.Unmarshal(result, &members); err != nil {
		return nil, err
	}
	if members["_meta"] == nil || json.Unmarshal(members["_meta"], &meta) != nil || meta[key] == nil {
		return result, nil
	}
	delete(meta, key)
	if delete(members, "_meta"); len(meta) > 0 {
		b, err := json.Marshal(meta)
		if err != nil {
			return nil, err
		}
		members["_meta"] = b
	}
	return json.Marshal(members)
}
