package mcp

// Revision is a revision of the protocol that the gateway speaks. The zero
// value is no revision. Revisions are ordered by age: older is smaller.
type Revision uint8

// The revisions, oldest first.
const (
	NoRevision Revision = iota
	V20250326
	V20250618
	V20251125
	V20260728
)

// Latest revisions of each era.
const (
	LatestLegacy = V20251125
	LatestModern = V20260728
)

var revisionNames = [...]string{"", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}

// String is the revision as it stands on the wire.
func (r Revision) String() string {
	if int(r) < len(revisionNames) {
		return revisionNames[r]
	}
	return ""
}

// ParseRevision returns the revision with that exact name; ok is false for any other.
func ParseRevision(s string) (r Revision, ok bool) {
	for i := 1; i < len(revisionNames); i++ {
		if revisionNames[i] == s {
			return Revision(i), true
		}
	}
	return NoRevision, false
}

// Era tells the stateless protocol from the ones with sessions.
type Era uint8

// The eras. Unknown is an upstream that has not been probed yet.
const (
	EraUnknown Era = iota
	Legacy
	Modern
)

// String is the era as the configuration spells it.
func (e Era) String() string { return [...]string{"unknown", "legacy", "modern"}[e] }

// Era returns the era a revision belongs to.
func (r Revision) Era() Era {
	switch {
	case r == NoRevision:
		return EraUnknown
	case r >= V20260728:
		return Modern
	}
	return Legacy
}

// Supported lists every revision, newest first, as server/discover and the
// -32022 error name them (checklist 19, T6).
func Supported() []string {
	return []string{"2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"}
}
