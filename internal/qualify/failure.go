package qualify

import "fmt"

// Code is the check that failed.
type Code string

// The codes, in the order of the checks.
const (
	Workspace    Code = "NEUTRAL_QUALIFICATION_WORKSPACE"
	Upstream     Code = "NEUTRAL_QUALIFICATION_UPSTREAM"
	Discovery    Code = "NEUTRAL_QUALIFICATION_DISCOVERY"
	Router       Code = "NEUTRAL_QUALIFICATION_ROUTER"
	Lease        Code = "NEUTRAL_QUALIFICATION_LEASE"
	Admission    Code = "NEUTRAL_QUALIFICATION_ADMISSION"
	Submission   Code = "NEUTRAL_QUALIFICATION_SUBMISSION"
	Recovery     Code = "NEUTRAL_QUALIFICATION_RECOVERY"
	ChangedInput Code = "NEUTRAL_QUALIFICATION_CHANGED_INPUT"
	Update       Code = "NEUTRAL_QUALIFICATION_UPDATE"
	Completion   Code = "NEUTRAL_QUALIFICATION_COMPLETION"
	Artifacts    Code = "NEUTRAL_QUALIFICATION_ARTIFACTS"
	Counts       Code = "NEUTRAL_QUALIFICATION_COUNTS"
	Refusals     Code = "NEUTRAL_QUALIFICATION_INVALID_ARTIFACTS"
	Deadline     Code = "NEUTRAL_QUALIFICATION_DEADLINE"
	Cancellation Code = "NEUTRAL_QUALIFICATION_CANCELLATION"
	Shutdown     Code = "NEUTRAL_QUALIFICATION_SHUTDOWN"
	Cleanup      Code = "NEUTRAL_QUALIFICATION_CLEANUP"
)

// Failure is a check that did not hold.
type Failure struct {
	Code Code
	Err  error
}

func (f *Failure) Error() string { return string(f.Code) + ": " + f.Err.Error() }

// Unwrap is what was found.
func (f *Failure) Unwrap() error { return f.Err }

func failed(c Code, err error) error { return &Failure{c, err} }

func failedf(c Code, format string, args ...any) error {
	return &Failure{c, fmt.Errorf(format, args...)}
}
