package grant

import (
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/penstock-mcp/penstock/internal/fault"
)

// Subject is the caller on whose behalf a token is got, as the token that the
// gateway has verified says. Printing a Subject shows none of it.
type Subject struct {
	Hash    [32]byte  // of Token, and of it alone; what is got is kept under it
	Token   string    // never logged
	Expires time.Time // of Token; zero: not known
}

// check says why nothing can be got for s; nil: it can be tried.
func (s *Subject) check(upstream string, now time.Time) *fault.Error {
	switch {
	case s == nil || s.Token == "":
		return fault.New(fault.CredentialFailed, "upstream %q is called with a token exchanged for the caller's own, and this caller has none", upstream).
			WithHint("sign in with a token of the identity provider, not with an API key")
	case s.Hash == [32]byte{}: // would be one key for all
		return fault.New(fault.Internal, "upstream %q: the caller's token has no hash", upstream)
	case s.expired(now):
		return fault.New(fault.CredentialFailed, "upstream %q: the caller's token has expired and cannot be exchanged", upstream).
			WithHint("sign in again")
	}
	return nil
}

func (s *Subject) expired(now time.Time) bool { return !s.Expires.IsZero() && !now.Before(s.Expires) }

// Format writes nothing of the subject, whatever the verb.
func (Subject) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue holds nothing of the subject.
func (Subject) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalJSON returns nothing of the subject.
func (Subject) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }
