package south

import "errors"

// FencedError is a request that its own fence held back (Request.Fence): nothing of
// it left, and it says nothing of the upstream.
type FencedError struct{ Err error }

func (f *FencedError) Error() string { return "held back: " + f.Err.Error() }

// Unwrap is what the fence said.
func (f *FencedError) Unwrap() error { return f.Err }

// passFence asks a fence, where there is one.
func passFence(fence func() error) error {
	if fence == nil {
		return nil
	}
	if err := fence(); err != nil {
		return &FencedError{err}
	}
	return nil
}

func fenced(err error) bool {
	var f *FencedError
	return errors.As(err, &f)
}

// Over reports whether nothing can be sent on the link any more: it led to a child's
// process, and that has ended. A way over HTTP is never over.
func (l *Link) Over() bool { return l.process != nil && l.process.lostErr() != nil }

// IssuesSessions reports whether a modern upstream gave a session id with an answer,
// which the protocol does not know: what it keeps may hang on that session.
func (u *Upstream) IssuesSessions() bool { return u.issues.Load() }

// Answered reports whether an error is a refusal that the upstream itself gave, so
// that it is known to be there: of a credential, or for the rate of calls.
func Answered(err error) bool { return errors.Is(err, errAnswered) }
