package durable

import "encoding/json"

// binding is what a submission is bound to: it is stored, hashed, sent to the
// upstream and returned to the caller. Neither session nor lease nor caller is
// in it, so that a restart does not change it.
type binding struct {
	SchemaVersion             string      `json:"schemaVersion"`
	CapabilityID              Digest      `json:"capabilityId"`
	CapabilitySource          string      `json:"capabilitySource"`
	CapabilitySchemaSHA256    Digest      `json:"capabilitySchemaSha256"`
	SourceConfigurationSHA256 Digest      `json:"sourceConfigurationSha256"`
	SourceSnapshotSHA256      Digest      `json:"sourceSnapshotSha256"`
	Task                      *Submission `json:"task"`
}

// bind makes the binding in its canonical form, and its digest.
func bind(sp Spelling, c *Capability, snapshot Digest, s *Submission) (canonical []byte, digest Digest, err error) {
	return canonically(&binding{
		SchemaVersion: sp.Schema("task-route"), CapabilityID: c.ID(), CapabilitySource: c.Source, CapabilitySchemaSHA256: c.Schema,
		SourceConfigurationSHA256: c.Configuration, SourceSnapshotSHA256: snapshot, Task: s,
	})
}

// canonically is the canonical form of a value, and its digest.
func canonically(v any) ([]byte, Digest, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, Digest{}, err
	}
	if b, err = Canonical(b); err != nil {
		return nil, Digest{}, err
	}
	return b, Sum(b), nil
}

// ID is the digest of the capability, which names it to callers.
func (c *Capability) ID() Digest {
	_, d, err := canonically(c)
	if err != nil {
		panic("a capability is no JSON: " + err.Error()) // it is strings and digests
	}
	return d
}
