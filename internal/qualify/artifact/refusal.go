package artifact

import (
	"errors"
	"fmt"
)

// Code is why artifacts are refused.
type Code string

// The codes.
const (
	Missing          Code = "NEUTRAL_VERIFY_ARTIFACT_MISSING"
	ManifestInvalid  Code = "NEUTRAL_VERIFY_MANIFEST_INVALID"
	ResultInvalid    Code = "NEUTRAL_VERIFY_RESULT_INVALID"
	Mismatch         Code = "NEUTRAL_VERIFY_IDENTITY_OR_CONTENT_MISMATCH"
	LimitExceeded    Code = "NEUTRAL_VERIFY_LIMIT_EXCEEDED"
	UnexpectedObject Code = "NEUTRAL_VERIFY_UNEXPECTED_OBJECT"
)

// Refusal is the error of Verify.
type Refusal struct {
	Code Code
	Why  string
}

func (r *Refusal) Error() string { return string(r.Code) + ": " + r.Why }

func refuse(c Code, format string, args ...any) error {
	return &Refusal{c, fmt.Sprintf(format, args...)}
}

// CodeOf is the code of an error of Verify, or "".
func CodeOf(err error) Code {
	var r *Refusal
	if errors.As(err, &r) {
		return r.Code
	}
	return ""
}
